//! Timed waits of a virtual processor: which threads are to be woken, and when.
//!
//! A wait that ends early leaves its timer in the heap: `wait`, compared with the thread's own count, tells that
//! it is stale. When most are, the heap is cleaned, so it does not grow with waits that end early.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::tcb::block::Tcb;

/// One timed wait.
struct Timer {
    deadline: Instant,
    tcb: &'static Tcb,
    wait: u64,
}

impl Timer {
    fn is_stale(&self) -> bool {
        self.tcb.wait.load(Relaxed) != self.wait
    }
}

impl Ord for Timer {
    /// The earliest deadline is the greatest, for a max-heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Timer {}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Timer>,
    stale: usize,
}

impl Timers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Begins a timed wait of `tcb`.
    pub(crate) fn add(&mut self, deadline: Instant, tcb: &'static Tcb) {
        self.heap.push(Timer { deadline, tcb, wait: tcb.wait.load(Relaxed) });
    }

    /// `count` of the timers are stale.
    pub(crate) fn forget(&mut self, count: usize) {
        self.stale += count;
        if self.stale > 64 && self.stale > self.heap.len() / 2 {
            self.heap.retain(|timer| !timer.is_stale());
            self.stale = 0;
        }
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|timer| timer.deadline)
    }

    /// Takes one that is due at `now` and not stale.
    pub(crate) fn due(&mut self, now: Instant) -> Option<&'static Tcb> {
        while self.next()? <= now {
            let timer = self.heap.pop()?;
            if !timer.is_stale() {
                return Some(timer.tcb);
            }
            self.stale = self.stale.saturating_sub(1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_earliest_comes_first_and_stale_ones_do_not() {
        let start = Instant::now();
        let threads: Vec<_> = (0..4).map(|_| Tcb::allocate(None)).collect();
        let mut timers = Timers::default();
        for (i, tcb) in threads.iter().enumerate() {
            timers.add(start + Duration::from_secs(10 - i as u64), tcb);
        }
        threads[2].wait.store(threads[2].wait.load(Relaxed) + 1, Relaxed);
        assert!(timers.due(start).is_none());
        let late = start + Duration::from_secs(100);
        let order: Vec<_> = std::iter::from_fn(|| timers.due(late)).collect();
        assert!(order.len() == 3 && timers.is_empty());
        for (tcb, expected) in order.iter().zip([3, 1, 0]) {
            assert!(std::ptr::eq(*tcb, threads[expected]));
        }
    }

    #[test]
    fn waits_that_end_early_do_not_pile_up() {
        let mut timers = Timers::default();
        let tcb = Tcb::allocate(None);
        for _ in 0..10_000 {
            timers.add(Instant::now() + Duration::from_secs(3600), tcb);
            tcb.wait.store(tcb.wait.load(Relaxed) + 1, Relaxed);
            timers.forget(1);
        }
        assert!(timers.heap.len() < 200, "{}", timers.heap.len());
    }

    /// Also not where their threads wake up elsewhere.
    #[test]
    fn waits_that_end_early_after_a_migration_do_not_pile_up() {
        use crate::sched::worker;
        use std::sync::atomic::{AtomicBool, AtomicUsize};
        const ROUNDS: usize = 20_000;
        // SAFETY: the threads hold nothing of their kernel threads.
        let builder = unsafe { crate::Runtime::builder().vps(2).migrate_started_threads(true) };
        let runtime = builder.mode(crate::Mode::Smp).build().unwrap();
        let (moved, most, over) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        runtime.scope(|scope| {
            let waits: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..ROUNDS {
                            let before = crate::current_vp().unwrap().index();
                            crate::park_timeout(Duration::from_secs(3600));
                            let here = worker::current().unwrap();
                            moved.fetch_add((here.index() != before) as usize, Relaxed);
                            most.fetch_max(here.own_core().timers.heap.len(), Relaxed);
                        }
                    })
                })
                .collect();
            let threads: Vec<_> = waits.iter().map(|wait| *wait.thread()).collect();
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    threads.iter().for_each(crate::Thread::unpark);
                    crate::yield_now();
                }
            });
            waits.into_iter().for_each(|wait| wait.join().unwrap());
            over.store(true, Relaxed);
        });
        let (moved, most) = (moved.into_inner(), most.into_inner());
        assert!(most < 1000, "{most} timers, {moved} migrations");
    }
}
