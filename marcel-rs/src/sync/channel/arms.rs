//! What [`select`](fn@super::select) chooses from: sends and receives that may be done, or may not.

use std::fmt;

use super::core::{Core, End, Nothing, Slot, Unsent};
use super::error::{RecvError, SendError};
use super::{Receiver, Sender};
use crate::sync::queue::Node;
use crate::sync::signal::{Signal, Wake};

/// A send or a receive that a [`select`](fn@super::select) may do: [`Sending`] or [`Receiving`].
pub trait Arm: Operation {}

impl<T> Arm for Receiving<'_, T> {}
impl<T> Arm for Sending<'_, T> {}

/// What `select` asks of an arm. The channel's lock is taken by the caller where it says so.
pub trait Operation {
    /// Its place among the arms.
    #[doc(hidden)]
    fn index(&self) -> usize;
    #[doc(hidden)]
    fn set_index(&mut self, index: usize);
    /// Whether there is something to do: a send that has been done is no arm any more.
    #[doc(hidden)]
    fn is_armed(&self) -> bool;
    /// The same for two arms of one channel; locks are taken in this order.
    #[doc(hidden)]
    fn address(&self) -> usize;
    #[doc(hidden)]
    fn lock(&self);
    /// # Safety
    /// The caller has called `lock`.
    #[doc(hidden)]
    unsafe fn unlock(&self);
    /// Does it, if it can be done now; whom to wake when no lock is held any more.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[doc(hidden)]
    unsafe fn try_now(&mut self) -> Option<Done>;
    /// Makes its node, number `choice`.
    #[doc(hidden)]
    fn prepare(&mut self, signal: &Chosen<'_>, choice: u32);
    /// Puts the node into its queue.
    ///
    /// # Safety
    /// The caller holds the lock; the arm and its signal stay in place, and are not borrowed exclusively, until `leave`
    /// has been called, or the signal has been served with this arm's number.
    #[doc(hidden)]
    unsafe fn join(&self);
    /// Takes the node out, if it is still in the queue.
    #[doc(hidden)]
    fn leave(&self);
    /// The node is out of the queue, and was not chosen.
    #[doc(hidden)]
    fn unprepare(&mut self);
    /// The node was chosen and served: false if the other side has gone, and the arm has to be tried again.
    #[doc(hidden)]
    fn finish(&mut self) -> bool;
    /// The node was served, but its thread is unwound.
    #[doc(hidden)]
    fn pass_on(&self);
    /// It will not be done, and fails as if the other side had gone.
    #[doc(hidden)]
    fn fail(&mut self);
}

/// Hides the crate's own types from an interface that nobody else uses.
#[doc(hidden)]
#[derive(Default)]
pub struct Done(pub(super) Option<Wake>);

/// As [`Done`].
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

/// A receive that a [`select`](fn@super::select) may do, again and again.
pub struct Receiving<'a, T> {
    receiver: &'a Receiver<T>,
    node: Option<Node<Slot<T>>>,
    result: Option<Result<T, RecvError>>,
    index: usize,
}

/// A send that a [`select`](fn@super::select) may do, once.
pub struct Sending<'a, T> {
    sender: &'a Sender<T>,
    message: Option<T>,
    node: Option<Node<Slot<T>>>,
    result: Option<Result<(), SendError<T>>>,
    index: usize,
}

impl<'a, T> Receiving<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Self {
        Receiving { receiver, node: None, result: None, index: 0 }
    }

    /// What was received, if this was chosen: a message, or an error since none will come any more.
    pub fn result(&mut self) -> Option<Result<T, RecvError>> {
        self.result.take()
    }
}

impl<'a, T> Sending<'a, T> {
    pub(super) fn new(sender: &'a Sender<T>, message: T) -> Self {
        Sending { sender, message: Some(message), node: None, result: None, index: 0 }
    }

    /// Whether the message was sent, if this was chosen: the error holds it, since there is no receiver any more.
    pub fn result(&mut self) -> Option<Result<(), SendError<T>>> {
        self.result.take()
    }

    /// The message, if this was not chosen.
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
        std::ptr::from_ref(self.receiver.channel()).addr()
    }

    fn lock(&self) {
        self.receiver.channel().core.lock();
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.receiver.channel().core.unlock() };
    }

    unsafe fn try_now(&mut self) -> Option<Done> {
        // SAFETY: the caller's promise.
        let received = unsafe { self.receiver.channel().core.with_locked(Core::try_recv) };
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
                self.receiver.channel().core.with_locked(|core| core.receivers.push(node, false));
            }
        }
    }

    fn leave(&self) {
        if let Some(node) = &self.node {
            self.receiver.channel().leave(End::Receiver, node);
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
            self.receiver.channel().put_back(message);
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
        std::ptr::from_ref(self.sender.channel()).addr()
    }

    fn lock(&self) {
        self.sender.channel().core.lock();
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.sender.channel().core.unlock() };
    }

    unsafe fn try_now(&mut self) -> Option<Done> {
        let message = self.message.take()?;
        // SAFETY: the caller's promise.
        let sent = unsafe { self.sender.channel().core.with_locked(|core| core.try_send(message)) };
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
                self.sender.channel().core.with_locked(|core| core.senders.push(node, false));
            }
        }
    }

    fn leave(&self) {
        if let Some(node) = &self.node {
            self.sender.channel().leave(End::Sender, node);
        }
    }

    fn unprepare(&mut self) {
        self.message = self.node.take().and_then(|node| node.waiter.take());
    }

    fn finish(&mut self) -> bool {
        let message = self.node.take().and_then(|node| node.waiter.take());
        self.result = Some(message.map_or(Ok(()), |message| Err(SendError(message))));
        true
    }

    /// It is sent.
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
