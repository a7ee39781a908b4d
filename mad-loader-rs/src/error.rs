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
    /// A library of the program cannot be private to ranks; why.
    Private(String, String),
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
                "the shared library {name} cannot be loaded: {why}{}",
                way_out(why).unwrap_or("; name its folder in LD_LIBRARY_PATH")
            ),
            Error::Private(name, why) => {
                write!(f, "the library {name} cannot be private to ranks: {why}")
            }
            Error::Copy(rank, why) => {
                write!(f, "rank {rank} cannot be loaded: {why}{}", way_out(why).unwrap_or(""))
            }
            Error::Kernel(rank, error) => {
                write!(
                    f,
                    "rank {rank} cannot be loaded: {error}{}",
                    way_out(&error.to_string()).unwrap_or("")
                )
            }
        }
    }
}

/// What the dynamic linker's or the kernel's words for a limit mean.
fn way_out(why: &str) -> Option<&'static str> {
    let ways = [
        (&["allocate memory", "failed to map"][..], MAPPINGS),
        (&["static TLS"], LOCALS),
        (&["cannot open shared object file"], "; name its folder in LD_LIBRARY_PATH"),
        (&["Too many open files"], "; raise the limit of open files (ulimit -n)"),
    ];
    // The second one speaks of memory, too.
    ways.into_iter()
        .rev()
        .find(|(words, _)| words.iter().any(|word| why.contains(word)))
        .map(|(_, way)| way)
}

const MAPPINGS: &str = "; a copy takes about five mappings: raise vm.max_map_count (sysctl), or use fewer ranks a process";

const LOCALS: &str = "; a library's thread-locals are wanted at a fixed place, and the process has no room left there: raise \
     it with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536";

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read(_, error) | Error::Kernel(_, error) => Some(error),
            Error::Refused(_, refusal) => Some(refusal),
            _ => None,
        }
    }
}
