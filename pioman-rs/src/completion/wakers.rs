//! Futures whose event has come, and whose wakers are still to be called.
//!
//! A waker is foreign, safe code: it may allocate, free and lock. It is called neither in the tick's handler nor while
//! a list is being told, nor while sources are pinned (it might remove one, which waits for pins), but afterwards: by
//! the thread that told the list, or by a helper, a kernel thread of the library's, if that was a handler. This is the
//! one exception to "nothing is allocated or freed on the progress path"; programs without futures and callbacks never
//! meet it.
//!
//! ```text
//!   LISTED ──fire: push──▶ inbox ──fold──▶ QUEUED ──pop: the waker is taken out──▶ FIRED, and then the waker is called
//! ```
//!
//! Pushing is lock-free, and the firing thread's last touch. Everything else happens under a mutex, held for a few
//! instructions on pointers: wakers are put in, exchanged and taken out under it, and a future that is dropped takes
//! itself out of the queue. No waker is called with it held, so a waker may drop any future, even the one it wakes.
//!
//! A thread that has fired looks whether wakers are due, in the inbox or in the queue ([`settle`]). A thread that has
//! taken the lock, and so moved the slots of others from the inbox to the queue, looks after it unlocks: the thread
//! that fired may have found both empty.
//!
//! Rejected: calling the waker in `fire` (it might drop a future that the same walk has yet to reach, and wait for the
//! walk, which is itself); always handing over to the kernel thread (5 µs for each event).

use std::cell::Cell;
#[cfg(not(loom))]
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::task::Waker;

#[cfg(not(loom))]
use marcel::plumbing::manager_count;
use marcel::plumbing::{Chained, Linked, Links, List, RawInbox};

use crate::completion::node::{After, Node};
#[cfg(not(loom))]
use crate::fault;
use crate::shim::{AtomicBool, AtomicPtr, AtomicU8, Mutex, MutexGuard, Ordering::*};

pub(super) const IDLE: u8 = 0;
pub(super) const LISTED: u8 = 1;
pub(super) const QUEUED: u8 = 2;
pub(super) const FIRED: u8 = 3;
pub(super) const OVER: u8 = 4;

/// The part of a future that others see.
#[repr(C)]
pub(crate) struct Slot {
    pub(super) node: Node,
    in_inbox: AtomicPtr<Slot>,
    in_queue: Links<Slot>,
    /// Under the lock of that queue, once the node is listed.
    pub(crate) waker: Cell<Option<Waker>>,
    pub(crate) state: AtomicU8,
}

// SAFETY: `waker` is touched under a lock, or by the only thread that has the slot.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

// SAFETY: a field that nothing else touches.
unsafe impl Chained for Slot {
    fn next(&self) -> &AtomicPtr<Slot> {
        &self.in_inbox
    }
}

// SAFETY: as above.
unsafe impl Linked for Slot {
    fn links(&self) -> &Links<Slot> {
        &self.in_queue
    }
}

impl Slot {
    pub(super) fn new() -> Slot {
        unsafe fn fire(node: *const Node) -> After {
            // SAFETY: the first field of a slot, which is in no list and stays until it has left the queue: the last
            // touch.
            unsafe { deferred().inbox.push(NonNull::new_unchecked(node.cast_mut()).cast()) };
            Some(settle_now)
        }
        Slot {
            // SAFETY: a lock-free push, the last touch.
            node: unsafe { Node::new(fire) },
            in_inbox: AtomicPtr::new(null_mut()),
            in_queue: Links::new(),
            waker: Cell::new(None),
            state: AtomicU8::new(IDLE),
        }
    }

    /// Takes a queued slot out, with the lock held.
    pub(super) fn leave_queue(&self, queue: &mut List<Slot>) {
        debug_assert_eq!(self.state.load(Relaxed), QUEUED);
        // SAFETY: it is in no other list.
        unsafe { queue.remove(self) };
        self.state.store(FIRED, Relaxed);
    }
}

#[cfg(loom)]
impl Drop for Slot {
    /// Stands for the end of the memory: loom reports a touch that may come later.
    fn drop(&mut self) {
        self.state.with_mut(|_| ());
    }
}

pub(crate) struct Deferred {
    /// Just fired.
    inbox: RawInbox<Slot>,
    queue: Mutex<List<Slot>>,
    /// The queue is not empty. Written under its lock.
    due: AtomicBool,
}

#[cfg(not(loom))]
static DEFERRED: Deferred = Deferred {
    inbox: RawInbox::new(),
    queue: Mutex::new(List::new()),
    due: AtomicBool::new(false),
};
#[cfg(loom)]
loom::lazy_static! {
    static ref DEFERRED: Deferred = Deferred {
        inbox: RawInbox::new(),
        queue: Mutex::new(List::new()),
        due: AtomicBool::new(false),
    };
}

pub(crate) fn deferred() -> &'static Deferred {
    &DEFERRED
}

