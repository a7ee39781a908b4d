//! The token of `park` and `unpark`.
//!
//! ```text
//!   EMPTY ──unpark──▶ NOTIFIED ──park──▶ EMPTY          (a token waits for the next park)
//!   EMPTY ──switched out in park──▶ PARKED ──unpark──▶ NOTIFIED, pushed to its virtual processor
//!                                                       └─ runs again: takes the token ─▶ EMPTY
//! ```
//!
//! EMPTY → PARKED is done by the *scheduler*, after the switch: before that, the thread's context is not
//! saved and no worker may resume it. The state stays NOTIFIED until the thread itself takes the token, with a
//! read-modify-write, so that it sees what every unparker did before. Only the unparker that takes a thread out of
//! PARKED may push it, so it is in one queue, once.

use std::sync::atomic::Ordering::*;

use crate::os::AtomicU32;

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

/// See the module's description.
#[derive(Default)]
pub(crate) struct ParkWord(AtomicU32);

impl ParkWord {
    /// Makes the token available; true if the thread was parked, and is now the caller's to queue.
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, AcqRel) == PARKED
    }

    /// The scheduler's half of `park`: the context is saved. False if a token came meanwhile: the thread
    /// must be queued again.
    #[inline]
    pub(crate) fn settle(&self) -> bool {
        self.0.compare_exchange(EMPTY, PARKED, AcqRel, Acquire).is_ok()
    }

    /// Whether it waits for an unpark, for observers.
    #[cfg(not(loom))]
    pub(crate) fn is_parked(&self) -> bool {
        self.0.load(Relaxed) == PARKED
    }

    /// Takes the token, if there is one. The thread itself only.
    #[inline]
    pub(crate) fn take_token(&self) -> bool {
        self.0.load(Relaxed) == NOTIFIED && self.0.swap(EMPTY, AcqRel) == NOTIFIED
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::list::{Chained, Inbox, RunQueue};
    use crate::os::sleeper::Sleeper;
    use crate::os::{AtomicPtr, fence};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A thread that is resumed by one virtual processor, and woken by others.
    struct Green {
        park: ParkWord,
        next: AtomicPtr<Green>,
        /// Times it has been resumed; loom reports a race if two resume it at once, or too early.
        context: UnsafeCell<usize>,
    }

    // SAFETY: a field that nothing else touches.
    unsafe impl Chained for Green {
        fn next(&self) -> &AtomicPtr<Green> {
            &self.next
        }
    }

    /// A thread whose other wait takes the token of an unpark that comes early does not miss the unpark, and sees what was
    /// done before it, by whichever unparker.
    #[test]
    fn what_another_wait_takes_is_there_for_park() {
        loom::model(|| {
            let words = Arc::new((ParkWord::default(), ParkWord::default()));
            let told = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let unparkers = [0, 1].map(|number| {
                let (words, told) = (words.clone(), told.clone());
                thread::spawn(move || {
                    told[number].store(1, Relaxed);
                    words.0.notify();
                    words.1.notify();
                })
            });
            let park = || {
                let kept = words.0.take_token();
                words.1.take_token() || kept
            };
            let sees = || [0, 1].map(|number| told[number].load(Relaxed));
            // The other wait, then a park; if that sees one unparker alone, the other one has still to unpark it.
            let eaten = words.1.take_token();
            let found = park();
            let seen = sees();
            unparkers.into_iter().for_each(|unparker| unparker.join().unwrap());
            if !found {
                assert!(!eaten && park());
            } else if seen != [1, 1] {
                assert!(park());
            }
        });
    }

    struct Vp {
        inbox: Inbox<Green>,
        sleeper: Sleeper,
    }

    /// As `Worker::wake` from another kernel thread.
    fn unpark(vp: &Vp, green: &'static Green) {
        if green.park.notify() {
            vp.inbox.push(green);
            fence(SeqCst);
            vp.sleeper.notify();
        }
    }

    fn green() -> &'static Green {
        Box::leak(Box::new(Green {
            park: ParkWord::default(),
            next: AtomicPtr::default(),
            context: UnsafeCell::new(0),
        }))
    }

    /// The scheduler's loop as in `vp`, for threads that park until `done` says so.
    fn schedule(
        vp: &Vp,
        queue: &mut RunQueue<Green>,
        mut living: usize,
        done: impl Fn(usize) -> bool,
    ) {
        while living > 0 {
            vp.inbox.drain(|green| queue.push(green));
            let Some(green) = queue.pop() else {
                vp.sleeper.sleep(None, || !vp.inbox.is_empty());
                continue;
            };
            // SAFETY: the queue's protocol, which loom checks here.
            let resumed = green.context.with_mut(|n| unsafe {
                *n += 1;
                *n
            });
            // The thread itself: back from `switch`, it takes the token, looks, and may park again.
            if resumed > 1 {
                green.park.take_token();
            }
            if done(resumed) {
                living -= 1;
            } else if green.park.take_token() || !green.park.settle() {
                queue.push(green);
            }
        }
    }

    /// One thread waits for two events, two others bring one each and unpark it.
    #[test]
    fn no_token_is_lost_and_nobody_is_resumed_twice() {
        loom::model(|| {
            let vp = Arc::new(Vp { inbox: Inbox::default(), sleeper: Sleeper::new() });
            let events = Arc::new(AtomicUsize::new(0));
            let green = green();
            let mut queue = RunQueue::default();
            queue.push(green);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (vp, events) = (vp.clone(), events.clone());
                    thread::spawn(move || {
                        events.fetch_add(1, Relaxed);
                        unpark(&vp, green);
                    })
                })
                .collect();
            schedule(&vp, &mut queue, 1, |_| events.load(Relaxed) == 2);
            others.into_iter().for_each(|t| t.join().unwrap());
            assert!(queue.pop().is_none() && vp.inbox.is_empty());
        });
    }

    /// Two threads of one virtual processor, woken by one and the same other thread: the inbox keeps both.
    #[test]
    fn two_threads_are_woken_through_one_inbox() {
        loom::model(|| {
            let vp = Arc::new(Vp { inbox: Inbox::default(), sleeper: Sleeper::new() });
            let events = Arc::new(AtomicUsize::new(0));
            let greens = [green(), green()];
            let mut queue = RunQueue::default();
            greens.into_iter().for_each(|g| queue.push(g));
            let other = {
                let (vp, events) = (vp.clone(), events.clone());
                thread::spawn(move || {
                    events.store(1, Relaxed);
                    greens.into_iter().for_each(|g| unpark(&vp, g));
                })
            };
            schedule(&vp, &mut queue, 2, |_| events.load(Relaxed) == 1);
            other.join().unwrap();
            assert!(queue.pop().is_none() && vp.inbox.is_empty());
        });
    }
}
