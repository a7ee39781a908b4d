//! The kernel thread that dumps when asked by `SIGQUIT`, and watches for threads that do not yield.
//!
//! It is there while a runtime is, if one of the two is wanted, and sleeps in the kernel: it costs its stack's first
//! pages. The signal's handler does not dump; it rings, which is one atomic operation and one system call,
//! whatever the interrupted thread was doing.
//!

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::watchdog::Watchdog;
use super::{last_words, report, trace_exit};
use crate::error::Error;
use crate::knobs;
use crate::os::sleeper::Sleeper;
use crate::os::stderr::to_stderr;
use crate::sched::shared::Shared;
use crate::sched::vp::Vp;

/// The runtimes there are. Held shortly.
static RUNTIMES: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());
/// The kernel thread that looks after them; held while it starts or stops, which it does not wait for.
static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
static BELL: Sleeper = Sleeper::new();
static STOP: AtomicBool = AtomicBool::new(false);
static SERVING: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Every virtual processor of every runtime.
pub(super) fn vps() -> Vec<&'static Vp> {
    lock(&RUNTIMES).iter().flat_map(|shared| shared.all_vps()).collect()
}

/// A runtime that can be looked at; until it is dropped.
pub(crate) struct Watched(Arc<Shared>);

/// Makes the virtual processors of `shared` known, and starts what the knobs ask for.
///
/// # Errors
/// A knob holds something else; the kernel refuses the thread.
pub(crate) fn watch(shared: &Arc<Shared>) -> Result<Watched, Error> {
    trace_exit::from_env()?;
    let quit = knobs::SIGQUIT.bool()?;
    let stall = knobs::STALL_MS.int()?.filter(|ms| *ms > 0);
    let mut thread = lock(&THREAD);
    if thread.is_none() && (quit || stall.is_some()) {
        STOP.store(false, Relaxed);
        let stall = stall.map(|ms| Duration::from_millis(ms as u64));
        *thread = Some(start(stall).map_err(|source| Error::Os {
            doing: "starting the kernel thread that answers SIGQUIT (MARCEL_SIGQUIT=0 does without)",
            source,
        })?);
        if quit {
            quit::take();
        }
    }
    lock(&RUNTIMES).push(shared.clone());
    Ok(Watched(shared.clone()))
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut thread = lock(&THREAD);
        let left = {
            let mut runtimes = lock(&RUNTIMES);
            runtimes.retain(|shared| !Arc::ptr_eq(shared, &self.0));
            runtimes.len()
        };
        if left == 0
            && let Some(thread) = thread.take()
        {
            quit::give_back();
            STOP.store(true, Release);
            BELL.notify();
            let _ = thread.join();
        }
        if left == 0 {
            trace_exit::save_now();
        }
    }
}

/// Starts the kernel thread, with every signal blocked: they are the application's.
fn start(stall: Option<Duration>) -> io::Result<JoinHandle<()>> {
    // SAFETY: valid signal sets; the mask is put back below.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let thread = std::thread::Builder::new().name("marcel-diag".into()).spawn(move || serve(stall));
    // From now on, not from when it first runs: what it is rung for meanwhile it finds.
    SERVING.store(thread.is_ok(), Release);
    // SAFETY: the mask that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    thread
}

/// Whether it serves: it answers when rung for.
pub(super) fn is_there() -> bool {
    SERVING.load(Acquire)
}

fn serve(stall: Option<Duration>) {
    let mut watchdog = stall.map(Watchdog::new);
    while !STOP.load(Acquire) {
        let next = watchdog.as_ref().map(|w| Instant::now() + w.period());
        BELL.sleep(next, || STOP.load(Acquire) || quit::is_asked() || last_words::is_asked());
        last_words::answer();
        quit::answer(|| {
            to_stderr(report::write);
            trace_exit::save_now();
        });
        if let Some(watchdog) = &mut watchdog {
            watchdog.look(&vps());
        }
    }
    SERVING.store(false, Release);
}

/// Wakes the kernel thread. Anywhere, signal handlers included.
pub(super) fn ring() {
    BELL.notify();
}

/// `SIGQUIT`.
mod quit {
    use super::*;

    static ASKED: AtomicBool = AtomicBool::new(false);
    static ANSWERING: AtomicBool = AtomicBool::new(false);
    /// When it was last asked for, in nanoseconds of the monotonic clock.
    static LAST: AtomicU64 = AtomicU64::new(0);
    static PROCESS: AtomicI32 = AtomicI32::new(0);
    /// Handlers that have begun and not ended.
    static HANDLERS: AtomicI32 = AtomicI32::new(0);
    const AGAIN: u64 = 1_000_000_000;

    fn action() -> libc::sigaction {
        // SAFETY: all-zero is a valid sigaction; a null action only asks.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut action);
            action
        }
    }

    /// Installs the handler, unless the application has one, or ignores the signal.
    pub(super) fn take() {
        if action().sa_sigaction != libc::SIG_DFL {
            return;
        }
        // SAFETY: getpid has no arguments; a valid sigaction whose handler has the plain signature.
        unsafe {
            PROCESS.store(libc::getpid(), Relaxed);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGQUIT, &action, std::ptr::null_mut());
        }
    }

    /// Back to the default action, if the handler is still ours.
    pub(super) fn give_back() {
        if action().sa_sigaction == handler as *const () as usize {
            // SAFETY: valid arguments.
            unsafe { libc::signal(libc::SIGQUIT, libc::SIG_DFL) };
        }
    }

    pub(super) fn is_asked() -> bool {
        ASKED.load(Acquire)
    }

    pub(super) fn answer(dump: impl FnOnce()) {
        if ASKED.swap(false, AcqRel) {
            ANSWERING.store(true, Relaxed);
            // The thread that got the signal is to be found where it was, and not in the handler: for so long as that
            // takes if it has lost its core.
            let limit = Instant::now() + Duration::from_millis(200);
            while HANDLERS.load(Acquire) > 0 && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(1));
            }
            dump();
            ANSWERING.store(false, Relaxed);
        }
    }

    extern "C" fn handler(_: i32) {
        HANDLERS.fetch_add(1, Relaxed);
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: errno of this thread; a valid timespec; getpid has no arguments.
        let (errno, process) = unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            (*libc::__errno_location(), libc::getpid())
        };
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let last = LAST.swap(now, Relaxed);
        let again = last != 0 && now - last < AGAIN || ANSWERING.load(Relaxed);
        // A child that has been forked off has nobody who would answer.
        if again || process != PROCESS.load(Relaxed) {
            // SAFETY: valid arguments. The signal is blocked in its handler: it comes as that returns.
            unsafe {
                libc::signal(libc::SIGQUIT, libc::SIG_DFL);
                libc::raise(libc::SIGQUIT);
            }
        } else {
            ASKED.store(true, Release);
            BELL.notify();
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        HANDLERS.fetch_sub(1, Release);
    }
}
