//! The errors of sends and receives: those of `std`, and two more.

use std::fmt;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// The error of a send with a time limit. It has the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// No room and no receiver within the time.
    Timeout(T),
    /// All receivers are dropped.
    Disconnected(T),
}

/// The error of an interruptible send. It has the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendInterruptibleError<T> {
    /// The thread was interrupted.
    Interrupted(T),
    /// All receivers are dropped.
    Disconnected(T),
}

/// The error of an interruptible receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvInterruptibleError {
    /// The thread was interrupted.
    Interrupted,
    /// The channel is empty, and all senders are dropped.
    Disconnected,
}

impl<T> SendTimeoutError<T> {
    /// Returns the message.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(message) | Self::Disconnected(message) => message,
        }
    }
}

impl<T> SendInterruptibleError<T> {
    /// Returns the message.
    pub fn into_inner(self) -> T {
        match self {
            Self::Interrupted(message) | Self::Disconnected(message) => message,
        }
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "Timeout(..)",
            Self::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout(_) => "timed out waiting on send operation",
            Self::Disconnected(_) => "sending on a disconnected channel",
        })
    }
}

impl<T> fmt::Debug for SendInterruptibleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupted(_) => "Interrupted(..)",
            Self::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendInterruptibleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted(_) => crate::sync::Interrupted.fmt(f),
            Self::Disconnected(_) => f.write_str("sending on a disconnected channel"),
        }
    }
}

impl fmt::Display for RecvInterruptibleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => crate::sync::Interrupted.fmt(f),
            Self::Disconnected => f.write_str("channel is empty and sending half is closed"),
        }
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}
impl<T> std::error::Error for SendInterruptibleError<T> {}
impl std::error::Error for RecvInterruptibleError {}
