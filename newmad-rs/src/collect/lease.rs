//! A lane: something of the engine's that is lent out, so that its users need not lock the engine.
//!
//! With fine locks (`NMAD_LOCK`) this is the sending end of a gate's small track. One thread at a time uses it; the
//! engine may want it back at any time, and waits for nobody:
//!
//! ```text
//!   HOME --lend--> FREE --enter--> TAKEN --leave--> FREE
//!   FREE --claim--> HOME            |
//!                          TAKEN --claim, in vain--> WANTED --leave--> BACK --claim--> HOME
//! ```
//! Whoever leaves a lane that is wanted is told so, and then has the engine look: it claims the lane again. Nobody enters
//! one that is wanted, or back. So the engine gets it after one use at most, and what it wanted it for is not stranded.
//! Model-checked with loom below.
//!
//! Rejected: a lock that the engine takes for each packet (an atomic operation more for everybody who does not send beside
//! the engine, and the progress path could only try it anyhow).

use crate::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

const HOME: u32 = 0;
const FREE: u32 = 1;
const TAKEN: u32 = 2;
const WANTED: u32 = 3;
const BACK: u32 = 4;
/// So often a lane that another is in is looked at again: who is in it leaves after 50 ns, unless it loses its core.
#[cfg(not(loom))]
const TRIES: u32 = 64;
#[cfg(loom)]
const TRIES: u32 = 2;

/// See the module. What those share who use what is lent.
pub(crate) struct Lane<T> {
    state: AtomicU32,
    /// Empty at home. It belongs to the [`Lender`] in `HOME` and `BACK`, to who has entered in `TAKEN` and `WANTED`.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: one thread at a time has the value, as the state says; states change hands by acquire and release.
unsafe impl<T: Send> Sync for Lane<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Lane<T> {}

/// The engine's side of a lane: there is one.
pub(crate) struct Lender<T> {
    lane: Arc<Lane<T>>,
    lent: bool,
}

impl<T> Lender<T> {
    /// A lane with nothing in it.
    pub(crate) fn new() -> Lender<T> {
        let lane = Lane { state: AtomicU32::new(HOME), value: UnsafeCell::new(None) };
        Lender { lane: Arc::new(lane), lent: false }
    }

    /// For those who use what will be lent.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn lane(&self) -> Arc<Lane<T>> {
        self.lane.clone()
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
            self.lane.set(Some(value));
            self.lane.state.store(FREE, Ordering::Release);
        }
    }

    /// Takes back what is lent. `None` although something is: somebody uses it, and will be told that it is wanted.
    pub(crate) fn claim(&mut self) -> Option<T> {
        if !self.lent {
            return None;
        }
        let mut seen = self.lane.state.load(Ordering::Relaxed);
        loop {
            let next = match seen {
                TAKEN => WANTED,
                WANTED => return None,
                _ => HOME,
            };
            let state = &self.lane.state;
            match state.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if next == HOME => {
                    self.lent = false;
                    return self.lane.set(None);
                }
                Ok(_) => return None,
                Err(now) => seen = now,
            }
        }
    }
}

impl<T> Lane<T> {
    /// By who has the value.
    fn set(&self, value: Option<T>) -> Option<T> {
        // SAFETY: the caller has the value, so nobody else looks at it.
        #[cfg(not(loom))]
        return core::mem::replace(unsafe { &mut *self.value.get() }, value);
        // SAFETY: as above.
        #[cfg(loom)]
        return self.value.with_mut(|place| core::mem::replace(unsafe { &mut *place }, value));
    }

