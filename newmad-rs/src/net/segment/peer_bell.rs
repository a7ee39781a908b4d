//! What a peer's bell rings: the event counter that its sleepers watch, or a signal to a kernel thread of it that
//! computes.
//!
//! The peer says in its segment which thread that is. It is believed as far as it goes: the kernel has said which
//! process is at the other end of the link, and a thread of no other process is signalled. The thread is named by a
//! descriptor (`pidfd_open` with `PIDFD_THREAD`, Linux 6.9), since the number of a thread that has ended may become
//! another's, and the signal would end a process that does not expect it. Descriptors are opened when a thread is first
//! signalled, and kept: a process has few threads that compute.
//!
//! Where both sides have user interrupts (never run on hardware; marcel's `os/uintr`) a thread is interrupted without the
//! kernel: the sender copies the descriptor of the thread's vector from the peer, and registers it once.
//!
//! Rejected: `tgkill` for each signal (the peer may be dead, its numbers another process's, before its end is noticed).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use marcel::plumbing::SignalTarget;
#[cfg(target_arch = "x86_64")]
use marcel::plumbing::user_interrupts::Sender;

use crate::sys;

/// Most threads of a peer that are signalled; beyond that the counter is written.
const THREADS: usize = 16;

/// See the module.
pub(crate) struct PeerBell {
    counter: OwnedFd,
    /// The process, by the kernel's word; `None`: it is not signalled.
    process: Option<i32>,
    /// The threads that were signalled: the number above, one more than the descriptor below. 0: none.
    threads: [AtomicU64; THREADS],
    /// Those that were sent user interrupts: the number above, one more than the sender's below. 0: none.
    #[cfg(target_arch = "x86_64")]
    senders: [AtomicU64; THREADS],
}

impl PeerBell {
    pub(crate) fn new(counter: OwnedFd, process: Option<i32>) -> PeerBell {
        let threads = [const { AtomicU64::new(0) }; THREADS];
        PeerBell {
            counter,
            process,
            threads,
            #[cfg(target_arch = "x86_64")]
            senders: [const { AtomicU64::new(0) }; THREADS],
        }
    }

    /// Writes the counter.
    pub(crate) fn ring(&self) {
        sys::ring(self.counter.as_raw_fd());
    }

    /// Interrupts a thread of the peer; false: it is to be rung instead. Progress path.
    pub(crate) fn interrupt(&self, target: SignalTarget) -> bool {
        #[cfg(target_arch = "x86_64")]
        if target.vector != 0
            && let Some(sender) = self.sender(target)
        {
            sender.send();
            return true;
        }
        self.signal(target.thread, target.signal)
    }

    /// By what user interrupts are sent to that thread.
    #[cfg(target_arch = "x86_64")]
    fn sender(&self, target: SignalTarget) -> Option<Sender> {
        let thread = target.thread;
        for place in &self.senders {
            let mut word = place.load(Ordering::Acquire);
            if word == 0 {
                let sender = self.register(target)?;
                word = u64::from(thread) << 32 | (u64::from(sender.number()) + 1);
                if let Err(other) =
                    place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire)
                {
                    word = other;
                }
            }
            if word >> 32 == u64::from(thread) {
                // SAFETY: the number of a sender.
                return Some(unsafe { Sender::of(word as u32 - 1) });
            }
        }
        None
    }

    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn register(&self, target: SignalTarget) -> Option<Sender> {
        let process = self.process?;
        let thread = i32::try_from(target.thread).ok().filter(|&thread| thread > 0)?;
        if !sys::has_thread(process, thread) {
            return None;
        }
        let vector = sys::descriptor_of(process, target.vector as RawFd - 1)?;
        let sender = Sender::register(vector);
        sys::close(vector);
        sender
    }

    /// Signals a thread of the peer; false: it is to be rung instead. Progress path.
    fn signal(&self, thread: u32, signal: u32) -> bool {
        let Ok(signal) = i32::try_from(signal) else { return false };
        self.descriptor(thread).is_some_and(|fd| sys::signal_thread(fd, signal))
    }

    fn descriptor(&self, thread: u32) -> Option<RawFd> {
        let split = |word: u64| (word >> 32 == u64::from(thread)).then_some(word as u32 as i32 - 1);
        for place in &self.threads {
            let word = place.load(Ordering::Acquire);
            if word == 0 {
                let fd = self.open(thread)?;
                let mine = u64::from(thread) << 32 | (fd as u64 + 1);
                match place.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(fd),
                    Err(other) => {
                        sys::close(fd);
                        if let Some(fd) = split(other) {
                            return Some(fd);
                        }
                    }
                }
            } else if let Some(fd) = split(word) {
                return Some(fd);
            }
        }
        None
    }

    /// A descriptor of that thread, if it is one of the peer's.
    #[cold]
    fn open(&self, thread: u32) -> Option<RawFd> {
        let thread = i32::try_from(thread).ok().filter(|&thread| thread > 0)?;
        let fd = sys::thread_descriptor(thread)?;
        // After it was opened: the number cannot become another's any more for as long as this finds it there.
        if self.process.is_some_and(|process| sys::has_thread(process, thread)) {
            return Some(fd);
        }
        sys::close(fd);
        None
    }
}

