//! Waiting on a word that processes share: the thread spins for a moment, then sleeps in the kernel.

use crate::sync::AtomicU32;

/// A holder that runs on another core gives the word back within so many looks, mostly. The model checker sees each look.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// Says why a wait makes no sense any more.
pub type Alive<'a, E> = &'a dyn Fn() -> Result<(), E>;

/// Polls `done` for a moment; its last answer.
pub(super) fn spin(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..SPINS {
        if done() {
            return true;
        }
        kernel::spin_loop();
    }
    false
}

/// Sleeps while the word has that value, until it is woken, and no longer than a tenth of a second; then asks `alive`.
///
/// # Blocking
/// The calling thread. A green thread's virtual processor goes on.
///
/// # Errors
/// Those of `alive`.
pub(super) fn sleep<E>(word: &AtomicU32, value: u32, alive: Alive<'_, E>) -> Result<(), E> {
    let woken = kernel::blocking(|| kernel::wait(word, value));
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
pub(super) fn pause<E>(word: &AtomicU32, value: u32, alive: Alive<'_, E>) -> Result<(), E> {
    if kernel::wait(word, value) { Ok(()) } else { alive() }
}

pub(super) use kernel::wake;

#[cfg(not(loom))]
mod kernel {
    pub(super) use std::hint::spin_loop;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    pub(super) use marcel::blocking;

    /// A waiter that sleeps looks so often whether the others are alive.
    const LOOK: Duration = Duration::from_millis(100);

    /// Whether it was woken, or did not sleep; not after [`LOOK`].
    pub(super) fn wait(word: &AtomicU32, value: u32) -> bool {
        let until = libc::timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as libc::c_long };
        // SAFETY: the word and the time are there during the call.
        let result = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &until)
        };
        result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
    }

    /// Wakes all threads of all processes that sleep on the word.
    pub(in super::super) fn wake(word: &AtomicU32) {
        // SAFETY: the word is there during the call.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

/// As the kernel does it: the sleeper looks at the word and joins the queue under one lock. One queue for all words: a
/// wake-up for nothing is allowed. No wait ends by itself, so a lost wake-up hangs.
#[cfg(loom)]
mod kernel {
    pub(super) use loom::hint::spin_loop;
    use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(super) fn blocking<T>(f: impl FnOnce() -> T) -> T {
        f()
    }

    pub(super) fn wait(word: &AtomicU32, value: u32) -> bool {
        let kernel = QUEUE.0.lock().unwrap();
        if word.load(Relaxed) == value {
            drop(QUEUE.1.wait(kernel).unwrap());
        }
        true
    }

    pub(in super::super) fn wake(_: &AtomicU32) {
        drop(QUEUE.0.lock().unwrap());
        QUEUE.1.notify_all();
    }
}
