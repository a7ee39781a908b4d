//! What the workers share, the outside from which events come, and the sums that must be right at the end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{
    Completion, Cond, Hint, Manager, Progress, Semaphore, SourceHandle, TaskBuilder, TaskError,
};
use pioman_extras::server::Server;

use crate::device::{Device, Event, Kinds};
use crate::mailbox::Mailbox;
use crate::worker::Dice;

pub(crate) const PERMITS: u64 = 2;

/// How what was begun has ended, by the word of whoever had it.
#[derive(Default, Debug)]
pub(crate) struct Ends {
    pub(crate) submitted: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Ends {
    pub(crate) fn sum(&self) -> [u64; 4] {
        [&self.submitted, &self.completed, &self.cancelled, &self.failed].map(|n| n.load(SeqCst))
    }

    fn balance(&self, what: &str) {
        let [submitted, completed, cancelled, failed] = self.sum();
        assert_eq!(submitted, completed + cancelled + failed, "{what}: {self:?}");
    }
}

/// Ends the process when it is dropped by a panic.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

type Event_ = Box<dyn FnOnce() + Send>;

pub(crate) struct World {
    pub(crate) manager: Arc<Manager>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) source: SourceHandle,
    pub(crate) device: Arc<Device>,
    pub(crate) server: Server<Event>,
    pub(crate) events: AtomicUsize,
    pub(crate) permits: Semaphore,
    pub(crate) holders: AtomicU64,
    pub(crate) bits: Cond,
    pub(crate) file: std::fs::File,
    pub(crate) tasks: Arc<Ends>,
    pub(crate) requests: Ends,
    pub(crate) transfers: Ends,
    pub(crate) timers: Ends,
    pub(crate) load: AtomicBool,
    over: AtomicBool,
    outside: Mutex<Option<Sender<Event_>>>,
    sender: Mutex<Option<JoinHandle<()>>>,
}

impl World {
    pub(crate) fn new(manager: &Arc<Manager>) -> Arc<World> {
        let mailbox = Arc::new(Mailbox::new());
        let device = Arc::new(Device::default());
        let kinds = Kinds(&["poll one", "poll any", "block any timeout", "interrupt"]);
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 16).unwrap();
        let (outside, events) = channel::<Event_>();
        let sender = std::thread::spawn(move || {
            let _panics_end_all = Fatal; // or everybody would wait for events that do not come
            let mut dice = Dice::new(99);
            for event in events {
                match dice.roll(4) {
                    0 => std::thread::sleep(Duration::from_micros(dice.roll(300))),
                    1 => std::thread::yield_now(),
                    _ => {}
                }
                event();
            }
        });
        Arc::new(World {
            source: manager.add_source(mailbox.clone()).unwrap(),
            server: device.builder(manager, kinds).start().unwrap(),
            manager: manager.clone(),
            mailbox,
            device,
            events: AtomicUsize::new(0),
            permits: Semaphore::new(PERMITS),
            holders: AtomicU64::new(0),
            bits: Cond::new(),
            file,
            tasks: Arc::default(),
            requests: Ends::default(),
            transfers: Ends::default(),
            timers: Ends::default(),
            load: AtomicBool::new(false),
            over: AtomicBool::new(false),
            outside: Mutex::new(Some(outside)),
            sender: Mutex::new(Some(sender)),
        })
    }

    /// Has a kernel thread do it, in a moment.
    pub(crate) fn soon(&self, event: impl FnOnce() + Send + 'static) {
        self.outside.lock().unwrap().as_ref().unwrap().send(Box::new(event)).unwrap();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    /// Leaves a task without a waiter.
    fn leave_task(&self) {
        let (ends, mut left) = (self.tasks.clone(), 3);
        ends.submitted.fetch_add(1, SeqCst);
        let told = move |result: &Result<(), TaskError>| {
            result.as_ref().unwrap();
            ends.completed.fetch_add(1, SeqCst);
        };
        let run = move || {
            left -= 1;
            if left > 0 { Progress::Again } else { Progress::Done }
        };
        TaskBuilder::new().on_end(told).submit(&self.manager, run).unwrap().detach();
    }

    /// Nothing is left pending, and the sums are right.
    pub(crate) fn balances(&self) {
        drop(self.outside.lock().unwrap().take());
        let sender = self.sender.lock().unwrap().take();
        sender.unwrap().join().unwrap();
        // Tasks without a waiter end in their own time, and ends are told before they are counted.
        self.leave_task();
        let limit = Instant::now() + Duration::from_secs(60);
        let settled = || {
            let [submitted, ends @ ..] = self.tasks.sum();
            self.manager.tasks().outstanding() == 0
                && submitted == ends.iter().sum()
                && self.server.counters().pending == 0
        };
        while !settled() && Instant::now() < limit {
            let soon = Instant::now() + Duration::from_millis(1);
            match self.manager.mode() {
                // Tasks progress inside calls only. (Those of a worker that was the last to end were left.)
                Mode::NoThread => {
                    let _ = self.manager.wait_until(&Completion::new(), Hint::Long, soon);
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        let tasks = self.manager.tasks();
        let counted = [tasks.submitted, tasks.completed, tasks.cancelled, tasks.failed];
        assert_eq!(counted, self.tasks.sum(), "light tasks");
        self.tasks.balance("light tasks");

        let server = self.server.counters();
        let counted = [server.submitted, server.completed, server.cancelled, server.failed];
        assert_eq!(counted, self.requests.sum(), "requests of the server: {server:?}");
        self.requests.balance("requests of the server");
        assert_eq!((server.pending, server.panics), (0, 0));
        assert_eq!(self.device.blocked_twice.load(SeqCst), 0);
        assert!(self.device.most_polling.load(SeqCst) <= 1);
        // Calls come out that somebody has interrupted.
        while self.device.blocking.load(SeqCst) != 0 {
            assert!(Instant::now() < limit, "a call blocks on nothing");
            std::thread::sleep(Duration::from_millis(1));
        }

        let mailbox = &self.mailbox;
        let [submitted, ended @ ..] = [&mailbox.submitted, &mailbox.completed, &mailbox.cancelled];
        let ended = ended.map(|n| n.load(SeqCst)).iter().sum::<u64>();
        assert_eq!(submitted.load(SeqCst), ended, "requests of the source");

        self.transfers.balance("transfers");
        self.timers.balance("timers");
        assert_eq!(self.permits.available(), PERMITS);
        assert!(!self.bits.test(!0));
    }
}
