//! MPI libraries, side by side with newmad: the values of `library` that stand for them, and how their points are
//! measured.
//!
//! A bench that can be done with MPI says which program of `peers/mpi` does a point ([`Program`]). The points of one
//! library and driver are a job of their own, which follows newmad's in every round; its only process is a worker that
//! starts the library's launcher ([`run`]), on the cores that newmad's processes have. What makes a process of newmad's
//! (mode, policy, progression) is `none` for them. [`library`] knows where they are and how they are built. One that
//! is not installed is named with what to do about it, and left out; one that fails, says something else than it
//! should, or takes much longer than newmad is named, and the rest goes on, but the bench has failed.

mod library;
mod run;

use std::path::Path;

use crate::config::{Config, distinct};
use crate::harness::experiment::{Absent, Bench, With};
use crate::harness::key::{AUTO, NONE};
use crate::harness::libraries;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::out::complain;
pub(crate) use library::find;
pub(crate) use run::work;

/// See [`compare`].
pub(crate) const PEER_RATIO: Metric =
    Metric::new("peer_ratio", "ratio", "newmad, or madmpi, over the best other library, per round");

/// Whether the point is measured with an MPI library.
pub(crate) fn is(point: &Config) -> bool {
    libraries::find(point.text("library")).is_some()
}

/// The value of `library` that `--peers` stands for: ours, and every MPI library that is here, of those that the
/// bench knows. With their options for progress outside calls where it is about that. Which are not here is said.
///
/// # Errors
/// `library` was given, too.
pub(crate) fn all_peers(
    bench: &Bench,
    given: &[(&str, &str)],
    dir: Option<&Path>,
) -> Result<String, String> {
    if given.iter().any(|(option, _)| *option == "library") {
        return Err("--peers chooses the libraries: give it or --library, not both".into());
    }
    let takes =
        |name: &str| bench.keys.iter().any(|key| key.name == "library" && key.parse(name).is_ok());
    let peers = libraries::KNOWN
        .iter()
        .filter(|known| known.is_foreign() && takes(known.name))
        .filter(|known| bench.outside_calls || !known.progress);
    let (here, missing): (Vec<&str>, Vec<&str>) =
        peers.map(|known| known.name).partition(|name| find(name, dir).is_ok());
    if !missing.is_empty() {
        complain(&format!(
            "mad bench: not here: {} (--library NAME says how to get it)",
            missing.join(", ")
        ));
    }
    Ok([&["newmad", "madmpi"], &here[..]].concat().join(","))
}

/// What makes a process of newmad's, and what it is for an MPI library.
pub(crate) const NOT_THEIRS: [(&str, &str); 6] = [
    ("mode", NONE),
    ("policy", NONE),
    ("progression", NONE),
    ("offload", NONE),
    ("lock", AUTO),
    ("algorithm", AUTO),
];

/// Whether the key says how a process of newmad's is made: an MPI library's points have none of it.
pub(crate) fn is_newmads(key: &str) -> bool {
    NOT_THEIRS.iter().any(|(name, of_mpi)| *name == key && *of_mpi == NONE)
}

/// Makes one point of those that differ only in what MPI libraries do not have.
pub(crate) fn points(grid: Vec<Config>) -> Vec<Config> {
    distinct(grid.into_iter().map(|mut point| {
        let theirs = is(&point);
        for (key, value) in NOT_THEIRS {
            if theirs && point.get(key).is_some() {
                point.set(key, value);
            }
        }
        point
    }))
}

/// Builds the programs that these points need; the points that cannot be measured here, and why.
pub(crate) fn prepare(points: &[Config], with: With, dir: Option<&Path>) -> Vec<Absent> {
    let mut tried: Vec<(&str, &str, Result<(), String>)> = Vec::new();
    let mut absent = Vec::new();
    for (index, point) in points.iter().enumerate().filter(|(_, point)| is(point)) {
        let (name, program) = (point.text("library"), with(point).name);
        let known = tried.iter().find(|(n, p, _)| (*n, *p) == (name, program));
        let built = match known {
            Some((_, _, built)) => built.clone(),
            None => {
                let built = find(name, dir).and_then(|library| library.build(program).map(drop));
                tried.push((name, program, built.clone()));
                built
            }
        };
        if let Err(why) = built {
            absent.push((index, why));
        }
    }
    absent
}

/// Adds `peer_ratio` to the points of newmad and of madmpi: the median of a round over that of the best other library, in
/// the same round.
pub(crate) fn compare(results: &mut Results, metric: &'static str, more_is_better: bool) {
    compare_by(results, |_| Some(metric), median, more_is_better);
}

