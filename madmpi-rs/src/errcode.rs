//! Error classes and codes with their texts, and those that the program adds.
//!
//! The number of an added code is given out once: a code that was removed stays unknown.

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::MutexGuard;

use crate::abi::*;
use crate::error::Fault;
use crate::per_rank::per_rank;
use marcel::plumbing::KernelMutex;

/// The classes and codes that the program has added.
struct UserCodes {
    codes: BTreeMap<c_int, Code>,
    last: c_int,
}

struct Code {
    /// The code itself, if it is a class.
    class: c_int,
    text: Option<Box<[u8]>>,
}

per_rank! {
    static USER_CODES: KernelMutex<UserCodes> =
        KernelMutex::new(UserCodes { codes: BTreeMap::new(), last: MPI_ERR_LASTCODE });
}

fn added() -> MutexGuard<'static, UserCodes> {
    USER_CODES.lock()
}

/// The value of the attribute `MPI_LASTUSEDCODE`.
pub(crate) fn last_used() -> c_int {
    added().last
}

/// The text of a class of the standard.
fn standard(class: c_int) -> Option<&'static str> {
    Some(match class {
        MPI_SUCCESS => "MPI_SUCCESS: no error",
        MPI_ERR_BUFFER => "MPI_ERR_BUFFER: invalid buffer",
        MPI_ERR_COUNT => "MPI_ERR_COUNT: invalid count",
        MPI_ERR_TYPE => "MPI_ERR_TYPE: invalid datatype",
        MPI_ERR_TAG => "MPI_ERR_TAG: invalid tag",
        MPI_ERR_COMM => "MPI_ERR_COMM: invalid communicator",
        MPI_ERR_RANK => "MPI_ERR_RANK: invalid rank",
        MPI_ERR_REQUEST => "MPI_ERR_REQUEST: invalid request",
        MPI_ERR_ROOT => "MPI_ERR_ROOT: invalid root",
        MPI_ERR_GROUP => "MPI_ERR_GROUP: invalid group",
        MPI_ERR_OP => "MPI_ERR_OP: invalid operation",
        MPI_ERR_TOPOLOGY => "MPI_ERR_TOPOLOGY: invalid topology",
        MPI_ERR_DIMS => "MPI_ERR_DIMS: invalid dimension",
        MPI_ERR_ARG => "MPI_ERR_ARG: invalid argument",
        MPI_ERR_UNKNOWN => "MPI_ERR_UNKNOWN: unknown error",
        MPI_ERR_TRUNCATE => "MPI_ERR_TRUNCATE: a message was longer than the memory for it",
        MPI_ERR_OTHER => "MPI_ERR_OTHER: an error of no other class",
        MPI_ERR_INTERN => "MPI_ERR_INTERN: an error of the library itself",
        MPI_ERR_PENDING => "MPI_ERR_PENDING: the request is not over",
        MPI_ERR_IN_STATUS => "MPI_ERR_IN_STATUS: the error is in a status",
        MPI_ERR_ACCESS => "MPI_ERR_ACCESS: permission denied",
        MPI_ERR_AMODE => "MPI_ERR_AMODE: invalid access mode",
        MPI_ERR_ASSERT => "MPI_ERR_ASSERT: invalid assertion",
        MPI_ERR_BAD_FILE => "MPI_ERR_BAD_FILE: invalid file name",
        MPI_ERR_BASE => "MPI_ERR_BASE: invalid base address",
        MPI_ERR_CONVERSION => "MPI_ERR_CONVERSION: a conversion function failed",
        MPI_ERR_DISP => "MPI_ERR_DISP: invalid displacement",
        MPI_ERR_DUP_DATAREP => "MPI_ERR_DUP_DATAREP: the data representation exists already",
        MPI_ERR_FILE_EXISTS => "MPI_ERR_FILE_EXISTS: the file exists",
        MPI_ERR_FILE_IN_USE => "MPI_ERR_FILE_IN_USE: the file is in use",
        MPI_ERR_FILE => "MPI_ERR_FILE: invalid file handle",
        MPI_ERR_INFO_KEY => "MPI_ERR_INFO_KEY: invalid info key",
        MPI_ERR_INFO_NOKEY => "MPI_ERR_INFO_NOKEY: no such info key",
        MPI_ERR_INFO_VALUE => "MPI_ERR_INFO_VALUE: invalid info value",
        MPI_ERR_INFO => "MPI_ERR_INFO: invalid info object",
        MPI_ERR_IO => "MPI_ERR_IO: input or output failed",
        MPI_ERR_KEYVAL => "MPI_ERR_KEYVAL: invalid attribute key",
        MPI_ERR_LOCKTYPE => "MPI_ERR_LOCKTYPE: invalid kind of lock",
        MPI_ERR_NAME => "MPI_ERR_NAME: no such service name",
        MPI_ERR_NO_MEM => "MPI_ERR_NO_MEM: out of memory",
        MPI_ERR_NOT_SAME => "MPI_ERR_NOT_SAME: an argument differs between processes",
        MPI_ERR_NO_SPACE => "MPI_ERR_NO_SPACE: no space left",
        MPI_ERR_NO_SUCH_FILE => "MPI_ERR_NO_SUCH_FILE: no such file",
        MPI_ERR_PORT => "MPI_ERR_PORT: invalid port name",
        MPI_ERR_QUOTA => "MPI_ERR_QUOTA: quota exceeded",
        MPI_ERR_READ_ONLY => "MPI_ERR_READ_ONLY: read-only file or file system",
        MPI_ERR_RMA_ATTACH => "MPI_ERR_RMA_ATTACH: memory cannot be attached",
        MPI_ERR_RMA_CONFLICT => "MPI_ERR_RMA_CONFLICT: conflicting accesses to a window",
        MPI_ERR_RMA_RANGE => "MPI_ERR_RMA_RANGE: memory beyond the window",
        MPI_ERR_RMA_SHARED => "MPI_ERR_RMA_SHARED: memory cannot be shared",
        MPI_ERR_RMA_SYNC => "MPI_ERR_RMA_SYNC: wrong synchronisation of a window",
        MPI_ERR_SERVICE => "MPI_ERR_SERVICE: invalid service name",
        MPI_ERR_SIZE => "MPI_ERR_SIZE: invalid size",
        MPI_ERR_SPAWN => "MPI_ERR_SPAWN: processes could not be started",
        MPI_ERR_UNSUPPORTED_DATAREP => {
            "MPI_ERR_UNSUPPORTED_DATAREP: unsupported data representation"
        }
        MPI_ERR_UNSUPPORTED_OPERATION => "MPI_ERR_UNSUPPORTED_OPERATION: unsupported operation",
        MPI_ERR_WIN => "MPI_ERR_WIN: invalid window",
        MPI_ERR_RMA_FLAVOR => "MPI_ERR_RMA_FLAVOR: wrong flavour of window",
        MPI_ERR_PROC_ABORTED => "MPI_ERR_PROC_ABORTED: a process of the operation is gone",
        MPI_ERR_VALUE_TOO_LARGE => "MPI_ERR_VALUE_TOO_LARGE: the value does not fit its type",
        MPI_ERR_SESSION => "MPI_ERR_SESSION: invalid session",
        MPI_ERR_ERRHANDLER => "MPI_ERR_ERRHANDLER: invalid error handler",
        MPI_ERR_ABI => "MPI_ERR_ABI: invalid use of the binary interface",
        MPI_T_ERR_CANNOT_INIT => "MPI_T_ERR_CANNOT_INIT: the tool interface cannot be initialised",
        MPI_T_ERR_NOT_ACCESSIBLE => "MPI_T_ERR_NOT_ACCESSIBLE: not accessible",
        MPI_T_ERR_NOT_INITIALIZED => {
            "MPI_T_ERR_NOT_INITIALIZED: the tool interface is not initialised"
        }
        MPI_T_ERR_NOT_SUPPORTED => "MPI_T_ERR_NOT_SUPPORTED: not supported",
        MPI_T_ERR_MEMORY => "MPI_T_ERR_MEMORY: out of memory",
        MPI_T_ERR_INVALID => "MPI_T_ERR_INVALID: invalid argument",
        MPI_T_ERR_INVALID_INDEX => "MPI_T_ERR_INVALID_INDEX: no such index",
        MPI_T_ERR_INVALID_ITEM => "MPI_T_ERR_INVALID_ITEM: no such item",
        MPI_T_ERR_INVALID_SESSION => {
            "MPI_T_ERR_INVALID_SESSION: invalid session of the tool interface"
        }
        MPI_T_ERR_INVALID_HANDLE => "MPI_T_ERR_INVALID_HANDLE: invalid handle",
        MPI_T_ERR_INVALID_NAME => "MPI_T_ERR_INVALID_NAME: no such name",
        MPI_T_ERR_OUT_OF_HANDLES => "MPI_T_ERR_OUT_OF_HANDLES: too many handles",
        MPI_T_ERR_OUT_OF_SESSIONS => "MPI_T_ERR_OUT_OF_SESSIONS: too many sessions",
        MPI_T_ERR_CVAR_SET_NOT_NOW => "MPI_T_ERR_CVAR_SET_NOT_NOW: the variable cannot be set now",
        MPI_T_ERR_CVAR_SET_NEVER => "MPI_T_ERR_CVAR_SET_NEVER: the variable cannot be set any more",
        MPI_T_ERR_PVAR_NO_WRITE => "MPI_T_ERR_PVAR_NO_WRITE: the variable cannot be written",
        MPI_T_ERR_PVAR_NO_STARTSTOP => {
            "MPI_T_ERR_PVAR_NO_STARTSTOP: the variable is always running"
        }
        MPI_T_ERR_PVAR_NO_ATOMIC => "MPI_T_ERR_PVAR_NO_ATOMIC: it cannot be read and reset at once",
        MPIX_ERR_PROC_FAILED_PENDING => {
            "MPIX_ERR_PROC_FAILED_PENDING: a process that the message may come from is gone; the receive goes on"
        }
        MPIX_ERR_REVOKED => "MPIX_ERR_REVOKED: the communicator was revoked",
        MPI_ERR_LASTCODE => "MPI_ERR_LASTCODE: the last of the standard's error codes",
        _ => return None,
    })
}