impl Drop for PeerBell {
    fn drop(&mut self) {
        for place in &mut self.threads {
            let word = *place.get_mut();
            if word != 0 {
                sys::close(word as u32 as i32 - 1);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::*};
    use std::sync::mpsc::channel;

    use super::*;

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        HANDLED.fetch_add(1, SeqCst);
    }

    fn bell(process: i32) -> PeerBell {
        PeerBell::new(sys::eventfd().unwrap(), Some(process))
    }

    #[test]
    fn a_thread_of_the_peer_is_signalled_and_no_other() {
        if !sys::signals_threads() {
            eprintln!("SKIPPED: this kernel has no descriptors of threads (Linux 6.9)");
            return;
        }
        let signal = libc::SIGRTMIN() + 11;
        // SAFETY: the handler only counts.
        unsafe { marcel::plumbing::signal::handle(signal, handler) }.unwrap();
        // SAFETY: no arguments.
        let (me, parent) = unsafe { (libc::getpid(), libc::getppid()) };
        let (tell, told) = channel();
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: no arguments.
            tell.send(unsafe { libc::gettid() } as u32).unwrap();
            let _ = stopped.recv();
        });
        let tid = told.recv().unwrap();
        let (own, other) = (bell(me), bell(parent));
        for round in 1..=3 {
            assert!(own.signal(tid, signal as u32));
            while HANDLED.load(SeqCst) < round {
                std::thread::yield_now();
            }
        }
        assert!(!other.signal(tid, signal as u32), "not a thread of that process");
        assert!(!own.signal(parent as u32, signal as u32), "not a thread of this process");
        assert!(!own.signal(0, signal as u32) && !own.signal(u32::MAX, signal as u32));
        assert!(!own.signal(tid, u32::MAX), "no signal");
        drop(stop);
        thread.join().unwrap();
        // The kernel may take a moment to let it go.
        while own.signal(tid, signal as u32) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_peer_that_names_ever_more_threads_is_rung_in_the_end() {
        // SAFETY: no arguments.
        let bell = bell(unsafe { libc::getpid() });
        let (tell, told) = channel();
        let stops: Vec<_> = (0..THREADS + 2)
            .map(|_| {
                let (tell, (stop, stopped)) = (tell.clone(), channel::<()>());
                let thread = std::thread::spawn(move || {
                    // SAFETY: no arguments.
                    tell.send(unsafe { libc::gettid() } as u32).unwrap();
                    let _ = stopped.recv();
                });
                (stop, thread)
            })
            .collect();
        let threads: Vec<u32> = told.iter().take(stops.len()).collect();
        let signalled = threads.iter().filter(|&&thread| bell.signal(thread, 0)).count();
        assert!(signalled == THREADS || !sys::signals_threads(), "{signalled}");
        for (stop, thread) in stops {
            drop(stop);
            thread.join().unwrap();
        }
    }
}
