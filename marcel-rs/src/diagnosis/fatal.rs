//! The backtrace of a thread that dies of a fault.
//!
//! The fault's handler can neither unwind nor look up names, since the interrupted code may hold any lock and has used
//! up its stack. The handler leaves its registers here, rings for the diagnosis thread, and waits while that thread
//! writes the backtrace: for some seconds of that thread's CPU time, since on a busy machine it may not get a core.

use std::cell::UnsafeCell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use std::time::{Duration, Instant};

use super::backtrace::Backtracer;
use super::bell;
use super::frames::{Frames, Registers, registers};
use super::peek;
use super::trace_exit;
use crate::os::stderr::to_stderr;
use crate::os::{Futex, clock};

const NONE: u32 = 0;
const ASKED: u32 = 1;
const WRITTEN: u32 = 2;

/// Longest part of the stack that is read, and number of lines shown: a recursion repeats itself.
const BYTES: usize = 64 * 1024;
const LINES: usize = 16;
/// CPU time that the diagnosis thread may use for a backtrace, and time in which it may use none: it may need a lock
/// that the interrupted code holds.
const PATIENCE: Duration = Duration::from_secs(5);
/// The end of the wait, whatever that thread does: on a machine with dozens of running threads for each core a second of
/// CPU time takes more than half a minute.
const END: Duration = Duration::from_secs(120);
/// Time between two looks at the diagnosis thread's clock.
const LOOK: Duration = Duration::from_millis(100);

/// What else a message says about the calling thread, if [`super::name_faults`] was told.
static LABEL: OnceLock<fn() -> Option<&'static str>> = OnceLock::new();

/// Sets what says more about a thread, once per process.
///
/// # Safety
/// As [`super::name_faults`].
pub(super) unsafe fn set_label(label: fn() -> Option<&'static str>) {
    let _ = LABEL.set(label);
}

/// What the calling thread runs, in words.
///
/// # Context
/// Anywhere, signal handlers included.
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

impl Fault {
    const fn new() -> Fault {
        Fault {
            state: Futex::new(NONE),
            taken: AtomicBool::new(false),
            registers: UnsafeCell::new(Registers { pc: 0, sp: 0, fp: 0, lr: 0 }),
            lowest: UnsafeCell::new(0),
        }
    }

    /// Waits until the backtrace is written, for as long as the module says. The thread that has set `taken` may not have
    /// asked for it yet.
    fn wait(&self) {
        let (begun, before) = (Instant::now(), used());
        let (mut last, mut advanced) = (before, begun);
        let mut state = self.state.word().load(Acquire);
        while state != WRITTEN
            && begun.elapsed() < END
            && advanced.elapsed() < PATIENCE
            && last.saturating_sub(before) < PATIENCE
        {
            self.state.wait(state, Some(LOOK));
            let now = used();
            if now != last {
                (last, advanced) = (now, Instant::now());
            }
            state = self.state.word().load(Acquire);
        }
    }
}

static FAULT: Fault = Fault::new();

/// The kernel's clock of the diagnosis thread's CPU time; 0 before that thread's first turn. (Clocks of threads are
/// negative.)
static CLOCK: AtomicI32 = AtomicI32::new(0);

/// Makes the calling thread the one whose CPU time limits the wait of [`report`]. Called by the diagnosis thread.
pub(super) fn serve() {
    let mut id = 0;
    // SAFETY: a thread that runs, and a writable clock's id.
    let refused = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
    CLOCK.store(if refused == 0 { id } else { 0 }, Release);
}

/// CPU time of the diagnosis thread; nothing while it has no clock, or has ended.
///
/// # Context
/// Anywhere, signal handlers included: one system call.
fn used() -> Duration {
    match CLOCK.load(Acquire) {
        0 => Duration::ZERO,
        id => Duration::from_nanos(clock::read(id)),
    }
}

/// Whether the calling thread is the first with a fault: it says what it has to say, then calls [`report`] or [`end`]. Another one
/// waits here until that has been said: it would write between the lines, and end the process before the last one.
///
/// # Context
/// A signal handler that ends the process.
///
/// # Blocking
/// Blocks the kernel thread, [`END`] at most.
pub(super) fn begin() -> bool {
    let is_first = !FAULT.taken.swap(true, AcqRel);
    if !is_first {
        FAULT.wait();
    }
    is_first
}

/// Has the diagnosis thread, if there is one, write the backtrace of the interrupted code to standard error.
///
/// The readable part of the interrupted stack begins at `lowest`.
///
/// # Safety
/// By the thread that was told by [`begin`] that it is the first, once.
///
/// # Context
/// A signal handler that ends the process.
///
/// # Blocking
/// Blocks the kernel thread until the backtrace is written, [`END`] at most.
pub(super) unsafe fn report(context: &libc::ucontext_t, lowest: usize) {
    if !bell::is_served() {
        return end();
    }
    // SAFETY: this thread has set `taken`, and the state is not ASKED yet.
    unsafe {
        *FAULT.registers.get() = registers(context);
        *FAULT.lowest.get() = lowest;
    }
    FAULT.state.word().store(ASKED, Release);
    bell::ring();
    FAULT.wait();
}

/// All has been said: other threads with a fault go on.
pub(super) fn end() {
    FAULT.state.word().store(WRITTEN, Release);
    FAULT.state.wake();
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
    end();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It ended the process before the first thread had left its registers.
    #[test]
    fn a_second_fault_waits_although_the_first_has_not_asked_yet() {
        let fault = Fault::new();
        fault.taken.store(true, Relaxed);
        let seen = std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                fault.wait();
                fault.state.word().load(Acquire)
            });
            for state in [ASKED, WRITTEN] {
                std::thread::sleep(Duration::from_millis(50));
                fault.state.word().store(state, Release);
            }
            fault.state.wake();
            second.join().unwrap()
        });
        assert_eq!(seen, WRITTEN);
    }
}