/// As [`compare`], with a metric for each point, and another figure of the samples than their median. The best
/// library is the one with the best figure over all rounds.
pub(crate) fn compare_by(
    results: &mut Results,
    metric: impl Fn(&Config) -> Option<&'static str>,
    figure: fn(&[f64]) -> Option<f64>,
    more_is_better: bool,
) {
    compare_among(results, &[], metric, figure, more_is_better);
}

/// As [`compare_by`]; what these keys say of ours makes no difference either.
pub(crate) fn compare_among(
    results: &mut Results,
    ours_alone: &[&str],
    metric: impl Fn(&Config) -> Option<&'static str>,
    figure: fn(&[f64]) -> Option<f64>,
    more_is_better: bool,
) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        let ours = libraries::is_ours(point.text("library"));
        let Some(metric) = metric(&point).filter(|_| ours) else {
            continue;
        };
        let theirs = |key: &str| {
            key != "library"
                && !NOT_THEIRS.iter().any(|(name, _)| *name == key)
                && !ours_alone.contains(&key)
        };
        let same = |other: &Config| other.only(theirs) == point.only(theirs);
        let others = |other: &Config| libraries::is_foreign(other.text("library"));
        let peers = (0..results.points.len())
            .filter(|&other| others(&results.points[other]) && same(&results.points[other]));
        let figures = peers.filter_map(|peer| Some((peer, figure(&results.all(peer, metric))?)));
        let best = figures.max_by(
            |(_, a), (_, b)| {
                if more_is_better { a.total_cmp(b) } else { b.total_cmp(a) }
            },
        );
        let Some((best, _)) = best else { continue };
        results.relate((index, best), (metric, PEER_RATIO.name), figure, |ours, best| ours / best);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(library: &str, size: u64) -> Config {
        Config::default().with("mode", "smp").with("library", library).with("size", size)
    }

    #[test]
    fn a_mode_makes_no_other_point_of_an_mpi_library() {
        let mono = |library| point(library, 1).with("mode", "mono");
        let made =
            points(vec![point("newmad", 1), point("mpich", 1), mono("newmad"), mono("mpich")]);
        let shown: Vec<_> = made.iter().map(|p| (p.text("mode"), p.text("library"))).collect();
        assert_eq!(shown, [("smp", "newmad"), ("none", "mpich"), ("mono", "newmad")]);
    }

    #[test]
    fn the_ratio_is_to_the_best_library_of_the_same_size() {
        let grid =
            vec![point("newmad", 1), point("mpich", 1), point("openmpi", 1), point("impi", 2)];
        let mut results = Results::new(points(grid), 1);
        for (index, figure) in [6.0, 3.0, 2.0, 1.0].into_iter().enumerate() {
            results.add(index, "half_round_trip", 0, &[figure]);
            results.add(index, "bandwidth", 0, &[figure]);
        }
        compare(&mut results, "half_round_trip", false);
        assert_eq!(results.all(0, "peer_ratio"), [3.0]);
        compare(&mut results, "bandwidth", true);
        assert_eq!(results.all(0, "peer_ratio"), [3.0, 2.0]);
        assert!(results.all(1, "peer_ratio").is_empty());
    }

    #[test]
    fn both_of_our_libraries_are_compared_with_the_others_and_not_with_each_other() {
        let grid = ["newmad", "madmpi", "mpich"].map(|library| point(library, 1));
        let mut results = Results::new(points(grid.to_vec()), 1);
        for (index, figure) in [2.0, 6.0, 4.0].into_iter().enumerate() {
            results.add(index, "half_round_trip", 0, &[figure]);
        }
        compare(&mut results, "half_round_trip", false);
        let ratios = [0, 1, 2].map(|index| results.all(index, "peer_ratio"));
        assert_eq!(ratios, [vec![0.5], vec![1.5], vec![]]);
    }

    #[test]
    fn points_are_compared_by_what_they_are_about() {
        let both = |library| [point(library, 1), point(library, 2)];
        let mut results = Results::new(points([both("newmad"), both("mpich")].concat()), 1);
        for (index, samples) in [[1.0, 5.0], [1.0, 5.0], [0.5, 7.5], [0.5, 7.5]].iter().enumerate()
        {
            results.add(index, "send_time", 0, samples);
        }
        let first = |point: &Config| (point.number("size") == 1).then_some("send_time");
        let largest = |samples: &[f64]| samples.iter().copied().reduce(f64::max);
        compare_by(&mut results, first, largest, false);
        assert_eq!(results.all(0, "peer_ratio"), [5.0 / 7.5]);
        assert!(results.all(1, "peer_ratio").is_empty());
    }
}
