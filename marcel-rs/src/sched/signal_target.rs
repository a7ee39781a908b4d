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
    /// One more than the descriptor, in the target's process, by which user interrupts are sent to the thread
    /// (`user_interrupts`); 0: it has none.
    pub vector: u32,
}

impl SignalTarget {
    /// In one word, as peers read it.
    pub fn to_word(self) -> u64 {
        let vector = if self.vector < 1 << 24 { self.vector } else { 0 };
        u64::from(vector) << 40 | u64::from(self.signal as u8) << 32 | u64::from(self.thread)
    }

    /// What [`SignalTarget::to_word`] has made, or any word.
    pub fn from_word(word: u64) -> SignalTarget {
        SignalTarget {
            thread: word as u32,
            signal: u32::from((word >> 32) as u8),
            vector: (word >> 40) as u32,
        }
    }

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
