//! Export (\[Trahay09\], 5.2.3): a call that blocks is made by a kernel thread of the runtime's pool.
//!
//! The frame of [`export`] holds closure, result and list node; the pool's thread works on it in place. What makes
//! borrowing sound: the frame is not left before the closure has ended, or will never start. While the thread
//! waits there is one other way out of the frame, the unwinding of a runtime that stops. `Pending` stands in
//! its way: it takes the call back from the queue, or waits for the closure's end. A thread that may not be unwound,
//! since it is in a panic of its own, takes the call back as well, and makes it.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::Result;

use crate::list::{Leave, Listed};
use crate::lwp::call::{Call, How};
use crate::lwp::calls::Pool;
use crate::recorder;
use crate::sched::worker;
use crate::task::latch::Latch;
use crate::task::park;

/// What a thread waits for that has submitted a call.
const WAIT: &str = "blocking call";

/// Closure and result of a call, behind its node.
#[repr(C)]
struct Frame<F, T> {
    call: Call,
    done: Latch,
    f: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<Result<T>>>,
}

/// Ends the call.
///
/// # Safety
/// `call` is the first field of a `Frame<F, T>`, whose cells are the caller's; it is in no queue.
unsafe fn end<F: FnOnce() -> T, T>(call: *const Call, how: How) {
    // SAFETY: `Frame` is `repr(C)`, and the caller's promise.
    let frame = unsafe { &*call.cast::<Frame<F, T>>() };
    if how == How::Make {
        make(frame);
    }
    frame.done.set();
}

/// Makes the call. Its cells are the caller's.
fn make<F: FnOnce() -> T, T>(frame: &Frame<F, T>) {
    // SAFETY: the cells are ours.
    if let Some(f) = unsafe { (*frame.f.get()).take() } {
        recorder::record(recorder::Kind::Call, 0, 0);
        let result = catch_unwind(AssertUnwindSafe(f));
        recorder::record(recorder::Kind::CallEnd, 0, 0);
        // SAFETY: as above.
        unsafe { *frame.result.get() = Some(result) };
    }
}

/// A submitted call whose latch is not known to be set.
struct Pending<'a> {
    pool: &'a Pool,
    call: &'a Call,
    done: &'a Latch,
}

impl Leave for Pending<'_> {
    /// Takes the call back, or waits for its end.
    fn leave(&self) -> bool {
        let left = self.pool.withdraw(self.call);
        if !left {
            self.done.wait(WAIT);
        }
        left
    }
}

/// Makes a call that may block on a kernel thread of the runtime's pool, and returns what it returns. Both ways
/// cost a wake-up by the kernel. The closure runs on another kernel thread, and not as a green thread: it has
/// other thread-locals, and blocks its caller only.
///
/// At most `MARCEL_LWP_MAX` calls run at once, others wait for one of them to end; so calls that wait for one
/// another (both ends of a pipe) must be fewer than that. Where the kernel gives no thread at all the closure is
/// run by the caller, on its virtual processor.
///
/// # Context
/// A green thread. On a plain kernel thread, in no-thread mode, or while a stopping runtime unwinds the caller,
/// the closure is called directly.
///
/// # Blocking
/// The green thread, until the closure has ended; its virtual processor goes on. When the runtime is dropped
/// meanwhile: a closure that has not begun never runs; one that runs is waited for.
///
/// # Panics
/// With the closure's payload, when it panics.
pub fn export<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    match worker::current() {
        Some(worker) if !park::is_stopping() => export_to(worker.shared.blocking.pool(), f),
        _ => f(),
    }
}

fn export_to<F: FnOnce() -> T + Send, T: Send>(pool: &Arc<Pool>, f: F) -> T {
    let frame = Frame {
        // SAFETY: the first field of its frame.
        call: unsafe { Call::new(end::<F, T>) },
        done: Latch::new(),
        f: UnsafeCell::new(Some(f)),
        result: UnsafeCell::new(None),
    };
    // SAFETY: the frame stays in place until the latch is set, or `pending` has seen to it.
    unsafe { pool.submit(&frame.call) };
    let pending = Listed::new(Pending { pool, call: &frame.call, done: &frame.done });
    let done = &frame.done;
    while !done.is_set() && done.register() {
        if park::is_stopping() && pool.withdraw(&frame.call) {
            break;
        }
        park::park(WAIT);
    }
    pending.served();
    let Frame { f, result, .. } = frame;
    match (f.into_inner(), result.into_inner()) {
        (_, Some(Ok(value))) => value,
        (_, Some(Err(payload))) => resume_unwind(payload),
        (Some(f), None) => f(), // handed back, or taken back
        (None, None) => unreachable!("a closure that was taken has left a result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lwp::blocking::start;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    /// Refused thread after thread (as tokio's issue 8406), the call is made by its caller; a later one is not.
    #[test]
    fn a_call_for_which_the_kernel_gives_no_thread_is_made_by_its_caller() {
        static REFUSE: AtomicBool = AtomicBool::new(true);
        let pool = Pool::new(
            4,
            None,
            Box::new(|pool, place| match REFUSE.load(SeqCst) {
                true => Err(std::io::ErrorKind::WouldBlock.into()),
                false => start(pool, place, None),
            }),
        );
        let me = std::thread::current().id();
        for _ in 0..3 {
            assert_eq!(export_to(&pool, || std::thread::current().id()), me);
        }
        REFUSE.store(false, SeqCst);
        assert_ne!(export_to(&pool, || std::thread::current().id()), me);
        // Refused again, but there are threads: they make the calls, one after the other.
        REFUSE.store(true, SeqCst);
        std::thread::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    let me = std::thread::current().id();
                    assert_ne!(export_to(&pool, || std::thread::current().id()), me);
                });
            }
        });
        pool.close();
        pool.join();
    }

    /// The kernel refuses now and then; calls come from many threads at once.
    #[test]
    fn a_kernel_that_refuses_every_other_thread_loses_no_call() {
        let (asked, made) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Pool::new(
            3,
            Some(std::time::Duration::ZERO),
            Box::new(move |pool, place| match asked.fetch_add(1, SeqCst) % 2 {
                0 => Err(std::io::ErrorKind::WouldBlock.into()),
                _ => start(pool, place, None),
            }),
        );
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..50 {
                        export_to(&pool, || made.fetch_add(1, SeqCst));
                    }
                });
            }
        });
        assert_eq!(made.load(SeqCst), 400);
        pool.close();
        pool.join();
    }
}
