//! A lease: a part of the engine's state that is lent out, so that its users need not lock the engine.
//!
//! With fine locks (`NMAD_LOCK`) this is the sending end of a gate's small track. One thread at a time uses it; the
//! engine may want it back at any time, and does not wait for it:
//!
//! ```text
//!   HOME --lend--> FREE --enter--> TAKEN --leave--> FREE
//!   FREE --claim--> HOME            |
//!                          TAKEN --claim, in vain--> WANTED --leave--> BACK --claim--> HOME
//! ```
//! A user that leaves a lease that is wanted is told so, and then has the engine poll: the engine claims the lease
//! again. No thread enters one that is wanted, or back. So the engine gets it after one use at most, and what it wanted
//! it for is not stranded. Model-checked with loom below.
//!
//! Rejected: a lock that the engine takes for each packet (an atomic operation more for every thread that does not send
//! beside the engine, and the progress path could only try it anyhow).

use crate::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

const HOME: u32 = 0;
const FREE: u32 = 1;
const TAKEN: u32 = 2;
const WANTED: u32 = 3;
const BACK: u32 = 4;
/// So often a thread tries to enter a lease that another uses: its user leaves after 50 ns, unless it loses its core.
#[cfg(not(loom))]
const TRIES: u32 = 64;
#[cfg(loom)]
const TRIES: u32 = 2;

/// See the module. State shared by the users of a leased value.
pub(crate) struct Lease<T> {
    state: AtomicU32,
    /// Empty at home. It belongs to the [`Lessor`] in `HOME` and `BACK`, to the user in `TAKEN` and `WANTED`.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: one thread at a time has the value, as the state says; states change hands by acquire and release.
unsafe impl<T: Send> Sync for Lease<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Lease<T> {}

/// The engine's side of a lease: there is one.
pub(crate) struct Lessor<T> {
    lease: Arc<Lease<T>>,
    lent: bool,
}

impl<T> Lessor<T> {
    /// A lease with nothing in it.
    pub(crate) fn new() -> Lessor<T> {
        let lease = Lease { state: AtomicU32::new(HOME), value: UnsafeCell::new(None) };
        Lessor { lease: Arc::new(lease), lent: false }
    }

    /// For the users of what will be lent.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn lease(&self) -> Arc<Lease<T>> {
        self.lease.clone()
    }

    /// Whether something is lent, or has come back and was not claimed.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Lends this, unless something is lent.
    pub(crate) fn lend(&mut self, value: T) {
        debug_assert!(!self.lent);
        if !self.lent {
            self.lent = true;
            self.lease.set(Some(value));
            self.lease.state.store(FREE, Ordering::Release);
        }
    }

    /// Takes back what is lent. `None` although something is: a thread uses it, and will be told that it is wanted.
    pub(crate) fn claim(&mut self) -> Option<T> {
        if !self.lent {
            return None;
        }
        let mut seen = self.lease.state.load(Ordering::Relaxed);
        loop {
            let next = match seen {
                TAKEN => WANTED,
                WANTED => return None,
                _ => HOME,
            };
            let state = &self.lease.state;
            match state.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if next == HOME => {
                    self.lent = false;
                    return self.lease.set(None);
                }
                Ok(_) => return None,
                Err(now) => seen = now,
            }
        }
    }
}

impl<T> Lease<T> {
    /// By the owner of the value.
    fn set(&self, value: Option<T>) -> Option<T> {
        // SAFETY: the caller has the value, so no other thread looks at it.
        #[cfg(not(loom))]
        return core::mem::replace(unsafe { &mut *self.value.get() }, value);
        // SAFETY: as above.
        #[cfg(loom)]
        return self.value.with_mut(|place| core::mem::replace(unsafe { &mut *place }, value));
    }

