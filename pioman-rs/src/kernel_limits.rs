//! What to do when the kernel gives no more descriptors, or no file of that size: its own words do not say.

use std::fmt;
use std::io;

use rustix::process::Resource;

/// An error of the kernel, and the way out.
#[derive(Debug)]
struct Limit {
    source: io::Error,
    way_out: String,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.way_out)
    }
}

impl std::error::Error for Limit {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds the way out to errors that say that a limit is reached; the kernel's own error is the new one's `source`.
pub(crate) fn explain(error: io::Error) -> io::Error {
    let way_out = match error.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "this process may have {} descriptors (RLIMIT_NOFILE); `ulimit -n` in the shell that starts it raises that",
            descriptors().map_or("no more".into(), |n| n.to_string())
        ),
        Some(libc::ENFILE) => {
            "the machine may have no more files open; sysctl fs.file-max raises that".into()
        }
        Some(libc::ENOSPC) => {
            "the user may have no more descriptors watched; sysctl fs.epoll.max_user_watches raises that".into()
        }
        _ => return error,
    };
    io::Error::new(error.kind(), Limit { source: error, way_out })
}

/// Whether this process may have a file of so many bytes; memory that has a descriptor (`memfd`) counts as one. To be asked
/// first: the kernel ends a process that makes a larger one (SIGXFSZ).
///
/// # Errors
/// The limit, and the way out.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    check_file_size_within(rustix::process::getrlimit(Resource::Fsize).current, bytes)
}

fn check_file_size_within(limit: Option<u64>, bytes: u64) -> io::Result<()> {
    let Some(limit) = limit.filter(|&limit| bytes > limit) else { return Ok(()) };
    let source = io::Error::from_raw_os_error(libc::EFBIG);
    let way_out = format!(
        "it is of {bytes} bytes, and files of this process, and memory that it shares, may have {limit} (RLIMIT_FSIZE); \
         `ulimit -f` in the shell that starts it raises that"
    );
    Err(io::Error::new(source.kind(), Limit { source, way_out }))
}

/// How many descriptors the process may have.
fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_names_itself_and_the_way_out() {
        let error = explain(io::Error::from_raw_os_error(libc::EMFILE));
        let text = error.to_string();
        assert!(text.contains("RLIMIT_NOFILE") && text.contains("ulimit -n"), "{text}");
        assert_eq!(error.kind(), io::Error::from_raw_os_error(libc::EMFILE).kind());
        let source = error.get_ref().and_then(|error| error.source());
        let source = source.and_then(|error| error.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(libc::EMFILE));
    }

    #[test]
    fn a_file_that_is_too_large_is_an_error_and_no_signal() {
        assert!(check_file_size_within(None, u64::MAX).is_ok());
        assert!(check_file_size_within(Some(4096), 4096).is_ok());
        let error = check_file_size_within(Some(4096), 4097).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("ulimit -f"), "{error}");
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        let error = explain(io::Error::from_raw_os_error(libc::ECONNRESET));
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    }
}
