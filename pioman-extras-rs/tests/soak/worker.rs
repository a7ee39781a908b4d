//! A worker: does one thing after the other, chosen by the dice, and checks its outcome.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use pioman::fd::Registered;
use pioman::pipe::{PipeReader, pipe};
use pioman::time::Timer;
use pioman::{Completion, Entered, Hint, Hints, Notifier, Progress, TaskBuilder, TaskError, fs};
use pioman::{process::Command, time};
use pioman_extras::server::{DROPPED, Options, Outcome};

use crate::Watched;
use crate::world::{PERMITS, World};

/// A small generator of numbers, good enough to shake things.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(2);
        }
        dice
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }

    pub(crate) fn split(&mut self) -> Dice {
        let (high, low) = (self.roll(1 << 30), self.roll(1 << 30));
        Dice::new(high << 30 | low)
    }

    /// A time shorter than so many microseconds.
    fn time(&mut self, microseconds: u64) -> Duration {
        Duration::from_micros(self.roll(microseconds))
    }
}

type Act = fn(&mut Worker);

const ACTS: [(&str, Act); 16] = [
    ("timer", Worker::timer),
    ("timer cancelled", Worker::timer_cancelled),
    ("time-out", Worker::timeout),
    ("pipe", Worker::pipe),
    ("pipe in vain", Worker::pipe_in_vain),
    ("light task", Worker::task),
    ("light task again", Worker::task),
    ("request", Worker::request),
    ("request again", Worker::request),
    ("mailbox", Worker::mailbox),
    ("any of several", Worker::any),
    ("semaphore", Worker::semaphore),
    ("condition", Worker::condition),
    ("file", Worker::file),
    ("pipe by transfer", Worker::transfer),
    ("notifier", Worker::notifier),
];

pub(crate) const NAMES: [&str; ACTS.len() + 1] = {
    let mut names = ["child"; ACTS.len() + 1];
    let mut i = 0;
    while i < ACTS.len() {
        names[i] = ACTS[i].0;
        i += 1;
    }
    names
};

pub(crate) struct Worker {
    who: usize,
    world: Arc<World>,
    watched: Arc<Watched>,
    dice: Dice,
    reader: Option<PipeReader>,
    writer: Option<Arc<std::io::PipeWriter>>,
}

impl Worker {
    pub(crate) fn new(
        who: usize,
        world: &Arc<World>,
        watched: &Arc<Watched>,
        dice: Dice,
    ) -> Worker {
        let (world, watched) = (world.clone(), watched.clone());
        Worker { who, world, watched, dice, reader: None, writer: None }
    }

    pub(crate) fn enter(&self) -> Entered {
        self.world.manager.enter()
    }

    /// Until the end; how many things it has done.
    pub(crate) fn work(mut self) -> u64 {
        let (reader, writer) = pipe().unwrap();
        self.reader = Some(reader);
        self.writer = Some(Arc::new(std::os::fd::OwnedFd::from(writer).into()));
        let mut done = 0;
        while !self.world.is_over() {
            // Children cost more than all the rest.
            let act = match self.dice.roll(400) {
                0 => ACTS.len(),
                n => n as usize % ACTS.len(),
            };
            self.watched.begins(self.who, act);
            match ACTS.get(act) {
                Some((_, act)) => act(&mut self),
                None => self.child(),
            }
            done += 1;
            if self.dice.roll(4) == 0 {
                marcel::yield_now();
            }
        }
        self.watched.ends(self.who);
        done
    }

    /// A completion that somebody else completes soon.
    fn soon(&self) -> Arc<Completion> {
        let done = Arc::new(Completion::new());
        let theirs = done.clone();
        self.world.soon(move || theirs.complete());
        done
    }

    fn timer(&mut self) {
        let timer = Timer::after(self.dice.time(2000)).unwrap();
        timer.wait();
        assert!(Instant::now() >= timer.deadline(), "early");
    }

    fn timer_cancelled(&mut self) {
        let timers = &self.world.timers;
        timers.submitted.fetch_add(1, SeqCst);
        let mut timer = Timer::after(self.dice.time(300)).unwrap();
        marcel::sleep(self.dice.time(300));
        if timer.cancel() {
            assert!(!timer.is_done());
            timers.cancelled.fetch_add(1, SeqCst);
        } else {
            timer.wait();
            timers.completed.fetch_add(1, SeqCst);
        }
        if self.dice.roll(2) == 0 {
            timer.reset(Instant::now() + self.dice.time(300));
            timer.wait();
        }
    }

    /// An event and a time-out complete the same thing, at the same time perhaps.
    fn timeout(&mut self) {
        let done = Arc::new(Completion::new());
        let timeout = time::timeout(self.dice.time(200), done.clone()).unwrap();
        self.world.manager.wait(&done, Hint::Short);
        assert!(timeout.is_over());
    }

