//! The backtrace of a thread that dies of a fault.
//!
//! The fault's handler can neither unwind nor look up names, since the interrupted code may hold any lock and has used
//! up its stack. The handler leaves its registers here, rings for the diagnosis thread, and waits some seconds while
//! that thread writes the backtrace.

use std::cell::UnsafeCell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

use super::backtrace::Backtracer;
use super::bell;
use super::frames::{Frames, Registers, registers};
use super::peek;
use super::trace_exit;
use crate::os::Futex;
use crate::os::stderr::to_stderr;

const NONE: u32 = 0;
const ASKED: u32 = 1;
const WRITTEN: u32 = 2;

/// Longest part of the stack that is read, and number of lines shown: a recursion repeats itself.
const BYTES: usize = 64 * 1024;
const LINES: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// What else a message says about the calling thread, if [`super::name_faults`] was told.
static LABEL: OnceLock<fn() -> Option<&'static str>> = OnceLock::new();

/// Sets what says more about a thread, once per process.
pub(super) fn set_label(label: fn() -> Option<&'static str>) {
    let _ = LABEL.set(label);
}

/// What the calling thread runs, in words.
pub(super) fn label() -> Option<&'static str> {
    LABEL.get().and_then(|label| label())
}

struct Fault {
    state: Futex,
    /// The first thread with a fault has set it.
    taken: AtomicBool,
    registers: UnsafeCell<Registers>,
    lowest: UnsafeCell<usize>,
}

// SAFETY: only the thread that set `taken` writes the cells, before ASKED.
unsafe impl Sync for Fault {}

static FAULT: Fault = Fault {
    state: Futex::new(NONE),
    taken: AtomicBool::new(false),
    registers: UnsafeCell::new(Registers { pc: 0, sp: 0, fp: 0, lr: 0 }),
    lowest: UnsafeCell::new(0),
};

/// Has the diagnosis thread, if there is one, write the backtrace of the interrupted code to standard error.
///
/// The readable part of the interrupted stack begins at `lowest`.
///
/// # Context
/// A signal handler that ends the process.
///
/// # Blocking
/// Blocks the kernel thread until the backtrace is written, some seconds at most.
pub(super) fn report(context: &libc::ucontext_t, lowest: usize) {
    if !bell::is_served() {
        return;
    }
    if !FAULT.taken.swap(true, AcqRel) {
        // SAFETY: this thread has set `taken`, and the state is not ASKED yet.
        unsafe {
            *FAULT.registers.get() = registers(context);
            *FAULT.lowest.get() = lowest;
        }
        FAULT.state.word().store(ASKED, Release);
        bell::ring();
    }
    // Another thread with a fault waits, too: it would end the process before the first one's backtrace is written.
    let limit = Instant::now() + PATIENCE;
    while is_asked() && Instant::now() < limit {
        FAULT.state.wait(ASKED, Some(limit.saturating_duration_since(Instant::now())));
    }
}

/// Whether a fault has been reported before.
pub(super) fn is_taken() -> bool {
    FAULT.taken.load(Acquire)
}

/// Whether a thread has asked for its backtrace.
pub(super) fn is_asked() -> bool {
    FAULT.state.word().load(Acquire) == ASKED
}

/// Writes the backtrace that was asked for. Called by the diagnosis thread.
pub(super) fn answer() {
    if !is_asked() {
        return;
    }
    // SAFETY: the cells were written before ASKED, and are never written again.
    let (registers, lowest) = unsafe { (*FAULT.registers.get(), *FAULT.lowest.get()) };
    let from = registers.sp.max(lowest);
    let mut stack = vec![0; BYTES];
    let got = peek::read(from, &mut stack);
    stack.truncate(got);
    to_stderr(|out| -> io::Result<()> {
        let mut backtracer = Backtracer::new();
        let addresses = backtracer.walk(&Frames { registers, from, stack });
        let lines = backtracer.lines(&addresses);
        lines.iter().take(LINES).try_for_each(|line| writeln!(out, "    at {line}"))?;
        if lines.len() > LINES { writeln!(out, "    and more") } else { Ok(()) }
    });
    trace_exit::save_now();
    FAULT.state.word().store(WRITTEN, Release);
    FAULT.state.wake();
}
