//! What the threads of the chaos test share, and what must hold of it.

use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Thread;
use marcel::sync::channel::{self, Receiver, Sender};
use marcel::sync::{Condvar, Event, Mutex, MutexGuard, OnceLock, RwLock, Semaphore};

/// Threads that may be inside the semaphore at a time.
pub(crate) const PERMITS: usize = 3;
/// Most threads alive at a time.
pub(crate) const CROWD: usize = 300;
/// Room in the queue that a mutex and two condition variables make.
const ROOM: usize = 4;

/// Acts, and threads.
pub(crate) const ENOUGH: (usize, usize) = (100, 20);

pub(crate) struct World {
    pub(crate) end: Instant,
    pub(crate) started: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) acts: AtomicUsize,
    pub(crate) over: AtomicBool,
    /// Its runtime is being dropped.
    pub(crate) stopping: AtomicBool,
    /// Green-thread-local values made, and destroyed.
    pub(crate) made: AtomicUsize,
    pub(crate) destroyed: AtomicUsize,

    pairs: [Mutex<[u64; 2]>; 3],
    pub(crate) shared: RwLock<[u64; 2]>,
    pub(crate) semaphore: Semaphore,
    pub(crate) inside: AtomicUsize,
    queue: Mutex<VecDeque<u64>>,
    not_empty: Condvar,
    not_full: Condvar,
    pub(crate) channels: [Pipe; 3],
    pub(crate) event: Event,
    pub(crate) once: Mutex<Arc<OnceLock<u64>>>,
    /// Threads to disturb; some have ended.
    pub(crate) known: Mutex<VecDeque<Thread>>,
}

/// A channel, and what went through.
pub(crate) struct Pipe {
    pub(crate) sender: Sender<u64>,
    pub(crate) receiver: Receiver<u64>,
    pub(crate) sent: AtomicUsize,
    pub(crate) received: AtomicUsize,
}

impl Pipe {
    fn new((sender, receiver): (Sender<u64>, Receiver<u64>)) -> Pipe {
        Pipe { sender, receiver, sent: AtomicUsize::new(0), received: AtomicUsize::new(0) }
    }
}

/// Makes the two numbers equal again, whatever happens in between, and unlocks.
pub(crate) struct Pair<G: DerefMut<Target = [u64; 2]>>(pub(crate) G);

/// A locked pair of numbers.
pub(crate) type Section<'a> = Pair<MutexGuard<'a, [u64; 2]>>;

impl<G: DerefMut<Target = [u64; 2]>> Pair<G> {
    pub(crate) fn unbalance(&mut self) {
        self.0[0] += 1;
    }
}

impl<G: DerefMut<Target = [u64; 2]>> Drop for Pair<G> {
    fn drop(&mut self) {
        self.0[1] = self.0[0];
    }
}

impl World {
    pub(crate) fn new(time: Duration) -> World {
        World {
            end: Instant::now() + time,
            started: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            acts: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            made: AtomicUsize::new(0),
            destroyed: AtomicUsize::new(0),
            pairs: [const { Mutex::new([0, 0]) }; 3],
            shared: RwLock::new([0, 0]),
            semaphore: Semaphore::new(PERMITS),
            inside: AtomicUsize::new(0),
            queue: Mutex::new(VecDeque::new()),
            not_empty: Condvar::new(),
            not_full: Condvar::new(),
            channels: [
                Pipe::new(channel::bounded(0)),
                Pipe::new(channel::bounded(3)),
                Pipe::new(channel::unbounded()),
            ],
            event: Event::new(),
            once: Mutex::default(),
            known: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn alive(&self) -> usize {
        let finished = self.finished.load(SeqCst);
        self.started.load(SeqCst) - finished
    }

    /// Green-thread-local values that are not destroyed yet.
    pub(crate) fn values(&self) -> usize {
        let destroyed = self.destroyed.load(SeqCst);
        self.made.load(SeqCst) - destroyed
    }

    /// Until it is time, and enough has happened; a machine that is busy with something else takes its time.
    pub(crate) fn goes_on(&self) -> bool {
        let enough = || self.acts.load(SeqCst) > ENOUGH.0 && self.started.load(SeqCst) > ENOUGH.1;
        !self.over.load(SeqCst) && (Instant::now() < self.end || !enough())
    }

    pub(crate) fn section(&self, which: usize) -> Section<'_> {
        self.check(self.pairs[which].lock())
    }

    /// The section, unless it is not free in time or the caller is asked to stop.
    pub(crate) fn try_section(&self, which: usize, how: u64) -> Option<Section<'_>> {
        let mutex = &self.pairs[which];
        let guard = match how {
            0 => mutex.try_lock(),
            1 => mutex.try_lock_timeout(Duration::from_micros(200)),
            _ => mutex.lock_interruptible().ok(),
        };
        guard.map(|guard| self.check(guard))
    }

    fn check<'a>(&self, guard: MutexGuard<'a, [u64; 2]>) -> Section<'a> {
        assert_eq!(guard[0], guard[1], "two threads in one section");
        Pair(guard)
    }

    /// Puts a number into the queue, unless there is no room in time.
    pub(crate) fn put(&self, n: u64) -> bool {
        let guard = self.queue.lock();
        let time = Duration::from_millis(1);
        let (mut queue, result) =
            self.not_full.wait_timeout_while(guard, time, |queue| queue.len() >= ROOM);
        if result.timed_out() || queue.len() >= ROOM {
            return false;
        }
        queue.push_back(n);
        drop(queue);
        self.not_empty.notify_one();
        true
    }

    /// Takes a number out of the queue, unless there is none in time.
    pub(crate) fn take(&self) -> bool {
        let guard = self.queue.lock();
        let time = Duration::from_millis(1);
        let (mut queue, _) =
            self.not_empty.wait_timeout_while(guard, time, |queue| queue.is_empty());
        let taken = queue.pop_front().is_some();
        assert!(queue.len() < ROOM);
        drop(queue);
        if taken {
            self.not_full.notify_one();
        }
        taken
    }

    /// What must hold when every thread has ended. `whole`: none was unwound in what it did.
    pub(crate) fn audit(&self, whole: bool) {
        assert_eq!(self.started.load(SeqCst), self.finished.load(SeqCst), "threads");
        assert_eq!(self.made.load(SeqCst), self.destroyed.load(SeqCst), "thread-local values");
        for which in 0..self.pairs.len() {
            drop(self.try_section(which, 0).expect("a section is free"));
        }
        let shared = self.shared.try_write().expect("the shared numbers are free");
        assert_eq!(shared[0], shared[1], "somebody read while another wrote");
        assert_eq!(self.semaphore.available(), PERMITS, "permits");
        assert_eq!(self.inside.load(SeqCst), 0);
        assert!(self.queue.try_lock().is_some_and(|queue| queue.len() <= ROOM));
        for pipe in &self.channels {
            let left = pipe.receiver.try_iter().count();
            let (sent, received) = (pipe.sent.load(SeqCst), pipe.received.load(SeqCst));
            assert!(!whole || sent == received + left, "{sent} sent, {received} received, {left}");
        }
    }
}
