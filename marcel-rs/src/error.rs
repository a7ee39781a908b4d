//! The error of building a runtime and of starting threads.

use std::fmt;
use std::io;

use crate::knob::KnobError;

/// The error of building a runtime, and of a name or number in a builder.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An environment variable has a value that its knob does not accept.
    Knob(KnobError),
    /// An argument of a builder is out of range or names nothing.
    Config {
        /// Name of the method or of the argument.
        what: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The kernel refused a thread, a timer or memory.
    Os {
        /// The operation that failed.
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