    /// Runs `f` with what is lent; whether the engine wants that back: then the caller has it look. `None`: nothing is
    /// lent, or another does not leave it. `f` does not panic: the lease would never be left.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<(R, bool)> {
        if !self.enter() {
            return None;
        }
        #[cfg(not(loom))]
        // SAFETY: the state says that it is ours.
        let done = unsafe { &mut *self.value.get() }.as_mut().map(f);
        #[cfg(loom)]
        // SAFETY: as above.
        let done = self.value.with_mut(|value| unsafe { &mut *value }.as_mut().map(f));
        let left = self.state.compare_exchange(TAKEN, FREE, Ordering::Release, Ordering::Relaxed);
        if left.is_err() {
            self.state.store(BACK, Ordering::Release);
        }
        done.map(|done| (done, left.is_err()))
    }

    #[inline]
    fn enter(&self) -> bool {
        for _ in 0..TRIES {
            match self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(TAKEN) => core::hint::spin_loop(),
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_used_and_claimed() {
        let mut lessor = Lessor::new();
        let lease = lessor.lease();
        assert_eq!(lease.with(|_| ()), None);
        assert_eq!(lessor.claim(), None::<u32>);
        lessor.lend(1);
        assert_eq!(lease.with(|value| std::mem::replace(value, 2)), Some((1, false)));
        assert_eq!((lessor.claim(), lessor.is_lent()), (Some(2), false));
        assert_eq!(lease.with(|_| ()), None);
    }

    #[test]
    fn what_is_in_use_comes_back_after_it() {
        let mut lessor = Lessor::new();
        let lease = lessor.lease();
        lessor.lend(1);
        let (inner, wanted) = lease
            .with(|value| {
                *value = 5;
                assert_eq!(lessor.claim(), None);
                assert!(lessor.is_lent());
                // A signal handler, say.
                lease.with(|_| ())
            })
            .unwrap();
        assert_eq!((inner, wanted), (None, true));
        assert_eq!(lease.with(|_| ()), None);
        assert_eq!(lessor.claim(), Some(5));
        lessor.lend(7);
        assert_eq!(lease.with(|value| *value), Some((7, false)));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::collect::Submissions;
    use core::ptr::NonNull;
    use loom::sync::atomic::AtomicPtr;
    use loom::thread;
    use marcel::plumbing::Chained;
    use pioman::plumbing::{Delegated, DelegationLock};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    /// Users count; the engine claims and lends. No two are in it at once, nothing is lost, and an engine that has
    /// claimed in vain is told to look.
    fn model(users: usize, claims: usize) {
        loom::model(move || {
            let mut lessor = Lessor::new();
            let told = Arc::new(AtomicBool::new(false));
            lessor.lend(0u32);
            let threads: Vec<_> = (0..users)
                .map(|_| {
                    let (lease, told) = (lessor.lease(), told.clone());
                    thread::spawn(move || match lease.with(|count| *count += 1) {
                        None => 0,
                        Some(((), wanted)) => {
                            told.fetch_or(wanted, SeqCst);
                            1
                        }
                    })
                })
                .collect();
            let mut in_vain = false;
            for _ in 0..claims {
                match lessor.claim() {
                    Some(count) => {
                        in_vain = false;
                        lessor.lend(count);
                    }
                    None => {
                        in_vain = true;
                        thread::yield_now();
                    }
                }
            }
            let counted: u32 = threads.into_iter().map(|user| user.join().unwrap()).sum();
            assert!(!in_vain || told.load(SeqCst), "the engine does not poll again");
            assert_eq!(lessor.claim(), Some(counted));
        });
    }

    /// A message on the submission list.
    struct Node {
        link: AtomicPtr<Node>,
        number: u32,
    }
    // SAFETY: one field.
    unsafe impl Chained for Node {
        fn next(&self) -> &AtomicPtr<Node> {
            &self.link
        }
    }
    // SAFETY: plain data.
    unsafe impl Send for Node {}

    /// As the engine: what was submitted leaves in its order, by a way that may be lent.
    struct Engine {
        list: Arc<Submissions<Node>>,
        lessor: Lessor<Vec<u32>>,
        /// What has left, while the way is here.
        wire: Option<Vec<u32>>,
        waits: Vec<u32>,
    }

    impl Engine {
        fn flush(&mut self) {
            if !self.waits.is_empty() && self.wire.is_none() {
                self.wire = self.lessor.claim();
            }
            if let Some(wire) = &mut self.wire {
                wire.append(&mut self.waits);
            }
        }

        fn drain(&mut self) {
            if self.list.is_empty() {
                return;
            }
            for node in self.list.take() {
                // SAFETY: boxed by `submit`, yielded once.
                self.waits.push(unsafe { Box::from_raw(node.as_ptr()) }.number);
                self.flush();
            }
            self.list.arrived();
            self.lend();
        }

        fn lend(&mut self) {
            if self.waits.is_empty()
                && let Some(wire) = self.wire.take()
            {
                self.lessor.lend(wire);
            }
        }
    }

    impl Delegated for Engine {
        fn run_delegated(&mut self, _: u64) {
            self.flush();
            self.drain();
        }
    }

    fn engine() -> (Arc<Submissions<Node>>, Arc<Lease<Vec<u32>>>, Arc<DelegationLock<Engine>>) {
        let (list, mut lessor) = (Arc::new(Submissions::new()), Lessor::new());
        lessor.lend(Vec::new());
        let lease = lessor.lease();
        let engine = Engine { list: list.clone(), lessor, wire: None, waits: Vec::new() };
        (list, lease, Arc::new(DelegationLock::new(engine)))
    }

    /// As `Engine::send_apart`, without what follows if that is in vain.
    fn beside(lease: &Lease<Vec<u32>>, lock: &DelegationLock<Engine>, number: u32) -> bool {
        let done = lease.with(|wire| wire.push(number));
        thread::yield_now();
        if let Some(((), true)) = done {
            lock.delegate(1);
        }
        done.is_some()
    }

    /// A thread that has left a message with the engine and sends another beside it does not overtake the first,
    /// whatever the other thread does with the engine, or in the lease, meanwhile.
    fn order(other: fn(&Lease<Vec<u32>>, &DelegationLock<Engine>)) {
        loom::model(move || {
            let (list, lease, lock) = engine();
            let thread = {
                let (lease, lock) = (lease.clone(), lock.clone());
                thread::spawn(move || other(&lease, &lock))
            };
            thread::yield_now(); // here and below: more orders than there would be with as few preemptions
            let node = Box::new(Node { link: AtomicPtr::default(), number: 1 });
            // SAFETY: freshly boxed, freed by the taker.
            unsafe { list.push(NonNull::from(Box::leak(node))) };
            lock.delegate(1);
            thread::yield_now();
            let sent = !list.is_pending() && beside(&lease, &lock, 2);
            thread.join().unwrap();
            let mut engine = lock.try_lock().unwrap();
            assert!(engine.waits.is_empty() && engine.list.is_empty(), "stranded");
            let wire = engine.wire.take().or_else(|| engine.lessor.claim());
            let own: Vec<u32> = wire.unwrap().into_iter().filter(|&number| number < 3).collect();
            assert_eq!(own, if sent { vec![1, 2] } else { vec![1] });
        });
    }

    #[test]
    fn a_sender_beside_a_busy_engine_does_not_overtake_itself() {
        order(|_, lock| {
            if let Some(mut engine) = lock.try_lock() {
                engine.drain();
            }
        });
    }

    #[test]
    fn nor_does_it_by_a_lease_that_another_leaves() {
        order(|lease, lock| {
            beside(lease, lock, 3);
        });
    }

    #[test]
    fn two_users_and_an_engine_that_claims() {
        model(2, 1);
    }

    #[test]
    fn one_user_and_an_engine_that_claims_and_lends() {
        model(1, 3);
    }
}
