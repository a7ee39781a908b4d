//! User interrupts for the tests (feature `emulated-user-interrupts`), on processors without: a handler of the traps (SIGILL; SIGSEGV of what a
//! processor takes for an instruction of protection keys) that decodes the instructions and does what the manuals say, and a
//! signal in place of the processor's own interrupt.
//!
//! What is emulated is the processor and the kernel. The instructions, the stub and its frame are those meant for the
//! hardware. Threads of one process only.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use std::sync::{Once, OnceLock};

use super::calls::Calls;
use super::detect::Machine;
use crate::os::signal::Action;
use crate::os::user_interrupts::Usable;

/// The processor's notification.
fn notification() -> i32 {
    libc::SIGRTMIN() + 13
}

/// A receiver's descriptor in memory (UPID).
struct Posted {
    thread: AtomicI32,
    outstanding: AtomicBool,
    vectors: AtomicU64,
}

/// What a kernel thread's processor has for it. By signal handlers of that thread, with signals blocked, and by the
/// thread before it has a handler.
struct Core {
    unmasked: bool,
    requested: u64,
    handler: u64,
    stack: u64,
    posted: Option<&'static Posted>,
}

thread_local! {
    static CORE: UnsafeCell<Core> = const {
        UnsafeCell::new(Core { unmasked: false, requested: 0, handler: 0, stack: 0, posted: None })
    };
}

/// A table without locks: handlers read it.
struct Table([Entry; PLACES], AtomicUsize);

/// Places of a table; what comes beyond is refused.
const PLACES: usize = 256;

struct Entry {
    posted: AtomicPtr<Posted>,
    vector: AtomicU64,
    file: AtomicU64,
}

impl Table {
    const fn new() -> Table {
        let places = [const {
            Entry {
                posted: AtomicPtr::new(std::ptr::null_mut()),
                vector: AtomicU64::new(0),
                file: AtomicU64::new(0),
            }
        }; PLACES];
        Table(places, AtomicUsize::new(0))
    }

    fn add(&self, posted: &'static Posted, vector: u64, file: u64) -> io::Result<usize> {
        let at = self.1.fetch_add(1, SeqCst);
        let entry = self.0.get(at).ok_or(io::ErrorKind::OutOfMemory)?;
        entry.vector.store(vector, SeqCst);
        entry.file.store(file, SeqCst);
        entry.posted.store(std::ptr::from_ref(posted).cast_mut(), SeqCst);
        Ok(at)
    }

    fn get(&self, at: usize) -> Option<(&'static Posted, u64)> {
        let entry = self.0.get(at)?;
        // SAFETY: leaked by `register_handler`.
        let posted = unsafe { entry.posted.load(SeqCst).as_ref() }?;
        Some((posted, entry.vector.load(SeqCst)))
    }

    fn find(&self, file: u64) -> Option<(&'static Posted, u64)> {
        let known = |at: &usize| self.get(*at).is_some() && self.0[*at].file.load(SeqCst) == file;
        (0..PLACES).rev().find(known).and_then(|at| self.get(at))
    }
}

/// The table of targets (UITT): whose, and which vector.
static TARGETS: Table = Table::new();
/// What the descriptors stand for, by the number of their file.
static VECTORS: Table = Table::new();
/// How many instructions were emulated, by the last byte of their code: `uiret` to `stui`; `senduipi`.
pub(crate) static EXECUTED: [AtomicU32; 5] = [const { AtomicU32::new(0) }; 5];

fn core() -> &'static mut Core {
    // SAFETY: see `Core`; the borrow ends before another begins, since handlers do not nest.
    CORE.with(|core| unsafe { &mut *core.get() })
}