    fn pipe(&mut self) {
        let (writer, byte) = (self.writer.clone().unwrap(), self.dice.roll(256) as u8);
        self.world.soon(move || (&*writer).write_all(&[byte]).unwrap());
        let mut got = [0];
        self.reader.as_mut().unwrap().read_exact(&mut got).unwrap();
        assert_eq!(got, [byte]);
    }

    fn pipe_in_vain(&mut self) {
        let soon = Instant::now() + self.dice.time(300);
        let reader = self.reader.as_ref().unwrap();
        assert!(!reader.registered().wait_readable_until(soon).unwrap());
    }

    fn task(&mut self) {
        let (ends, dice) = (self.world.tasks.clone(), &mut self.dice);
        ends.submitted.fetch_add(1, SeqCst);
        let mut left = dice.roll(4);
        let fails = dice.roll(500) == 0;
        let waits = dice.roll(2) == 0;
        let mut task = TaskBuilder::new().name("soaked").on_end(move |result| {
            let end = match result {
                Ok(()) => &ends.completed,
                Err(TaskError::Cancelled { .. }) => &ends.cancelled,
                Err(TaskError::Panicked { .. }) => &ends.failed,
                Err(other) => panic!("an end of a new kind: {other}"),
            };
            end.fetch_add(1, SeqCst);
        });
        if dice.roll(8) == 0 {
            let nap = dice.time(200);
            task = task.blocking(move || std::thread::sleep(nap));
        }
        let run = move || {
            if left > 0 {
                left -= 1;
                return if waits { Progress::Waiting } else { Progress::Again };
            }
            if fails {
                std::panic::resume_unwind(Box::new("as it should"));
            }
            Progress::Done
        };
        let task = task.submit(&self.world.manager, run).unwrap();
        match dice.roll(6) {
            0 => task.detach(),
            1 => drop(task),
            2 => {
                let won = task.cancel();
                let result = task.wait();
                // With `won` a call that was under way may still have done the work.
                assert!(won || !matches!(result, Err(TaskError::Cancelled { .. })));
            }
            3 => {
                let _ = task.mask();
                let soon = Instant::now() + dice.time(100);
                let _ = task.wait_until(soon);
                task.unmask();
                let _ = task.wait();
            }
            4 => {
                let _ = task.wait_until(Instant::now() + dice.time(100));
            }
            _ => {
                let result = task.wait();
                assert!(matches!(result, Ok(())) || fails);
            }
        }
    }

    fn request(&mut self) {
        let (world, dice) = (&self.world, &mut self.dice);
        let event = world.events.fetch_add(1, SeqCst);
        let options = Options::default().interface(event % 2);
        let options = match dice.roll(6) {
            0 => options.poll_only(),
            _ => options,
        };
        world.requests.submitted.fetch_add(1, SeqCst);
        let request = world.server.submit_with(event, options).unwrap();
        let code = event as i32;
        let device = world.device.clone();
        let fire = move || device.fire(event);
        let outcome = match dice.roll(6) {
            0 => {
                assert_eq!(request.wait_timeout(dice.time(200)), None);
                assert!(request.cancel(9));
                assert_eq!(request.wait(), Outcome::Cancelled(9));
                Outcome::Cancelled(9)
            }
            1 => {
                world.soon(fire);
                let _ = request.wait_timeout(dice.time(200));
                let won = request.cancel(8);
                let expected = if won { Outcome::Cancelled(8) } else { Outcome::Completed(code) };
                assert_eq!(request.wait(), expected);
                expected
            }
            2 => {
                let handle = request.pending();
                world.soon(fire);
                drop(request);
                let outcome = handle.outcome().unwrap();
                assert!([Outcome::Cancelled(DROPPED), Outcome::Completed(code)].contains(&outcome));
                outcome
            }
            3 => {
                let other = request.pending();
                world.soon(move || assert!(other.complete(-1)));
                assert_eq!(request.wait(), Outcome::Completed(-1));
                Outcome::Completed(-1)
            }
            _ => {
                world.soon(fire);
                assert_eq!(request.wait(), Outcome::Completed(code));
                Outcome::Completed(code)
            }
        };
        let end = match outcome {
            Outcome::Completed(_) => &world.requests.completed,
            Outcome::Cancelled(_) => &world.requests.cancelled,
            Outcome::Stopped | Outcome::Failed => unreachable!("{outcome:?}"),
        };
        end.fetch_add(1, SeqCst);
    }

    fn mailbox(&mut self) {
        let (world, who) = (&self.world, self.who);
        let done = Completion::new();
        let mut hints = Hints::new(Hint::Short);
        match self.dice.roll(6) {
            0 => hints = hints.poll_only(),
            1 => hints = hints.block_only(),
            _ => {}
        }
        if self.dice.roll(2) == 0 {
            hints = hints.on(world.source.id());
        }
        // SAFETY: it stays until it is complete, or cancelled.
        unsafe { world.mailbox.submit(who, &done) };
        let mailbox = world.mailbox.clone();
        world.soon(move || mailbox.deliver(who));
        if self.dice.roll(3) == 0 {
            let soon = Instant::now() + self.dice.time(300);
            if !world.manager.wait_until(&done, hints, soon) && world.mailbox.cancel(who) {
                assert!(!done.is_done());
                return; // what comes in late is for the next one
            }
        }
        world.manager.wait(&done, hints);
        assert!(done.is_done());
    }

