//! Whether this process is the child of a fork.
//!
//! A child shares the kernel's `epoll` sets with its parent: to look there would take the parent's events, to take a
//! descriptor out would take out the parent's. So what a source has made before the fork is of no use afterwards, and
//! must be left alone. (A program that goes on with `exec`, as `std::process::Command` does, never gets here.)

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth(u32);

impl Birth {
    /// This process.
    pub fn here() -> Birth {
        static REGISTERED: Once = Once::new();
        // SAFETY: the handler is one atomic addition. Refused for lack of memory, it leaves children unnoticed.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        Birth(FORKS.load(Relaxed))
    }

    /// Whether this is still that process. Progress path.
    #[inline]
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }

    /// That it is, for a wait.
    pub(crate) fn check(self) -> io::Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(io::Error::other(
            "the process has been forked: its I/O manager watches the parent's descriptors, and the child, which may \
             only call exec or exit, cannot wait",
        ))
    }
}