impl Core {
    /// Takes what was posted, and enters the handler if one is to run.
    fn recognise(&mut self, registers: &mut [i64; 23]) {
        if let Some(posted) = self.posted {
            posted.outstanding.store(false, SeqCst);
            self.requested |= posted.vectors.swap(0, SeqCst);
        }
        if !self.unmasked || self.requested == 0 || self.handler == 0 {
            return;
        }
        let vector = 63 - u64::from(self.requested.leading_zeros());
        self.requested &= !(1 << vector);
        let [rip, flags, rsp] = [libc::REG_RIP, libc::REG_EFL, libc::REG_RSP].map(|r| r as usize);
        let top = match self.stack & 1 {
            1 => self.stack & !1,
            _ => registers[rsp] as u64 - self.stack,
        };
        let frame = (top & !15) as *mut i64;
        // SAFETY: the receiver's own stack, or below the red zone of the interrupted one.
        unsafe {
            frame.sub(1).write(registers[rsp]);
            frame.sub(2).write(registers[flags]);
            frame.sub(3).write(registers[rip]);
            frame.sub(4).write(vector as i64);
        }
        registers[rsp] = frame.addr() as i64 - 32;
        registers[rip] = self.handler as i64;
        self.unmasked = false;
    }

    /// `uiret`.
    fn leave(&mut self, registers: &mut [i64; 23]) {
        let [rip, flags, rsp] = [libc::REG_RIP, libc::REG_EFL, libc::REG_RSP].map(|r| r as usize);
        let frame = registers[rsp] as *const i64;
        // SAFETY: the frame of `recognise`, without its vector.
        unsafe {
            registers[rip] = frame.read();
            registers[flags] = frame.add(1).read();
            registers[rsp] = frame.add(2).read();
        }
        self.unmasked = true;
    }
}

/// The signals of traps, and what each did before.
static TRAPS: [(i32, OnceLock<Action>); 2] =
    [(libc::SIGILL, OnceLock::new()), (libc::SIGSEGV, OnceLock::new())];
/// A SIGSEGV that is no access to memory (`SI_KERNEL`).
const NO_ACCESS: i32 = 0x80;

extern "C" fn trapped(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's.
    let emulated = unsafe {
        (signal == libc::SIGILL || (*info).si_code == NO_ACCESS)
            && emulate(&mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs)
    };
    if !emulated
        && let Some(before) =
            TRAPS.iter().find(|trap| trap.0 == signal).and_then(|trap| trap.1.get())
    {
        // SAFETY: the handler's own arguments.
        unsafe { before.pass_on(signal, info, context) };
    }
}

/// Executes the instruction that has trapped; false: it is another one.
///
/// # Safety
/// The registers of code that has executed the instruction.
unsafe fn emulate(registers: &mut [i64; 23]) -> bool {
    let rip = libc::REG_RIP as usize;
    // (What jumps to an address that cannot be traps there: nothing is behind it.)
    if registers[rip] >> 47 != 0 {
        return false;
    }
    let code = registers[rip] as *const u8;
    // SAFETY: the code that was executed: each of these instructions has four bytes, or five with a second prefix.
    let code: [u8; 5] = unsafe {
        let [first, second, third, fourth] = code.cast::<[u8; 4]>().read();
        let fifth = if second & 0xf0 == 0x40 { code.add(4).read() } else { 0 };
        [first, second, third, fourth, fifth]
    };
    let count = |at: usize| EXECUTED[at].fetch_add(1, SeqCst);
    match code {
        [0xf3, 0x0f, 0x01, last @ 0xec..=0xef, _] => {
            registers[rip] += 4;
            count(usize::from(last - 0xec));
            match last {
                0xec => core().leave(registers),
                0xed => {
                    let flags = &mut registers[libc::REG_EFL as usize];
                    *flags = *flags & !0x8d5 | i64::from(core().unmasked);
                }
                0xee => core().unmasked = false,
                _ => core().unmasked = true,
            }
            core().recognise(registers);
        }
        [0xf3, 0x0f, 0xc7, operand, _] if operand & 0xf8 == 0xf0 => {
            registers[rip] += 4;
            count(4);
            send(registers, operand & 7);
        }
        [0xf3, rex @ 0x40..=0x4f, 0x0f, 0xc7, operand] if operand & 0xf8 == 0xf0 => {
            registers[rip] += 5;
            count(4);
            send(registers, operand & 7 | (rex & 1) << 3);
        }
        _ => return false,
    }
    true
}

