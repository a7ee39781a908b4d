//! A one-shot latch: what a request's completion and a thread's end are made of. Any number of waiters; one is what it
//! is made for.
//!
//! One word: EMPTY, the only waiter's control block, a list of waiters (`list`), or DONE.
//!
//! ```text
//!   EMPTY ──wait──▶ waiter ──another wait──▶ list ⇄ list, LOCKED        ── set, from any of them ──▶ DONE
//! ```
//!
//! **`set` is the last touch** (rayon's latch rule): the swap to DONE is its only access to the latch. As
//! soon as it has happened the owner may free the memory. The waiter's block, taken out by the same swap, is
//! immortal, so unparking it needs no memory of the latch. Those of a list are told one after the other, each by the
//! last touch of its node.
//!
//! A waiter that leaves the middle of the list locks it, in the same word. `set` does not wait for that: it finds
//! LOCKED in what it has swapped out, and leaves the list to the lock's holder, which meets DONE when it unlocks.
//!
//! Rejected: a list from the start (a node, and two more cache lines, for each message); a lock-free removal (marked
//! pointers, and an owner that must outlive the walk); a flag beside the word (`set` would touch two).

mod list;
#[cfg(all(test, loom))]
mod model;

use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

pub use self::list::LatchNode;
use self::list::{After, DONE, LIST, LOCKED};
use crate::list::{Leave, Listed};
use crate::os::AtomicPtr;
#[cfg(not(loom))]
use crate::task::interrupt;
use crate::task::park::{self, unpark};
use crate::tcb::block::Tcb;

/// See the module's description.
#[derive(Debug)]
pub struct Latch {
    word: AtomicPtr<()>,
}

/// The latch on which the closure of [`Latch::alone`] sleeps.
///
/// Invariant: the closure can ask it and not set it. It may stand for another latch, in whose list the waiter's node
/// stays until that latch is set.
///
/// ```compile_fail
/// let latch = marcel::Latch::new();
/// latch.alone(|latch| latch.set());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Alone<'a>(&'a Latch);

impl Alone<'_> {
    /// As [`Latch::is_set`].
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }
}

/// What came of the attempt to be the only waiter.
enum First {
    Registered,
    Set,
    Taken,
}

impl Latch {
    /// A latch that is not set.
    #[cfg(not(loom))]
    pub const fn new() -> Latch {
        Latch { word: AtomicPtr::new(null_mut()) }
    }

    /// A latch that is not set.
    #[cfg(loom)]
    pub fn new() -> Latch {
        Latch { word: AtomicPtr::new(null_mut()) }
    }

    /// Sets the latch and wakes its waiters.
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// The registered waiter.
    #[inline]
    pub fn set(&self) {
        let waiter = self.word.swap(DONE, AcqRel);
        if waiter.addr() > DONE.addr() {
            if waiter.addr() & (LIST | LOCKED) == 0 {
                // SAFETY: control blocks are immortal.
                unpark(unsafe { &*waiter.cast::<Tcb>() });
            } else {
                list::set(waiter);
            }
        }
    }

