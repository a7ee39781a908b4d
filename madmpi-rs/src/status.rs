//! Statuses: what is known of a message, and how long it is in elements.

use core::ffi::c_int;

use crate::abi::*;
use crate::call::mpi;
use crate::datatype;
use crate::error::{Fault, out, read};

/// Tells the program, if it wants to know. `MPI_ERROR` is left alone, as the standard says, but in an empty status.
#[inline]
pub(crate) fn write(place: *mut MPI_Status, status: MPI_Status) {
    if !place.is_null() {
        let empty = status.MPI_SOURCE == MPI_ANY_SOURCE;
        // SAFETY: the program's promise that it is a status.
        unsafe {
            let error = if empty { MPI_SUCCESS } else { (*place).MPI_ERROR };
            place.write(MPI_Status { MPI_ERROR: error, ..status });
        }
    }
}

/// As [`write`], of something that went well: an empty status has `MPI_SUCCESS` in it, as the standard says.
#[inline]
pub(crate) fn write_good(place: *mut MPI_Status, status: MPI_Status) {
    write(place, status);
    if !place.is_null() && status.MPI_SOURCE == MPI_ANY_SOURCE {
        // SAFETY: as above.
        unsafe { (*place).MPI_ERROR = MPI_SUCCESS };
    }
}

/// The status that is to be changed.
fn change(status: *mut MPI_Status, how: impl FnOnce(&mut MPI_Status)) -> Result<(), Fault> {
    let mut changed = read(status.cast_const(), "status")?;
    how(&mut changed);
    out(status, "status", changed)
}

/// Whole elements of a type in a message of that length. `None`: they are not whole.
fn count(bytes: usize, size: usize) -> Option<usize> {
    match size {
        0 => (bytes == 0).then_some(0),
        _ => bytes.is_multiple_of(size).then_some(bytes / size),
    }
}

/// Basic elements in a message. `None`: the last one is not whole.
fn elements(status: *const MPI_Status, datatype: MPI_Datatype) -> Result<Option<usize>, Fault> {
    let bytes = read(status, "status")?.bytes();
    Ok(datatype::get(datatype)?.elements(bytes))
}

fn set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<(), Fault> {
    let datatype = datatype::get(datatype)?;
    let wrong = |why| Fault::argument(MPI_ERR_COUNT, "count", count, why);
    let count = usize::try_from(count).map_err(|_| wrong("it is not negative"))?;
    let bytes = datatype.bytes(count);
    let bytes = bytes.ok_or_else(|| wrong("the type has no such number of elements"))?;
    change(status, |status| status.set_bytes(bytes))
}

mpi! {
    /// `MPI_UNDEFINED` also where the number is too large for its type, as the standard says.
    fn MPI_Get_count / MPI_Get_count_c (status: *const MPI_Status, datatype: MPI_Datatype, count: *mut N) {
        let found = self::count(read(status, "status")?.bytes(), datatype::get(datatype)?.size);
        let found = found.and_then(|found| N::try_from(found).ok());
        out(count, "count", found.unwrap_or(MPI_UNDEFINED as N))
    }

    fn MPI_Get_elements / MPI_Get_elements_c (status: *const MPI_Status, datatype: MPI_Datatype, count: *mut N) {
        let found = elements(status, datatype)?.and_then(|found| N::try_from(found).ok());
        out(count, "count", found.unwrap_or(MPI_UNDEFINED as N))
    }

    fn MPI_Get_elements_x(status: *const MPI_Status, datatype: MPI_Datatype, count: *mut MPI_Count) {
        let found = elements(status, datatype)?.and_then(|found| MPI_Count::try_from(found).ok());
        out(count, "count", found.unwrap_or(MPI_UNDEFINED.into()))
    }

    fn MPI_Status_set_elements / MPI_Status_set_elements_c (
        status: *mut MPI_Status, datatype: MPI_Datatype, count: N,
    ) {
        set_elements(status, datatype, count.into())
    }

    fn MPI_Status_set_elements_x(status: *mut MPI_Status, datatype: MPI_Datatype, count: MPI_Count) {
        set_elements(status, datatype, count)
    }

    anytime fn MPI_Status_get_source(status: *const MPI_Status, source: *mut c_int) {
        out(source, "source", read(status, "status")?.MPI_SOURCE)
    }

    anytime fn MPI_Status_get_tag(status: *const MPI_Status, tag: *mut c_int) {
        out(tag, "tag", read(status, "status")?.MPI_TAG)
    }

    anytime fn MPI_Status_get_error(status: *const MPI_Status, error: *mut c_int) {
        out(error, "error", read(status, "status")?.MPI_ERROR)
    }

    anytime fn MPI_Status_set_source(status: *mut MPI_Status, source: c_int) {
        change(status, |status| status.MPI_SOURCE = source)
    }

    anytime fn MPI_Status_set_tag(status: *mut MPI_Status, tag: c_int) {
        change(status, |status| status.MPI_TAG = tag)
    }

    anytime fn MPI_Status_set_error(status: *mut MPI_Status, error: c_int) {
        change(status, |status| status.MPI_ERROR = error)
    }

    anytime fn MPI_Test_cancelled(status: *const MPI_Status, flag: *mut c_int) {
        out(flag, "flag", c_int::from(read(status, "status")?.is_cancelled()))
    }

    anytime fn MPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int) {
        change(status, |status| status.set_cancelled(flag != 0))
    }
}
