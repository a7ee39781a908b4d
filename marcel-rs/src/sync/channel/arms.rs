//! The operations among which [`select`](fn@super::select) chooses: sends and receives.

use std::fmt;

use super::core::{Channel, Core, End, Nothing, Slot, Unsent};
use super::error::{RecvError, SendError};
use crate::sync::queue::Node;
use crate::sync::signal::{Signal, Wake};

/// A send or a receive for [`select`](fn@super::select): [`Sending`] or [`Receiving`].
pub trait Arm: Operation {}

impl<T> Arm for Receiving<'_, T> {}
impl<T> Arm for Sending<'_, T> {}

/// The operations of an arm, which only `select` calls.
pub trait Operation {
    /// Position of the arm among the arms.
    #[doc(hidden)]
    fn index(&self) -> usize;
    #[doc(hidden)]
    fn set_index(&mut self, index: usize);
    /// Whether the arm takes part: a send takes part until it is done.
    #[doc(hidden)]
    fn is_armed(&self) -> bool;
    /// Address of the channel. Locks are taken in the order of addresses.
    #[doc(hidden)]
    fn address(&self) -> usize;
    #[doc(hidden)]
    fn lock(&self);
    /// # Safety
    /// The caller holds the lock, by `lock`.
    #[doc(hidden)]
    unsafe fn unlock(&self);
    /// Does the operation if it is possible now. The caller wakes `Done`'s waiter after it has released all locks.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[doc(hidden)]
    unsafe fn try_now(&mut self) -> Option<Done>;
    /// Makes the arm's node, with the number `choice`.
    #[doc(hidden)]
    fn prepare(&mut self, signal: &Chosen<'_>, choice: u32);
    /// Puts the node into the channel's queue.
    ///
    /// # Safety
    /// The caller holds the lock. Until `leave` is called, or the signal is served with this arm's number, the arm and
    /// its signal are neither moved nor borrowed exclusively.
    #[doc(hidden)]
    unsafe fn join(&self);
    /// Takes the node out of the queue, unless it is out already.
    #[doc(hidden)]
    fn leave(&self);
    /// Drops the node, if there is one: it is out of the queue. An unsent message goes back to the arm.
    #[doc(hidden)]
    fn unprepare(&mut self);
    /// Takes the result from the node, which was chosen and served. False if the channel is disconnected, so that the
    /// arm has to be tried again.
    #[doc(hidden)]
    fn finish(&mut self) -> bool;
    /// Passes on what the node was served with, since the thread is unwound.
    #[doc(hidden)]
    fn pass_on(&self);
    /// Fails the operation as if the channel were disconnected.
    #[doc(hidden)]
    fn fail(&mut self);
}

/// The waiter to wake after an operation. Hides the crate's types from [`Operation`].
#[doc(hidden)]
#[derive(Default)]
pub struct Done(pub(super) Option<Wake>);

/// The signal of a `select`. Hides the crate's types from [`Operation`].
#[doc(hidden)]
pub struct Chosen<'a>(pub(super) &'a Signal);

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}

impl fmt::Debug for Chosen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chosen")
    }
}

/// A receive among the arms of a [`select`](fn@super::select). It can be used for several selects.
pub struct Receiving<'a, T> {
    channel: &'a Channel<T>,
    node: Option<Node<Slot<T>>>,
    result: Option<Result<T, RecvError>>,
    index: usize,
}

/// A send among the arms of a [`select`](fn@super::select). It is done once at most.
pub struct Sending<'a, T> {
    channel: &'a Channel<T>,
    message: Option<T>,
    node: Option<Node<Slot<T>>>,
    result: Option<Result<(), SendError<T>>>,
    index: usize,
}

impl<'a, T> Receiving<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>) -> Self {
        Receiving { channel, node: None, result: None, index: 0 }
    }

    /// Takes the result of the receive, if this arm was chosen.
    ///
    /// The error means that the channel is empty and has no sender any more.
    pub fn result(&mut self) -> Option<Result<T, RecvError>> {
        self.result.take()
    }
}

impl<'a, T> Sending<'a, T> {
    pub(super) fn new(channel: &'a Channel<T>, message: T) -> Self {
        Sending { channel, message: Some(message), node: None, result: None, index: 0 }
    }

