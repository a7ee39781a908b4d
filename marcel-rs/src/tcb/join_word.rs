//! The word between a thread's end and the owner of its join handle.
//!
//! ```text
//!   RUNNING ──join──▶ waiter ──end──▶ DONE (and unpark)
//!      ├──────────────end───────────▶ DONE            the owner of the handle has the control block from here
//!      └──detach──▶ DETACHED ──end──▶ DONE            the ended thread's virtual processor has it
//! ```
//!
//! **The end is the last touch**: by then the thread's stack is gone and only the owner of the handle uses
//! the block, which may already serve another thread when the virtual processor comes back from the swap. So
//! neither a count of references nor memory of its own is needed for a thread's result: it is in the block.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;

use crate::os::AtomicPtr;

const DONE: usize = 1;
const DETACHED: usize = 2;

/// See the module's description.
///
/// `T` is the control block of the waiter: immortal.
pub(crate) struct JoinWord<T: 'static>(AtomicPtr<T>);

impl<T> Default for JoinWord<T> {
    fn default() -> Self {
        JoinWord(AtomicPtr::new(null_mut()))
    }
}

/// What the end of a thread finds.
pub(crate) enum End<T: 'static> {
    /// The owner of the handle will come.
    Owned,
    /// The owner of the handle waits, and is to be unparked.
    Awaited(&'static T),
    /// There is no handle: the control block is the caller's.
    Detached,
}

impl<T> JoinWord<T> {
    const RUNNING: *mut T = null_mut();
    const DONE: *mut T = std::ptr::without_provenance_mut(DONE);
    const DETACHED: *mut T = std::ptr::without_provenance_mut(DETACHED);

    /// The thread has ended, and its block is no longer used on its behalf.
    #[inline]
    pub(crate) fn end(&self) -> End<T> {
        match self.0.swap(Self::DONE, AcqRel) {
            waiter if waiter == Self::RUNNING => End::Owned,
            waiter if waiter == Self::DETACHED => End::Detached,
            // SAFETY: what else is in the word is a control block, and those are immortal.
            waiter => End::Awaited(unsafe { &*waiter }),
        }
    }

    /// Whether the thread has ended; if so, all that it did is visible.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Acquire) == Self::DONE
    }

    /// Whether the handle was dropped: the result will not be asked for.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.0.load(Relaxed) == Self::DETACHED
    }

    /// The handle's owner waits from now on; false if the thread has ended.
    #[inline]
    pub(crate) fn register(&self, me: &'static T) -> bool {
        let me = std::ptr::from_ref(me).cast_mut();
        match self.0.compare_exchange(Self::RUNNING, me, AcqRel, Acquire) {
            Ok(_) => true,
            Err(now) => now != Self::DONE,
        }
    }

    /// The handle's owner waits no more; false if the thread has ended.
    pub(crate) fn unregister(&self) -> bool {
        self.leave(Self::RUNNING)
    }

    /// The handle is dropped, by its owner; false if the thread has ended, and the block is the caller's.
    pub(crate) fn detach(&self) -> bool {
        self.leave(Self::DETACHED)
    }

    fn leave(&self, to: *mut T) -> bool {
        // Only the end changes the word beside us: at most one retry.
        let mut now = self.0.load(Relaxed);
        while now != Self::DONE {
            match self.0.compare_exchange(now, to, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        // The load alone may not have acquired.
        self.is_done();
        false
    }

    /// For the block's next thread. By the block's owner.
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(Self::RUNNING, Relaxed);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::task::park;
    use crate::tcb::block::Tcb;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A block: its result, which the word hands over, and the word.
    #[derive(Default)]
    struct Block {
        result: UnsafeCell<u32>,
        word: JoinWord<Tcb>,
        recycled: UnsafeCell<u32>,
    }

    // SAFETY: the word's protocol, which loom checks here.
    unsafe impl Sync for Block {}
    // SAFETY: as above.
    unsafe impl Send for Block {}

    impl Block {
        fn run(&self) {
            // SAFETY: the block is its thread's until the end.
            self.result.with_mut(|r| unsafe { *r = 7 });
            match self.word.end() {
                End::Owned => {}
                End::Awaited(waiter) => park::unpark(waiter),
                End::Detached => self.recycle(),
            }
        }

        /// Exclusive access to everything: loom reports any other access.
        fn recycle(&self) {
            // SAFETY: as the word says, the block is the caller's.
            self.result.with_mut(|r| unsafe { assert_eq!(*r, 7) });
            // SAFETY: as above.
            self.recycled.with_mut(|n| unsafe { *n += 1 });
        }

        fn join(&self) {
            if self.word.register(park::current()) {
                while !self.word.is_done() {
                    park::park("a model");
                }
            }
            self.recycle();
        }

        fn detach(&self) {
            if !self.word.detach() {
                self.recycle();
            }
        }
    }

    fn model(owner: impl Fn(&Block) + Send + Sync + Copy + 'static) {
        loom::model(move || {
            let block = Arc::new(Block::default());
            let thread = {
                let block = block.clone();
                thread::spawn(move || block.run())
            };
            owner(&block);
            thread.join().unwrap();
            // SAFETY: both are done.
            block.recycled.with(|n| unsafe { assert_eq!(*n, 1) });
        });
    }

    #[test]
    fn a_join_gets_the_result_and_the_block() {
        model(Block::join);
    }

    #[test]
    fn a_detached_block_is_recycled_once() {
        model(Block::detach);
    }

    #[test]
    fn a_join_that_gives_up_can_be_repeated_or_detached() {
        model(|block| {
            if block.word.register(park::current()) && block.word.unregister() {
                block.detach();
            } else {
                assert!(block.word.is_done());
                block.recycle();
            }
        });
        model(|block| {
            if block.word.register(park::current()) {
                block.word.unregister();
            }
            block.join();
        });
    }
}
