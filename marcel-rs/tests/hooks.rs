//! What the scheduler promises to an I/O manager.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use marcel::policy::{Bubble, Fair, Fresh, Policy, Ready, Why};
use marcel::{Builder, Idle, Mode, Runtime, ThreadId, Vp};

/// A manager that leaves something behind at each switch, if it `leaves`, and calls a function at the next one.
#[derive(Default)]
struct Leaves {
    leaves: AtomicBool,
    left: AtomicUsize,
    once: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

// SAFETY: the tick does nothing.
unsafe impl marcel::Hooks for Leaves {
    fn idle(&self, _: &Vp, _: Instant) -> Idle {
        Idle::Sleep
    }

    fn switch(&self, _: &Vp) -> bool {
        let once = self.once.lock().unwrap().take();
        if let Some(once) = once {
            once();
        }
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

/// A policy that notes the bubbles of threads that yield.
struct Notes(Fair, Arc<Mutex<HashMap<ThreadId, Bubble>>>);

// SAFETY: all is passed on.
unsafe impl Policy for Notes {
    fn put(&mut self, thread: Ready, why: Why) {
        self.1.lock().unwrap().insert(thread.id(), thread.bubble());
        self.0.put(thread, why);
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        Policy::next(&mut self.0, fresh)
    }

    fn take(&mut self, thread: ThreadId) -> Option<Ready> {
        self.0.take(thread)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// No thread has spawned it: the one that ran last may have ended, and its block be another's.
#[test]
fn a_thread_that_the_manager_starts_is_in_the_default_bubble() {
    let manager = Arc::new(Leaves::default());
    let notes: Arc<Mutex<HashMap<ThreadId, Bubble>>> = Arc::default();
    let noted = notes.clone();
    let policy = move |_| -> Box<dyn Policy> { Box::new(Notes(Fair::new(), noted.clone())) };
    let builder = Runtime::builder().mode(Mode::Mono).hooks(manager.clone()).policy(policy);
    let runtime = builder.build().expect("a runtime");
    let started: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let starts = started.clone();
    let last = move || {
        *manager.once.lock().unwrap() = Some(Box::new(move || {
            let plain = marcel::spawn(marcel::yield_now);
            let built = Builder::new().spawn(marcel::yield_now).unwrap();
            starts.lock().unwrap().extend([plain.thread().id(), built.thread().id()]);
        }));
        marcel::yield_now();
    };
    let bubble = Bubble::new();
    runtime.run(|| {
        let last = Builder::new().bubble(bubble).spawn(last).unwrap();
        let last_id = last.thread().id();
        last.join().unwrap();
        let started = started.lock().unwrap().clone();
        assert_eq!(started.len(), 2);
        let bubble_of = |thread| notes.lock().unwrap().get(&thread).copied();
        assert_eq!(bubble_of(last_id), Some(bubble));
        for thread in started {
            while bubble_of(thread).is_none() {
                marcel::yield_now();
            }
            assert_eq!(bubble_of(thread), Some(Bubble::default()));
        }
    });
}
