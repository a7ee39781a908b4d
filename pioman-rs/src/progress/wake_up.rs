//! What a wake-up by the kernel costs here: from the event until the thread that slept runs again.
//!
//! It starts with a guess. The background watcher, when it is started, takes the time by which it oversleeps a few
//! short time-outs (a timer's interrupt and the way through the kernel's scheduler: what an event costs, too). From
//! then on every wait that another kernel thread ends by waking the waiter gives a sample, and an exponentially
//! weighted mean ([`SHARE`]) follows them. A sample far off counts as four times the present value: another process had
//! the core then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Before anything is known: what is usual on x86 servers.
const GUESS_NS: u64 = 5_000;
/// Part of a new sample in the mean.
const SHARE: u64 = 8;
const LEAST_NS: u64 = 500;
const MOST_NS: u64 = 100_000;
const PROBES: usize = 5;

/// See the module's description.
pub(crate) struct WakeUp {
    mean_ns: AtomicU64,
    samples: AtomicU64,
    /// When the background watcher last woke up and looked.
    found_ns: AtomicU64,
    start: Instant,
}

impl WakeUp {
    pub(crate) fn new() -> WakeUp {
        WakeUp {
            mean_ns: AtomicU64::new(GUESS_NS),
            samples: AtomicU64::new(0),
            found_ns: AtomicU64::new(0),
            start: Instant::now(),
        }
    }

    /// The present value.
    #[inline]
    pub(crate) fn cost(&self) -> Duration {
        Duration::from_nanos(self.mean_ns.load(Relaxed))
    }

    /// How many samples it comes from; none: it is a guess.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.load(Relaxed)
    }

    /// Measures a few time-outs: some hundred µs, asleep for most of it.
    pub(crate) fn probe(&self) {
        let mut over: [Duration; PROBES] = std::array::from_fn(|_| {
            let before = Instant::now();
            let time = Duration::from_micros(20);
            std::thread::sleep(time);
            before.elapsed().saturating_sub(time)
        });
        over.sort();
        self.sample(over[PROBES / 2]);
    }

    /// The background watcher has woken up, and looks.
    pub(crate) fn found(&self) {
        self.found_ns.store(self.now(), Relaxed);
    }

    /// A waiter runs again that slept since `since`: a sample, if it was the background watcher that woke it.
    pub(crate) fn woken(&self, since: Instant) {
        let found = self.found_ns.load(Relaxed);
        let slept = since.saturating_duration_since(self.start).as_nanos() as u64;
        if found > slept {
            self.sample(Duration::from_nanos(self.now().saturating_sub(found)));
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// It has been measured by itself.
    pub(crate) fn seed(&self, time: Duration) {
        let ns = (time.as_nanos() as u64).clamp(LEAST_NS, MOST_NS);
        self.mean_ns.store(ns, Relaxed);
        self.samples.fetch_add(1, Relaxed);
    }

    fn sample(&self, time: Duration) {
        let mean = self.mean_ns.load(Relaxed);
        let time = (time.as_nanos() as u64).clamp(LEAST_NS, MOST_NS);
        let samples = self.samples.load(Relaxed);
        let next = match samples {
            0 => time,
            _ => (mean * (SHARE - 1) + time.min(4 * mean)) / SHARE,
        };
        self.mean_ns.store(next, Relaxed);
        self.samples.store(samples + 1, Relaxed);
    }
}

/// What a wake-up costs on this machine now: the median of some, with a kernel thread that sleeps in a pipe and one
/// that writes to it, each taking the clock. For `mad knobs --explain`.
///
/// # Blocking
/// The calling kernel thread, for about 20 ms.
pub(crate) fn measure() -> std::io::Result<Duration> {
    use std::io::{Read, Write};
    const ROUNDS: usize = 200;
    let (mut reader, mut writer) = std::io::pipe()?;
    let start = Instant::now();
    let sent = AtomicU64::new(0);
    let now = || start.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut times = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                reader.read_exact(&mut [0])?;
                times.push(now().saturating_sub(sent.load(Relaxed)));
            }
            times.sort_unstable();
            std::io::Result::Ok(Duration::from_nanos(times[ROUNDS / 2]))
        });
        for _ in 0..ROUNDS {
            std::thread::sleep(Duration::from_micros(50)); // until it sleeps again
            sent.store(now(), Relaxed);
            writer.write_all(&[0])?;
        }
        sleeper.join().unwrap_or_else(|_| Err(std::io::Error::other("the sleeper panicked")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_samples_and_not_an_outlier() {
        let wake_up = WakeUp::new();
        assert_eq!((wake_up.cost(), wake_up.samples()), (Duration::from_micros(5), 0));
        (0..50).for_each(|_| wake_up.sample(Duration::from_micros(8)));
        assert_eq!(wake_up.cost().as_micros(), 8);
        wake_up.sample(Duration::from_secs(1));
        assert!(wake_up.cost() < Duration::from_micros(13));
        (0..100).for_each(|_| wake_up.sample(Duration::from_micros(3)));
        assert!(wake_up.cost() < Duration::from_micros(4));
    }

    #[test]
    fn a_wake_up_of_this_machine_takes_some_time() {
        let time = measure().unwrap();
        assert!(time > Duration::from_nanos(100) && time < Duration::from_secs(1), "{time:?}");
    }
}
