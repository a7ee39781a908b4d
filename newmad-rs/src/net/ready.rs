//! What has happened on a rail's descriptors: collected by any thread, treated by the holder of the engine's lock.
//!
//! A thread that sleeps on a rail is woken by its epoll descriptor, which stays readable until its events are fetched.
//! The thread may have preempted the lock's holder, on the holder's own core. Were the events fetched under the lock
//! only, they would wake the thread again at once, until the kernel gives the core back: some milliseconds later. (A
//! program that exchanged halos between computations spent 740 of 1,750 µs a step so; 1.9 million wake-ups found 200
//! events.) So the thread [collects](Ready::collect) the events before it tries the lock: the descriptor is unreadable
//! then, and what happened stands in a bitmap.
//!
//! ```text
//!   sleeper                               lock holder
//!   1. collect: descriptor ─▶ bits        1. collect, take the bits, treat them
//!   2. poll, or arm: tries the lock;      2. before it unlocks: does what others delegated, which begins with 1
//!      else delegates that to the holder
//! ```
//! Invariant: an event is in the descriptor, or in the bits; and a thread that has moved it to the bits polls, arms or
//! delegates after that. The model below shows that no event is slept through, and that an event wakes once.

#[cfg(not(loom))]
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

#[cfg(not(loom))]
use crate::error::Error;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use crate::sys;

/// Marks descriptors for which being woken is all: they have no bits.
pub(crate) const NO_BITS: u64 = u64::MAX;
/// An end is told from data by the bit behind the descriptor's own.
pub(crate) const ENDED: usize = 1;
/// Bits of one descriptor.
const EACH: usize = 2;
/// One edge may stand for data and the end behind it.
const ENDS: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
/// Events fetched by one system call.
const BATCH: usize = 64;

#[cfg(not(loom))]
/// See the module.
pub(crate) struct Ready {
    epoll: OwnedFd,
    bits: Bits,
    holds_back: AtomicBool,
}

#[cfg(not(loom))]
impl Ready {
    /// For descriptors with numbers below `descriptors`.
    pub(crate) fn new(descriptors: usize) -> Result<Ready, Error> {
        let (epoll, bits) = (sys::epoll()?, Bits::new(descriptors * EACH));
        Ok(Ready { epoll, bits, holds_back: AtomicBool::new(false) })
    }

    /// The descriptor to sleep on.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Adds a descriptor, whose events must be edge-triggered or one-shot: nothing but [`Ready::collect`] resets them.
    pub(crate) fn watch(&self, fd: RawFd, events: libc::c_int, number: u64) -> Result<(), Error> {
        debug_assert!(events & (libc::EPOLLET | libc::EPOLLONESHOT) != 0);
        sys::watch(&self.epoll, fd, events, number)
    }

    /// As [`Ready::watch`], for one that was taken out. True: it is watched now. Progress path.
    pub(crate) fn rewatch(&self, fd: RawFd, events: libc::c_int, number: u64) -> bool {
        sys::rewatch(&self.epoll, fd, events, number)
    }

    /// Takes a descriptor out. Progress path.
    pub(crate) fn unwatch(&self, fd: RawFd) {
        sys::unwatch(&self.epoll, fd);
    }

    /// Moves what has happened from the descriptor to the bits; whether something had. The caller then polls, arms, or
    /// delegates either.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub(crate) fn collect(&self) -> bool {
        let mut any = false;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        loop {
            let ready = sys::ready(&self.epoll, &mut events);
            any |= !ready.is_empty();
            for event in ready {
                if event.u64 != NO_BITS {
                    let at = event.u64 as usize * EACH;
                    self.bits.set(at);
                    if event.events & ENDS as u32 != 0 {
                        self.bits.set(at + ENDED);
                    }
                }
            }
            if ready.len() < BATCH {
                return any;
            }
        }
    }

    /// The driver has accepted bytes for which its sockets have no room yet, or has none of these any more. A watched socket
    /// makes the descriptor readable when it has room. The lock holder alone says so.
    pub(crate) fn set_holds_back(&self, does: bool) {
        if self.holds_back() != does {
            self.holds_back.store(does, Ordering::Relaxed);
        }
    }

    /// Whether the driver has such bytes: no request need stand for them.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.holds_back.load(Ordering::Relaxed)
    }

    /// Whether another thread has collected something.
    #[inline]
    pub(crate) fn has_bits(&self) -> bool {
        self.bits.any.load(Ordering::Relaxed)
    }

    /// Gives every descriptor on which something has happened to `each`, with whether it has ended.
    pub(crate) fn take(&self, mut each: impl FnMut(usize, bool)) {
        self.collect();
        self.bits.take(|at| each(at / EACH, at % EACH == ENDED));
    }
}

/// Bits that any thread sets and one takes.
struct Bits {
    any: AtomicBool,
    words: Box<[AtomicU64]>,
}

