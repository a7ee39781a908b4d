//! The sending end of a channel.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arms::Sending;
use super::core::{Channel, End, Unsent};
use super::error::{SendError, SendInterruptibleError, SendTimeoutError, TrySendError};
use crate::sync::signal::{Limits, Outcome};

/// The sending end of a channel.
///
/// Senders can be cloned. When the last sender is dropped, the channel is disconnected. A message must be `Send`:
///
/// ```compile_fail,E0277
/// let (tx, rx) = marcel::sync::channel::unbounded::<std::rc::Rc<()>>();
/// std::thread::spawn(move || tx.send(std::rc::Rc::new(())));
/// ```
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Sender { channel }
    }

    /// Sends a message, and waits for room if there is none.
    ///
    /// On a rendezvous channel it waits until the message is received.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread. Never blocks on an unbounded channel.
    ///
    /// # Wakes
    /// The receiver that has waited longest. It gets the message.
    ///
    /// # Errors
    /// All receivers are dropped, before or during the wait. The error has the message.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.channel.send(message, &Limits::NONE).map_err(|(message, _)| SendError(message))
    }

    /// Sends a message, if there is room or a receiver waits.
    ///
    /// # Wakes
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// There is no room and no waiting receiver, or all receivers are dropped. The error has the message.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.channel.try_send(message).map_err(|(message, why)| match why {
            Unsent::Full => TrySendError::Full(message),
            Unsent::Disconnected => TrySendError::Disconnected(message),
        })
    }

    /// As [`Sender::send`], for at most `time`.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`]; or the time is over.
    pub fn send_timeout(&self, message: T, time: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_within(message, &Limits::within(time))
    }

    /// As [`Sender::send`], until `deadline` at the latest.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send_timeout`].
    pub fn send_until(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_within(message, &Limits::until(deadline))
    }

    fn send_within(&self, message: T, limits: &Limits) -> Result<(), SendTimeoutError<T>> {
        self.channel.send(message, limits).map_err(|(message, outcome)| match outcome {
            Outcome::Woken => SendTimeoutError::Disconnected(message),
            _ => SendTimeoutError::Timeout(message),
        })
    }

    /// As [`Sender::send`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking, Wakes
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As [`Sender::send`]; or the thread was interrupted, before or during a wait, or its runtime stops.
    pub fn send_interruptible(&self, message: T) -> Result<(), SendInterruptibleError<T>> {
        self.channel.send(message, &Limits::INTERRUPTIBLE).map_err(|(message, outcome)| {
            match outcome {
                Outcome::Woken => SendInterruptibleError::Disconnected(message),
                _ => SendInterruptibleError::Interrupted(message),
            }
        })
    }

    /// A send of `message` for [`select`](fn@super::select).
    pub fn sending(&self, message: T) -> Sending<'_, T> {
        Sending::new(&self.channel, message)
    }

    /// Number of messages in the channel. A hint, since it may change at any moment.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the channel has no message. A hint, since it may change at any moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the channel is full, as a rendezvous channel always is. A hint, since it may change at any moment.
    pub fn is_full(&self) -> bool {
        self.capacity().is_some_and(|capacity| self.len() >= capacity)
    }

    /// The largest number of messages in the channel; `None` without a bound.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both are ends of the same channel.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.count(End::Sender);
        Sender { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.uncount(End::Sender);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender { .. }")
    }
}
