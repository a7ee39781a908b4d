//! Samples of a run, by point, metric and round, and the objects that are printed for them.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::harness::line::Line;
use crate::harness::stats::median;
use crate::out::Exit;

/// What is measured: name, unit, meaning. One name means the same in every bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Its name in the JSON objects.
    pub(crate) name: &'static str,
    /// Its unit; `ratio` for a quotient of two figures.
    pub(crate) unit: &'static str,
    /// What it is, for `--list`.
    pub(crate) help: &'static str,
}

impl Metric {
    /// A metric of this name, unit and meaning.
    pub(crate) const fn new(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
        Metric { name, unit, help }
    }
}

/// See [`Results::added`].
pub(crate) const ADDED_TIME: Metric = Metric::new(
    "added_time",
    "ns",
    "what is added to the first choice's half_round_trip: difference of the medians of a round",
);

/// All samples of a run.
#[derive(Clone)]
pub(crate) struct Results {
    /// The points that were asked for.
    pub(crate) points: Vec<Config>,
    /// How many rounds were made.
    pub(crate) rounds: usize,
    /// Whether a point failed without which the run has failed.
    pub(crate) lost: bool,
    /// Why it ended before all rounds were over; what was measured until then is here.
    pub(crate) stopped: Option<Exit>,
    samples: BTreeMap<(usize, &'static str, usize), Vec<f64>>,
}

impl Results {
    /// No samples yet.
    pub(crate) fn new(points: Vec<Config>, rounds: usize) -> Results {
        Results { points, rounds, lost: false, stopped: None, samples: BTreeMap::new() }
    }

    /// Itself, if nothing has stopped it.
    ///
    /// # Errors
    /// What has.
    pub(crate) fn whole(mut self) -> Result<Results, Exit> {
        self.stopped.take().map_or(Ok(self), Err)
    }

    /// Adds samples of one round.
    pub(crate) fn add(
        &mut self,
        point: usize,
        metric: &'static str,
        round: usize,
        samples: &[f64],
    ) {
        self.samples.entry((point, metric, round)).or_default().extend_from_slice(samples);
    }

    /// Samples of one round, in the order in which they were taken.
    pub(crate) fn round(&self, point: usize, metric: &'static str, round: usize) -> &[f64] {
        self.samples.get(&(point, metric, round)).map_or(&[], Vec::as_slice)
    }

    /// Samples of all rounds.
    pub(crate) fn all(&self, point: usize, metric: &'static str) -> Vec<f64> {
        (0..self.rounds).flat_map(|round| self.round(point, metric, round)).copied().collect()
    }

    /// The point with this configuration.
    pub(crate) fn find(&self, config: &Config) -> Option<usize> {
        self.points.iter().position(|point| point == config)
    }

    /// Median over all rounds of the first point for which `which` holds.
    pub(crate) fn median(
        &self,
        metric: &'static str,
        which: impl Fn(&Config) -> bool,
    ) -> Option<f64> {
        let point = self.points.iter().position(which)?;
        median(&self.all(point, metric))
    }

    /// Adds to point `index`, round by round, what `of` makes of its `figure` and of that of point `other`, where
    /// both have one and the outcome is finite.
    pub(crate) fn relate(
        &mut self,
        (index, other): (usize, usize),
        (from, into): (&'static str, &'static str),
        figure: impl Fn(&[f64]) -> Option<f64>,
        of: impl Fn(f64, f64) -> f64,
    ) {
        for round in 0..self.rounds {
            let figure = |point| figure(self.round(point, from, round));
            let both = figure(index).zip(figure(other)).map(|(own, other)| of(own, other));
            if let Some(both) = both.filter(|both| both.is_finite()) {
                self.add(index, into, round, &[both]);
            }
        }
    }

    /// Adds the ratio of the medians of a round: point `index` over point `other`.
    pub(crate) fn ratio(&mut self, points: (usize, usize), from: &'static str, into: &'static str) {
        self.relate(points, (from, into), median, |own, other| own / other);
    }

    /// Adds [`ADDED_TIME`] to every point: the median of a round, of a metric in microseconds, minus that of the point
    /// which differs only in that its `key` is `first`.
    pub(crate) fn added(&mut self, metric: &'static str, key: &str, first: &str) {
        for index in 0..self.points.len() {
            let point = &self.points[index];
            let other = self.find(&point.with(key, first)).filter(|_| point.text(key) != first);
            if let Some(other) = other {
                let added = |own, first| (own - first) * 1000.0;
                self.relate((index, other), (metric, ADDED_TIME.name), median, added);
            }
        }
    }

    /// The lines to print, point by point, metrics in the order of `metrics`.
    pub(crate) fn lines(&self, bench: &str, metrics: &[Metric]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (point, config) in self.points.iter().enumerate() {
            for metric in metrics {
                let of_round = |round| self.round(point, metric.name, round);
                let rounds: Vec<&[f64]> = (0..self.rounds).map(of_round).collect();
                lines.extend(Line::of(bench, config, [metric.name, metric.unit], &rounds));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_to_the_first_choice_round_by_round() {
        let point = |lock: &str| Config::default().with("lock", lock).with("size", 4);
        let mut results = Results::new(vec![point("none"), point("coarse")], 2);
        for (round, (none, coarse)) in [(1.0, 1.5), (2.0, 2.25)].into_iter().enumerate() {
            results.add(0, "half_round_trip", round, &[none]);
            results.add(1, "half_round_trip", round, &[coarse]);
        }
        results.added("half_round_trip", "lock", "none");
        assert_eq!(results.all(1, "added_time"), [500.0, 250.0]);
        assert!(results.all(0, "added_time").is_empty());
    }

    #[test]
    fn lines_have_the_documented_shape() {
        let config = Config::default().with("driver", "shm").with("size", 4);
        let mut results = Results::new(vec![config], 2);
        results.add(0, "send_time", 0, &[1.0, 3.0]);
        results.add(0, "send_time", 1, &[2.0]);
        let metrics = [Metric::new("send_time", "us", "")];
        let lines = results.lines("overlap", &metrics);
        assert_eq!(
            serde_json::to_string(&lines[0]).unwrap(),
            r#"{"bench":"overlap","config":{"driver":"shm","size":4},"metric":"send_time","unit":"us","n":3,"mean":2.0,"min":1.0,"p10":1.2,"median":2.0,"p90":2.8,"p99":2.98,"max":3.0,"ci_low":0.5858,"ci_high":3.4142}"#
        );
    }
}