    fn any(&mut self) {
        let timer = Timer::after(self.dice.time(300)).unwrap();
        let done = self.soon();
        let first = (&*done).into();
        let both = [first, timer.completion().into()];
        let manager = &self.world.manager;
        match self.dice.roll(3) {
            0 => manager.wait_all(&both),
            1 => drop(manager.wait_all_until(&both, Instant::now() + self.dice.time(300))),
            _ => match manager.wait_any(&both) {
                0 => assert!(done.is_done()),
                _ => assert!(timer.completion().is_done()),
            },
        }
    }

    fn semaphore(&mut self) {
        let (world, soon) = (&self.world, Instant::now() + self.dice.time(500));
        let got = match self.dice.roll(3) {
            0 => world.permits.try_acquire(),
            1 => world.permits.acquire_until(&world.manager, soon),
            _ => {
                world.permits.acquire(&world.manager);
                true
            }
        };
        if got {
            assert!(world.holders.fetch_add(1, SeqCst) < PERMITS);
            marcel::sleep(self.dice.time(100));
            world.holders.fetch_sub(1, SeqCst);
            world.permits.release();
        }
    }

    fn condition(&mut self) {
        let (bit, theirs) = (1u64 << self.who, self.world.clone());
        self.world.soon(move || theirs.bits.signal(bit));
        let bits = &self.world.bits;
        let soon = Instant::now() + self.dice.time(200);
        if self.dice.roll(2) == 0 || !bits.wait_until(&self.world.manager, bit, soon) {
            bits.wait(&self.world.manager, bit);
        }
        assert!(bits.test(bit));
        bits.clear(bit);
    }

    fn file(&mut self) {
        let (world, offset) = (&self.world, self.dice.roll(1 << 15));
        let file = fs::File::from(world.file.try_clone().unwrap());
        world.transfers.submitted.fetch_add(1, SeqCst);
        let transfer = file.start_read_at(vec![1; 4096], offset);
        if self.dice.roll(3) == 0 {
            transfer.cancel();
        }
        let (result, data) = transfer.wait();
        self.ended(result, &data, 4096, 0);
    }

    /// A read that waits for somebody who writes, and may be cancelled meanwhile.
    fn transfer(&mut self) {
        // Without a ring a kernel thread makes the call at once, and cannot cancel it.
        let (reader, writer) = std::io::pipe().unwrap();
        let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
        let cancels = self.dice.roll(2) == 0;
        self.world.soon(move || {
            let written = (&writer).write_all(&[7; 4]);
            assert!(written.is_ok() || cancels); // nobody may be there to read any more
        });
        self.world.transfers.submitted.fetch_add(1, SeqCst);
        let transfer = file.start_read(vec![0; 4]);
        if cancels {
            marcel::sleep(self.dice.time(100));
            transfer.cancel();
        }
        let transfer = match transfer.wait_until(Instant::now() + self.dice.time(100)) {
            Ok((result, data)) => return self.ended(result, &data, 4, 7),
            Err(transfer) => transfer,
        };
        let (result, data) = transfer.wait();
        self.ended(result, &data, 4, 7);
    }

    fn ended(&self, result: std::io::Result<usize>, data: &[u8], len: usize, byte: u8) {
        let ends = &self.world.transfers;
        match result {
            Ok(n) => {
                assert_eq!(n, len);
                assert!(data.iter().all(|&b| b == byte));
                ends.completed.fetch_add(1, SeqCst);
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
                ends.cancelled.fetch_add(1, SeqCst);
            }
        }
    }

    fn notifier(&mut self) {
        let notifier = Registered::new(Notifier::new().unwrap()).unwrap();
        let done = self.soon();
        notifier.get_ref().arm();
        let _watched = notifier.get_ref().watch(&*done);
        if !done.is_done() {
            notifier.wait_readable().unwrap();
        }
        assert!(done.is_done());
    }

    fn child(&mut self) {
        let kills = self.dice.roll(2) == 0;
        let mut child =
            Command::new(if kills { "sleep" } else { "true" }).arg("100").spawn().unwrap();
        if kills {
            assert_eq!(child.wait_timeout(self.dice.time(500)).unwrap(), None);
            child.kill().unwrap();
        }
        assert_eq!(child.wait().unwrap().success(), !kills);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Nothing was left behind in the pipe, which others would have got.
        if let Some(reader) = &self.reader {
            let mut left = 0i32;
            // SAFETY: a writable integer.
            unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &mut left) };
            assert!(left == 0 || std::thread::panicking());
        }
    }
}
