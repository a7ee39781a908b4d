//! The end that sends, and the positions that it takes.

use std::sync::mpsc::{SendError, TrySendError};
#[cfg(not(loom))]
use std::time::Instant;

use super::shared::Shared;
use super::slow_path::Waiter;
use crate::shim::Arc;
use pioman::Completion;

/// Sends: one for each thread, by `clone`, or shared by reference.
pub struct Producer<T: Send> {
    pub(super) shared: Arc<Shared<T>>,
}

impl<T: Send> Producer<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Producer<T> {
        shared.slow_path.add_producer();
        Producer { shared }
    }

    /// Takes the next place in the order of messages.
    ///
    /// Send at it or drop it soon: what is sent at later positions is not received before. Dropped, it leaves a hole
    /// that the consumer steps over; forgotten (`mem::forget`), it holds up the channel.
    ///
    /// # Blocking
    /// Does not.
    #[inline]
    pub fn acquire_send(&self) -> Position<'_, T> {
        Position { producer: self, at: Some(self.shared.acquire()) }
    }

    /// Sends, and waits for a free slot if need be.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`pioman::Manager::wait`].
    ///
    /// # Errors
    /// The consumer is gone; the value comes back.
    #[cfg(not(loom))]
    pub fn send(&self, manager: &pioman::Manager, value: T) -> Result<(), SendError<T>> {
        marcel::plumbing::budget::spend();
        self.acquire_send().send(manager, value)
    }

    /// Whether the consumer is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.slow_path.no_consumer()
    }
}

impl<T: Send> Clone for Producer<T> {
    fn clone(&self) -> Self {
        Producer::new(self.shared.clone())
    }
}

impl<T: Send> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.slow_path.remove_producer();
    }
}

impl<T: Send> std::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("slots", &self.shared.slots()).finish_non_exhaustive()
    }
}

/// A place in the order of messages; see [`Producer::acquire_send`].
#[must_use = "dropped, it leaves a hole"]
pub struct Position<'a, T: Send> {
    producer: &'a Producer<T>,
    /// None once it has sent.
    at: Option<u64>,
}

impl<T: Send> Position<'_, T> {
    /// Sends `value` if the slot is free. After `Full` try again, and poll incoming work in between: the consumer may
    /// be waiting for you. After a success this takes the next free place at the next call.
    ///
    /// # Context
    /// Not in the tick's handler: it wakes a consumer that waits under a lock.
    ///
    /// # Blocking
    /// Does not block.
    ///
    /// # Errors
    /// `Full`: not yet. `Disconnected`: the consumer is gone. The value comes back.
    #[inline]
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        let shared = &*self.producer.shared;
        if shared.slow_path.no_consumer() {
            return Err(TrySendError::Disconnected(value));
        }
        let at = *self.at.get_or_insert_with(|| shared.acquire());
        if !shared.is_free(at) {
            return Err(TrySendError::Full(value));
        }
        self.at = None;
        // SAFETY: ours, free, and given up by the line above.
        unsafe { shared.put(at, value) };
        Ok(())
    }

    /// Sends, and waits until the slot is free.
    ///
    /// # Context, Blocking, Errors
    /// As [`Producer::send`].
    #[cfg(not(loom))]
    pub fn send(self, manager: &pioman::Manager, value: T) -> Result<(), SendError<T>> {
        self.send_with(value, |done| manager.wait(done, pioman::Hint::Short))
    }

    /// As [`Position::try_send`], but waits until the slot is free or `deadline`.
    ///
    /// # Context, Blocking, Errors
    /// As [`Producer::send`], and `Full` after a time-out.
    #[cfg(not(loom))]
    pub fn send_until(
        &mut self,
        manager: &pioman::Manager,
        value: T,
        deadline: Instant,
    ) -> Result<(), TrySendError<T>> {
        let mut value = value;
        loop {
            match self.try_send(value) {
                Err(TrySendError::Full(back)) if Instant::now() < deadline => value = back,
                result => return result,
            }
            self.wait_with(|done| _ = manager.wait_until(done, pioman::Hint::Short, deadline));
        }
    }

    /// `sleep` sleeps until the completion is complete, or comes back for no reason.
    pub(super) fn send_with(
        mut self,
        mut value: T,
        sleep: impl Fn(&Completion),
    ) -> Result<(), SendError<T>> {
        loop {
            match self.try_send(value) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(back)) => return Err(SendError(back)),
                Err(TrySendError::Full(back)) => value = back,
            }
            self.wait_with(&sleep);
        }
    }

    fn wait_with(&self, sleep: impl FnOnce(&Completion)) {
        let Some(at) = self.at else { return };
        let shared = &self.producer.shared;
        let done = Completion::new();
        // SAFETY: dropped at the end of this block, before `done`.
        let _listed = unsafe { shared.slow_path.enlist(Waiter::Producer(at), &done) };
        if !shared.is_free(at) && !shared.slow_path.no_consumer() {
            sleep(&done);
        }
    }
}

impl<T: Send> Drop for Position<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.producer.shared.slow_path.give_up(at);
        }
    }
}

impl<T: Send> std::fmt::Debug for Position<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Position").field(&self.at).finish()
    }
}
