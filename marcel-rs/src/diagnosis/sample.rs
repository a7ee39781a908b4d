//! Samples a *running* thread: a signal handler on its kernel thread copies its registers and stack.
//!
//! ```text
//!   sampler                                    the kernel thread
//!   IDLE ─▶ ASKED, tgkill ──signal──▶ ASKED ─▶ WORKING, copies ─▶ DONE | ELSEWHERE | BUSY, futex wake
//!   waits; takes the copy, ─▶ IDLE
//!   no answer in time: ASKED ─▶ IDLE, and a late signal finds nothing to do
//! ```
//!
//! The process has one slot and one sampler at a time. The slot has the kernel thread's number, so a late signal to
//! another kernel thread is ignored. The handler runs on the alternate stack, makes system calls that do not block,
//! touches only the slot and keeps `errno`. It neither unwinds nor allocates, so the interrupted code may be anywhere,
//! also inside the allocator.
//!
//! The signal is not the tick's, since a tick may be pending at any time and must keep its meaning.
//!
//! # Rejected
//! * Unwinding in the handler: the unwinder takes the loader's lock, which the interrupted code may hold.
//! * `ptrace` or a helper process: it is not permitted everywhere, and would exclude a debugger.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::frames::{Registers, registers};
use super::peek;
use crate::os::Futex;
use crate::os::KernelMutex;
use crate::os::memory;
use crate::os::signal::{self, Action, KeepErrno};
use crate::os::this_thread;
use crate::sched::here;
use crate::tcb::block::Tcb;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const WORKING: u32 = 2;
const DONE: u32 = 3;
const ELSEWHERE: u32 = 4;
const BUSY: u32 = 5;

/// Longest part of a stack that is copied.
const MOST: usize = 256 * 1024;
/// Time-out of an answer. On a loaded machine the kernel thread waits for a core first.
const PATIENCE: Duration = Duration::from_millis(500);

/// The outcome of sampling.
pub(super) enum Sample {
    /// The thread runs there. The buffer has its stack from `sp` on.
    Running(Registers),
    /// The thread does not run on that kernel thread any more.
    Elsewhere,
    /// The kernel thread did not answer: it waits for a core, or blocks the signal.
    NoAnswer,
}

struct Slot {
    state: Futex,
    tid: AtomicU32,
    expected: AtomicPtr<Tcb>,
    found: UnsafeCell<Registers>,
    len: AtomicUsize,
    bytes: AtomicPtr<u8>,
}

// SAFETY: the handler alone accesses `found` from WORKING to the answer, the sampler alone from the answer on.
unsafe impl Sync for Slot {}

static SLOT: Slot = Slot {
    state: Futex::new(IDLE),
    tid: AtomicU32::new(0),
    expected: AtomicPtr::new(std::ptr::null_mut()),
    found: UnsafeCell::new(Registers { pc: 0, sp: 0, fp: 0, lr: 0 }),
    len: AtomicUsize::new(0),
    bytes: AtomicPtr::new(std::ptr::null_mut()),
};

/// The signal whose handler copies.
fn number() -> i32 {
    libc::SIGRTMIN() + 7
}

