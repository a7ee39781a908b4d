//! Blocking calls: the green thread waits, its virtual processor goes on.
//!
//! What makes borrowing sound: the frame of [`by_ring`] is not left before the kernel has done with the slot and the
//! caller's buffers. Unwinding (a runtime that stops) is the one other way out, and `Pending` stands in its way: it
//! cancels and waits.

use std::io;
use std::sync::Arc;

use marcel::plumbing::budget;

use super::Uring;
use super::call::Call;
use super::slot::Slot;
use crate::ltask::inside::is_inside;
use crate::manager::Manager;
use crate::progress::policy::hints::Hint;
use crate::progress::source::Source;

/// Most submissions of a call that the ring gives up: see [`resubmit`].
pub(super) const MOST_SUBMISSIONS: usize = 3;

/// Makes a call: by the ring of the caller's manager, else on the blocking pool. A plain kernel thread, which blocks
/// only itself, makes the system call; so does a thread in a runtime that stops, and a light task, which must not
/// wait.
///
/// # Safety
/// What `call` refers to stays in place, and untouched by other code, until this returns or unwinds. A descriptor that it
/// closes is the caller's alone; it is closed when this unwinds, too.
pub(crate) unsafe fn make(call: Call, hint: Hint) -> io::Result<usize> {
    let call = Unmade(call);
    budget::spend();
    // SAFETY: the caller's promise.
    let result = unsafe { attempt(call, hint) };
    match result {
        0.. => Ok(result as usize),
        _ => Err(io::Error::from_raw_os_error(-result)),
    }
}

/// # Safety
/// As [`make`].
unsafe fn attempt(call: Unmade, hint: Hint) -> i32 {
    if !marcel::is_green() || marcel::is_stopping() || is_inside() {
        // SAFETY: the caller's promise.
        return unsafe { call.made().run() };
    }
    // What is in the page cache costs less than a ring, and much less than another thread.
    // SAFETY: the caller's promise.
    match unsafe { call.0.run_at_once() } {
        // SAFETY: as above.
        None => unsafe { elsewhere(call, hint) },
        Some(n) => match call.made().rest(n) {
            None => n,
            // SAFETY: as above. (An error will come again, alone.)
            Some(rest) => n + unsafe { elsewhere(Unmade(rest), hint) }.max(0),
        },
    }
}

/// By the ring, else by the pool.
///
/// # Safety
/// As [`make`].
unsafe fn elsewhere(call: Unmade, hint: Hint) -> i32 {
    let call = if let Ok(manager) = Manager::here()
        && let Some(ring) = manager.uring()
        && ring.knows(&call.0)
    {
        // SAFETY: the caller's promise.
        let submit = |call| unsafe { by_ring(ring, &manager, call, hint) };
        match resubmit(call, submit) {
            Ok(result) => return result,
            Err(call) => call,
        }
    } else {
        call
    };
    // SAFETY: the caller's promise.
    unsafe { by_pool(call) }
}

/// The kernel's own code for a system call that a signal has interrupted, and that is to be made again.
const ERESTARTSYS: i32 = 512;

/// Whether the ring has given a call up. An open that a worker of the kernel has begun is not cancelled but interrupted.
fn is_given_up(result: i32) -> bool {
    matches!(-result, libc::ECANCELED | ERESTARTSYS)
}

/// Submits a call until it has a result; the call, if it was given up [`MOST_SUBMISSIONS`] times.
///
/// The ring gives a call up when the kernel thread that submitted it has ended. An operation may have that
/// result of its own, which the ring does not tell apart: the bound ends that, and the pool's result counts.
fn resubmit<C>(mut call: C, mut submit: impl FnMut(C) -> Result<i32, C>) -> Result<i32, C> {
    for _ in 0..MOST_SUBMISSIONS {
        match submit(call) {
            Ok(result) => return Ok(result),
            Err(given_up) => call = given_up,
        }
    }
    Err(call)
}

/// # Safety
/// As [`make`].
unsafe fn by_pool(call: Unmade) -> i32 {
    let outcome = marcel::blocking(move || {
        let call = call.made(); // all of it, which is `Send`
        // SAFETY: the caller's promise: `blocking` does not return while the closure runs, nor unwinds.
        Outcome { result: unsafe { call.run() }, opened: matches!(call, Call::Open { .. }) }
    });
    outcome.collected()
}

/// A call that may be dropped before it is made: a descriptor that it was to close is closed all the same.
struct Unmade(Call);

