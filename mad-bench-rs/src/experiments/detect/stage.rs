//! One event at a time: its raiser, its waiter, and how the time between is taken.
//!
//! A [`Stage`] knows how an event of one kind is raised and waited for. The *raiser*, a kernel thread of its own,
//! sleeps for a random time, notes the moment, and raises the event. A *waiter* is either the calling green thread
//! or a plain kernel thread that blocks in the kernel: what both do between two events is the same, so that the only
//! difference is how they learn of it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{now_ns, thread_cpu_ns};

/// A kind of event.
pub(crate) trait Stage: Send + Sync {
    /// The waiter is about to wait; the event will be raised later.
    ///
    /// # Errors
    /// What goes wrong, in words.
    fn prepare(&self) -> Result<(), String> {
        Ok(())
    }

    /// Raises the event; the raiser's kernel thread has noted the moment just before.
    fn raise(&self) {}

    /// The moment at which the event is raised is known beforehand (a timer), and no thread raises it.
    fn is_timed(&self) -> bool {
        false
    }

    /// Returns when the event has come. `due`: about when it will be raised (exactly, for a timed one).
    ///
    /// # Errors
    /// What goes wrong, in words.
    fn wait(&self, due: u64) -> Result<(), String>;
}

struct Order {
    after: Duration,
    stage: Arc<dyn Stage>,
}

/// Where the raiser sleeps until there is an order. (The standard library's channels spin before they sleep: a thread
/// that answers sooner or later for that would be measured, too.)
#[derive(Default)]
struct Inbox {
    state: Mutex<(Option<Order>, bool)>,
    changed: Condvar,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, (Option<Order>, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, order: Order) {
        self.state().0 = Some(order);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.state().1 = true;
        self.changed.notify_one();
    }

    /// The next order; `None`: there will be none.
    fn take(&self) -> Option<Order> {
        let mut state = self.state();
        loop {
            if let Some(order) = state.0.take() {
                return Some(order);
            }
            if state.1 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The kernel thread that raises events. It ends when this is dropped.
pub(crate) struct Raiser {
    orders: Arc<Inbox>,
    stamp: Arc<AtomicU64>,
    cpu_ns: Arc<AtomicU64>,
}

impl Raiser {
    /// Starts it.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub(crate) fn start() -> Result<Raiser, String> {
        let orders = Arc::new(Inbox::default());
        let inbox = orders.clone();
        let stamp = Arc::new(AtomicU64::new(0));
        let noted = stamp.clone();
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let used = cpu_ns.clone();
        thread("raiser", move || {
            // Without the 50 µs by which the kernel may be late: it is not what is measured.
            marcel::plumbing::lwp::prefer_current_thread();
            while let Some(Order { after, stage }) = inbox.take() {
                if !after.is_zero() {
                    std::thread::sleep(after);
                }
                noted.store(now_ns(), SeqCst);
                stage.raise();
                used.store(thread_cpu_ns(), SeqCst);
            }
        })?;
        Ok(Raiser { orders, stamp, cpu_ns })
    }

    /// CPU time that it has used so far.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(SeqCst)
    }

    /// Waits for one event on the calling thread: nanoseconds from the event until it runs again.
    ///
    /// # Errors
    /// What the stage says.
    pub(crate) fn sample(&self, stage: &Arc<dyn Stage>, after: Duration) -> Result<u64, String> {
        stage.prepare()?;
        let due = now_ns() + after.as_nanos() as u64;
        if stage.is_timed() {
            stage.wait(due)?;
            return Ok(now_ns().saturating_sub(due));
        }
        self.orders.put(Order { after, stage: stage.clone() });
        stage.wait(due)?;
        let now = now_ns();
        Ok(now.saturating_sub(self.stamp.load(SeqCst)))
    }
}

impl Drop for Raiser {
    fn drop(&mut self) {
        self.orders.close();
    }
}

/// A kernel thread that waits, as any program's would. It ends when this is dropped.
pub(crate) struct Bare {
    orders: Sender<Order>,
    results: Receiver<Result<u64, String>>,
}

impl Bare {
    /// Starts it; with a `short` time slice, if the kernel grants one, as the kernel threads of this project have
    /// that are to preempt others.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub(crate) fn start(raiser: Arc<Raiser>, short: bool) -> Result<Bare, String> {
        let (orders, inbox) = channel::<Order>();
        let (outbox, results) = channel();
        thread("bare", move || {
            if short {
                marcel::plumbing::lwp::prefer_current_thread();
            }
            for Order { after, stage } in inbox {
                if outbox.send(raiser.sample(&stage, after)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Bare { orders, results })
    }

    /// As [`Raiser::sample`], on its kernel thread.
    ///
    /// # Blocking
    /// The calling kernel thread: no other thread looks for events meanwhile.
    ///
    /// # Errors
    /// As [`Raiser::sample`].
    pub(crate) fn sample(&self, stage: &Arc<dyn Stage>, after: Duration) -> Result<u64, String> {
        let ended = "a waiting kernel thread has ended";
        self.orders.send(Order { after, stage: stage.clone() }).map_err(|_| ended.to_string())?;
        self.results.recv().map_err(|_| ended.to_string())?
    }
}

fn thread(name: &str, f: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let started = std::thread::Builder::new().name(name.into()).spawn(f);
    started.map(drop).map_err(|e| format!("starting a kernel thread: {e}"))
}
