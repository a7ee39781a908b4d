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

/// Makes a call: by the ring of the caller's manager, else on the blocking pool. A plain kernel thread, which blocks
/// only itself, makes the system call; so does a thread in a runtime that stops, and a light task, which must not
/// wait.
///
/// # Safety
/// What `call` refers to stays in place, and untouched by other code, until this returns or unwinds.
pub(crate) unsafe fn make(call: Call, hint: Hint) -> io::Result<usize> {
    budget::spend();
    loop {
        // SAFETY: the caller's promise.
        let result = unsafe { attempt(call, hint) };
        match result {
            0.. => return Ok(result as usize),
            // Of a ring: its submitter's kernel thread has ended; this process has not cancelled.
            _ if result == -libc::ECANCELED => {}
            _ => return Err(io::Error::from_raw_os_error(-result)),
        }
    }
}

/// # Safety
/// As [`make`].
unsafe fn attempt(call: Call, hint: Hint) -> i32 {
    if !marcel::is_green() || marcel::is_stopping() || is_inside() {
        // SAFETY: the caller's promise.
        return unsafe { call.run() };
    }
    // What is in the page cache costs less than a ring, and much less than another thread.
    // SAFETY: the caller's promise.
    match unsafe { call.run_at_once() } {
        // SAFETY: as above.
        None => unsafe { elsewhere(call, hint) },
        Some(n) => match call.rest(n) {
            None => n,
            // SAFETY: as above. (An error will come again, alone.)
            Some(rest) => n + unsafe { elsewhere(rest, hint) }.max(0),
        },
    }
}

/// By the ring, else by the pool.
///
/// # Safety
/// As [`make`].
unsafe fn elsewhere(call: Call, hint: Hint) -> i32 {
    if let Ok(manager) = Manager::here()
        && let Some(ring) = manager.uring()
        && ring.knows(&call)
    {
        // SAFETY: the caller's promise.
        return unsafe { by_ring(ring, &manager, &call, hint) };
    }
    // SAFETY: the caller's promise.
    unsafe { by_pool(call) }
}

/// # Safety
/// As [`make`].
unsafe fn by_pool(call: Call) -> i32 {
    let call = Unmade(call);
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

/// # Safety
/// As [`make`].
unsafe fn by_ring(ring: &Arc<Uring>, manager: &Manager, call: &Call, hint: Hint) -> i32 {
    let _permit = ring.permits().acquire();
    let slot = Slot::submitted();
    // SAFETY: `pending` keeps the frame until the slot is complete; the rest is the caller's promise.
    unsafe { ring.submit(call, &slot) };
    let pending = Pending { ring, manager, slot: &slot, call };
    if !slot.done().is_done() {
        ring.poll(); // what need not wait has ended
        if !slot.done().is_done() {
            manager.wait(slot.done(), ring.hints(hint));
        }
    }
    std::mem::forget(pending);
    slot.result()
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
