//! The queue of one node of the topology: a lane for each priority and polling level, and a word that says which of
//! them may hold something, so that a visit of an empty queue is one load (\[Trahay09\], algorithm 2: look first, take
//! then).
//!
//! ```text
//!   push: put it into the lane, then set its bit
//!   pop:  nothing there? clear the bit, then look at the lane once more; something? set the bit again
//! ```
//! Both sides do a read-modify-write of the word between the two, so a bit that stays clear has an empty lane. (But for
//! what a popper turns around in its hands: it sets the bit itself when that is visible again.)

use crate::ltask::stack::{Lane, Linked};
use crate::shim::{AtomicU32, Ordering::*};

/// Lanes of a queue: three priorities, each with the tasks of every visit before those of idle times.
pub(crate) const LANES: usize = 6;

#[repr(align(128))]
pub(crate) struct Queue<T: 'static> {
    occupied: AtomicU32,
    lanes: [Lane<T>; LANES],
}

impl<T: Linked> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue { occupied: AtomicU32::new(0), lanes: std::array::from_fn(|_| Lane::new()) }
    }

    /// The lanes that may hold something, a bit each.
    #[inline]
    pub(crate) fn occupied(&self) -> u32 {
        self.occupied.load(Relaxed)
    }

    /// Progress path.
    pub(crate) fn push(&self, lane: usize, node: &'static T) {
        self.lanes[lane].push(node);
        self.occupied.fetch_or(1 << lane, AcqRel);
    }

    /// The oldest of a lane. Progress path.
    pub(crate) fn pop(&self, lane: usize) -> Option<&'static T> {
        let mark = || {
            self.occupied.fetch_or(1 << lane, AcqRel);
        };
        let node = self.lanes[lane].pop(mark);
        if node.is_none() {
            self.occupied.fetch_and(!(1 << lane), AcqRel);
            if !self.lanes[lane].is_empty() {
                mark();
            }
        }
        node
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::ltask::stack::Bare;
    use loom::sync::Arc;
    use loom::thread;

    /// As a visit does: only where a bit is set.
    fn take(queue: &Queue<Bare>) -> usize {
        (queue.occupied() != 0 && queue.pop(0).is_some()) as usize
    }

    #[test]
    fn what_is_in_a_lane_has_its_bit_set() {
        loom::model(|| {
            let queue = Arc::new(Queue::new());
            queue.push(0, Bare::leak(()));
            let threads: Vec<_> = [true, false]
                .into_iter()
                .map(|pushes| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        if pushes {
                            queue.push(0, Bare::leak(()));
                        }
                        take(&queue) + take(&queue)
                    })
                })
                .collect();
            let taken: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            let left: usize = (0..3).map(|_| take(&queue)).sum();
            assert_eq!(taken + left, 2, "hidden behind a bit that is clear");
        });
    }
}
