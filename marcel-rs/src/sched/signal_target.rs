//! The kernel thread of a virtual processor, as a target of the tick's signal.
//!
//! Another thread, or another process, sends that signal when there is something to find, instead of leaving it to the
//! timer. The handler is the tick's ([`tick_handler`](crate::sched::tick_handler)).

/// A kernel thread of this process, and the signal by which it is made to call the I/O manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalTarget {
    /// The kernel's number of the thread.
    pub thread: u32,
    /// The number of the signal.
    pub signal: u32,
}

impl SignalTarget {
    /// Signals the thread; false if it has gone. For a target of this process: others have
    /// `pidfd_send_signal`.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn signal(self) -> bool {
        let (thread, signal) = (self.thread as i32, self.signal as i32);
        // SAFETY: no pointers.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
    }
}
