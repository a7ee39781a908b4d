//! How one kernel thread sleeps in the kernel, and how it is woken.
//!
//! A [`Sleeper`] belongs to one kernel thread (that of a virtual processor, a spare one, or a plain kernel
//! thread that waits). Its word is the whole protocol:
//!
//! ```text
//!             begin(FUTEX)              notify
//!   AWAKE ───────────────────▶ FUTEX ───────────▶ NOTIFIED + futex wake
//!     │       begin(FD)                 notify
//!     ├──────────────────────▶ FD ──────────────▶ NOTIFIED + one write to the eventfd
//!     │       notify
//!     └──────────────────────▶ NOTIFIED           (the next begin() refuses to sleep)
//!   end(): any state ──▶ AWAKE
//! ```
//!
//! The owner calls `begin`, *then* looks once more for work, then sleeps: a notifier makes work visible
//! before it calls `notify`. Both sides do a read-modify-write on the word, so one of them sees the other.
//!
//! Two ways to sleep because a thread that watches file descriptors cannot sleep on a futex as well: it
//! sleeps in `epoll_wait` with the sleeper's eventfd in the set. Rejected: a signal to interrupt
//! `epoll_wait` (costs the notifier three times as much), and eventfd only (a futex is 1 µs faster).

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use crate::os::{self, AtomicI32, Futex};

const AWAKE: u32 = 0;
const NOTIFIED: u32 = 1;
const FUTEX: u32 = 2;
const FD: u32 = 3;

/// Sleeping place of one kernel thread; see the module's description.
#[derive(Debug)]
pub struct Sleeper {
    futex: Futex,
    fd: AtomicI32,
}

impl Sleeper {
    /// A sleeper whose owner is awake.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Sleeper { futex: Futex::new(AWAKE), fd: AtomicI32::new(-1) }
    }

    /// A sleeper whose owner is awake.
    #[cfg(loom)]
    pub fn new() -> Self {
        Sleeper { futex: Futex::new(AWAKE), fd: AtomicI32::new(-1) }
    }

    /// Wakes the owner, or makes its next attempt to sleep return at once.
    ///
    /// # Context
    /// Anywhere, signal handlers included: one atomic operation and at most one system call that does not
    /// block. Touches nothing of the sleeper after the owner can have seen the notification, except its
    /// address in a futex wake, which the kernel does not dereference.
    pub fn notify(&self) {
        match self.futex.word().swap(NOTIFIED, AcqRel) {
            FUTEX => self.futex.wake(),
            FD => os::kick(self.fd.load(Relaxed)),
            _ => {}
        }
    }

    /// Whether the owner sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.futex.word().load(Relaxed) >= FUTEX
    }

    /// Sleeps on the futex until notified or `deadline`, unless `last_look` finds a reason not to.
    ///
    /// # Context
    /// The owner only.
    ///
    /// # Blocking
    /// Blocks the kernel thread.
    pub fn sleep(&self, deadline: Option<Instant>, last_look: impl FnOnce() -> bool) {
        if self.begin(FUTEX) {
            if !last_look() {
                while self.futex.word().load(Acquire) == FUTEX {
                    let timeout = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                    if timeout == Some(Duration::ZERO) {
                        break;
                    }
                    self.futex.wait(FUTEX, timeout);
                }
            }
            self.end();
        }
    }

    /// As [`Sleeper::sleep`], but the kernel thread sleeps inside `wait`, typically `epoll_wait` on a set
    /// in which [`Sleeper::fd`] is one of the descriptors. `wait` is called at most once.
    ///
    /// # Context
    /// The owner only.
    ///
    /// # Blocking
    /// Blocks the kernel thread.
    pub fn sleep_in(&self, last_look: impl FnOnce() -> bool, wait: impl FnOnce()) {
        if self.begin(FD) {
            if !last_look() {
                wait();
            }
            self.end();
        }
    }

    /// The eventfd that [`Sleeper::notify`] writes to while the owner is inside [`Sleeper::sleep_in`];
    /// got at the first call. A reader must drain it. It stays open as long as the process lives, but becomes
    /// another sleeper's when this one is dropped, or its virtual processor ends.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn fd(&self) -> std::io::Result<RawFd> {
        let fd = self.fd.load(Acquire);
        if fd >= 0 {
            return Ok(fd);
        }
        let fd = os::eventfd();
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        match self.fd.compare_exchange(-1, fd, AcqRel, Acquire) {
            Ok(_) => Ok(fd),
            Err(winner) => {
                os::spare_eventfd(fd);
                Ok(winner)
            }
        }
    }

    /// The owner will not sleep any more: its eventfd, which is in no epoll set, becomes another sleeper's.
    pub fn retire(&self) {
        let fd = self.fd.swap(-1, AcqRel);
        if fd >= 0 {
            os::spare_eventfd(fd);
        }
    }

    /// Announces the sleep; false if a notification came first (it is consumed).
    fn begin(&self, how: u32) -> bool {
        match self.futex.word().compare_exchange(AWAKE, how, SeqCst, Acquire) {
            Ok(_) => {
                // Pairs with the fence of each publisher of work: see `idle::IdleSet::claim_after_fence`.
                os::fence(SeqCst);
                true
            }
            Err(_) => {
                // A read-modify-write, so that all that the notifier did before is seen.
                self.futex.word().swap(AWAKE, AcqRel);
                false
            }
        }
    }

    fn end(&self) {
        self.futex.word().swap(AWAKE, AcqRel);
    }
}

