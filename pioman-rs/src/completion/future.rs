//! A wait as a future, for any async executor.
//!
//! ```text
//!   IDLE ──poll: not there yet──▶ LISTED ──fired──▶ QUEUED ──▶ FIRED ──poll, or keep──▶ OVER        (see `wakers`)
//! ```
//!
//! The node is inside the future, which is pinned: registering allocates nothing. A future that is dropped leaves its
//! list, or the queue of wakers to call; it waits at most for a thread that walks along the list at that moment, never
//! for a waker. What it was given and has not told (a permit) goes to the next.
//!
//! While it is pending no thread need poll on its behalf: the submitter of the request keeps it watched
//! ([`crate::Manager::ensure_watched`]).

use std::future::{Future, IntoFuture};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use crate::completion::one_shot::Completion;
use crate::completion::waitable::{Enlist, Waitable};
use crate::completion::wakers::{self, FIRED, IDLE, LISTED, OVER, QUEUED, Slot, deferred, is_open};
use crate::shim::{Ordering::*, yield_now};

/// A wait for a completion, a condition or a permit, as a future. Dropping it ends the wait.
///
/// ```
/// use pioman::{Completion, Semaphore};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut future = std::pin::pin!(future);
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop { if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) { return value } }
/// # }
/// let (done, permits) = (Completion::new(), Semaphore::new(1));
/// done.complete();
/// block_on(async {
///     (&done).await;
///     permits.permit().await;
/// });
/// assert!(!permits.try_acquire());
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct Wait<'a> {
    slot: Slot,
    what: Waitable<'a>,
    _pinned: PhantomPinned,
}

