//! The forced unwinding of a green thread in the middle of collectives.
//!
//! The program's code that a run calls (operators, wakers, destructors) may wait for something, and is unwound there when
//! the thread's runtime stops. That comes once ([`is_forced_unwinding`]): caught and forgotten, the thread's next wait
//! never ends, and neither does its runtime. But it must not pass through a run, whose lock would stay held.
//!
//! ```text
//!   caught in a run ── keep ──▶ kept for the thread ── go_on: the thread holds no run ──▶ unwound
//! ```
//! The thread goes on with it where it has carried the last run on, before it waits for one, and when it has begun one.
//!
//! Rejected: to hand it to the run as a panic, which the run's waiter resumes. That may be another thread.

use std::any::Any;
use std::panic::resume_unwind;

use marcel::ThreadId;
use marcel::plumbing::{KernelMutex, is_forced_unwinding};

type Payload = Box<dyn Any + Send>;

static KEPT: KernelMutex<Vec<(ThreadId, Payload)>> = KernelMutex::new(Vec::new());

/// Keeps what was caught for the calling thread, if it is the thread's forced unwinding; else gives it back.
pub(super) fn keep(caught: Payload) -> Option<Payload> {
    if !is_forced_unwinding(&*caught) {
        return Some(caught);
    }
    KEPT.lock().push((marcel::current().id(), caught));
    None
}

/// Goes on with what was kept for the calling thread, which holds no run.
#[inline]
pub(super) fn go_on() {
    if is_kept() {
        go_on_now();
    }
}

/// Whether something may be kept for the calling thread. A destructor, called by an unwinding, must not unwind.
#[inline]
fn is_kept() -> bool {
    marcel::is_stopping() && !std::thread::panicking()
}

#[cold]
fn go_on_now() {
    let me = marcel::current().id();
    let kept = {
        let mut all = KEPT.lock();
        all.iter().position(|(thread, _)| *thread == me).map(|at| all.swap_remove(at))
    };
    if let Some((_, payload)) = kept {
        resume_unwind(payload);
    }
}