impl Bits {
    fn new(bits: usize) -> Bits {
        let words = (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Bits { any: AtomicBool::new(false), words }
    }

    fn set(&self, at: usize) {
        if let Some(word) = self.words.get(at / 64) {
            word.fetch_or(1 << (at % 64), Ordering::Relaxed);
            // After the bit: what `take` misses of it, the next `take` finds.
            self.any.store(true, Ordering::Release);
        }
    }

    fn take(&self, mut each: impl FnMut(usize)) {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return;
        }
        for (index, word) in self.words.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                each(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_collected_is_taken_once_and_wakes_no_more() {
        let ready = Ready::new(100).unwrap();
        let counter = sys::eventfd().unwrap();
        ready.watch(counter.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, 70).unwrap();
        let is_readable = || {
            let mut poll = libc::pollfd { fd: ready.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry of a local.
            unsafe { libc::poll(&mut poll, 1, 0) == 1 }
        };
        for _ in 0..3 {
            assert!(!is_readable() && !ready.has_bits());
            sys::ring(counter.as_raw_fd());
            assert!(is_readable() && !ready.has_bits());
            ready.collect();
            assert!(!is_readable() && ready.has_bits());
            let mut taken = Vec::new();
            ready.take(|number, ended| taken.push((number, ended)));
            assert_eq!(taken, [(70, false)]);
        }
    }

    #[test]
    fn an_end_is_told_from_data() {
        let ready = Ready::new(2).unwrap();
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let edges = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        ready.watch(reader.as_raw_fd(), edges, 1).unwrap();
        drop(writer);
        let mut taken = Vec::new();
        ready.take(|number, ended| taken.push((number, ended)));
        assert_eq!(taken, [(1, false), (1, true)]);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::Arc;
    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicUsize, fence};
    use loom::thread;
    use pioman::plumbing::{Delegated, DelegationLock};

    const POLL: u64 = 1;
    const ARM: u64 = 2;

    /// A ring with one message, its bell, and the descriptor that a ring makes readable, which is the kernel's.
    struct Rail {
        message: AtomicU64,
        word: AtomicU64,
        readable: Mutex<bool>,
    }

    impl Rail {
        fn is_readable(&self) -> bool {
            *self.readable.lock().unwrap()
        }

        /// As `Ready::collect`.
        fn collect(&self, bits: &Bits) {
            if std::mem::take(&mut *self.readable.lock().unwrap()) {
                bits.set(0);
            }
        }
    }

    /// What the engine's lock protects.
    struct Core {
        rail: Arc<Rail>,
        bits: Arc<Bits>,
        taken: bool,
        got: Arc<AtomicBool>,
    }

    impl Core {
        /// As `Core::progress`: collects, takes, looks at the ring.
        fn progress(&mut self) -> bool {
            self.rail.collect(&self.bits);
            self.bits.take(|_| ());
            let comes = !self.taken && self.rail.message.load(Ordering::Acquire) == 1;
            if comes {
                self.taken = true;
                self.got.store(true, Ordering::Release);
            }
            comes
        }

        fn arm(&mut self) {
            self.rail.word.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    impl Delegated for Core {
        fn run_delegated(&mut self, bits: u64) {
            if bits & ARM != 0 {
                self.arm();
            }
            self.progress();
        }
    }

    struct World {
        rail: Arc<Rail>,
        bits: Arc<Bits>,
        got: Arc<AtomicBool>,
        lock: DelegationLock<Core>,
        /// How often the watcher was woken.
        woken: AtomicUsize,
    }

    impl World {
        fn new() -> Arc<World> {
            let rail = Arc::new(Rail {
                message: AtomicU64::new(0),
                word: AtomicU64::new(1),
                readable: Mutex::new(false),
            });
            let (bits, got) = (Arc::new(Bits::new(2)), Arc::new(AtomicBool::new(false)));
            let core =
                Core { rail: rail.clone(), bits: bits.clone(), taken: false, got: got.clone() };
            let (lock, woken) = (DelegationLock::new(core), AtomicUsize::new(0));
            Arc::new(World { rail, bits, got, lock, woken })
        }

        /// As `Bell::ring`.
        fn send(&self) {
            self.rail.message.store(1, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.rail.word.load(Ordering::Relaxed) == 1
                && self.rail.word.swap(0, Ordering::AcqRel) == 1
            {
                *self.rail.readable.lock().unwrap() = true;
            }
        }

        /// As the watcher's loop, while the descriptor is readable: acknowledges, polls, arms.
        fn watch(&self, acknowledges: bool) {
            while self.rail.is_readable() {
                // Once for the ring, and once more if that came while the event before it was treated.
                assert!(self.woken.fetch_add(1, Ordering::Relaxed) < 2, "woken again and again");
                if acknowledges {
                    self.rail.collect(&self.bits);
                }
                for bits in [POLL, ARM] {
                    match self.lock.try_lock() {
                        Some(mut core) => core.run_delegated(bits),
                        None => _ = self.lock.delegate(bits),
                    }
                }
            }
        }

        /// A caller is in the engine: it may have been preempted by the watcher.
        fn call(&self) {
            if let Some(mut core) = self.lock.try_lock() {
                thread::yield_now();
                core.progress();
            }
        }
    }

    /// A message, a caller in the engine, a watcher.
    fn run(acknowledges: bool) {
        loom::model(move || {
            let world = World::new();
            let caller = {
                let world = world.clone();
                thread::spawn(move || world.call())
            };
            let watcher = {
                let world = world.clone();
                thread::spawn(move || world.watch(acknowledges))
            };
            world.send();
            caller.join().unwrap();
            watcher.join().unwrap();
            // It sleeps now; were the descriptor readable, it would not.
            world.watch(acknowledges);
            assert!(world.got.load(Ordering::Acquire), "the message was slept through");
        });
    }

    #[test]
    fn an_event_wakes_the_watcher_once_and_is_not_slept_through() {
        run(true);
    }

    /// As it was: events were fetched under the lock only.
    #[test]
    #[should_panic(expected = "woken again and again")]
    fn events_that_only_the_lock_holder_fetches_wake_the_watcher_for_ever() {
        run(false);
    }
}
