//! `MPI_INFO_ENV`: how the process was started, as far as that is known.

use std::os::unix::ffi::OsStringExt;

use super::entries::Entries;
use crate::abi::MPI_MAX_INFO_VAL;
use crate::job;

/// The arguments of the process.
pub(crate) fn arguments() -> Vec<Vec<u8>> {
    std::env::args_os().map(OsStringExt::into_vec).collect()
}

/// The standard's keys, except `soft`, `file` and `thread_level`: advice to launchers, which no launcher passes on.
pub(crate) fn entries(arguments: &[Vec<u8>]) -> Entries {
    let mut entries = Entries::default();
    let mut set = |key: &str, value: &[u8]| {
        entries.set(key.as_bytes(), &value[..value.len().min(MPI_MAX_INFO_VAL as usize - 1)]);
    };
    if let Some((command, rest)) = arguments.split_first() {
        set("command", command);
        set("argv", &rest.join(&b' '));
    }
    // Before the process has joined the job, the launcher may have said it.
    let opened = || job::session_opened().map(|session| session.size());
    let size = job::size().or_else(opened).or_else(newmad::Launched::announced_size);
    if let Some(size) = size {
        set("maxprocs", size.to_string().as_bytes());
    }
    set("host", &job::host());
    set("arch", std::env::consts::ARCH.as_bytes());
    if let Ok(folder) = std::env::current_dir() {
        set("wdir", &folder.into_os_string().into_vec());
    }
    entries
}
