//! Green threads that compute and never yield: the load under which others measure.
//!
//! Each works in units of known length and tells what it has done, so that what another thread's events cost the
//! computation can be read at any moment. More of them than virtual processors wait until an earlier one ends, and
//! all end together, so the machine is full all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use marcel::JoinHandle;

use crate::clock::{now_ns, process_cpu_ns, thread_cpu_ns};
use crate::experiments::spin::compute;
use crate::harness::worker::WorkResult;

/// Longest time until every virtual processor computes.
const START_LIMIT_NS: u64 = 20_000_000_000;
const PAUSE: Duration = Duration::from_millis(1);

/// What one computing thread has done so far; read by others. A cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Done {
    units: AtomicU64,
    cpu_ns: AtomicU64,
}

/// When they compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// All the time.
    Always,
    /// All together for so long, then for as long not, by the clock of the machine.
    Phases(Duration),
}

impl Rhythm {
    /// For how long no thread computes from now on; `None`: it is time to compute.
    pub(crate) fn pause(self) -> Option<Duration> {
        match self {
            Rhythm::Always => None,
            Rhythm::Phases(phase) => Rhythm::pause_at(now_ns(), phase.as_nanos() as u64),
        }
    }

    fn pause_at(now: u64, phase: u64) -> Option<Duration> {
        let into = now % (2 * phase);
        (into >= phase).then(|| Duration::from_nanos(2 * phase - into))
    }
}

/// The computing threads; they end with [`Crunch::end`].
pub(crate) struct Crunch {
    done: Arc<[Done]>,
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

/// What has been done up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Units of work.
    pub(crate) units: u64,
    /// CPU time of the computing threads.
    pub(crate) compute_ns: u64,
    /// CPU time of the process.
    pub(crate) process_ns: u64,
    /// Time.
    pub(crate) wall_ns: u64,
}

impl Reading {
    /// What has been done since `start`.
    pub(crate) fn since(self, start: Reading) -> Reading {
        Reading {
            units: self.units - start.units,
            compute_ns: self.compute_ns - start.compute_ns,
            process_ns: self.process_ns - start.process_ns,
            wall_ns: self.wall_ns - start.wall_ns,
        }
    }

    /// For the way to another process.
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let values = [self.units, self.compute_ns, self.process_ns, self.wall_ns];
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// What came from another process.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Reading {
        let mut values =
            bytes.chunks_exact(8).map(|place| place.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || values.next().unwrap_or(0);
        Reading { units: next(), compute_ns: next(), process_ns: next(), wall_ns: next() }
    }
}

impl Crunch {
    /// Starts `threads` of them, with units of `steps`.
    pub(crate) fn start(threads: usize, steps: u64) -> Crunch {
        Crunch::with(threads, steps, Rhythm::Always)
    }

    /// As [`Crunch::start`], in a rhythm.
    pub(crate) fn with(threads: usize, steps: u64, rhythm: Rhythm) -> Crunch {
        let done: Arc<[Done]> = (0..threads).map(|_| Done::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let handles = (0..threads)
            .map(|index| {
                let (done, stop) = (done.clone(), stop.clone());
                marcel::spawn(move || crunch(&done[index], &stop, steps, rhythm))
            })
            .collect();
        Crunch { done, stop, handles }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// What they have done so far.
    pub(crate) fn read(&self) -> Reading {
        Reading {
            units: self.done.iter().map(|d| d.units.load(Relaxed)).sum(),
            compute_ns: self.done.iter().map(|d| d.cpu_ns.load(Relaxed)).sum(),
            process_ns: process_cpu_ns(),
            wall_ns: now_ns(),
        }
    }

    /// How many have begun.
    fn begun(&self) -> usize {
        self.done.iter().filter(|done| done.units.load(Relaxed) > 0).count()
    }

    /// Waits until as many of them compute as there are virtual processors for.
    ///
    /// # Errors
    /// When they get no CPU time.
    pub(crate) fn filled(&self, vps: usize) -> WorkResult {
        let wanted = self.done.len().min(vps);
        let until = now_ns() + START_LIMIT_NS;
        while self.begun() < wanted {
            if now_ns() > until {
                let begun = self.begun();
                return Err(format!("only {begun} of {wanted} virtual processors compute").into());
            }
            marcel::sleep(PAUSE);
        }
        Ok(())
    }

    /// Ends them.
    ///
    /// # Errors
    /// When one has panicked.
    pub(crate) fn end(self) -> WorkResult {
        self.stop.store(true, Relaxed);
        for handle in self.handles {
            handle.join().map_err(|_| "a computing thread panicked".to_string())?;
        }
        Ok(())
    }
}

fn crunch(done: &Done, stop: &AtomicBool, steps: u64, rhythm: Rhythm) {
    let start = thread_cpu_ns();
    let mut units = 0;
    while !stop.load(Relaxed) {
        if let Some(pause) = rhythm.pause() {
            marcel::sleep(pause);
            continue;
        }
        compute(steps);
        units += 1;
        // Few readings of the CPU clock: they are system calls (0.2 µs).
        done.cpu_ns.store(thread_cpu_ns() - start, Relaxed);
        done.units.store(units, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_alternate() {
        let pause = |now| Rhythm::pause_at(now, 10).map(|pause| pause.as_nanos());
        assert_eq!(
            [0, 9, 10, 19, 20, 35].map(pause),
            [None, None, Some(10), Some(1), None, Some(5)]
        );
    }

    #[test]
    fn readings_survive_the_way() {
        let reading = Reading { units: 1, compute_ns: 2, process_ns: 3, wall_ns: 4 };
        assert_eq!(Reading::from_bytes(&reading.to_bytes()), reading);
    }
}