impl Deferred {
    /// The queue, with everything that has been pushed in it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, List<Slot>> {
        let mut queue = self.queue.lock();
        self.inbox.drain(|slot| {
            // SAFETY: pushed slots stay until they are FIRED, or leave under this lock.
            unsafe {
                slot.as_ref().state.store(QUEUED, Relaxed);
                queue.push_back(slot);
            }
        });
        self.due.store(!queue.is_empty(), Release);
        queue
    }

    /// Whether wakers are to be called. What another thread is moving into the queue meanwhile, that one sees to.
    #[inline]
    fn is_due(&self) -> bool {
        !self.inbox.is_empty() || self.due.load(Acquire)
    }

    /// Takes the oldest out; its waker.
    fn pop(&self) -> Option<Option<Waker>> {
        let mut queue = self.lock();
        // SAFETY: it stays until it is FIRED.
        let slot = unsafe { queue.pop_front()?.as_ref() };
        if queue.is_empty() {
            self.due.store(false, Release);
        }
        let waker = slot.waker.take();
        slot.state.store(FIRED, Release); // the last touch
        drop(queue);
        Some(waker)
    }

    /// Calls every waker that is due.
    fn drain(&self) {
        #[cfg(not(loom))]
        DRAINING.set(true);
        while let Some(waker) = self.pop() {
            let Some(waker) = waker else { continue };
            // A panic is the executor's fault, and others wait behind it. (A callback's ends before: `Once`.)
            #[cfg(not(loom))]
            {
                let called = fault::call(|| waker.wake());
                called.tell_panic("waker", "of a future", fault::SLEEPS_ON);
                if let Some(unwinding) = called.into_unwinding() {
                    DRAINING.set(false);
                    call_helper(); // for those behind it
                    std::panic::resume_unwind(unwinding);
                }
            }
            #[cfg(loom)]
            waker.wake();
        }
        #[cfg(not(loom))]
        DRAINING.set(false);
    }
}

/// Whether wakers are to be called once nothing hinders.
#[inline]
pub(crate) fn are_due() -> bool {
    deferred().is_due()
}

/// Called when all lists have been told that an event concerns: has wakers called, if any are due.
#[inline]
pub(crate) fn settle() {
    if are_due() {
        settle_now();
    }
}

#[cfg(not(loom))]
std::thread_local! {
    /// Whether it is calling wakers. What one of them brings about is called after it, not inside it: chains of
    /// callbacks would have no end to their stack.
    static DRAINING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The caller is about to take a lock that wakers and callbacks may want: until this is dropped, and the lock is free
/// again, they are not called by this kernel thread. Sources need this where they are called by users; while the
/// manager polls them it is seen to.
///
/// # Context
/// Anywhere. The thread does not wait meanwhile.
#[cfg(not(loom))]
#[must_use]
#[inline]
pub fn hold() -> Held {
    manager_count::increase();
    Held(PhantomData)
}

/// Whether the calling thread is calling a waker or a callback. Not in a signal handler.
#[cfg(not(loom))]
pub(crate) fn is_calling() -> bool {
    DRAINING.get()
}

/// See [`hold`]. The kernel thread's count (`manager_count`) says how many it has. This is not `Send`, and a program whose
/// green threads migrate has promised that they hold nothing of their kernel thread meanwhile: so it is dropped where it
/// was made.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct Held(PhantomData<*const ()>);

#[cfg(not(loom))]
impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        manager_count::decrease();
        settle();
    }
}

#[cold]
pub(crate) fn settle_now() {
    #[cfg(not(loom))]
    if marcel::in_tick() {
        return call_helper();
    } else if manager_count::get() > 0 || DRAINING.get() {
        return;
    }
    #[cfg(not(loom))]
    if crate::srcu::is_pinning() {
        return; // until the pin ends, which calls this again
    }
    deferred().drain();
}

/// The kernel thread that calls wakers for handlers, and for threads that are unwound in one.
#[cfg(not(loom))]
static HELPER: std::sync::OnceLock<marcel::Thread> = std::sync::OnceLock::new();

#[cfg(not(loom))]
fn call_helper() {
    if let Some(helper) = HELPER.get() {
        marcel::plumbing::wake(helper);
    }
}

/// Makes sure that it is there, before a future is listed.
pub(crate) fn start_helper() {
    #[cfg(not(loom))]
    HELPER.get_or_init(|| {
        let (tx, rx) = std::sync::mpsc::channel();
        let helper = move || {
            let _ = tx.send(marcel::current());
            loop {
                deferred().drain();
                marcel::plumbing::wait_until("a waker to call", None);
            }
        };
        let thread = std::thread::Builder::new().name("pioman-wakers".into());
        let thread = thread.stack_size(marcel::plumbing::lwp::program_stack());
        let started = marcel::plumbing::signal::spawn_blocked(thread, helper);
        match started.and_then(|_| rx.recv().map_err(std::io::Error::other)) {
            Ok(thread) => thread,
            Err(error) => panic!("no kernel thread for what handlers have to wake: {error}"),
        }
    });
}

/// Whether a slot was handed over or may still be: for [`Slot`].
pub(crate) const fn is_open(state: u8) -> bool {
    matches!(state, LISTED | QUEUED)
}
