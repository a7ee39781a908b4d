//! What a light task says after a call, and how it has ended.

use std::fmt;

/// What a light task says after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: call it again, as soon as the others have had their turn.
    Again,
    /// It waits for something that has not come: call it again, but no core need be burnt for it. When idle virtual
    /// processors have polled for the spin time of waits (`PIOM_BUSY_WAIT_USEC`), it is called at the tick's pace, or
    /// its blocking alternative is used.
    Waiting,
    /// It has done its work.
    Done,
}

/// Why a light task has not done its work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskError {
    /// It was cancelled first, or its manager has gone.
    Cancelled {
        /// Its name.
        name: String,
    },
    /// It has panicked.
    Panicked {
        /// Its name.
        name: String,
        /// What the panic said.
        message: String,
    },
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Cancelled { name } => write!(f, "light task {name:?} was cancelled"),
            TaskError::Panicked { name, message } => {
                write!(f, "light task {name:?} panicked: {message}")
            }
        }
    }
}

impl std::error::Error for TaskError {}

impl From<TaskError> for std::io::Error {
    fn from(error: TaskError) -> Self {
        std::io::Error::other(error)
    }
}
