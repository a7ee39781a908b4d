//! Tasks between threads: a tree of sums, each node of which is a small task in the mailbox of some worker.
//!
//! `cargo run --release --example tasks -- [depth] [workers]`
//!
//! Each worker is a green thread that runs what is in its mailbox, urgent tasks first. A node that is split sends its
//! halves as normal tasks to two workers; results are urgent, so that what is half done ends before more is begun. Room
//! in a mailbox is bounded: a worker that finds another's full takes in what is in its own between two tries, so no two
//! ever wait for each other. A worker that is awake is not woken.

use std::collections::{HashMap, VecDeque};
use std::process::ExitCode;

use pioman::{Manager, Runtime};
use pioman_extras::channel::{Mailbox, Sender, Urgency, mailbox};

/// Room for messages of each urgency in a mailbox.
const ROOM: usize = 16;

/// The waiter for a sum: a worker, and a number of its own. The root has none.
type Parent = Option<(usize, u64)>;

enum Task {
    /// Sum the numbers from the first to below the second.
    Sum(u64, u64, Parent),
    /// One half of what was asked for under this number.
    Half(u64, u64),
    /// The end.
    Stop(u64),
}

struct Worker {
    me: usize,
    mailbox: Mailbox<Task>,
    others: Vec<Sender<Task>>,
    /// Taken in while there was no room elsewhere.
    taken: VecDeque<Task>,
    /// What was split here: the half that has come, and the waiter.
    open: HashMap<u64, (Option<u64>, Parent)>,
    ran: u64,
}

impl Worker {
    /// Sends, and takes in what comes meanwhile.
    fn send(&mut self, to: usize, urgency: Urgency, mut task: Task) {
        let mut position = self.others[to].lane(urgency).acquire_send();
        while let Err(full) = position.try_send(task) {
            task = match full {
                std::sync::mpsc::TrySendError::Full(task) => task,
                std::sync::mpsc::TrySendError::Disconnected(_) => return, // it has stopped already
            };
            match self.mailbox.try_recv() {
                Ok((Urgency::Urgent, task)) => self.taken.push_front(task),
                Ok((_, task)) => self.taken.push_back(task),
                Err(_) => marcel::yield_now(),
            }
        }
    }

    fn answer(&mut self, parent: Parent, sum: u64) {
        match parent {
            Some((who, number)) => self.send(who, Urgency::Urgent, Task::Half(number, sum)),
            None => (0..self.others.len())
                .for_each(|who| self.send(who, Urgency::Idle, Task::Stop(sum))),
        }
    }

    /// Runs tasks until the end; how many, and the sum of all.
    fn run(mut self, manager: &Manager, leaf: u64) -> Option<(u64, u64)> {
        loop {
            let task = match self.taken.pop_front() {
                Some(task) => task,
                None => self.mailbox.recv(manager).ok()?.1,
            };
            self.ran += 1;
            match task {
                Task::Sum(from, to, parent) if to - from <= leaf => {
                    self.answer(parent, (from..to).sum())
                }
                Task::Sum(from, to, parent) => {
                    let (number, half) = (self.ran, from + (to - from) / 2);
                    self.open.insert(number, (None, parent));
                    let (all, own) = (self.others.len(), Some((self.me, number)));
                    self.send((self.me + 1) % all, Urgency::Normal, Task::Sum(from, half, own));
                    self.send((self.me + 2) % all, Urgency::Normal, Task::Sum(half, to, own));
                }
                Task::Half(number, sum) => {
                    if let Some((first, parent)) = self.open.remove(&number) {
                        match first {
                            Some(first) => self.answer(parent, first + sum),
                            None => _ = self.open.insert(number, (Some(sum), parent)),
                        }
                    }
                }
                Task::Stop(sum) => return Some((self.ran, sum)),
            }
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().ok());
    let (Some(depth @ 0..=24), Some(workers @ 1..=256)) =
        (args.next().unwrap_or(Some(14)), args.next().unwrap_or(Some(4)))
    else {
        eprintln!("tasks: expected a depth of at most 24, and 1 to 256 workers");
        return ExitCode::FAILURE;
    };
    const LEAF: u64 = 100;
    let runtime = match Runtime::build(Manager::builder(), marcel::Runtime::builder()) {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tasks: {error}");
            return ExitCode::FAILURE;
        }
    };
    let manager = runtime.manager();
    let all = LEAF << depth;
    let (senders, mailboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| mailbox(ROOM)).unzip();
    let results: Vec<_> = runtime.run(|| {
        let _ = senders[0].send(manager, Urgency::Normal, Task::Sum(0, all, None));
        let start = |(me, mailbox)| {
            let worker = Worker {
                me,
                mailbox,
                others: senders.clone(),
                taken: VecDeque::new(),
                open: HashMap::new(),
                ran: 0,
            };
            let manager = manager.clone();
            marcel::spawn(move || worker.run(&manager, LEAF))
        };
        let threads: Vec<_> = mailboxes.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    for (worker, result) in results.iter().enumerate() {
        let Some((ran, _)) = result else { continue };
        println!("worker {worker} ran {ran} tasks");
    }
    let expected = all * (all - 1) / 2;
    if results.iter().all(|result| result.is_some_and(|(_, sum)| sum == expected)) {
        println!("the sum of all numbers below {all} is {expected}, as it should be");
        ExitCode::SUCCESS
    } else {
        eprintln!("tasks: expected {expected} from all workers, got {results:?}");
        ExitCode::FAILURE
    }
}
