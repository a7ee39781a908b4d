//! What the process was started with: the keys of `MPI_INFO_ENV`, as far as they are known.

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::os::unix::ffi::OsStringExt;

use super::Entries;
use crate::abi::MPI_MAX_INFO_VAL;
use crate::process;

/// The arguments of the process.
pub(super) fn arguments() -> Vec<Vec<u8>> {
    std::env::args_os().map(OsStringExt::into_vec).collect()
}

/// Arguments as C's `main` gets them; those of the process if there are none.
pub(super) fn given(argc: c_int, argv: *const *const c_char) -> Vec<Vec<u8>> {
    if argc <= 0 || argv.is_null() {
        return arguments();
    }
    let one = |place: usize| {
        // SAFETY: the program's promise that these are so many strings, or null.
        let argument = unsafe { *argv.add(place) };
        // SAFETY: as above.
        (!argument.is_null()).then(|| unsafe { CStr::from_ptr(argument) }.to_bytes().to_vec())
    };
    (0..argc as usize).map_while(one).collect()
}

/// The standard's keys. Nobody gave `soft`, `file`, `thread_level`: advice to who starts processes.
pub(super) fn entries(arguments: &[Vec<u8>]) -> Entries {
    let mut entries = Entries::default();
    let mut set = |key: &str, value: &[u8]| {
        entries.set(key.as_bytes(), &value[..value.len().min(MPI_MAX_INFO_VAL as usize - 1)]);
    };
    if let Some((command, rest)) = arguments.split_first() {
        set("command", command);
        set("argv", &rest.join(&b' '));
    }
    if let Some(size) = process::started_with() {
        set("maxprocs", size.to_string().as_bytes());
    }
    set("host", &process::host());
    set("arch", std::env::consts::ARCH.as_bytes());
    if let Ok(folder) = std::env::current_dir() {
        set("wdir", &folder.into_os_string().into_vec());
    }
    entries
}
