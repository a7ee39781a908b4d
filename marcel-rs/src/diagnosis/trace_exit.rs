//! Starts the trace that `MARCEL_TRACE` asks for, and saves it.
//!
//! The trace is saved when the last runtime of the process ends, when the process exits, with a dump on `SIGQUIT`, and
//! when a thread overflows its stack. Each time the whole file is written, with all records until then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::trace_file::{self, save};
use crate::error::Error;
use crate::knobs;
use crate::os::KernelMutex;
use crate::os::stderr::to_stderr;
use crate::recorder::{self, RECORDS, start};

/// The trace's file.
static TARGET: KernelMutex<Option<PathBuf>> = KernelMutex::new(None);
/// The process that records, or 0. A forked child must not save, and may be unable to lock `TARGET`, which another
/// thread may have held at the fork.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Number of records at the last save.
static SAVED: AtomicU64 = AtomicU64::new(0);

/// Starts to record if `MARCEL_TRACE` asks for it, and saves the trace when the process exits.
///
/// Builders of runtimes and of I/O managers call this.
///
/// # Errors
/// A knob does not accept its variable's value, there is no memory, or the directory cannot be created.
pub fn from_env() -> Result<(), Error> {
    let path = knobs::TRACE.text()?;
    let mut target = TARGET.lock();
    if path.is_empty() || target.is_some() {
        return Ok(());
    }
    let records = knobs::TRACE_RECORDS.int()?.map_or(RECORDS, |records| records as usize);
    let os = |source| Error::Os { doing: "starting to record (MARCEL_TRACE)", source };
    let file = file_for(&path, trace_file::rank(), std::process::id()).map_err(os)?;
    start(records).map_err(os)?;
    *target = Some(file);
    PROCESS.store(std::process::id(), Relaxed);
    // SAFETY: a function without arguments that may be called at any later time.
    unsafe { libc::atexit(at_exit) };
    Ok(())
}

/// The trace's file: in a directory one per process, else `path`, with the rank appended if there are ranks.
fn file_for(path: &str, rank: Option<u32>, process: u32) -> io::Result<PathBuf> {
    let name = match rank {
        Some(rank) => format!("rank{rank}-{process}.trace"),
        None => format!("{process}.trace"),
    };
    if path.ends_with('/') || Path::new(path).is_dir() {
        std::fs::create_dir_all(path)?;
        return std::fs::canonicalize(Path::new(path)).map(|dir| dir.join(name));
    }
    let path = match rank {
        Some(rank) => format!("{path}.{rank}"),
        None => path.to_owned(),
    };
    std::path::absolute(path)
}

extern "C" fn at_exit() {
    save_now();
}

/// Saves the trace, if it is wanted and has new records. A failure is a message on standard error.
pub(crate) fn save_now() {
    if PROCESS.load(Relaxed) != std::process::id() {
        return;
    }
    let target = TARGET.lock();
    let Some(path) = &*target else { return };
    let written = recorder::made().map_or(0, |rings| rings.written());
    if SAVED.swap(written, Relaxed) == written {
        return;
    }
    if let Err(error) = save(path) {
        to_stderr(|out| {
            writeln!(out, "marcel: the trace was not written to {}: {error}", path.display())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_file_of_its_own() {
        let name = |path: &str, rank| file_for(path, rank, 77).unwrap().display().to_string();
        assert_eq!(name("/x/t", None), "/x/t");
        assert_eq!(name("/x/t", Some(3)), "/x/t.3");
        let dir = std::env::temp_dir().join(format!("marcel-trace-dir-{}", std::process::id()));
        let dir = format!("{}/", dir.display());
        assert!(name(&dir, None).ends_with("/77.trace"));
        assert!(name(&dir, Some(2)).ends_with("/rank2-77.trace"));
        std::fs::remove_dir(dir).unwrap();
    }
}