    /// Runs `f` with what is lent; whether the engine wants that back: then the caller has it look. `None`: nothing is
    /// lent, or another does not leave it. `f` does not panic: then nobody would ever get it again.
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
        let mut lender = Lender::new();
        let lane = lender.lane();
        assert_eq!(lane.with(|_| ()), None);
        assert_eq!(lender.claim(), None::<u32>);
        lender.lend(1);
        assert_eq!(lane.with(|value| std::mem::replace(value, 2)), Some((1, false)));
        assert_eq!((lender.claim(), lender.is_lent()), (Some(2), false));
        assert_eq!(lane.with(|_| ()), None);
    }

    #[test]
    fn what_is_in_use_comes_back_after_it() {
        let mut lender = Lender::new();
        let lane = lender.lane();
        lender.lend(1);
        let (inner, wanted) = lane
            .with(|value| {
                *value = 5;
                assert_eq!(lender.claim(), None);
                assert!(lender.is_lent());
                // A signal handler, say.
                lane.with(|_| ())
            })
            .unwrap();
        assert_eq!((inner, wanted), (None, true));
        assert_eq!(lane.with(|_| ()), None);
        assert_eq!(lender.claim(), Some(5));
        lender.lend(7);
        assert_eq!(lane.with(|value| *value), Some((7, false)));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::collect::{Link, Linked, Submissions};
    use core::ptr::NonNull;
    use loom::thread;
    use pioman::plumbing::{Handover, HandoverLock};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    /// Users count; the engine claims and lends. Nobody is in it with another, nothing is lost, and an engine that has
    /// claimed in vain is told to look.
    fn model(users: usize, claims: usize) {
        loom::model(move || {
            let mut lender = Lender::new();
            let told = Arc::new(AtomicBool::new(false));
            lender.lend(0u32);
            let threads: Vec<_> = (0..users)
                .map(|_| {
                    let (lane, told) = (lender.lane(), told.clone());
                    thread::spawn(move || match lane.with(|count| *count += 1) {
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
                match lender.claim() {
                    Some(count) => {
                        in_vain = false;
                        lender.lend(count);
                    }
                    None => {
                        in_vain = true;
                        thread::yield_now();
                    }
                }
            }
            let counted: u32 = threads.into_iter().map(|user| user.join().unwrap()).sum();
            assert!(!in_vain || told.load(SeqCst), "nobody looks again");
            assert_eq!(lender.claim(), Some(counted));
        });
    }

    /// A message on the submission list.
    struct Node {
        link: Link<Node>,
        number: u32,
    }
    // SAFETY: the field's address.
    unsafe impl Linked for Node {
        fn link(this: NonNull<Node>) -> *const Link<Node> {
            // SAFETY: valid node.
            unsafe { core::ptr::addr_of!((*this.as_ptr()).link) }
        }
    }
    // SAFETY: plain data.
    unsafe impl Send for Node {}

    /// As the engine: what was submitted leaves in its order, by a way that may be lent.
    struct Engine {
        list: Arc<Submissions<Node>>,
        lender: Lender<Vec<u32>>,
        /// What has left, while the way is here.
        wire: Option<Vec<u32>>,
        waits: Vec<u32>,
    }

    impl Engine {
        fn flush(&mut self) {
            if !self.waits.is_empty() && self.wire.is_none() {
                self.wire = self.lender.claim();
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
                self.lender.lend(wire);
            }
        }
    }

    impl Handover for Engine {
        fn work(&mut self, _: u64) {
            self.flush();
            self.drain();
        }
    }

    fn engine() -> (Arc<Submissions<Node>>, Arc<Lane<Vec<u32>>>, Arc<HandoverLock<Engine>>) {
        let (list, mut lender) = (Arc::new(Submissions::new()), Lender::new());
        lender.lend(Vec::new());
        let lane = lender.lane();
        let engine = Engine { list: list.clone(), lender, wire: None, waits: Vec::new() };
        (list, lane, Arc::new(HandoverLock::new(engine)))
    }

    /// As `Engine::send_apart`, without what follows if that is in vain.
    fn beside(lane: &Lane<Vec<u32>>, lock: &HandoverLock<Engine>, number: u32) -> bool {
        let done = lane.with(|wire| wire.push(number));
        thread::yield_now();
        if let Some(((), true)) = done {
            lock.leave(1);
        }
        done.is_some()
    }

    /// Who has left a message with the engine and sends another beside it does not overtake the first, whatever the other
    /// thread does with the engine, or in the lane, meanwhile.
    fn order(other: fn(&Lane<Vec<u32>>, &HandoverLock<Engine>)) {
        loom::model(move || {
            let (list, lane, lock) = engine();
            let thread = {
                let (lane, lock) = (lane.clone(), lock.clone());
                thread::spawn(move || other(&lane, &lock))
            };
            thread::yield_now(); // here and below: more orders than there would be with as few preemptions
            let node = Box::new(Node { link: Link::new(), number: 1 });
            // SAFETY: freshly boxed, freed by the taker.
            unsafe { list.push(NonNull::from(Box::leak(node))) };
            lock.leave(1);
            thread::yield_now();
            let sent = !list.is_pending() && beside(&lane, &lock, 2);
            thread.join().unwrap();
            let mut engine = lock.try_lock().unwrap();
            assert!(engine.waits.is_empty() && engine.list.is_empty(), "stranded");
            let wire = engine.wire.take().or_else(|| engine.lender.claim());
            let own: Vec<u32> = wire.unwrap().into_iter().filter(|&number| number < 3).collect();
            assert_eq!(own, if sent { vec![1, 2] } else { vec![1] });
        });
    }

    #[test]
    fn who_sends_beside_a_busy_engine_does_not_overtake_itself() {
        order(|_, lock| {
            if let Some(mut engine) = lock.try_lock() {
                engine.drain();
            }
        });
    }

    #[test]
    fn nor_does_it_by_a_lane_that_another_leaves() {
        order(|lane, lock| {
            beside(lane, lock, 3);
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