#[cfg(not(loom))]
impl Drop for Sleeper {
    fn drop(&mut self) {
        self.retire();
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_notification_before_the_sleep_is_not_lost() {
        let sleeper = Sleeper::new();
        sleeper.notify();
        sleeper.sleep(None, || false); // would hang
    }

    #[test]
    fn a_last_look_that_finds_work_does_not_sleep() {
        let sleeper = Sleeper::new();
        sleeper.sleep(None, || true); // would hang
        assert!(!sleeper.is_asleep());
    }

    #[test]
    fn both_ways_of_sleeping_are_woken() {
        let sleeper = Arc::new(Sleeper::new());
        let fd = sleeper.fd().unwrap();
        let (tx, rx) = std::sync::mpsc::channel();
        let owner = {
            let sleeper = sleeper.clone();
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    sleeper.sleep(None, || false);
                    tx.send(()).unwrap();
                    sleeper.sleep_in(
                        || false,
                        || {
                            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                            // SAFETY: one valid pollfd; then eight writable bytes.
                            unsafe {
                                libc::poll(&mut poll, 1, -1);
                                let mut drained = [0u8; 8];
                                libc::read(fd, drained.as_mut_ptr().cast(), 8);
                            }
                        },
                    );
                    tx.send(()).unwrap();
                }
            })
        };
        for _ in 0..2000 {
            sleeper.notify();
            rx.recv().unwrap();
        }
        owner.join().unwrap();
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::fence;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Sleeps in turn on the futex and in the eventfd until `work` is seen; loom reports a deadlock if a wake-up
    /// is lost.
    fn sleep_until(sleeper: &Sleeper, in_fd: bool, ready: impl Fn() -> bool) {
        while !ready() {
            if in_fd {
                sleeper.fd().unwrap();
                sleeper.sleep_in(&ready, os::drain_eventfd);
            } else {
                sleeper.sleep(None, &ready);
            }
        }
    }

    fn model(in_fd: bool, notifiers: usize) {
        loom::model(move || {
            let sleeper = Arc::new(Sleeper::new());
            let work = Arc::new(AtomicUsize::new(0));
            let others: Vec<_> = (0..notifiers)
                .map(|_| {
                    let (sleeper, work) = (sleeper.clone(), work.clone());
                    thread::spawn(move || {
                        work.fetch_add(1, Relaxed);
                        fence(SeqCst);
                        sleeper.notify();
                    })
                })
                .collect();
            sleep_until(&sleeper, in_fd, || work.load(Relaxed) == notifiers);
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn no_wake_up_of_the_futex_is_lost() {
        model(false, 2);
    }

    #[test]
    fn no_wake_up_of_a_descriptor_is_lost_although_it_is_made_late() {
        model(true, 2);
    }
}
