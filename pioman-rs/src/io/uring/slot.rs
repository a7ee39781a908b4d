//! One operation on its way: how many completion entries are outstanding, and what came out.
//!
//! ```text
//!   0 ──submit──▶ 1 ─────────── its entry ───────────▶ 0, complete
//!                 └─cancel─▶ 2 ─either entry─▶ 1 ─the other─▶ 0, complete
//! ```
//!
//! To cancel is an operation of its own, with an entry of its own, and the kernel finds its target by address. So the
//! owner waits for both: an address that was used again could be cancelled by mistake. What the operation's own entry
//! says is its outcome, the only one: *cancelled* if the kernel says so, whichever thread asked for it. No operation is
//! abandoned: its owner waits until the count is 0, or leaks its memory. The thread that brings the count to 0
//! completes, and that is the last touch. Model-checked below.

use crate::completion::one_shot::Completion;
use crate::shim::{AtomicU64, Ordering::*};

/// Cancellation was asked for; the count is in the bits below.
const ASKED: u64 = 1 << 8;
const COUNT: u64 = ASKED - 1;

/// In place from submission until it is complete.
#[repr(align(8))]
pub(crate) struct Slot {
    state: AtomicU64,
    result: AtomicU64,
    done: Completion,
}

impl Slot {
    /// About to be submitted: its own entry is outstanding.
    pub(crate) fn submitted() -> Slot {
        Slot { state: AtomicU64::new(1), result: AtomicU64::new(0), done: Completion::new() }
    }

    /// An entry has come: its own with the result, or that of its cancellation. Progress path. The last touch.
    pub(crate) fn ended(&self, result: Option<i32>) {
        if let Some(result) = result {
            self.result.store(result as u32 as u64, Relaxed);
        }
        if self.state.fetch_sub(1, AcqRel) & COUNT == 1 {
            self.done.complete();
        }
    }

    /// Whether the caller is to submit a cancellation: the first that asks, while its own entry is outstanding.
    pub(crate) fn ask_to_cancel(&self) -> bool {
        self.state.compare_exchange(1, ASKED | 2, AcqRel, Relaxed).is_ok()
    }

    /// Whether it was asked to be cancelled before it had ended.
    pub(crate) fn was_asked(&self) -> bool {
        self.state.load(Relaxed) & ASKED != 0
    }

    /// What to wait for.
    pub(crate) fn done(&self) -> &Completion {
        &self.done
    }

    /// As the kernel gave it: a number, or a negative error. To be asked when it is complete.
    pub(crate) fn result(&self) -> i32 {
        self.result.load(Relaxed) as u32 as i32
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    const CANCELED: i32 = -125;

    /// The kernel: an operation that it may be making, and entries that it has posted (true: the operation's own).
    #[derive(Default)]
    struct Kernel {
        finished: bool,
        posted: Vec<(bool, i32)>,
    }

    impl Kernel {
        fn finish(&mut self, result: i32) {
            if !self.finished {
                self.finished = true;
                self.posted.push((true, result));
            }
        }
    }

    struct World {
        slot: Slot,
        kernel: Mutex<Kernel>,
        /// The owner's frame is left: nothing may touch the slot any more.
        left: AtomicBool,
    }

    impl World {
        fn new() -> Arc<World> {
            let kernel = Mutex::new(Kernel::default());
            Arc::new(World { slot: Slot::submitted(), kernel, left: AtomicBool::new(false) })
        }

        /// Takes one entry, as a poller does.
        fn poll(&self) {
            let entry = self.kernel.lock().unwrap().posted.pop();
            if let Some((own, result)) = entry {
                assert!(!self.left.load(SeqCst), "an entry comes for a slot that is gone");
                self.slot.ended(own.then_some(result));
            }
        }

        fn cancel(&self) {
            if self.slot.ask_to_cancel() {
                let mut kernel = self.kernel.lock().unwrap();
                kernel.finish(CANCELED);
                kernel.posted.push((false, 0));
            }
        }

        /// The owner's end: both outcomes are right, and the memory may go.
        fn leave(&self) {
            while !self.slot.done().is_done() {
                self.poll();
                loom::thread::yield_now();
            }
            assert!([4096, CANCELED].contains(&self.slot.result()));
            self.left.store(true, SeqCst);
            assert!(self.kernel.lock().unwrap().posted.is_empty());
        }
    }

    #[test]
    fn a_cancellation_that_races_with_the_end_has_one_outcome() {
        loom::model(|| {
            let world = World::new();
            let kernel = {
                let world = world.clone();
                thread::spawn(move || {
                    world.kernel.lock().unwrap().finish(4096);
                    world.poll();
                })
            };
            world.cancel();
            world.leave();
            kernel.join().unwrap();
        });
    }

    /// The handle of a transfer is shared: one thread cancels, another waits.
    #[test]
    fn two_who_cancel_submit_one_cancellation() {
        loom::model(|| {
            let world = World::new();
            let other = {
                let world = world.clone();
                thread::spawn(move || world.cancel())
            };
            world.cancel();
            other.join().unwrap();
            assert!(world.slot.was_asked());
            world.leave();
            assert_eq!(world.slot.result(), CANCELED);
        });
    }
}
