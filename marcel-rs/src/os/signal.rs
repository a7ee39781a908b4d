//! Signals: what a handler is installed by, what it keeps of the code that it interrupts, and how they are kept away.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::thread::JoinHandle;

/// What a signal calls.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// What a signal does.
#[derive(Clone, Copy)]
pub struct Action(libc::sigaction);

impl Action {
    /// What `signal` does now.
    ///
    /// # Errors
    /// There is no such signal.
    pub fn of(signal: i32) -> io::Result<Action> {
        let mut action = MaybeUninit::zeroed();
        // SAFETY: a null action only asks.
        let got = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
        // SAFETY: written by the call; all-zero is a valid value as well.
        done(got).map(|()| Action(unsafe { action.assume_init() }))
    }

    /// Whether neither the program nor a library handles or ignores the signal.
    pub fn is_default(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_DFL
    }

    /// Has `signal` do this again.
    pub fn restore(&self, signal: i32) {
        // SAFETY: an action that was in force.
        unsafe { libc::sigaction(signal, &self.0, null_mut()) };
    }

    /// Whether it calls `handler`.
    pub fn calls(&self, handler: Handler) -> bool {
        self.0.sa_sigaction == handler as usize
    }

    /// Does in a handler that has replaced this action what this would have done; to end the process, it restores the
    /// default action, which the interrupted instruction then meets again, or, if somebody has sent the signal, that comes
    /// once more.
    ///
    /// # Safety
    /// The arguments are those of the calling handler.
    pub unsafe fn pass_on(
        &self,
        signal: i32,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        match self.0.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                restore_default(signal);
                // SAFETY: the kernel's siginfo, by the contract; the call takes numbers. The signal waits for the
                // handler's end.
                unsafe {
                    if (*info).si_code <= 0 {
                        libc::raise(signal);
                    }
                }
            }
            address if self.0.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: a handler with this signature, by its SA_SIGINFO flag.
                let handler: Handler = unsafe { std::mem::transmute(address) };
                handler(signal, info, context);
            }
            address => {
                // SAFETY: a handler with the plain signature.
                let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(address) };
                handler(signal);
            }
        }
    }
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Action")
    }
}

/// Has `handler` called for `signal`: on the alternate stack where there is one, with that signal blocked. System calls
/// that the kernel can go on with go on.
///
/// # Safety
/// The handler does only what a signal handler may do.
///
/// # Errors
/// The signal cannot be handled.
pub unsafe fn handle(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: a valid sigaction whose handler has the SA_SIGINFO signature, and the caller's promise.
    done(unsafe { libc::sigaction(signal, &action, null_mut()) })
}

/// `signal` does what the kernel provides. In signal handlers, too.
pub fn restore_default(signal: i32) {
    // SAFETY: valid arguments.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling kernel thread's `errno`.
#[inline]
pub fn errno() -> i32 {
    // SAFETY: always a valid thread-local address.
    unsafe { *libc::__errno_location() }
}

/// Restores `errno` when dropped: what runs in a handler may have interrupted any code. No switch of green threads
/// meanwhile.
#[derive(Debug)]
#[must_use = "errno is kept until this is dropped"]
pub struct KeepErrno(i32);

impl KeepErrno {
    /// From now on.
    #[inline]
    #[expect(clippy::new_without_default, reason = "a guard")]
    pub fn new() -> KeepErrno {
        KeepErrno(errno())
    }
}

impl Drop for KeepErrno {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: always a valid thread-local address.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// Blocks every signal but traps of the calling kernel thread, and of those that it starts, until dropped; and its user
/// interrupts.
#[must_use = "signals are blocked until this is dropped"]
pub struct AllBlocked {
    before: libc::sigset_t,
    /// Dropped after the signals' mask is restored.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    _interrupts: Option<crate::os::user_interrupts::Masked>,
}

impl AllBlocked {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "a guard")]
    pub fn new() -> AllBlocked {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        let _interrupts = crate::os::user_interrupts::in_use().map(|usable| usable.masked());
        // SAFETY: valid signal sets: zero is one, and both are written.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            // A trap has to reach its handler: blocked, it would end the process.
            for trap in [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE] {
                libc::sigdelset(&mut all, trap);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            AllBlocked {
                before,
                #[cfg(all(target_arch = "x86_64", not(loom)))]
                _interrupts,
            }
        }
    }
}

/// Starts a kernel thread of a library: with every signal blocked, since signals are the program's.
///
/// # Errors
/// The kernel refuses it.
pub fn spawn_blocked<T: Send + 'static>(
    thread: std::thread::Builder,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let _blocked = AllBlocked::new();
    thread.spawn(f)
}

impl std::fmt::Debug for AllBlocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AllBlocked")
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, null_mut()) };
    }
}
