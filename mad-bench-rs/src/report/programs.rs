//! What programs feel, made from the figures: whole applications and collectives, madmpi beside other MPI libraries.

use crate::harness::line::{Line, find, values};
use crate::report::names;
use crate::report::peers::{Figure, amount, by_library, columns, gain, no_slower};
use crate::report::saying::Bound::AtLeast;
use crate::report::saying::Finding;

/// What users run.
const OURS: &str = "madmpi";

pub(crate) fn applications(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    // Stalls are part of a run: medians of steps do not have them.
    let whole = Figure { metric: "total_time", of: |line| line.mean };
    for driver in values(lines, "driver") {
        for ranks in values(lines, "ranks") {
            for workload in values(lines, "workload") {
                let keys = [("driver", &*driver), ("ranks", &*ranks), ("workload", &*workload)];
                let words = keys.map(|(key, value)| names::value(key, &value.into()));
                all.extend(no_slower(lines, OURS, whole, words.join(", "), &keys));
            }
        }
    }
    all
}

pub(crate) fn collectives(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    let median = Figure { metric: "op_time", of: |line| line.median };
    let points = |members: &str| {
        let mut points = Vec::new();
        for op in values(lines, "op") {
            for size in values(lines, "size") {
                points.push([
                    ("op", op.clone()),
                    ("size", size),
                    ("members", members.to_owned()),
                    ("compute_us", "0".to_owned()),
                ]);
            }
        }
        points
    };
    for members in values(lines, "members") {
        for point in points(&members) {
            let keys = point.each_ref().map(|(key, value)| (*key, &**value));
            let [op, size, ..] = keys.map(|(_, value)| value);
            let number = size.parse::<u64>().unwrap_or_default();
            let size = match op {
                "barrier" => String::new(),
                _ => format!(" of {}", names::tick("size", number)),
            };
            let place = format!("{}: {op}{size}", names::value("members", &(*members).into()));
            all.extend(no_slower(lines, OURS, median, place.clone(), &keys));
            // The tail, where nothing but waiting is in the figure.
            if number <= 8 {
                all.extend(tail(lines, format!("{place}, slowest in a hundred"), &keys));
            }
        }
    }
    all
}

fn tail(lines: &[Line], place: String, keys: &[(&str, &str)]) -> Option<Finding> {
    let here = by_library(lines, "op_time", keys);
    let p99 = |line: &Line| line.p99;
    let gain = gain(&here, OURS, p99)?;
    let asked = "at least as good as the best MPI library";
    Some(Finding::shown(place, columns(&here, p99)).judged(asked, Some(gain), gain >= 1.0))
}

/// Ranks of one process against polling in calls only: at an imbalance of two the wait is to be half as long.
pub(crate) fn collaborative(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for size in values(lines, "size") {
        for imbalance in values(lines, "imbalance") {
            let of = |metric: &str, way: &str| {
                let keys = [("way", way), ("size", &*size), ("imbalance", &*imbalance)];
                find(lines, metric, &keys)
            };
            let figures = values(lines, "way").into_iter().filter(|way| way != "none");
            let figures: Vec<_> = figures
                .filter_map(|way| Some((way.clone(), amount(of("wait_time", &way)?))))
                .collect();
            let Some(ratio) = of("wait_ratio", "collaborative") else { continue };
            let place = format!("{}, imbalance {imbalance}", names::of(ratio, "size"));
            let found = Finding::shown(place, figures);
            all.push(match imbalance.as_str() {
                "1" => found,
                _ => found.weighed("half of polling in calls at the most", &[ratio], AtLeast(2.0)),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use crate::report::saying::Verdict;

    fn verdict(found: &Finding) -> Verdict {
        found.target.as_ref().unwrap().verdict
    }

    #[test]
    fn an_application_is_judged_by_the_whole_run() {
        let of = |library, ranks, mean| {
            let keys =
                [("driver", "shm"), ("library", library), ("workload", "cg"), ("ranks", ranks)];
            Line { mean, ..line("total_time", &keys, 1.0) }
        };
        let lines = [
            of("madmpi", "2", 1.1),
            of("mpich", "2", 5.0),
            of("openmpi", "2", 1.2),
            of("madmpi", "8", 9.0),
            of("mpich", "8", 4.0),
        ];
        let said = applications(&lines);
        assert_eq!(said.len(), 2);
        assert_eq!(verdict(&said[0]), Verdict::Met);
        assert_eq!(said[0].target.as_ref().unwrap().ratio, Some(1.2 / 1.1));
        assert_eq!(verdict(&said[1]), Verdict::Missed);
        assert!(said[1].place.contains("8 ranks"), "{}", said[1].place);
    }

    #[test]
    fn collaborative_polling_is_judged_where_one_rank_computes_longer() {
        let of = |metric, way, imbalance, median| {
            let keys =
                [("library", "madmpi"), ("way", way), ("size", "8192"), ("imbalance", imbalance)];
            line(metric, &keys, median)
        };
        let lines = [
            of("wait_time", "collaborative", "1", 20.0),
            of("wait_ratio", "collaborative", "1", 1.1),
            of("wait_time", "collaborative", "2", 5.0),
            of("wait_time", "calls", "2", 30.0),
            of("wait_ratio", "collaborative", "2", 6.0),
        ];
        let said = collaborative(&lines);
        assert_eq!(said.len(), 2);
        assert!(said[0].target.is_none() && said[0].place.contains("imbalance 1"));
        assert_eq!(verdict(&said[1]), Verdict::Met);
        assert_eq!(said[1].figures[1], ("calls".to_owned(), "30 µs".to_owned()));
    }

    #[test]
    fn a_collective_is_judged_by_its_median_and_a_short_one_by_its_tail_too() {
        let of = |library, size, median, p99| {
            let keys = [
                ("library", library),
                ("op", "allreduce"),
                ("size", size),
                ("members", "2"),
                ("compute_us", "0"),
            ];
            Line { p99, ..line("op_time", &keys, median) }
        };
        let lines = [
            of("madmpi", "8", 300.0, 9000.0),
            of("openmpi", "8", 340.0, 800.0),
            of("madmpi", "65536", 30.0, 1.0),
            of("openmpi", "65536", 20.0, 2.0),
        ];
        let said = collectives(&lines);
        let verdicts: Vec<Verdict> = said.iter().map(verdict).collect();
        assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::Missed]);
        assert!(said[1].place.contains("slowest"), "{}", said[1].place);
    }
}
