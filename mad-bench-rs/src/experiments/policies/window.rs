//! A window of time with events, the same without, and what the difference says.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::now_ns;
use crate::experiments::crunch::{Crunch, Reading};
use crate::experiments::detect::Dice;
use crate::experiments::detect::stage::{Raiser, Stage};
use crate::experiments::policies::score::score;
use crate::experiments::policies::workload::Workload;
use crate::harness::worker::WorkResult;

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(200);

/// What there is to measure with.
pub(super) struct Scene<'a> {
    pub(super) workload: Workload,
    pub(super) vps: usize,
    pub(super) raiser: &'a Raiser,
    pub(super) stage: &'a Arc<dyn Stage>,
    pub(super) crunch: &'a Crunch,
}

/// CPU time that is not computation, under one load.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    cpu_ns: f64,
    wall_ns: f64,
}

impl Rest {
    /// What is more than `alone`, for as long as this took.
    fn beyond(self, alone: Rest) -> f64 {
        let rate = if alone.wall_ns > 0.0 { alone.cpu_ns / alone.wall_ns } else { 0.0 };
        self.cpu_ns - rate * self.wall_ns
    }
}

/// What has been done in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    work: Reading,
    /// While every core computes, and while not.
    full: Rest,
    free: Rest,
}

/// A reading, and the CPU time of the raiser of the events, which is not ours.
#[derive(Clone, Copy)]
struct Mark(Reading, u64);

impl Scene<'_> {
    fn mark(&self) -> Mark {
        Mark(self.crunch.read(), self.raiser.cpu_ns())
    }

    /// Adds the time since `from`, which began under a full load or not, and begins anew.
    fn add(&self, account: &mut Account, from: &mut Mark, full: bool) {
        let now = self.mark();
        let done = now.0.since(from.0);
        let rest = if full { &mut account.full } else { &mut account.free };
        let others = done.compute_ns + (now.1 - from.1);
        rest.cpu_ns += done.process_ns as f64 - others as f64;
        rest.wall_ns += done.wall_ns as f64;
        account.work.units += done.units;
        account.work.compute_ns += done.compute_ns;
        account.work.wall_ns += done.wall_ns;
        *from = now;
    }

    fn is_full(&self) -> bool {
        self.workload.is_full(self.vps)
    }

    /// With events; their times of detection in ns, too, and the whole time of each.
    fn busy(&self, dice: &mut Dice) -> WorkResult<(Account, Vec<u64>, Vec<u64>)> {
        let (mut account, mut times, mut trips) = (Account::default(), Vec::new(), Vec::new());
        let (mut mark, mut full) = (self.mark(), self.is_full());
        let until = now_ns() + WINDOW.as_nanos() as u64;
        let slice = self.workload.slice().map(|slice| slice.as_nanos() as u64);
        let mut before = now_ns();
        while before < until || times.is_empty() {
            let after = self.workload.gap(times.len() as u64, dice);
            times.push(self.raiser.sample(self.stage, after)?);
            let now = now_ns();
            trips.push(now - before);
            before = now;
            if slice.is_some_and(|slice| now - mark.0.wall_ns > slice) {
                self.add(&mut account, &mut mark, full);
                full = self.is_full();
            }
        }
        self.add(&mut account, &mut mark, full);
        Ok((account, times, trips))
    }

    /// The same without events.
    fn alone(&self) -> Account {
        let mut account = Account::default();
        let (mut mark, mut full) = (self.mark(), self.is_full());
        let until = now_ns() + WINDOW.as_nanos() as u64;
        while now_ns() < until {
            marcel::sleep(self.workload.slice().unwrap_or(WINDOW));
            self.add(&mut account, &mut mark, full);
            full = self.is_full();
        }
        account
    }

    /// A window that is not counted: policies learn.
    ///
    /// # Errors
    /// An event was lost.
    pub(super) fn warm_up(&self, dice: &mut Dice) -> WorkResult {
        self.busy(dice).map(drop)
    }

    /// A window with events and one without: metrics and samples.
    ///
    /// # Errors
    /// An event was lost.
    pub(super) fn pair(&self, dice: &mut Dice) -> WorkResult<Vec<(&'static str, Vec<f64>)>> {
        // Which comes first is left to chance: the machine may become faster or slower all the time.
        let first = dice.below(2) == 0;
        let early = first.then(|| self.alone());
        let (busy, times, trips) = self.busy(dice)?;
        let alone = early.unwrap_or_else(|| self.alone());
        let us = |ns: u64| ns as f64 / 1000.0;
        let mut found = evaluate(&busy, &alone, &times);
        found.push(("detect_time", times.iter().copied().map(us).collect()));
        if self.workload == Workload::PingPong {
            let halves = trips.iter().map(|&ns| us(ns) / 2.0).collect();
            found.push(("half_round_trip", halves));
        }
        Ok(found)
    }
}