    /// Whether the latch is set; if so, everything before `set` is visible.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.word.load(Acquire) == DONE
    }

    /// Whether a waiter has registered to be woken.
    #[inline]
    pub fn has_waiter(&self) -> bool {
        self.word.load(Relaxed).addr() > DONE.addr()
    }

    /// Makes the latch fresh again.
    pub fn reset(&mut self) {
        *self = Latch::new();
    }

    /// Makes the latch fresh again, although other threads may ask whether it is set.
    ///
    /// # Safety
    /// No thread waits on it or sets it, and no node is in its list.
    pub unsafe fn rearm(&self) {
        self.word.store(null_mut(), Relaxed);
    }

    /// `me` is the calling thread.
    #[inline]
    fn register_first(&self, me: &'static Tcb) -> First {
        let me = std::ptr::from_ref(me).cast_mut().cast();
        match self.word.compare_exchange(null_mut(), me, AcqRel, Acquire) {
            Ok(_) => First::Registered,
            Err(DONE) => First::Set,
            Err(other) if other == me => First::Registered,
            Err(_) => First::Taken,
        }
    }

    /// Registers the calling thread as the only one to wake; false if the latch is set already.
    ///
    /// # Panics
    /// When another thread is registered. Where there may be others: [`Latch::alone`].
    pub fn register(&self) -> bool {
        match self.register_first(park::current()) {
            First::Registered => true,
            First::Set => false,
            First::Taken => panic!("another thread waits on this latch"),
        }
    }

    /// Takes the registration back; false if the latch is set.
    pub fn unregister(&self) -> bool {
        match self.word.compare_exchange(me(), null_mut(), AcqRel, Acquire) {
            Ok(_) => true,
            Err(DONE) => false,
            Err(_) => list::leave(&self.word, me()),
        }
    }

    /// Adds a node to those that are fired when the latch is set; false, and it is not, if the latch is set already.
    ///
    /// # Context
    /// Not the progress path (it may wait for a moment).
    ///
    /// # Safety
    /// The node is in no list, and stays where it is until it is fired or has left. `Latch::reset` is not called
    /// before that, either.
    pub unsafe fn enlist(&self, node: *const LatchNode) -> bool {
        // SAFETY: the caller's promise.
        unsafe { list::enlist(&self.word, node) }
    }

    /// Takes a node off that was enlisted. True: it will not be fired. False: it is, or was, or is about to be.
    ///
    /// # Context
    /// Not the progress path (it may wait for a moment).
    pub fn leave(&self, node: *const LatchNode) -> bool {
        list::leave(&self.word, list::link(node))
    }

    /// Calls `sleep` with a latch that only the calling thread is registered with: this one if it is the
    /// first, or else one that is set when this one is. `sleep` parks until the latch is set, or gives up; in either
    /// case this returns whether the latch is set.
    ///
    /// # Context
    /// Not the progress path.
    #[inline]
    pub fn alone(&self, sleep: impl FnOnce(Alone<'_>)) -> bool {
        self.alone_as(park::current(), sleep)
    }

    /// As [`Latch::alone`]; `me` is the calling thread.
    #[inline]
    fn alone_as(&self, me: &'static Tcb, sleep: impl FnOnce(Alone<'_>)) -> bool {
        match self.register_first(me) {
            First::Set => true,
            First::Registered => {
                let registered = Registered(self);
                sleep(Alone(self));
                drop(registered);
                self.is_set()
            }
            First::Taken => self.among_others(sleep),
        }
    }

    #[cold]
    fn among_others(&self, sleep: impl FnOnce(Alone<'_>)) -> bool {
        let own = Sleeper::new();
        own.latch().register();
        // SAFETY: `own` stays where it is until `listed` has taken it off, or it has been set.
        if !unsafe { self.enlist(own.node()) } {
            return true;
        }
        let listed = Listed::new(Waiting { latch: self, own: &own });
        sleep(Alone(own.latch()));
        drop(listed);
        self.is_set()
    }

    /// Waits until the latch is set.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread outside a runtime.
    #[inline]
    pub fn wait(&self, reason: &'static str) {
        if !self.is_set() {
            let me = park::current();
            self.alone_as(me, |latch| {
                while !latch.is_set() {
                    park::park_as(me, reason);
                }
            });
        }
    }

    /// Waits until the latch is set, unless the thread has been asked to stop.
    ///
    /// # Blocking
    /// As [`Latch::wait`].
    ///
    /// # Errors
    /// The thread has been asked to stop, and the latch is not set.
    #[cfg(not(loom))]
    pub fn wait_interruptible(&self, reason: &'static str) -> Result<(), interrupt::Interrupted> {
        let park = || interrupt::wait_until_interruptible(reason, None).is_ok();
        let set = self.is_set() || self.alone(|latch| while !latch.is_set() && park() {});
        if set { Ok(()) } else { Err(interrupt::Interrupted) }
    }

    /// Waits until the latch is set or `deadline`; true if it is set.
    ///
    /// # Blocking
    /// As [`Latch::wait`].
    pub fn wait_until(&self, reason: &'static str, deadline: Instant) -> bool {
        self.is_set()
            || self.alone(|latch| {
                while !latch.is_set() && Instant::now() < deadline {
                    park::park_until(reason, Some(deadline));
                }
            })
    }
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

fn me() -> *mut () {
    (park::current() as *const Tcb).cast_mut().cast()
}

/// The calling thread is registered as the only one, or was; it may be unwound while it sleeps.
struct Registered<'a>(&'a Latch);

impl Drop for Registered<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_set() {
            self.0.unregister();
        }
    }
}

/// A thread that waits beside others, on its own stack: it sleeps on a latch of its own.
#[repr(C)]
struct Sleeper {
    node: LatchNode,
    latch: Latch,
}

impl Sleeper {
    fn new() -> Sleeper {
        unsafe fn fire(node: *const LatchNode) -> After {
            // SAFETY: the first field of a `Sleeper`, which stays until its latch is set: the last touch.
            unsafe { &(*node.cast::<Sleeper>()).latch }.set();
            None
        }
        // SAFETY: to set a latch is allowed anywhere.
        Sleeper { node: unsafe { LatchNode::new(fire) }, latch: Latch::new() }
    }

    fn node(&self) -> *const LatchNode {
        (&raw const *self).cast()
    }

    fn latch(&self) -> &Latch {
        &self.latch
    }
}

/// A thread whose node is in a latch's list, or was.
struct Waiting<'a> {
    latch: &'a Latch,
    own: &'a Sleeper,
}

impl Leave for Waiting<'_> {
    fn leave(&self) -> bool {
        let left = !self.own.latch().is_set() && self.latch.leave(self.own.node());
        while !left && !self.own.latch().is_set() {
            crate::os::yield_now(); // the thread that fires the list reaches this node in a moment
        }
        left
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_waiter_is_woken_and_the_memory_may_go_at_once() {
        for _ in 0..2000 {
            let latch = Box::new(Latch::new());
            let setter = {
                let latch: *const Latch = &*latch;
                let latch = latch as usize;
                // SAFETY: `set` touches the latch last when the waiter below may free it.
                std::thread::spawn(move || unsafe { &*(latch as *const Latch) }.set())
            };
            latch.wait("a test");
            drop(latch);
            setter.join().unwrap();
        }
    }

    #[test]
    fn a_timed_out_wait_leaves_the_latch_usable() {
        let latch = Latch::new();
        assert!(!latch.wait_until("a test", Instant::now() + Duration::from_millis(5)));
        latch.set();
        assert!(latch.wait_until("a test", Instant::now()));
    }

    /// Those that give up leave from everywhere in the list; the others are all woken.
    #[test]
    fn many_wait_and_some_give_up() {
        for round in 0..200 {
            let latch = Latch::new();
            std::thread::scope(|s| {
                for i in 0..8u64 {
                    let latch = &latch;
                    s.spawn(move || {
                        if i % 2 == 0 {
                            latch.wait("a test");
                            assert!(latch.is_set());
                        } else {
                            let soon = Duration::from_micros(50 * i);
                            while !latch.wait_until("a test", Instant::now() + soon) {}
                        }
                    });
                }
                std::thread::sleep(Duration::from_micros(20 * (round % 20)));
                latch.set();
            });
            assert!(!latch.has_waiter());
        }
    }
}
