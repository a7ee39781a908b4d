//! Where a thread was that dies of a fault.
//!
//! The handler of the fault cannot unwind or look names up: the thread may have been anywhere, and its stack is at its
//! end. It leaves its registers here, rings for the diagnosis thread, and gives it a few seconds to say the rest.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

use super::backtrace::Backtracer;
use super::peek;
use super::sample::{self, Registers};
use super::service;
use super::snapshot::Frames;
use super::trace_exit;
use crate::os::Futex;
use crate::os::stderr::to_stderr;

const NONE: u32 = 0;
const ASKED: u32 = 1;
const SAID: u32 = 2;

/// Most that is read of the stack, and shown: a recursion repeats itself.
const BYTES: usize = 64 * 1024;
const LINES: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

struct Will {
    state: Futex,
    /// Somebody dies already.
    taken: AtomicBool,
    registers: UnsafeCell<Registers>,
    lowest: UnsafeCell<usize>,
}

// SAFETY: the cells are the dying thread's until ASKED, and not written any more after.
unsafe impl Sync for Will {}

static WILL: Will = Will {
    state: Futex::new(NONE),
    taken: AtomicBool::new(false),
    registers: UnsafeCell::new(Registers { pc: 0, sp: 0, fp: 0, lr: 0 }),
    lowest: UnsafeCell::new(0),
};

/// Has the backtrace of the interrupted code written to standard error, if there is a thread that can do it; the
/// readable part of its stack begins at `lowest`.
///
/// # Context
/// A signal handler that ends the process.
pub(crate) fn say(context: &libc::ucontext_t, lowest: usize) {
    if !service::is_there() || WILL.taken.swap(true, AcqRel) {
        return;
    }
    // SAFETY: taken by us, and not published yet.
    unsafe {
        *WILL.registers.get() = sample::registers(context);
        *WILL.lowest.get() = lowest;
    }
    WILL.state.word().store(ASKED, Release);
    service::ring();
    let limit = Instant::now() + PATIENCE;
    while is_asked() && Instant::now() < limit {
        WILL.state.wait(ASKED, Some(limit.saturating_duration_since(Instant::now())));
    }
}

pub(super) fn is_asked() -> bool {
    WILL.state.word().load(Acquire) == ASKED
}

/// On the diagnosis thread.
pub(super) fn answer() {
    if !is_asked() {
        return;
    }
    // SAFETY: ASKED was seen: written before, and never again.
    let (registers, lowest) = unsafe { (*WILL.registers.get(), *WILL.lowest.get()) };
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
    WILL.state.word().store(SAID, Release);
    WILL.state.wake();
}