/// Metrics of a pair of windows, one sample each.
fn evaluate(busy: &Account, alone: &Account, times: &[u64]) -> Vec<(&'static str, Vec<f64>)> {
    let events = times.len().max(1) as f64;
    let each = |ns: f64| ns / 1000.0 / events;
    let (full, free) = (busy.full.beyond(alone.full), busy.free.beyond(alone.free));
    let mut found = Vec::new();
    let mut lost = full;
    if busy.work.units > 0 && alone.work.units > 0 {
        let per_unit = |time: u64, work: &Reading| time as f64 / work.units as f64;
        let cpu = per_unit(busy.work.compute_ns, &busy.work);
        let cpu_alone = per_unit(alone.work.compute_ns, &alone.work);
        lost += (cpu - cpu_alone) * busy.work.units as f64;
        let wall = per_unit(busy.work.wall_ns, &busy.work);
        let wall_alone = per_unit(alone.work.wall_ns, &alone.work);
        found.push(("slowdown", vec![cpu / cpu_alone]));
        found.push(("slowdown_wall", vec![wall / wall_alone]));
    }
    let waiting = each(times.iter().sum::<u64>() as f64);
    found.push(("cpu_time", vec![each(full + free)]));
    found.push(("lost_time", vec![each(lost)]));
    found.push(("burnt_time", vec![each(free)]));
    found.push(("score", vec![score(waiting, each(lost), each(free))]));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(units: u64, compute_ns: u64, full: f64, free: f64) -> Account {
        let work = Reading { units, compute_ns, process_ns: 0, wall_ns: 1_000_000 };
        let rest = |cpu_ns| Rest { cpu_ns, wall_ns: 500_000.0 };
        Account { work, full: rest(full), free: rest(free) }
    }

    #[test]
    fn what_is_burnt_beside_a_computation_is_lost() {
        // 100 units of 10 µs became 100 units of 10.1 µs, beside 20 µs more on full cores and 200 µs more on free
        // ones; ten events of 3 µs.
        let busy = account(100, 1_010_000, 30_000.0, 240_000.0);
        let alone = account(100, 1_000_000, 10_000.0, 40_000.0);
        let found = evaluate(&busy, &alone, &[3000; 10]);
        let of = |name| found.iter().find(|(metric, _)| *metric == name).unwrap().1[0];
        assert!((of("slowdown") - 1.01).abs() < 1e-9);
        assert!((of("cpu_time") - 22.0).abs() < 1e-9);
        assert!((of("lost_time") - 3.0).abs() < 1e-9);
        assert!((of("burnt_time") - 20.0).abs() < 1e-9);
        assert!((of("score") - (3.0 + 3.0 + 1.0)).abs() < 1e-9);
    }

    #[test]
    fn without_computation_there_is_nothing_to_lose() {
        let found = evaluate(&account(0, 0, 0.0, 5_000.0), &Account::default(), &[1000]);
        assert!(!found.iter().any(|(metric, _)| metric.starts_with("slowdown")));
        assert!(
            found.contains(&("burnt_time", vec![5.0])) && found.contains(&("lost_time", vec![0.0]))
        );
    }
}
