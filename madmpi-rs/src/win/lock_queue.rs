//! The lock of this process's memory, for members that ask for it by messages: first come first served.

use std::collections::VecDeque;

/// A member that waits for the lock: its process, the number of its request, whether it is to be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) process: u32,
    pub(super) number: u32,
    pub(super) exclusive: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct LockQueue {
    waiting: VecDeque<Waiter>,
    shared: usize,
    exclusive: bool,
    /// A holder has died: what it was doing is not known, so the lock is not given out again.
    broken: bool,
}

impl LockQueue {
    /// A member asks for the lock.
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.waiting.push_back(waiter);
    }

    /// The next member that holds the lock from now on, or, with `false`, is told that it never will.
    pub(super) fn next(&mut self) -> Option<(Waiter, bool)> {
        let next = *self.waiting.front()?;
        if !self.broken {
            if self.exclusive || (next.exclusive && self.shared > 0) {
                return None;
            }
            if next.exclusive {
                self.exclusive = true;
            } else {
                self.shared += 1;
            }
        }
        self.waiting.pop_front();
        Some((next, !self.broken))
    }

    /// A holder gives it back, or has died.
    pub(super) fn release(&mut self, exclusive: bool, died: bool) {
        self.broken |= died;
        if exclusive {
            self.exclusive = false;
        } else {
            self.shared -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(process: u32, exclusive: bool) -> Waiter {
        Waiter { process, number: 0, exclusive }
    }

    #[test]
    fn nobody_is_passed_over() {
        let mut queue = LockQueue::default();
        for (process, exclusive) in [(0, false), (1, false), (2, true), (3, false), (4, true)] {
            queue.push(waiter(process, exclusive));
        }
        let granted = |queue: &mut LockQueue| -> Vec<u32> {
            std::iter::from_fn(|| queue.next()).map(|(waiter, _)| waiter.process).collect()
        };
        assert_eq!(granted(&mut queue), [0, 1]);
        queue.release(false, false);
        assert_eq!(granted(&mut queue), [0; 0]);
        queue.release(false, false);
        assert_eq!(granted(&mut queue), [2]);
        queue.release(true, false);
        assert_eq!(granted(&mut queue), [3]);
        queue.release(false, false);
        assert_eq!(granted(&mut queue), [4]);
    }

    #[test]
    fn a_dead_holder_ends_the_lock() {
        let mut queue = LockQueue::default();
        queue.push(waiter(0, true));
        queue.push(waiter(1, true));
        assert_eq!(queue.next(), Some((waiter(0, true), true)));
        queue.release(true, true);
        assert_eq!(queue.next(), Some((waiter(1, true), false)));
        queue.push(waiter(2, false));
        assert_eq!(queue.next(), Some((waiter(2, false), false)));
    }
}
