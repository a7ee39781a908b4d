//! The receiving end of a channel, and iterators over its messages.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arms::Receiving;
use super::core::{Channel, End, Nothing};
use super::error::{RecvError, RecvInterruptibleError, RecvTimeoutError, TryRecvError};
use crate::sync::signal::{Limits, Outcome};

/// The receiving end of a channel.
///
/// Receivers can be cloned; each message goes to one of them. When the last receiver is dropped, the channel is
/// disconnected, and the messages in it are dropped.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Receiver { channel }
    }

    /// Receives a message, and waits if there is none.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    ///
    /// # Wakes
    /// The sender that has waited longest for room.
    ///
    /// # Errors
    /// The channel is empty, and all senders are dropped.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.recv(&Limits::NONE).map_err(|_| RecvError)
    }

    /// Receives a message, if there is one or a sender waits.
    ///
    /// # Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// There is no message now, or all senders are dropped.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.try_recv().map_err(|why| match why {
            Nothing::Empty => TryRecvError::Empty,
            Nothing::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// As [`Receiver::recv`], for at most `time`.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// As [`Receiver::recv`]; or the time is over.
    pub fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_within(&Limits::within(time))
    }

    /// As [`Receiver::recv`], until `deadline` at the latest.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// As [`Receiver::recv_timeout`].
    pub fn recv_until(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_within(&Limits::until(deadline))
    }

    fn recv_within(&self, limits: &Limits) -> Result<T, RecvTimeoutError> {
        self.channel.recv(limits).map_err(|outcome| match outcome {
            Outcome::Woken => RecvTimeoutError::Disconnected,
            _ => RecvTimeoutError::Timeout,
        })
    }

    /// As [`Receiver::recv`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// As [`Receiver::recv`]; or the thread was interrupted, before or during a wait, or its runtime stops.
    pub fn recv_interruptible(&self) -> Result<T, RecvInterruptibleError> {
        self.channel.recv(&Limits::INTERRUPTIBLE).map_err(|outcome| match outcome {
            Outcome::Woken => RecvInterruptibleError::Disconnected,
            _ => RecvInterruptibleError::Interrupted,
        })
    }

    /// A receive for [`select`](fn@super::select).
    pub fn receiving(&self) -> Receiving<'_, T> {
        Receiving::new(&self.channel)
    }

    /// An iterator that waits for each message, until the channel is disconnected.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// An iterator over the messages that are in the channel now.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Number of messages in the channel. A hint, since it may change at any moment.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the channel has no message. A hint, since it may change at any moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The largest number of messages in the channel; `None` without a bound.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both are ends of the same channel.
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.count(End::Receiver);
        Receiver { channel: self.channel.clone() }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.uncount(End::Receiver);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver { .. }")
    }
}

/// The iterator of [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The iterator of [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// The iterator that owns its receiver; else as [`Iter`].
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
