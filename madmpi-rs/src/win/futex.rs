//! Waiting on a word that processes share: the thread spins for a moment, then sleeps in the kernel.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::error::Fault;

/// A waiter that sleeps looks so often whether the others are alive.
const LOOK: Duration = Duration::from_millis(100);
/// A holder that runs on another core gives the word back within so many looks, mostly.
const SPINS: u32 = 200;

/// Says why a wait makes no sense any more.
pub(super) type Alive<'a> = &'a dyn Fn() -> Result<(), Fault>;

/// Polls `done` for a moment; its last answer.
pub(super) fn spin(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..SPINS {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

/// Sleeps while the word has that value, until it is woken, and no longer than [`LOOK`]; then asks `alive`.
///
/// # Blocking
/// The calling thread. A green thread's virtual processor goes on.
///
/// # Errors
/// Those of `alive`.
pub(super) fn sleep(word: &AtomicU32, value: u32, alive: Alive<'_>) -> Result<(), Fault> {
    let woken = marcel::blocking(|| wait(word, value));
    if woken { Ok(()) } else { alive() }
}

/// Sleeps as [`sleep`] does, for words that are held for a moment.
///
/// # Context
/// Callbacks too, which may not give their core to another green thread.
///
/// # Blocking
/// The calling thread, with its virtual processor.
///
/// # Errors
/// Those of `alive`.
pub(super) fn pause(word: &AtomicU32, value: u32, alive: Alive<'_>) -> Result<(), Fault> {
    if wait(word, value) { Ok(()) } else { alive() }
}

/// Whether it was woken.
fn wait(word: &AtomicU32, value: u32) -> bool {
    let until = libc::timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as libc::c_long };
    // SAFETY: the word and the time are there during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &until) };
    result == 0
}

/// Wakes all threads of all processes that sleep on the word.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the word is there during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
