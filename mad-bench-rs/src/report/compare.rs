//! Two runs side by side: what is better, what is worse, what is the same.

use crate::experiments::find;
use crate::harness::line::Line;
use crate::harness::mpi::PEER_RATIO;
use crate::out;
use crate::quantity::figure;

/// Compares a run with an earlier one.
///
/// A point is *the same* where the two intervals of its median meet; else it is better or worse. The run *agrees*
/// with the earlier one where its median lies in the interval which that one gave: that is what an interval promises.
pub(crate) fn compare(old: &[Line], new: &[Line]) -> Comparison {
    let mut comparison = Comparison::default();
    for line in new {
        let same = |other: &&Line| {
            other.bench == line.bench
                && other.metric == line.metric
                && other.config.same(&line.config)
        };
        let Some(before) = old.iter().find(same) else {
            comparison.unknown += 1;
            continue;
        };
        let ((low, high), (old_low, old_high)) = (line.interval(), before.interval());
        let experiment = comparison.of(&line.bench);
        experiment.points += 1;
        experiment.agree += usize::from((old_low..=old_high).contains(&line.median));
        if high >= old_low && old_high >= low {
            experiment.same += 1;
            continue;
        }
        let better = (line.median > before.median) == more_is_better(line);
        let text = described(line, before);
        if better { experiment.better.push(text) } else { experiment.worse.push(text) }
    }
    comparison
}

fn described(line: &Line, before: &Line) -> String {
    let keys: Vec<String> = line
        .config
        .iter()
        .map(|(key, value)| format!("{key} {}", crate::config::shown(value)))
        .collect();
    let [now, then] = [line, before].map(|line| {
        let (low, high) = line.interval();
        format!("{} {} [{}, {}]", figure(line.median), line.unit, figure(low), figure(high))
    });
    format!("{} {} ({}): {now}, before {then}", line.bench, line.metric, keys.join(", "))
}

/// What a comparison found.
#[derive(Default)]
pub(crate) struct Comparison {
    /// By experiment, in the order in which they come.
    experiments: Vec<(String, Difference)>,
    /// Points that the earlier run does not have.
    unknown: usize,
}

/// What was found of an experiment.
#[derive(Default)]
struct Difference {
    points: usize,
    /// Medians that lie in the earlier run's intervals.
    agree: usize,
    /// Intervals meet.
    same: usize,
    better: Vec<String>,
    worse: Vec<String>,
}

impl Comparison {
    fn of(&mut self, bench: &str) -> &mut Difference {
        let known = self.experiments.iter().position(|(name, _)| name == bench);
        let at = known.unwrap_or_else(|| {
            self.experiments.push((bench.to_owned(), Difference::default()));
            self.experiments.len() - 1
        });
        &mut self.experiments[at].1
    }

    fn sum(&self, count: impl Fn(&Difference) -> usize) -> usize {
        self.experiments.iter().map(|(_, found)| count(found)).sum()
    }

    /// How many points are worse.
    pub(crate) fn worse(&self) -> usize {
        self.sum(|found| found.worse.len())
    }

    /// A line for each experiment.
    pub(crate) fn table(&self) -> String {
        let mut table = out::table(&["experiment", "medians", "agree", "same", "better", "worse"]);
        for (name, found) in &self.experiments {
            let counts =
                [found.points, found.agree, found.same, found.better.len(), found.worse.len()];
            table.add_row(
                std::iter::once(name.clone()).chain(counts.iter().map(ToString::to_string)),
            );
        }
        format!(
            "{}\n{} of {} medians agree: they lie in the intervals that the earlier run gave.\nsame: the two intervals meet.\n",
            table.trim_fmt(),
            self.sum(|found| found.agree),
            self.sum(|found| found.points),
        )
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (_, found) in &self.experiments {
            for (word, lines) in [("worse", &found.worse), ("better", &found.better)] {
                for line in lines {
                    writeln!(f, "{word}: {line}")?;
                }
            }
        }
        write!(
            f,
            "{} worse, {} better, {} the same within their intervals, {} not in the earlier run",
            self.worse(),
            self.sum(|found| found.better.len()),
            self.sum(|found| found.same),
            self.unknown
        )
    }
}

/// Whether a larger figure is a better one. A `peer_ratio` is ours over theirs of what the experiment measures first, and
/// better as that is.
fn more_is_better(line: &Line) -> bool {
    let is_rate = |unit: &str| ["MB/s", "M/s", "k/s"].contains(&unit);
    let first = || find(&line.bench).and_then(|bench| bench.metrics.first());
    is_rate(&line.unit)
        || ["overlap_ratio", "of_the_sum", "of_the_best"].contains(&line.metric.as_str())
        || line.metric == PEER_RATIO.name && first().is_some_and(|metric| is_rate(metric.unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;

    #[test]
    fn a_regression_is_told_from_noise() {
        let old = [
            line("half_round_trip", &[("size", "1")], 1.0),
            line("half_round_trip", &[("size", "2")], 1.0),
        ];
        let new = [
            line("half_round_trip", &[("size", "1")], 1.01),
            line("half_round_trip", &[("size", "2")], 2.0),
            line("half_round_trip", &[("size", "3")], 2.0),
        ];
        let comparison = compare(&old, &new);
        assert_eq!(
            (comparison.worse(), comparison.sum(|found| found.same), comparison.unknown),
            (1, 1, 1),
            "{comparison}"
        );
        let table = comparison.table();
        assert!(table.contains("1 of 2 medians agree"), "{table}");
        let back = compare(&old, &[line("half_round_trip", &[("size", "2")], 0.5)]);
        assert_eq!((back.worse(), back.sum(|found| found.better.len())), (0, 1));
    }

    #[test]
    fn a_larger_ratio_to_the_peers_is_better_where_rates_are_compared() {
        let worse = |bench: &str| {
            let of = |median| Line {
                bench: bench.into(),
                unit: "ratio".into(),
                ..line(PEER_RATIO.name, &[("size", "1")], median)
            };
            compare(&[of(1.0)], &[of(2.0)]).worse() == 1
        };
        for bench in crate::experiments::BENCHES {
            if bench.metrics.iter().any(|metric| metric.name == PEER_RATIO.name) {
                let rates = ["bandwidth", "rate"].contains(&bench.name);
                assert_eq!(worse(bench.name), !rates, "{}", bench.name);
            }
        }
    }
}
