//! Tasklets (2007, 3.3): work deferred from where it cannot be done to where it can, soon and with high priority.
//!
//! A tasklet is made once and scheduled again and again, from anywhere: a signal handler, the progress path. Scheduling
//! one that is scheduled already is merged with that; scheduling one that runs makes it run once more. Tasklets of one
//! type exclude each other, so they need no lock among themselves. One can be bound to cores; while it is
//! disabled it does not run.
//!
//! # Exclusion
//! The popper of a tasklet *enters* its type. If another tasklet of the type runs, this one goes on
//! the type's list of those that wait, and back to its own queue (its core may be another one's) when that one
//! leaves. One word and one stack:
//!
//! ```text
//!   enter: held.swap(true) was false? in.
//!          else put it on the list; held.swap(true) was false now? the holder may not have seen it: leave
//!   leave: take the list, queue all; held = false; list empty? gone. else held.swap(true) was false? once more
//! ```
//! Between "put on the list" and "was it held" here, and between "not held" and "list empty" there, one of the two sees
//! the other. Model-checked below. Rejected: back to the queue at once (a visitor, or all, would spin on it).

#[cfg(not(loom))]
use std::sync::{Arc, Weak};

#[cfg(not(loom))]
use crate::error::Error;
use crate::ltask::stack::{Lane, Linked};
#[cfg(not(loom))]
use crate::progress::machine::Machine;
use crate::shim::{AtomicBool, Ordering::*, fence};
#[cfg(not(loom))]
use marcel::plumbing::KernelMutex;

/// The lock of a type.
pub(crate) struct Gate<T: 'static> {
    held: AtomicBool,
    waiting: Lane<T>,
}

impl<T: Linked> Gate<T> {
    pub(crate) fn new() -> Gate<T> {
        Gate { held: AtomicBool::new(false), waiting: Lane::new() }
    }

    /// True: it is in. False: it waits, or `queue` has been called for it and perhaps others.
    pub(crate) fn enter(&self, node: &'static T, queue: impl FnMut(&'static T)) -> bool {
        if !self.held.swap(true, AcqRel) {
            return true;
        }
        self.waiting.push(node);
        fence(SeqCst);
        if !self.held.swap(true, AcqRel) {
            self.leave(queue);
        }
        false
    }

    /// The holder leaves; `queue` is called for the tasklets that wait.
    pub(crate) fn leave(&self, mut queue: impl FnMut(&'static T)) {
        loop {
            while let Some(node) = self.waiting.pop(|| ()) {
                queue(node);
            }
            // Not a store: all that happens to the word is in one order, then, and `enter` sees the last of it.
            self.held.swap(false, AcqRel);
            fence(SeqCst);
            if self.waiting.is_empty() || self.held.swap(true, AcqRel) {
                return;
            }
        }
    }
}

/// What the tasklets of a type share. All of them are one manager's.
#[cfg(not(loom))]
pub(crate) struct Exclusion<T: 'static> {
    pub(crate) gate: Gate<T>,
    /// Whose tasklets they are: the one that leaves queues the next ones in the queues of its own manager.
    manager: KernelMutex<Weak<Machine>>,
}

#[cfg(not(loom))]
impl<T: Linked> Exclusion<T> {
    pub(crate) fn new() -> Exclusion<T> {
        Exclusion { gate: Gate::new(), manager: KernelMutex::default() }
    }

    /// A tasklet of this manager has the type from now on.
    ///
    /// # Errors
    /// There are tasklets of another manager.
    pub(crate) fn serve(&self, machine: &Arc<Machine>) -> Result<(), Error> {
        let mut manager = self.manager.lock();
        let ours = Arc::downgrade(machine);
        if manager.strong_count() > 0 && !manager.ptr_eq(&ours) {
            return Err(Error::OtherManager("the type of this tasklet"));
        }
        *manager = ours;
        Ok(())
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::ltask::stack::Bare;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    struct World {
        gate: Gate<Bare>,
        queue: Lane<Bare>,
        inside: AtomicBool,
        runs: AtomicUsize,
    }

    impl World {
        /// One visit: takes one, and runs it or leaves it at the gate.
        fn visit(&self) {
            let Some(node) = self.queue.pop(|| ()) else { return };
            if self.gate.enter(node, |node| self.queue.push(node)) {
                assert!(!self.inside.swap(true, AcqRel), "two of a type at once");
                self.runs.fetch_add(1, Relaxed);
                assert!(self.inside.swap(false, AcqRel));
                self.gate.leave(|node| self.queue.push(node));
            }
        }
    }

    #[test]
    fn one_at_a_time_and_none_is_forgotten() {
        loom::model(|| {
            let world = Arc::new(World {
                gate: Gate::new(),
                queue: Lane::new(),
                inside: AtomicBool::new(false),
                runs: AtomicUsize::new(0),
            });
            (0..2).for_each(|_| world.queue.push(Bare::leak(())));
            let other = {
                let world = world.clone();
                thread::spawn(move || world.visit())
            };
            world.visit();
            other.join().unwrap();
            (0..2).for_each(|_| world.visit());
            assert_eq!(world.runs.load(Relaxed), 2);
        });
    }
}
