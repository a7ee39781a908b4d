//! Errors of the I/O manager.

use std::fmt;
use std::io;

use marcel::plumbing::knob::KnobError;

/// Why a manager could not be built or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A knob of the environment holds a value that is not acceptable.
    Knob(KnobError),
    /// The machine's topology is not known.
    Topology(marcel::Error),
    /// The kernel refused a descriptor or a thread.
    Os {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This was made for another manager.
    OtherManager(&'static str),
}

impl Error {
    /// What an error of marcel's while `doing` this becomes.
    pub(crate) fn of(doing: &'static str) -> impl FnOnce(marcel::Error) -> Error {
        move |error| match error {
            marcel::Error::Knob(knob) => Error::Knob(knob),
            other => Error::Os { doing, source: io::Error::other(other) },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Knob(error) => error.fmt(f),
            Error::Topology(error) => error.fmt(f),
            Error::Os { doing, source } => write!(f, "pioman: {doing}: {source}"),
            Error::OtherManager(what) => write!(f, "pioman: {what} is another manager's"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // These say what the inner error says: its source is theirs.
            Error::Knob(error) => error.source(),
            Error::Topology(error) => error.source(),
            Error::Os { source, .. } => Some(source),
            Error::OtherManager(_) => None,
        }
    }
}

impl From<KnobError> for Error {
    fn from(error: KnobError) -> Self {
        Error::Knob(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}
