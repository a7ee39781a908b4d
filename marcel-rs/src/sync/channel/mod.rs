//! Channels: messages from many senders to many receivers, between green and kernel threads.
//!
//! | made by | a send | a message waits |
//! |---|---|---|
//! | [`unbounded`] | never waits | in the channel |
//! | [`bounded`]`(n)` | waits while `n` messages are in the channel | in the channel |
//! | [`bounded`]`(0)`, a *rendezvous* | waits for a receive | with its sender |
//!
//! Names and meanings are those of `std::sync::mpsc`, whose errors these are. Both ends can be cloned; a message goes
//! to one receiver. When the last sender is dropped, receivers still get what is in the channel, then an error. When
//! the last receiver is dropped, what is in the channel is dropped, and sends fail and give their message back.
//! [`crate::select!`] waits for the first of several sends and receives.
//!
//! ```
//! use marcel::sync::channel;
//! # let runtime = marcel::Runtime::builder().vps(1).build()?;
//! # runtime.run(|| {
//! let (tx, rx) = channel::bounded(2);
//! let producer = marcel::spawn(move || (0..5).for_each(|n| tx.send(n).unwrap()));
//! assert_eq!(rx.iter().sum::<i32>(), 10);
//! producer.join().unwrap();
//! # });
//! # Ok::<(), marcel::Error>(())
//! ```
//!
//! # Fairness and hand-over
//! First come, first served on both sides. A message for a receiver that waits is handed to it and cannot be taken by
//! another; a sender that waits for room has its message moved into the channel by the receiver that makes room. So
//! messages of one sender arrive in their order, and no thread overtakes a waiter. [`select`](fn@select) chooses at
//! random among the arms that are possible.
//!
//! # When the runtime stops
//! In destructors that run because of it nothing waits: a send or receive that cannot be done at once fails as if it
//! were disconnected, or timed out, or interrupted. A message that was handed to a thread that is then unwound goes
//! back to the front, for the next receiver.
//!
//! # How it works
//! One tiny lock for each channel protects the messages and two queues, of senders and of receivers that wait.
//! Lock-free queues were rejected: they need a second protocol for waiters, an atomic operation costs as much here as
//! the lock, and hand-over and `select` need to see messages and waiters in one step.

mod arms;
mod core;
mod error;
mod fifo;
mod receiver;
mod select;
mod select_macro;
mod sender;

pub use self::arms::{Arm, Receiving, Sending};
pub use self::error::{
    RecvError, RecvInterruptibleError, RecvTimeoutError, SendError, SendInterruptibleError,
    SendTimeoutError, TryRecvError, TrySendError,
};
pub use self::receiver::{IntoIter, Iter, Receiver, TryIter};
pub use self::select::{select, select_interruptible, select_timeout, select_until, try_select};
pub use self::sender::Sender;

use std::sync::Arc;

use self::core::Channel;

/// Creates a channel for up to `capacity` messages. With 0, each send waits for its receive.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    ends(Channel::new(Some(capacity)))
}

/// Creates a channel without a bound.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(Channel::new(None))
}

fn ends<T>(channel: Channel<T>) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(channel);
    (Sender::new(channel.clone()), Receiver::new(channel))
}