/// Whether a code is one of the standard's.
pub(crate) fn is_standard(code: c_int) -> bool {
    standard(code).is_some()
}

/// The class of a code, if the code exists.
pub(crate) fn class(code: c_int) -> Option<c_int> {
    standard(code).map_or_else(|| added().codes.get(&code).map(|code| code.class), |_| Some(code))
}

/// The meaning of a code, in a few words.
pub(crate) fn describe(code: c_int) -> String {
    if let Some(text) = standard(code) {
        return text.to_owned();
    }
    match added().codes.get(&code) {
        Some(code) => {
            code.text.as_ref().map_or(String::new(), |text| String::from_utf8_lossy(text).into())
        }
        None => "there is no such error code".to_owned(),
    }
}

#[cold]
pub(crate) fn unknown(name: &str, code: c_int, why: &str) -> Fault {
    Fault::argument(MPI_ERR_ARG, name, code, why)
}

pub(crate) const NOT_ADDED: &str =
    "it was not added by MPI_Add_error_class or MPI_Add_error_code, or was removed";

pub(crate) fn add(class: Option<c_int>) -> c_int {
    let mut added = added();
    added.last += 1;
    let code = added.last;
    added.codes.insert(code, Code { class: class.unwrap_or(code), text: None });
    code
}

/// Removes a code, or a class if `classes`.
pub(crate) fn remove(code: c_int, name: &str, classes: bool) -> Result<(), Fault> {
    let mut added = added();
    let Some(found) = added.codes.get(&code).filter(|found| (found.class == code) == classes)
    else {
        return Err(unknown(name, code, NOT_ADDED));
    };
    if found.text.is_some() {
        return Err(unknown(name, code, "MPI_Remove_error_string comes before"));
    }
    let used = |(other, found): (&c_int, &Code)| *other != code && found.class == code;
    if classes && added.codes.iter().any(used) {
        return Err(unknown(name, code, "it has codes: MPI_Remove_error_code comes before"));
    }
    added.codes.remove(&code);
    Ok(())
}

/// Sets or removes the text of a code that the program added.
///
/// # Errors
/// The program did not add the code; the text is removed and the code has none.
pub(crate) fn set_text(code: c_int, text: Option<&[u8]>) -> Result<(), Fault> {
    let mut added = added();
    let Some(known) = added.codes.get_mut(&code) else {
        return Err(unknown("errorcode", code, NOT_ADDED));
    };
    if text.is_none() && known.text.is_none() {
        return Err(unknown("errorcode", code, "it has no string"));
    }
    known.text = text.map(Into::into);
    Ok(())
}
