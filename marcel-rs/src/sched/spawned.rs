//! What a virtual processor has spawned and never ran: newest first for their owner, oldest first for thieves.
//!
//! A `crossbeam` deque, whose owner pays for being robbed (a fence a pop, an exchange for the last one). Where
//! there is no thief, a plain one does: the owner opens the deque when that changes.
//!
//! Newest first alone would let the oldest wait for ever beside a thread that goes on spawning. So now and then
//! the oldest has its turn ([`Spawned::pop_fairly`]): seldom, for each begins another branch of a fork-join
//! program, which then needs the stacks of both.

use std::collections::VecDeque;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};

use crate::tcb::block::Tcb;

/// How often [`Spawned::pop_fairly`] gives the oldest.
const OLDEST_FIRST: u32 = 61;

/// The owner's end.
pub(crate) struct Spawned {
    deque: Worker<&'static Tcb>,
    /// Holds all of them while there is no thief.
    alone: Option<VecDeque<&'static Tcb>>,
    fifo: bool,
    fair_turns: u32,
}

impl Spawned {
    /// `alone`: no worker will steal until [`Spawned::share`]. `fifo`: oldest first for the owner, too.
    pub(crate) fn new(alone: bool, fifo: bool) -> Spawned {
        let deque = if fifo { Worker::new_fifo() } else { Worker::new_lifo() };
        Spawned { deque, alone: (alone && !fifo).then(VecDeque::new), fifo, fair_turns: 0 }
    }

    /// As new, for another owner; it is empty.
    pub(crate) fn reset(&mut self, alone: bool) {
        self.alone = (alone && !self.fifo).then(VecDeque::new);
    }

    /// Whether it is oldest first for its owner, for good.
    pub(crate) fn is_fifo(&self) -> bool {
        self.fifo
    }

    /// The thieves' end.
    pub(crate) fn stealer(&self) -> Stealer<&'static Tcb> {
        self.deque.stealer()
    }

    /// Opens it to thieves, if it is not; true if that was done, and is to be undone by [`Spawned::unshare`].
    pub(crate) fn share(&mut self) -> bool {
        let Some(alone) = self.alone.take() else { return false };
        alone.into_iter().for_each(|tcb| self.deque.push(tcb));
        true
    }

    /// There is no thief any more.
    pub(crate) fn unshare(&mut self) {
        let mut alone = VecDeque::new();
        while let Some(tcb) = self.deque.pop() {
            alone.push_front(tcb);
        }
        self.alone = Some(alone);
    }

    #[inline]
    pub(crate) fn push(&mut self, tcb: &'static Tcb) {
        match &mut self.alone {
            Some(alone) => alone.push_back(tcb),
            None => self.deque.push(tcb),
        }
    }

    /// The newest.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&'static Tcb> {
        match &mut self.alone {
            Some(alone) => alone.pop_back(),
            None => self.deque.pop(),
        }
    }

    /// The newest, or, at every 61st call, the oldest.
    pub(crate) fn pop_fairly(&mut self) -> Option<&'static Tcb> {
        self.fair_turns += 1;
        if self.fair_turns < OLDEST_FIRST {
            return self.pop();
        }
        self.fair_turns = 0;
        match &mut self.alone {
            Some(alone) => alone.pop_front(),
            // As a thief would: the owner has only its own end.
            None => self.deque.stealer().steal().success(),
        }
        .or_else(|| self.pop())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.alone {
            Some(alone) => alone.is_empty(),
            None => self.deque.is_empty(),
        }
    }

    /// Whether thieves may look.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.alone.is_none()
    }

    /// Takes one from the injector, and some more to keep.
    pub(crate) fn take_from(&mut self, injector: &Injector<&'static Tcb>) -> Option<&'static Tcb> {
        loop {
            let taken = match &self.alone {
                Some(_) => injector.steal(),
                None => injector.steal_batch_and_pop(&self.deque),
            };
            match taken {
                Steal::Success(tcb) => return Some(tcb),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_the_deque_keeps_the_order() {
        let threads: Vec<_> = (0..3).map(|_| Tcb::allocate(None)).collect();
        let mut spawned = Spawned::new(true, false);
        threads.iter().for_each(|tcb| spawned.push(tcb));
        assert!(spawned.stealer().is_empty());
        spawned.share();
        assert!(spawned.is_shared());
        assert!(std::ptr::eq(spawned.stealer().steal().success().unwrap(), threads[0]));
        assert!(std::ptr::eq(spawned.pop().unwrap(), threads[2]));
        assert!(std::ptr::eq(spawned.pop().unwrap(), threads[1]));
        assert!(spawned.pop().is_none());
    }

    #[test]
    fn so_does_closing_it() {
        let threads: Vec<_> = (0..3).map(|_| Tcb::allocate(None)).collect();
        let mut spawned = Spawned::new(true, false);
        threads.iter().for_each(|tcb| spawned.push(tcb));
        assert!(spawned.share() && !spawned.share());
        spawned.unshare();
        assert!(!spawned.is_shared() && spawned.stealer().is_empty());
        for tcb in threads.iter().rev() {
            assert!(std::ptr::eq(spawned.pop().unwrap(), *tcb));
        }
    }
}
