//! The crate's error.

use std::path::PathBuf;
use std::{fmt, io};

use crate::refusal::Refusal;

/// Why a program, or a copy of it, could not be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The program cannot run as a rank.
    Refused(PathBuf, Refusal),
    /// A shared library cannot be loaded; the dynamic linker's words.
    Library(String, String),
    /// The dynamic linker refuses a copy; its words.
    Copy(usize, String),
    /// The kernel refuses memory or a descriptor for a copy.
    Kernel(usize, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(path, error) => {
                write!(f, "{}: {error}; give the path of an executable", path.display())
            }
            Error::Refused(path, refusal) => {
                write!(f, "{} cannot run as threads: {refusal}", path.display())
            }
            Error::Library(name, why) => write!(
                f,
                "the shared library {name} cannot be loaded: {why}; name its folder in LD_LIBRARY_PATH"
            ),
            Error::Copy(rank, why) => {
                write!(f, "rank {rank} cannot be loaded: {why}{}", way_out(why))
            }
            Error::Kernel(rank, error) => {
                write!(f, "rank {rank} cannot be loaded: {error}{}", way_out(&error.to_string()))
            }
        }
    }
}

/// What the dynamic linker's or the kernel's words for a limit mean.
fn way_out(why: &str) -> &'static str {
    if why.contains("allocate memory") || why.contains("failed to map") {
        "; a copy takes about five mappings: raise vm.max_map_count (sysctl), or use fewer ranks a process"
    } else if why.contains("static TLS") {
        "; the process has no room left for thread-locals of fixed places: compile with -fPIC, without \
         -ftls-model=initial-exec"
    } else if why.contains("Too many open files") {
        "; raise the limit of open files (ulimit -n)"
    } else {
        ""
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read(_, error) | Error::Kernel(_, error) => Some(error),
            Error::Refused(_, refusal) => Some(refusal),
            _ => None,
        }
    }
}
