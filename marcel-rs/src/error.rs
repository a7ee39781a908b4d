//! What can go wrong when a runtime is built or a thread is started.

use std::fmt;
use std::io;

use crate::knob::KnobError;

/// Why a runtime could not be built.
#[derive(Debug)]
pub enum Error {
    /// A knob of the environment holds a value that is not acceptable.
    Knob(KnobError),
    /// A number given to the builder is out of its range.
    Config {
        /// Name of the builder's method.
        what: &'static str,
        /// What was wrong, and what would be right.
        why: String,
    },
    /// A runtime was asked to run from inside one of its own (or another runtime's) green threads.
    Nested,
    /// The kernel refused a thread, a timer or memory.
    Os {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Knob(error) => error.fmt(f),
            Error::Config { what, why } => write!(f, "marcel: {what}: {why}"),
            Error::Nested => f.write_str(
                "marcel: Runtime::run was called from a green thread; spawn a thread instead, \
                 or call it from a kernel thread",
            ),
            Error::Os { doing, source } => write!(f, "marcel: {doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Knob(error) => Some(error),
            Error::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<KnobError> for Error {
    fn from(error: KnobError) -> Self {
        Error::Knob(error)
    }
}
