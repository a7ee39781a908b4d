//! What to do when the kernel gives no more descriptors: its own words do not say.

use std::fmt;
use std::io;

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

/// How many descriptors the process may have.
fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
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
    fn other_errors_stay_what_they_are() {
        let error = explain(io::Error::from_raw_os_error(libc::ECONNRESET));
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    }
}