impl Unmade {
    fn made(self) -> Call {
        // SAFETY: read once, since the original is not dropped.
        unsafe { std::ptr::read(&std::mem::ManuallyDrop::new(self).0) }
    }
}

impl Drop for Unmade {
    fn drop(&mut self) {
        close_uncollected(&self.0);
    }
}

/// The caller of a call that was not made had given its descriptor away.
fn close_uncollected(call: &Call) {
    if let Call::Close { fd } = call {
        // SAFETY: no other code knows the descriptor.
        unsafe { libc::close(*fd) };
    }
}

/// What came out of a call. A descriptor that no caller collects is closed.
struct Outcome {
    result: i32,
    opened: bool,
}

impl Outcome {
    fn collected(mut self) -> i32 {
        self.opened = false;
        self.result
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.opened && self.result >= 0 {
            // SAFETY: no other code knows the descriptor.
            unsafe { libc::close(self.result) };
        }
    }
}

/// The result, or the call, which the ring has given up.
///
/// # Safety
/// As [`make`].
unsafe fn by_ring(
    ring: &Arc<Uring>,
    manager: &Manager,
    call: Unmade,
    hint: Hint,
) -> Result<i32, Unmade> {
    let _permit = ring.permits().acquire();
    let slot = Slot::submitted();
    // SAFETY: `pending` keeps the frame until the slot is complete; the rest is the caller's promise.
    unsafe { ring.submit(&call.0, &slot) };
    let call = call.made();
    let pending = Pending { ring, manager, slot: &slot, call: &call };
    if !slot.done().is_done() {
        ring.poll(); // what need not wait has ended
        if !slot.done().is_done() {
            manager.wait(slot.done(), ring.hints(hint));
        }
    }
    std::mem::forget(pending);
    match slot.result() {
        result if is_given_up(result) => Err(Unmade(call)),
        result => Ok(result),
    }
}

/// A submitted slot that is not known to be complete.
struct Pending<'a> {
    ring: &'a Uring,
    manager: &'a Manager,
    slot: &'a Slot,
    call: &'a Call,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // SAFETY: submitted there, and in place.
        unsafe { self.ring.cancel(self.slot) };
        self.manager.wait(self.slot.done(), self.ring.hints(Hint::Short));
        let result = self.slot.result();
        if result == -libc::ECANCELED {
            close_uncollected(self.call);
        }
        drop(Outcome { result, opened: matches!(self.call, Call::Open { .. }) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::File;
    use crate::manager::runtime::Runtime;
    use std::os::fd::{AsRawFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn a_call_that_is_always_given_up_comes_back() {
        let mut submissions = 0;
        let never = resubmit("call", |call| {
            submissions += 1;
            Err(call)
        });
        assert_eq!((never, submissions), (Err("call"), MOST_SUBMISSIONS));
        let second = resubmit(1, |call| if call == 2 { Ok(7) } else { Err(call + 1) });
        assert_eq!(second, Ok(7));
    }

    /// What tells an open file from others while it is open anywhere.
    fn identity(fd: RawFd) -> Option<(u64, u64)> {
        let mut stat = std::mem::MaybeUninit::<libc::stat64>::uninit();
        // SAFETY: room for the answer, which is there when the call succeeds.
        unsafe {
            (libc::fstat64(fd, stat.as_mut_ptr()) == 0).then(|| {
                let stat = stat.assume_init();
                (stat.st_dev, stat.st_ino)
            })
        }
    }

    /// The thread waits for a permit when its runtime stops.
    #[test]
    fn a_close_that_is_unwound_before_its_submission_closes() {
        let manager = Manager::builder().mode(marcel::Mode::Mono).uring(true);
        let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
        let Some(ring) = runtime.manager().uring().cloned() else { return };
        while let Some(permit) = ring.permits().try_acquire() {
            permit.forget();
        }
        let (reader, writer) = io::pipe().unwrap();
        let fd = writer.as_raw_fd();
        let pipe = identity(reader.as_raw_fd());
        assert!(pipe.is_some() && identity(fd) == pipe);
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        runtime.run(|| {
            let file = File::from(OwnedFd::from(writer));
            drop(marcel::spawn(move || {
                begins.store(true, SeqCst);
                file.close()
            }));
            while !begun.load(SeqCst) {
                marcel::yield_now();
            }
        });
        assert_eq!(identity(fd), pipe, "no permit came");
        drop(runtime);
        assert_ne!(identity(fd), pipe, "the descriptor is still open");
    }
}
