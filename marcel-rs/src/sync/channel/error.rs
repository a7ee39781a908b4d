//! Why a message could not be sent or received. What `std` has is `std`'s.

use std::fmt;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// A send with a time limit has failed; this is the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room, or nobody to receive it, in time.
    Timeout(T),
    /// There is no receiver any more.
    Disconnected(T),
}

/// An interruptible send has failed; this is the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendInterruptibleError<T> {
    /// The thread has been asked to stop.
    Interrupted(T),
    /// There is no receiver any more.
    Disconnected(T),
}

/// An interruptible receive has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvInterruptibleError {
    /// The thread has been asked to stop.
    Interrupted,
    /// The channel is empty, and there is no sender any more.
    Disconnected,
}

impl<T> SendTimeoutError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(message) | Self::Disconnected(message) => message,
        }
    }
}

impl<T> SendInterruptibleError<T> {
    /// The message.
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
