//! What the scheduler promises to an I/O manager.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use marcel::{Idle, Mode, Runtime, Vp};

/// A manager that leaves something behind at each switch, if it `leaves`.
#[derive(Default)]
struct Leaves {
    leaves: AtomicBool,
    left: AtomicUsize,
}

// SAFETY: the tick does nothing.
unsafe impl marcel::Hooks for Leaves {
    fn idle(&self, _: &Vp, _: Instant) -> Idle {
        Idle::Sleep
    }

    fn switch(&self, _: &Vp) -> bool {
        let leaves = self.leaves.load(SeqCst);
        if leaves {
            self.left.fetch_add(1, SeqCst);
        }
        leaves
    }

    fn tick(&self, _: &Vp) -> bool {
        false
    }

    fn wants_ticks(&self) -> bool {
        false
    }

    fn sleep(
        &self,
        _: &Vp,
        _: &marcel::plumbing::Sleeper,
        _: Option<Instant>,
        _: &dyn Fn() -> bool,
    ) -> bool {
        self.left.store(0, SeqCst);
        false
    }

    fn busy(&self, _: &Vp) {
        self.left.store(0, SeqCst);
    }

    fn started(&self, _: marcel::Load, _: &[&'static Vp]) {}

    fn ended(&self, _: &Vp) {}
}

/// What a switch has left is the manager's again before the next thread runs, which may compute for long.
#[test]
fn what_a_switch_leaves_is_seen_to_before_the_next_thread_runs() {
    let manager = Arc::new(Leaves::default());
    let runtime =
        Runtime::builder().mode(Mode::Mono).hooks(manager.clone()).build().expect("a runtime");
    runtime.run(|| {
        manager.leaves.store(true, SeqCst);
        for _ in 0..100 {
            marcel::yield_now();
            assert_eq!(manager.left.load(SeqCst), 0);
        }
        manager.leaves.store(false, SeqCst);
    });
}
