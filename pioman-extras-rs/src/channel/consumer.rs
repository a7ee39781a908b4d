//! The end that receives, and what it reads in place.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{RecvError, TryRecvError};
#[cfg(not(loom))]
use std::{sync::mpsc::RecvTimeoutError, time::Instant};

use super::shared::Shared;
use super::slow_path::{Listed, Waiter};
use crate::shim::Arc;
use pioman::Completion;

/// Receives.
pub struct Consumer<T: Send> {
    shared: Arc<Shared<T>>,
    /// What was before this is received.
    at: u64,
}

impl<T: Send> Consumer<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Consumer<T> {
        Consumer { shared, at: 0 }
    }

    /// Whether [`Consumer::try_read`] would give a message.
    ///
    /// # Blocking
    /// Does not.
    #[inline]
    pub fn has_messages(&self) -> bool {
        let mut at = self.at;
        loop {
            if self.shared.is_occupied(at) {
                return true;
            }
            if !self.shared.slow_path.is_hole(at) {
                return false;
            }
            at += 1;
        }
    }

    /// Whether all producers are gone: what is there now is all that will be.
    pub fn is_closed(&self) -> bool {
        self.shared.slow_path.no_producers()
    }

    /// The next message, in its slot, which is free when that is dropped or taken.
    ///
    /// # Context
    /// Not in the tick's handler.
    ///
    /// # Blocking
    /// Does not block.
    #[inline]
    pub fn try_read(&mut self) -> Option<Message<'_, T>> {
        if !self.advance() {
            return None;
        }
        Some(Message { consumer: self, _value: PhantomData })
    }

    /// Steps over holes; whether there is a message then.
    #[inline]
    fn advance(&mut self) -> bool {
        while !self.shared.is_occupied(self.at) {
            if !self.shared.slow_path.take_hole(self.at) {
                return false;
            }
            self.free();
        }
        true
    }

    /// Takes the next message.
    ///
    /// # Context, Blocking
    /// As [`Consumer::try_read`].
    ///
    /// # Errors
    /// There is none: yet, or ever, because all producers are gone.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(message) = self.try_read() {
            return Ok(message.take());
        }
        let last = self.is_closed();
        // It may have come before the last producer went.
        match self.try_read() {
            Some(message) => Ok(message.take()),
            None if last => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// The next message, in its slot; waits until there is one.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// As [`pioman::Manager::wait`].
    ///
    /// # Errors
    /// All producers are gone, and everything is received.
    #[cfg(not(loom))]
    pub fn read(&mut self, manager: &pioman::Manager) -> Result<Message<'_, T>, RecvError> {
        marcel::plumbing::budget::spend();
        self.read_with(|done| manager.wait(done, pioman::Hint::Short))
    }

    /// Takes the next message; waits until there is one.
    ///
    /// # Context, Blocking, Errors
    /// As [`Consumer::read`].
    #[cfg(not(loom))]
    pub fn recv(&mut self, manager: &pioman::Manager) -> Result<T, RecvError> {
        self.read(manager).map(Message::take)
    }

    /// As [`Consumer::recv`], until `deadline` at the latest.
    ///
    /// # Context, Blocking
    /// As [`Consumer::read`].
    ///
    /// # Errors
    /// As [`Consumer::read`], or a time-out.
    #[cfg(not(loom))]
    pub fn recv_until(
        &mut self,
        manager: &pioman::Manager,
        deadline: Instant,
    ) -> Result<T, RecvTimeoutError> {
        marcel::plumbing::budget::spend();
        loop {
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if Instant::now() >= deadline => {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => (),
            }
            self.wait_with(|done| _ = manager.wait_until(done, pioman::Hint::Short, deadline));
        }
    }

    /// `sleep` sleeps until the completion is complete, or comes back for no reason.
    pub(super) fn read_with(
        &mut self,
        sleep: impl Fn(&Completion),
    ) -> Result<Message<'_, T>, RecvError> {
        while !self.advance() {
            let last = self.is_closed();
            // It may have come before the last producer went.
            if last && !self.advance() {
                return Err(RecvError);
            }
            self.wait_with(&sleep);
        }
        Ok(Message { consumer: self, _value: PhantomData })
    }

    fn wait_with(&self, sleep: impl FnOnce(&Completion)) {
        let done = Completion::new();
        // SAFETY: dropped at the end of this block, before `done`.
        let _listed = unsafe { self.enlist(&done) };
        if !self.is_closed() && !self.has_work() {
            sleep(&done);
        }
    }

    /// `done` is completed when this may be ready, until what it returns is dropped. Look again before you sleep.
    ///
    /// # Safety
    /// The result is dropped, not forgotten, before `done` goes.
    pub(super) unsafe fn enlist<'a>(&'a self, done: &'a Completion) -> Listed<'a> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.slow_path.enlist(Waiter::Consumer, done) }
    }

    /// Whether there is a message or a hole. A consumer that slept on a hole
    /// would keep its slot from the producer that waits for it.
    pub(super) fn has_work(&self) -> bool {
        self.shared.is_occupied(self.at) || self.shared.slow_path.is_hole(self.at)
    }

    /// Frees the slot, and goes on to the next.
    #[inline]
    fn free(&mut self) {
        let at = self.at;
        self.at += 1;
        self.shared.free(at);
    }
}

impl<T: Send> Drop for Consumer<T> {
    /// Drops what has not been received. Behind a position that was forgotten, too.
    fn drop(&mut self) {
        self.shared.slow_path.remove_consumer();
        for at in self.at..self.at + self.shared.slots() {
            self.at = at;
            if self.shared.is_occupied(at) {
                drop(Message { consumer: self, _value: PhantomData });
            }
        }
    }
}

impl<T: Send> std::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("received", &self.at).finish_non_exhaustive()
    }
}

/// A message in its slot. Dropping it (MyThOS: `finishRead`) drops the value and frees the slot; forgotten, it is read
/// again.
pub struct Message<'a, T: Send> {
    /// At an occupied position.
    consumer: &'a mut Consumer<T>,
    /// It is as shareable as the value.
    _value: PhantomData<&'a mut T>,
}

impl<T: Send> Message<'_, T> {
    /// The value; the slot is free.
    #[inline]
    pub fn take(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: occupied, and freed below, so it is read once.
        let value = unsafe { this.consumer.shared.place(this.consumer.at).read() };
        this.consumer.free();
        value
    }
}

impl<T: Send> Deref for Message<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: occupied until this is dropped.
        unsafe { &*self.consumer.shared.place(self.consumer.at) }
    }
}

impl<T: Send> DerefMut for Message<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { &mut *self.consumer.shared.place(self.consumer.at) }
    }
}

impl<T: Send> Drop for Message<'_, T> {
    fn drop(&mut self) {
        /// Frees the slot, whatever the value's destructor does.
        struct Free<'a, T: Send>(&'a mut Consumer<T>);
        impl<T: Send> Drop for Free<'_, T> {
            fn drop(&mut self) {
                self.0.free();
            }
        }
        let free = Free(self.consumer);
        // SAFETY: occupied, and freed after this.
        unsafe { free.0.shared.place(free.0.at).drop_in_place() };
    }
}

impl<T: Send + std::fmt::Debug> std::fmt::Debug for Message<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
