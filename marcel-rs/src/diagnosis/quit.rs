//! `SIGQUIT`: the handler that asks for a dump, and the second signal that ends the process.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use super::bell;

static ASKED: AtomicBool = AtomicBool::new(false);
static ANSWERING: AtomicBool = AtomicBool::new(false);
/// Time of the last signal, in nanoseconds of the monotonic clock.
static LAST: AtomicU64 = AtomicU64::new(0);
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Number of handlers that run.
static HANDLERS: AtomicI32 = AtomicI32::new(0);
/// A second signal within this many nanoseconds ends the process.
const AGAIN: u64 = 1_000_000_000;

fn action() -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction; a null action only asks.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGQUIT, std::ptr::null(), &mut action);
        action
    }
}

/// Installs the handler, unless the program handles or ignores the signal.
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

/// Restores the default action, unless the program has installed a handler meanwhile.
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
        // The dump is to show the interrupted thread where it was, not in the handler. The handler may wait for a core.
        let limit = Instant::now() + Duration::from_millis(200);
        while HANDLERS.load(Acquire) > 0 && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        dump();
        ANSWERING.store(false, Relaxed);
    }
}

/// Whether a signal at `now` comes soon after that at `last`; 0 is none. Two handlers on two threads may read the clock
/// in one order and swap in the other.
fn is_soon_after(last: u64, now: u64) -> bool {
    last != 0 && now.saturating_sub(last) < AGAIN
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
    let again = is_soon_after(last, now) || ANSWERING.load(Relaxed);
    // A forked child has no diagnosis thread.
    if again || process != PROCESS.load(Relaxed) {
        // SAFETY: valid arguments. The signal is blocked in its handler, so it is delivered when the handler returns.
        unsafe {
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            libc::raise(libc::SIGQUIT);
        }
    } else {
        ASKED.store(true, Release);
        bell::ring();
    }
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = errno };
    HANDLERS.fetch_sub(1, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_handlers_at_once_make_two_signals() {
        assert!(!is_soon_after(0, 5) && !is_soon_after(5, 5 + AGAIN));
        assert!(is_soon_after(5, 6) && is_soon_after(6, 5));
    }
}
