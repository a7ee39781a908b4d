//! A one-shot latch with one waiter: what a request's completion and a thread's end are made of.
//!
//! One word: EMPTY, the waiter's control block, or DONE.
//!
//! ```text
//!   EMPTY ──wait──▶ waiter ──set──▶ DONE (and unpark)
//!     └───────────────set─────────▶ DONE
//! ```
//!
//! **`set` is the last touch** (rayon's latch rule): the swap to DONE is its only access to the latch. As
//! soon as it has happened the owner may free the memory. The waiter's block, taken out by the same swap, is
//! immortal, so unparking it needs no memory of the latch.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

use crate::shim::AtomicPtr;
use crate::thread::tcb::{self, Tcb};

const DONE: *mut Tcb = std::ptr::without_provenance_mut(1);

/// See the module's description.
#[derive(Debug)]
pub struct Latch {
    word: AtomicPtr<Tcb>,
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

    /// Sets the latch and wakes its waiter.
    ///
    /// # Context
    /// Anywhere, signal handlers included. # Wakes: the waiter, if one is registered.
    #[inline]
    pub fn set(&self) {
        let waiter = self.word.swap(DONE, AcqRel);
        if !waiter.is_null() && waiter != DONE {
            // SAFETY: control blocks are immortal.
            unsafe { &*waiter }.unpark();
        }
    }

    /// Whether the latch is set; if so, everything before `set` is visible.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.word.load(Acquire) == DONE
    }

    /// Whether a thread has registered to be woken.
    #[inline]
    pub fn has_waiter(&self) -> bool {
        let word = self.word.load(Relaxed);
        !word.is_null() && word != DONE
    }

    /// Makes the latch fresh again.
    pub fn reset(&mut self) {
        *self = Latch::new();
    }

    /// Registers the calling thread as the one to wake; false if the latch is set already.
    ///
    /// # Panics
    /// When another thread is registered: a latch has one waiter.
    pub fn register(&self) -> bool {
        let me = tcb::current() as *const Tcb as *mut Tcb;
        match self.word.compare_exchange(null_mut(), me, AcqRel, Acquire) {
            Ok(_) => true,
            Err(DONE) => false,
            Err(other) if other == me => true,
            Err(_) => panic!("two threads wait on one latch"),
        }
    }

    /// Takes the registration back; false if the latch is set.
    pub fn unregister(&self) -> bool {
        let me = tcb::current() as *const Tcb as *mut Tcb;
        self.word.compare_exchange(me, null_mut(), AcqRel, Acquire).is_ok()
    }

    /// Waits until the latch is set.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread outside a runtime.
    ///
    /// # Panics
    /// When another thread waits already.
    pub fn wait(&self, reason: &'static str) {
        if !self.is_set() && self.register() {
            while !self.is_set() {
                tcb::park(reason);
            }
        }
    }

    /// Waits until the latch is set, unless the thread has been asked to stop.
    ///
    /// # Blocking, Panics
    /// As [`Latch::wait`].
    ///
    /// # Errors
    /// The thread has been asked to stop, and the latch is not set.
    #[cfg(not(loom))]
    pub fn wait_interruptible(&self, reason: &'static str) -> Result<(), crate::Interrupted> {
        if !self.is_set() && self.register() {
            while !self.is_set() {
                if crate::park_until_interruptible(reason, None).is_err() && self.unregister() {
                    return Err(crate::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Waits until the latch is set or `deadline`; true if it is set.
    ///
    /// # Blocking, Panics
    /// As [`Latch::wait`].
    pub fn wait_until(&self, reason: &'static str, deadline: Instant) -> bool {
        if !self.is_set() && self.register() {
            while !self.is_set() {
                if Instant::now() >= deadline {
                    return !self.unregister();
                }
                tcb::park_until(reason, Some(deadline));
            }
        }
        true
    }
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
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
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// A request: what the setter writes before the latch, and the latch.
    struct Request {
        value: UnsafeCell<u32>,
        latch: Latch,
    }

    // SAFETY: the latch's protocol, which loom checks here.
    unsafe impl Sync for Request {}

    fn request() -> &'static Request {
        Box::leak(Box::new(Request { value: UnsafeCell::new(0), latch: Latch::new() }))
    }

    fn finish(request: &'static Request) {
        // SAFETY: before the latch is set the request is the setter's.
        request.value.with_mut(|v| unsafe { *v = 7 });
        request.latch.set();
    }

    /// Stands for freeing the request: exclusive access to all of it, at once. Loom reports any access by the
    /// setter that is not over by then.
    fn free(request: &'static Request) {
        // SAFETY: the latch is set: the request is its owner's.
        request.value.with_mut(|v| unsafe { assert_eq!(std::mem::take(&mut *v), 7) });
        // SAFETY: as above; a copy of the handle of loom's atomic, that is not dropped.
        let mut word = std::mem::ManuallyDrop::new(unsafe { std::ptr::read(&request.latch.word) });
        word.with_mut(|word| *word = null_mut());
    }

    #[test]
    fn the_waiter_is_woken_and_set_is_the_last_touch() {
        loom::model(|| {
            let request = request();
            let setter = thread::spawn(move || finish(request));
            request.latch.wait("a model");
            free(request);
            setter.join().unwrap();
        });
    }

    #[test]
    fn a_poller_sees_what_came_before_and_set_is_the_last_touch() {
        loom::model(|| {
            let request = request();
            let setter = thread::spawn(move || finish(request));
            while !request.latch.is_set() {
                thread::yield_now();
            }
            free(request);
            setter.join().unwrap();
        });
    }

    #[test]
    fn a_registration_that_is_taken_back_owes_nothing() {
        loom::model(|| {
            let request = request();
            let setter = thread::spawn(move || finish(request));
            // A wait that times out at once, then one that does not.
            if !request.latch.register() || !request.latch.unregister() {
                assert!(request.latch.is_set());
            }
            request.latch.wait("a model");
            free(request);
            setter.join().unwrap();
        });
    }

    /// Waiters come one after the other; whoever gave up is not woken in the place of the next.
    #[test]
    fn a_latch_passes_from_a_waiter_that_gives_up_to_the_next() {
        loom::model(|| {
            let request = request();
            let setter = thread::spawn(move || finish(request));
            let first =
                thread::spawn(move || request.latch.register() && !request.latch.unregister());
            let _set = first.join().unwrap();
            request.latch.wait("a model");
            free(request);
            setter.join().unwrap();
        });
    }
}
