//! The receiving end of a channel, and iterators over its messages.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arms::Receiving;
use super::core::{Channel, End, Nothing};
use super::error::{RecvError, RecvInterruptibleError, RecvTimeoutError, TryRecvError};
use crate::sync::signal::{Limits, Outcome};

/// The receiving end of a channel. Can be cloned: each message goes to one of the receivers. When the last one is
/// dropped, the channel is disconnected, and the messages in it are dropped.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Receiver<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Receiver { channel }
    }

    /// Receives, and waits for a message if there is none.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// The green thread; outside a runtime, the kernel thread.
    ///
    /// # Wakes
    /// The sender that has waited longest for room.
    ///
    /// # Errors
    /// The channel is empty, and there is no sender any more.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.recv(&Limits::NONE).map_err(|_| RecvError)
    }

    /// Receives, if there is a message, or a sender that waits.
    ///
    /// # Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// There is none now, or none will come.
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
    /// As [`Receiver::recv`], and when the time is over.
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
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_within(&Limits::until(deadline))
    }

    fn recv_within(&self, limits: &Limits) -> Result<T, RecvTimeoutError> {
        self.channel.recv(limits).map_err(|outcome| match outcome {
            Outcome::Woken => RecvTimeoutError::Disconnected,
            _ => RecvTimeoutError::Timeout,
        })
    }

    /// As [`Receiver::recv`], unless the thread is asked to stop.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Receiver::recv`].
    ///
    /// # Errors
    /// As [`Receiver::recv`], and when the thread would wait and has been interrupted, or is while it waits, or its
    /// runtime stops.
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

    /// The messages, each waited for, until the channel is disconnected.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The messages that are there now.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// How many messages are in the channel: a hint.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether no message is in the channel: a hint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages there is room for; `None` without a bound.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both are ends of one channel.
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

/// See [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// See [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// As [`Iter`], of a receiver that it owns.
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