/// `senduipi`.
fn send(registers: &[i64; 23], register: u8) {
    let order = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
    ];
    let at = match register {
        0..8 => order[usize::from(register)] as usize,
        _ => libc::REG_R8 as usize + usize::from(register - 8),
    };
    let Some((posted, vector)) = TARGETS.get(registers[at] as usize) else { return };
    posted.vectors.fetch_or(1 << vector, SeqCst);
    if !posted.outstanding.swap(true, SeqCst) {
        let thread = posted.thread.load(SeqCst);
        // SAFETY: no pointers.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, notification()) };
    }
}

extern "C" fn notified(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    core().recognise(&mut context.uc_mcontext.gregs);
}

/// Whether the instructions trap: false, and said, on a processor that has them.
pub(crate) fn is_possible() -> bool {
    let absent = !super::detect::Here("").has_cpuid_bit();
    if !absent {
        eprintln!("SKIPPED: this processor has user interrupts, which would not trap");
    }
    absent
}

/// The emulator takes the traps of this process from now on.
pub(crate) fn start() -> Usable {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (signal, before) in &TRAPS {
            let _ = before.set(Action::of(*signal).unwrap()); // before the handler can run
        }
        let traps = TRAPS.iter().map(|trap| (trap.0, trapped as *const () as usize));
        for (signal, handler) in traps.chain([(notification(), notified as *const () as usize)]) {
            // SAFETY: valid actions; the handlers block all signals, and touch their thread's state only.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigfillset(&mut action.sa_mask);
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
    // SAFETY: the emulator takes the traps.
    let usable = unsafe { Usable::promised() };
    usable.announce();
    usable
}

/// The emulated kernel. A vector's descriptor is that of an empty file in memory, which can be duplicated.
#[derive(Clone, Copy)]
pub(crate) struct Emulated {
    /// As the patch that was published: the lowest address of the stack is where the handler begins.
    pub(crate) lowest: bool,
}

fn file_of(fd: RawFd) -> io::Result<u64> {
    // SAFETY: a local is written; zeros are a valid value.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        match libc::fstat(fd, &mut status) {
            0 => Ok(status.st_ino),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Calls for Emulated {
    unsafe fn register_handler(&self, handler: u64) -> io::Result<()> {
        let core = core();
        core.handler = handler;
        core.stack = 128;
        core.requested = 0;
        core.posted = Some(Box::leak(Box::new(Posted {
            // SAFETY: no arguments.
            thread: AtomicI32::new(unsafe { libc::gettid() }),
            outstanding: AtomicBool::new(false),
            vectors: AtomicU64::new(0),
        })));
        Ok(())
    }

    fn unregister_handler(&self) -> io::Result<()> {
        let core = core();
        (core.handler, core.posted) = (0, None);
        Ok(())
    }

    unsafe fn alternate_stack(&self, lowest: u64, bytes: u64) -> io::Result<()> {
        core().stack = if self.lowest { lowest | 1 } else { (lowest + bytes) | 1 };
        Ok(())
    }

    fn vector_fd(&self, vector: u64) -> io::Result<OwnedFd> {
        // SAFETY: a literal; the descriptor is the caller's.
        let fd = unsafe {
            OwnedFd::from_raw_fd(libc::memfd_create(c"vector".as_ptr(), libc::MFD_CLOEXEC))
        };
        let posted = core().posted.ok_or(io::ErrorKind::NotFound)?;
        VECTORS.add(posted, vector, file_of(fd.as_raw_fd())?)?;
        Ok(fd)
    }

    fn register_sender(&self, vector: RawFd) -> io::Result<u64> {
        let (posted, vector) = VECTORS.find(file_of(vector)?).ok_or(io::ErrorKind::NotFound)?;
        TARGETS.add(posted, vector, 0).map(|index| index as u64)
    }
}

/// What is posted to the calling thread and not delivered.
#[cfg(test)]
pub(super) fn left() -> (bool, u64) {
    let core = core();
    let posted = core.posted.unwrap();
    (posted.outstanding.load(SeqCst), posted.vectors.load(SeqCst) | core.requested)
}
