//! `SIGQUIT`: the handler that asks for a dump, and the second signal that ends the process.
//!
//! ```text
//!   IDLE ──a signal──▶ ASKED ──the diagnosis thread begins──▶ ANSWERING ──the dump is written──▶ IDLE
//! ```
//!
//! A signal ends the process unless it finds IDLE, and the last signal was a second ago or more. So the second
//! signal works however late it comes, if the diagnosis thread cannot begin the dump or cannot end it (standard error is
//! a pipe that is full, say).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use super::bell;
use crate::os::clock;
use crate::os::signal::{self, Action, KeepErrno};

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERING: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(IDLE);
/// Time of the last signal, in nanoseconds of the monotonic clock.
static LAST: AtomicU64 = AtomicU64::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Number of handlers that run.
static HANDLERS: AtomicI32 = AtomicI32::new(0);
/// A second signal within this many nanoseconds ends the process.
const AGAIN: u64 = 1_000_000_000;

/// Installs the handler, unless the program handles or ignores the signal.
pub(super) fn take() {
    if !Action::of(libc::SIGQUIT).is_ok_and(|action| action.is_default()) {
        return;
    }
    PROCESS.store(std::process::id(), Relaxed);
    // SAFETY: the handler touches atomics only, and makes system calls.
    let _ = unsafe { signal::handle(libc::SIGQUIT, handler) };
}

/// Restores the default action, unless the program has installed a handler meanwhile.
pub(super) fn give_back() {
    if Action::of(libc::SIGQUIT).is_ok_and(|action| action.calls(handler)) {
        signal::restore_default(libc::SIGQUIT);
    }
}

pub(super) fn is_asked() -> bool {
    STATE.load(Acquire) == ASKED
}

pub(super) fn answer(dump: impl FnOnce()) {
    if STATE.compare_exchange(ASKED, ANSWERING, AcqRel, Acquire).is_ok() {
        // The dump is to show the interrupted thread where it was, not in the handler. The handler may wait for a core.
        let limit = Instant::now() + Duration::from_millis(200);
        while HANDLERS.load(Acquire) > 0 && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        dump();
        STATE.store(IDLE, Release);
    }
}

/// Whether a signal at `now` comes soon after that at `last`; 0 is none. Two handlers on two threads may read the clock
/// in one order and swap in the other.
fn is_soon_after(last: u64, now: u64) -> bool {
    last != 0 && now.saturating_sub(last) < AGAIN
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let _errno = KeepErrno::new();
    HANDLERS.fetch_add(1, Relaxed);
    let now = clock::monotonic();
    let last = LAST.swap(now, Relaxed);
    let unanswered = STATE.compare_exchange(IDLE, ASKED, AcqRel, Acquire).is_err();
    let again = unanswered || is_soon_after(last, now);
    // A forked child has no diagnosis thread.
    if again || std::process::id() != PROCESS.load(Relaxed) {
        signal::restore_default(libc::SIGQUIT);
        // SAFETY: valid arguments. The signal is blocked in its handler, so it is delivered when the handler returns.
        unsafe { libc::raise(libc::SIGQUIT) };
    } else {
        bell::ring();
    }
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
