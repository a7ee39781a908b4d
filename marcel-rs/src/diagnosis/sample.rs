//! Where a *running* thread is: its registers and stack, copied by itself, in a signal handler.
//!
//! ```text
//!   asker                                    the asked kernel thread
//!   IDLE ─▶ ASKED, tgkill ──signal──▶ ASKED ─▶ WORKING, copies ─▶ DONE | ELSEWHERE | BUSY, futex wake
//!   waits; takes the copy, ─▶ IDLE
//!   no answer in time: ASKED ─▶ IDLE, and a late signal finds nothing to do
//! ```
//!
//! There is one slot, and one asker at a time. A signal that comes late, to a thread that is not the one asked, is
//! told from the right one by the kernel thread's number. The handler runs on the alternate stack, makes system
//! calls that do not block and touches nothing but the slot; `errno` is saved. A thread that is inside the
//! allocator, or anywhere else, is copied all the same: nobody unwinds or allocates there.
//!
//! The signal is not the tick's: a tick may be pending at any time, and must go on meaning what it means.
//!
//! Rejected: unwinding in the handler (the unwinder takes the loader's lock, which the interrupted code may
//! hold); `ptrace` or a helper process (not permitted everywhere, and a debugger would be in the way).

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::peek;
use crate::os::Futex;
use crate::os::this_thread;
use crate::sched::here;
use crate::tcb::block::Tcb;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const WORKING: u32 = 2;
const DONE: u32 = 3;
const ELSEWHERE: u32 = 4;
const BUSY: u32 = 5;

/// Most that is copied of a stack.
pub(super) const MOST: usize = 256 * 1024;
/// How long a kernel thread may take to answer: on a loaded machine it waits for a core first.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where a stack's frames begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) pc: usize,
    pub(super) sp: usize,
    pub(super) fp: usize,
    /// Where the architecture has one.
    pub(super) lr: usize,
}

/// What the handler found.
pub(super) enum Sample {
    /// The thread runs there; the bytes of its stack from `sp` on are in the buffer.
    Running(Registers),
    /// It does not run on that kernel thread any more.
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

// SAFETY: `found` is the handler's from WORKING on and the asker's from the answer on.
unsafe impl Sync for Slot {}

static SLOT: Slot = Slot {
    state: Futex::new(IDLE),
    tid: AtomicU32::new(0),
    expected: AtomicPtr::new(std::ptr::null_mut()),
    found: UnsafeCell::new(Registers { pc: 0, sp: 0, fp: 0, lr: 0 }),
    len: AtomicUsize::new(0),
    bytes: AtomicPtr::new(std::ptr::null_mut()),
};

/// The signal that asks.
fn signal() -> i32 {
    libc::SIGRTMIN() + 7
}

/// The right to ask.
pub(super) struct Asker(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Asker {
    /// Waits for whoever asks already.
    ///
    /// # Errors
    /// The kernel gives no memory, or not the signal.
    pub(super) fn new() -> io::Result<Asker> {
        static ASKING: Mutex<()> = Mutex::new(());
        static READY: OnceLock<Result<(), i32>> = OnceLock::new();
        let asking = ASKING.lock().unwrap_or_else(|e| e.into_inner());
        match READY.get_or_init(|| prepare().map_err(|e| e.raw_os_error().unwrap_or(0))) {
            Ok(()) => Ok(Asker(asking)),
            Err(errno) => Err(io::Error::from_raw_os_error(*errno)),
        }
    }

    /// Asks the kernel thread `tid` for what it does of `tcb`; the stack goes to `stack`.
    pub(super) fn ask(&mut self, tid: u32, tcb: &'static Tcb, stack: &mut Vec<u8>) -> Sample {
        let limit = Instant::now() + PATIENCE;
        loop {
            match self.ask_once(tid, tcb, stack, limit) {
                // A tick's handler is on top: it is short.
                BUSY if Instant::now() < limit => std::thread::sleep(Duration::from_millis(1)),
                // SAFETY: answered: the slot is ours.
                DONE => return Sample::Running(unsafe { *SLOT.found.get() }),
                ELSEWHERE => return Sample::Elsewhere,
                _ => return Sample::NoAnswer,
            }
        }
    }

    fn ask_once(&self, tid: u32, tcb: &'static Tcb, stack: &mut Vec<u8>, limit: Instant) -> u32 {
        let state = SLOT.state.word();
        SLOT.tid.store(tid, Relaxed);
        SLOT.expected.store(tcb as *const Tcb as *mut Tcb, Relaxed);
        state.store(ASKED, Release);
        // SAFETY: a signal to a thread of this process; a thread that is gone is an error.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as i32, signal()) } == 0;
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
                // Bounded work: it will answer.
                WORKING => SLOT.state.wait(WORKING, None),
                answer => {
                    if answer == DONE {
                        let len = SLOT.len.load(Relaxed);
                        // SAFETY: the handler has written `len` bytes, and nobody writes until the next question.
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

/// Memory for the copy, mapped once and touched as it is needed; the handler.
fn prepare() -> io::Result<()> {
    // SAFETY: a fresh anonymous mapping; then a valid sigaction whose handler has the SA_SIGINFO signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal(), std::ptr::null(), &mut action);
        if action.sa_sigaction != libc::SIG_DFL {
            return Err(io::Error::from_raw_os_error(libc::EBUSY)); // the application's
        }
        let bytes = libc::mmap(
            std::ptr::null_mut(),
            MOST,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if bytes == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        SLOT.bytes.store(bytes.cast(), Release);
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(signal(), &action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
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
    // SAFETY: errno of this thread.
    let errno = unsafe { *libc::__errno_location() };
    let answer = match here::tcb() {
        Some(tcb) if std::ptr::eq(tcb, SLOT.expected.load(Relaxed)) && !here::in_scheduler() => {
            if this_thread::in_tick() {
                BUSY
            } else {
                // SAFETY: the kernel gives a valid ucontext; the slot is ours while WORKING.
                unsafe { copy(tcb, &*context.cast()) };
                DONE
            }
        }
        _ => ELSEWHERE,
    };
    state.store(answer, Release);
    SLOT.state.wake();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
/// In the handler, while WORKING.
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

/// Where the interrupted code was.
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(context: &libc::ucontext_t) -> Registers {
    let at = |register: i32| context.uc_mcontext.gregs[register as usize] as usize;
    Registers { pc: at(libc::REG_RIP), sp: at(libc::REG_RSP), fp: at(libc::REG_RBP), lr: 0 }
}

/// Where the interrupted code was.
#[cfg(target_arch = "aarch64")]
pub(super) fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        pc: machine.pc as usize,
        sp: machine.sp as usize,
        fp: machine.regs[29] as usize,
        lr: machine.regs[30] as usize,
    }
}

/// Not known here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn registers(_: &libc::ucontext_t) -> Registers {
    Registers::default()
}