    /// Takes the result of the send, if this arm was chosen.
    ///
    /// The error means that the channel has no receiver any more; it has the message.
    pub fn result(&mut self) -> Option<Result<(), SendError<T>>> {
        self.result.take()
    }

    /// Returns the message, if this arm was not chosen.
    pub fn into_message(self) -> Option<T> {
        self.message
    }
}

impl<T> Operation for Receiving<'_, T> {
    fn index(&self) -> usize {
        self.index
    }

    fn set_index(&mut self, index: usize) {
        self.index = index;
    }

    fn is_armed(&self) -> bool {
        true
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.channel).addr()
    }

    fn lock(&self) {
        self.channel.core.lock();
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.channel.core.unlock() };
    }

    unsafe fn try_now(&mut self) -> Option<Done> {
        // SAFETY: the caller's promise.
        let received = unsafe { self.channel.core.with_locked(Core::try_recv) };
        let (result, wake) = match received {
            Ok((message, wake)) => (Ok(message), wake),
            Err(Nothing::Disconnected) => (Err(RecvError), None),
            Err(Nothing::Empty) => return None,
        };
        self.result = Some(result);
        Some(Done(wake))
    }

    fn prepare(&mut self, signal: &Chosen<'_>, choice: u32) {
        self.node = Some(Node::one_of_several(signal.0, choice, Slot::new(None)));
    }

    unsafe fn join(&self) {
        if let Some(node) = &self.node {
            // SAFETY: the caller's promise.
            unsafe {
                self.channel.core.with_locked(|core| core.receivers.push(node, false));
            }
        }
    }

    fn leave(&self) {
        if let Some(node) = &self.node {
            self.channel.leave(End::Receiver, node);
        }
    }

    fn unprepare(&mut self) {
        self.node = None;
    }

    fn finish(&mut self) -> bool {
        let message = self.node.take().and_then(|node| node.waiter.take());
        self.result = message.map(Ok);
        self.result.is_some()
    }

    fn pass_on(&self) {
        if let Some(message) = self.node.as_ref().and_then(|node| node.waiter.take()) {
            self.channel.put_back(message);
        }
    }

    fn fail(&mut self) {
        self.result = Some(Err(RecvError));
    }
}

impl<T> Operation for Sending<'_, T> {
    fn index(&self) -> usize {
        self.index
    }

    fn set_index(&mut self, index: usize) {
        self.index = index;
    }

    fn is_armed(&self) -> bool {
        self.message.is_some()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.channel).addr()
    }

    fn lock(&self) {
        self.channel.core.lock();
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.channel.core.unlock() };
    }

    unsafe fn try_now(&mut self) -> Option<Done> {
        let message = self.message.take()?;
        // SAFETY: the caller's promise.
        let sent = unsafe { self.channel.core.with_locked(|core| core.try_send(message)) };
        let (result, wake) = match sent {
            Ok(wake) => (Ok(()), wake),
            Err((message, Unsent::Disconnected)) => (Err(SendError(message)), None),
            Err((message, Unsent::Full)) => {
                self.message = Some(message);
                return None;
            }
        };
        self.result = Some(result);
        Some(Done(wake))
    }

    fn prepare(&mut self, signal: &Chosen<'_>, choice: u32) {
        let message = Slot::new(self.message.take());
        self.node = Some(Node::one_of_several(signal.0, choice, message));
    }

    unsafe fn join(&self) {
        if let Some(node) = &self.node {
            // SAFETY: the caller's promise.
            unsafe {
                self.channel.core.with_locked(|core| core.senders.push(node, false));
            }
        }
    }

    fn leave(&self) {
        if let Some(node) = &self.node {
            self.channel.leave(End::Sender, node);
        }
    }

    fn unprepare(&mut self) {
        if let Some(node) = self.node.take() {
            self.message = node.waiter.take();
        }
    }

    fn finish(&mut self) -> bool {
        let message = self.node.take().and_then(|node| node.waiter.take());
        self.result = Some(message.map_or(Ok(()), |message| Err(SendError(message))));
        true
    }

    /// The message is sent already.
    fn pass_on(&self) {}

    fn fail(&mut self) {
        self.result = self.message.take().map(|message| Err(SendError(message)));
    }
}

impl<T> fmt::Debug for Receiving<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiving { .. }")
    }
}

impl<T> fmt::Debug for Sending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sending { .. }")
    }
}