impl<'a> Wait<'a> {
    pub(crate) fn new(what: Waitable<'a>) -> Wait<'a> {
        Wait { slot: Slot::new(), what, _pinned: PhantomPinned }
    }

    /// The owner keeps what this was given: its waker, and no poll, has told the owner.
    pub(crate) fn keep(self: Pin<&Self>) {
        let told = self.slot.state.compare_exchange(FIRED, OVER, Acquire, Relaxed);
        debug_assert!(matches!(told, Ok(_) | Err(OVER)), "its waker is called after it is FIRED");
    }

    fn first_poll(&self, waker: &Waker) -> Poll<()> {
        let slot = &self.slot;
        let there = self.what.take() || {
            wakers::start_helper();
            slot.waker.set(Some(waker.clone()));
            slot.state.store(LISTED, Release);
            // SAFETY: the future is pinned, and its drop sees to the node.
            !unsafe { self.what.enlist(NonNull::from(slot).cast()) }
        };
        if there {
            slot.state.store(OVER, Relaxed);
            drop(slot.waker.take());
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Whether it has been fired; if not, `waker` is called instead of an earlier one.
    fn poll_again(&self, waker: &Waker) -> Poll<()> {
        let slot = &self.slot;
        let waker = waker.clone(); // foreign code, as its drop is: not with the lock held
        let mut queue = deferred().lock();
        let old = match slot.state.load(Acquire) {
            LISTED => slot.waker.replace(Some(waker)),
            QUEUED => {
                slot.leave_queue(&mut queue);
                slot.waker.replace(Some(waker)) // goes with the future
            }
            _ => None, // and ours goes at the end of this function
        };
        let fired = slot.state.load(Relaxed) == FIRED;
        drop(queue);
        drop(old);
        wakers::settle(); // of those that the lock has put into the queue
        if fired {
            slot.state.store(OVER, Relaxed);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.slot.state.load(Acquire) {
            IDLE => self.first_poll(context.waker()),
            OVER => Poll::Ready(()),
            _ => self.poll_again(context.waker()),
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let slot = &self.slot;
        let state = slot.state.load(Acquire);
        if state == IDLE || state == OVER || state == LISTED && self.what.leave(&slot.node) {
            return;
        }
        loop {
            let mut queue = deferred().lock();
            match slot.state.load(Acquire) {
                QUEUED => slot.leave_queue(&mut queue),
                state if is_open(state) => {
                    drop(queue);
                    yield_now(); // the firing thread is about to push it
                    continue;
                }
                _ => (),
            }
            break;
        }
        wakers::settle();
        self.what.give_back();
    }
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wait").field(&self.what).finish()
    }
}

impl<'a> IntoFuture for Waitable<'a> {
    type Output = ();
    type IntoFuture = Wait<'a>;
    fn into_future(self) -> Wait<'a> {
        Wait::new(self)
    }
}

impl<'a> IntoFuture for &'a Completion {
    type Output = ();
    type IntoFuture = Wait<'a>;
    fn into_future(self) -> Wait<'a> {
        Wait::new(self.into())
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::completion::semaphore::Semaphore;
    use crate::shim::AtomicBool;
    use loom::sync::Notify;
    use loom::thread;
    use std::sync::Arc;
    use std::task::Wake;

    struct Bell(Notify);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }

    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    fn poll(future: Pin<&mut Wait<'_>>, bell: &Arc<Bell>) -> bool {
        future.poll(&mut Context::from_waker(&bell.clone().into())).is_ready()
    }

    /// Loom reports a deadlock if the waker is not called.
    #[test]
    fn a_future_is_woken() {
        loom::model(|| {
            let completion = Arc::new(Completion::new());
            let completer = completion.clone();
            let completer = thread::spawn(move || completer.complete());
            let bell = Arc::new(Bell(Notify::new()));
            let mut future = Box::pin(Wait::new((&*completion).into()));
            while !poll(future.as_mut(), &bell) {
                bell.0.wait();
            }
            drop(future);
            completer.join().unwrap();
        });
    }

    /// The waker that counts is the last one.
    #[test]
    fn a_future_that_changes_hands_is_woken() {
        loom::model(|| {
            let completion = Arc::new(Completion::new());
            let completer = completion.clone();
            let bells = [(); 2].map(|()| Arc::new(Bell(Notify::new())));
            let mut future = Box::pin(Wait::new((&*completion).into()));
            assert!(!poll(future.as_mut(), &bells[0]));
            let completer = thread::spawn(move || completer.complete());
            while !poll(future.as_mut(), &bells[1]) {
                bells[1].0.wait();
            }
            drop(future);
            completer.join().unwrap();
        });
    }

    /// What has just been fired may be put into the queue by a thread that polls another future at that moment.
    #[test]
    fn a_future_is_woken_while_another_is_polled() {
        loom::model(|| {
            let (semaphore, other) = (Arc::new(Semaphore::new(0)), Completion::new());
            let giver = semaphore.clone();
            let woken = Arc::new(Flag(AtomicBool::new(false)));
            let bell = Arc::new(Bell(Notify::new()));
            let mut future = Box::pin(Wait::new(semaphore.permit()));
            let mut beside = Box::pin(Wait::new((&other).into()));
            let waker = woken.clone().into();
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert!(!poll(beside.as_mut(), &bell));
            let giver = thread::spawn(move || giver.release());
            assert!(!poll(beside.as_mut(), &bell));
            giver.join().unwrap();
            // (Another poll would find it fired.)
            assert!(
                woken.0.load(SeqCst),
                "the firing thread is gone, and the waker was not called"
            );
            drop((future, beside));
        });
    }

    /// Both futures are in one list; one is dropped, in whatever state it is, and its memory with it.
    #[test]
    fn a_future_that_is_dropped_leaves_the_other() {
        loom::model(|| {
            let completion = Arc::new(Completion::new());
            let completer = completion.clone();
            let bell = Arc::new(Bell(Notify::new()));
            let mut future = Box::pin(Wait::new((&*completion).into()));
            let mut dropped = Box::pin(Wait::new((&*completion).into()));
            let other = Arc::new(Bell(Notify::new()));
            assert!(!poll(future.as_mut(), &bell) && !poll(dropped.as_mut(), &other));
            let completer = thread::spawn(move || completer.complete());
            drop(dropped);
            while !poll(future.as_mut(), &bell) {
                bell.0.wait();
            }
            drop(future);
            completer.join().unwrap();
        });
    }

    #[test]
    fn a_permit_for_a_dropped_future_is_not_lost() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let giver = semaphore.clone();
            let bell = Arc::new(Bell(Notify::new()));
            let mut future = Box::pin(Wait::new(semaphore.permit()));
            assert!(!poll(future.as_mut(), &bell));
            let giver = thread::spawn(move || giver.release());
            drop(future);
            giver.join().unwrap();
            assert_eq!(semaphore.available(), 1);
        });
    }
}