/// The exclusive right to sample.
pub(super) struct Sampler(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Sampler {
    /// Waits until no other thread samples.
    ///
    /// # Errors
    /// The kernel has no memory for the copy, or the program uses the signal.
    pub(super) fn new() -> io::Result<Sampler> {
        static ASKING: KernelMutex<()> = KernelMutex::new(());
        static READY: OnceLock<Result<(), i32>> = OnceLock::new();
        let asking = ASKING.lock();
        match READY.get_or_init(|| prepare().map_err(|e| e.raw_os_error().unwrap_or(0))) {
            Ok(()) => Ok(Sampler(asking)),
            Err(errno) => Err(io::Error::from_raw_os_error(*errno)),
        }
    }

    /// Samples `tcb`'s thread on the kernel thread `tid`. The stack goes to `stack`.
    pub(super) fn sample(&mut self, tid: u32, tcb: &'static Tcb, stack: &mut Vec<u8>) -> Sample {
        let limit = Instant::now() + PATIENCE;
        loop {
            match self.try_once(tid, tcb, stack, limit) {
                // A tick's handler is on top, and ends soon.
                BUSY if Instant::now() < limit => std::thread::sleep(Duration::from_millis(1)),
                // SAFETY: the handler has answered, so the sampler owns `found`.
                DONE => return Sample::Running(unsafe { *SLOT.found.get() }),
                ELSEWHERE => return Sample::Elsewhere,
                _ => return Sample::NoAnswer,
            }
        }
    }

    fn try_once(&self, tid: u32, tcb: &'static Tcb, stack: &mut Vec<u8>, limit: Instant) -> u32 {
        let state = SLOT.state.word();
        SLOT.tid.store(tid, Relaxed);
        SLOT.expected.store(tcb as *const Tcb as *mut Tcb, Relaxed);
        state.store(ASKED, Release);
        // SAFETY: a signal to a thread of this process; a thread that is gone is an error.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as i32, number()) } == 0;
        loop {
            match state.load(Acquire) {
                ASKED => {
                    let left = limit.saturating_duration_since(Instant::now());
                    if !sent || left.is_zero() {
                        if state.compare_exchange(ASKED, IDLE, AcqRel, Acquire).is_ok() {
                            return if sent { IDLE } else { ELSEWHERE };
                        }
                        continue;
                    }
                    SLOT.state.wait(ASKED, Some(left));
                }
                // The handler's work is bounded.
                WORKING => SLOT.state.wait(WORKING, None),
                answer => {
                    if answer == DONE {
                        let len = SLOT.len.load(Relaxed);
                        // SAFETY: the handler has written `len` bytes, and writes again after the next ASKED only.
                        let bytes =
                            unsafe { std::slice::from_raw_parts(SLOT.bytes.load(Relaxed), len) };
                        stack.clear();
                        stack.extend_from_slice(bytes);
                    }
                    state.store(IDLE, Relaxed);
                    return answer;
                }
            }
        }
    }
}

/// Maps the memory for the copy, which is touched as needed, and installs the handler.
fn prepare() -> io::Result<()> {
    if !Action::of(number())?.is_default() {
        return Err(io::Error::from_raw_os_error(libc::EBUSY)); // the application's
    }
    SLOT.bytes.store(memory::map(MOST, libc::MAP_NORESERVE)?.cast(), Release);
    // SAFETY: the handler touches the slot only, and makes system calls.
    unsafe { signal::handle(number(), handler) }
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let state = SLOT.state.word();
    // SAFETY: gettid has no arguments.
    if state.load(Acquire) != ASKED || SLOT.tid.load(Relaxed) != unsafe { libc::gettid() } as u32 {
        return;
    }
    if state.compare_exchange(ASKED, WORKING, AcqRel, Acquire).is_err() {
        return;
    }
    let _errno = KeepErrno::new();
    let answer = match here::tcb() {
        Some(tcb) if std::ptr::eq(tcb, SLOT.expected.load(Relaxed)) => {
            if this_thread::in_tick() {
                BUSY
            } else {
                // SAFETY: the kernel gives a valid ucontext; while WORKING the handler owns the slot.
                unsafe { copy(tcb, &*context.cast()) };
                DONE
            }
        }
        _ => ELSEWHERE,
    };
    state.store(answer, Release);
    SLOT.state.wake();
}

/// # Safety
/// Called in the handler, while WORKING.
unsafe fn copy(tcb: &Tcb, context: &libc::ucontext_t) {
    let registers = registers(context);
    let stack = tcb.info.stack();
    let len = match stack.contains(&registers.sp) {
        true => (stack.end - registers.sp).min(MOST),
        false => MOST,
    };
    // SAFETY: the caller's promise; MOST bytes are mapped there.
    unsafe {
        *SLOT.found.get() = registers;
        SLOT.len.store(peek::read_raw(registers.sp, SLOT.bytes.load(Relaxed), len), Relaxed);
    }
}
