//! The workloads: which threads compute meanwhile, and when the next event comes.

use std::time::Duration;

use crate::experiments::crunch::Rhythm;
use crate::experiments::detect::Dice;

/// Length of the phases in which all threads or none compute.
const PHASE: Duration = Duration::from_millis(10);

/// What happens in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// Every core computes; a peer answers each message at once.
    PingPong,
    /// Half of the cores compute; 32 events some 20 to 40 µs apart, then 3 to 5 ms of silence.
    Bursts,
    /// No thread computes; an event after 20 to 50 ms of silence.
    Silence,
    /// All threads compute for 10 ms, then none for 10 ms; events some 30 to 200 µs apart all the time.
    Phases,
}

/// Events of a burst.
const BURST: u64 = 32;

impl Workload {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Option<Workload> {
        Some(match name {
            "pingpong" => Workload::PingPong,
            "bursts" => Workload::Bursts,
            "silence" => Workload::Silence,
            "phases" => Workload::Phases,
            _ => return None,
        })
    }

    /// How many green threads compute.
    pub(super) fn threads(self, vps: usize) -> usize {
        match self {
            Workload::PingPong | Workload::Phases => vps,
            Workload::Bursts => (vps / 2).max(1),
            Workload::Silence => 0,
        }
    }

    /// When they do.
    pub(super) fn rhythm(self) -> Rhythm {
        match self {
            Workload::Phases => Rhythm::Phases(PHASE),
            _ => Rhythm::Always,
        }
    }

    /// Whether every core computes now: what is burnt then is taken from a computation.
    pub(super) fn is_full(self, vps: usize) -> bool {
        self.threads(vps) >= vps && self.rhythm().pause().is_none()
    }

    /// How long a slice may be in which the load is one or the other; the others have one load all the time.
    pub(super) fn slice(self) -> Option<Duration> {
        (self == Workload::Phases).then_some(PHASE / 10)
    }

    /// How long after the waiter is ready the event of this number is raised.
    pub(super) fn gap(self, number: u64, dice: &mut Dice) -> Duration {
        let mut between = |low: u64, high: u64| low + dice.below(high - low);
        Duration::from_micros(match self {
            Workload::PingPong => 0,
            Workload::Bursts if number.is_multiple_of(BURST) => between(3_000, 5_000),
            Workload::Bursts => between(10, 30),
            Workload::Silence => between(20_000, 50_000),
            Workload::Phases => between(20, 190),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_silence_between_them() {
        let mut dice = Dice::new();
        let long = (0..3 * BURST)
            .filter(|&n| Workload::Bursts.gap(n, &mut dice) >= Duration::from_millis(3));
        assert_eq!(long.collect::<Vec<_>>(), [0, BURST, 2 * BURST]);
    }

    #[test]
    fn only_some_fill_the_machine() {
        assert!(Workload::PingPong.is_full(2) && !Workload::Bursts.is_full(2));
        assert!(!Workload::Silence.is_full(1));
    }
}
