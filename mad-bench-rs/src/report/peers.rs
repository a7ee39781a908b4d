//! Comparisons with MPI libraries, made from the figures: also when we lose.

use crate::harness::libraries::is_foreign;
use crate::harness::line::{Line, find, values};
use crate::quantity::{brief, measured};
use crate::report::names;
use crate::report::saying::Bound::{AtLeast, AtMost};
use crate::report::saying::{Finding, times};

/// The median of a line, with its unit.
pub(super) fn amount(line: &Line) -> String {
    measured(line.median, &line.unit)
}

/// Newmad against the best MPI library, at one point. `more`: more is better. `None` without figures of newmad's.
pub(super) fn against_best(
    lines: &[Line],
    metric: &str,
    place: impl Into<String>,
    keys: &[(&str, &str)],
    more: bool,
    at_least: f64,
) -> Option<Finding> {
    let median = Figure { metric, of: |line| line.median };
    versus(lines, "newmad", median, place.into(), keys, more, at_least)
}

/// A figure of the lines with a metric.
#[derive(Clone, Copy)]
pub(super) struct Figure<'a> {
    pub(super) metric: &'a str,
    pub(super) of: fn(&Line) -> f64,
}

/// One of our libraries, which is to be as good as the best other one by a figure of which less is better.
pub(super) fn no_slower(
    lines: &[Line],
    ours: &str,
    figure: Figure<'_>,
    place: String,
    keys: &[(&str, &str)],
) -> Option<Finding> {
    versus(lines, ours, figure, place, keys, false, 1.0)
}

fn versus(
    lines: &[Line],
    ours: &str,
    figure: Figure<'_>,
    place: String,
    keys: &[(&str, &str)],
    more: bool,
    at_least: f64,
) -> Option<Finding> {
    let here = by_library(lines, figure.metric, keys);
    let (_, own) = here.iter().find(|(name, _)| name == ours)?;
    let found = Finding::shown(place, columns(&here, figure.of));
    let peers = here.iter().filter(|(name, _)| is_foreign(name)).map(|(_, line)| (figure.of)(line));
    let best = peers.reduce(if more { f64::max } else { f64::min });
    let Some(best) = best else { return Some(found) };
    let asked = match at_least {
        1.0 => "at least as good as the best MPI library".to_owned(),
        n => format!("{} times the best MPI library", brief(n)),
    };
    // Round by round they are measured next to each other: the machine was the same for both.
    let ratio = find(lines, "peer_ratio", &[keys, &[("library", ours)]].concat());
    Some(match ratio {
        Some(ratio) => {
            let bound = if more { AtLeast(at_least) } else { AtMost(1.0 / at_least) };
            found.weighed(asked, &[ratio], bound)
        }
        None => {
            let own = (figure.of)(own);
            let gain = if more { own / best } else { best / own };
            found.judged(asked, Some(gain / at_least), gain >= at_least)
        }
    })
}

/// The lines with this metric and these values, one of each library.
pub(super) fn by_library<'a>(
    lines: &'a [Line],
    metric: &str,
    keys: &[(&str, &str)],
) -> Vec<(String, &'a Line)> {
    values(lines, "library")
        .into_iter()
        .filter_map(|library| {
            let keys = [keys, &[("library", &*library)]].concat();
            let line = find(lines, metric, &keys)?;
            Some((library, line))
        })
        .collect()
}

/// A column for each library, with its figure.
pub(super) fn columns(all: &[(String, &Line)], figure: fn(&Line) -> f64) -> Vec<(String, String)> {
    let cell = |(name, line): &(String, &Line)| {
        (names::value("library", &name.as_str().into()), measured(figure(line), &line.unit))
    };
    all.iter().map(cell).collect()
}

/// How many times the best MPI library's figure is as large as that of `ours`, where less is better.
pub(super) fn gain(all: &[(String, &Line)], ours: &str, figure: fn(&Line) -> f64) -> Option<f64> {
    let (_, ours) = all.iter().find(|(name, _)| name == ours)?;
    let others = all.iter().filter(|(name, _)| is_foreign(name)).map(|(_, line)| figure(line));
    Some(others.reduce(f64::min)? / figure(ours))
}

pub(crate) fn reactivity(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for threads in ["2", "32"] {
            let keys = [("driver", &*driver), ("threads", threads), ("side", "both")];
            let mut row = |metric, word, figure: fn(&Line) -> f64| {
                let here = by_library(lines, metric, &keys);
                if here.is_empty() {
                    return;
                }
                let place =
                    format!("{}, {threads} computing threads, {word}", names::driver(&driver));
                let found = Finding::shown(place, columns(&here, figure));
                all.push(match gain(&here, "newmad", figure) {
                    Some(gain) => {
                        found.judged("less than every MPI library", Some(gain), gain >= 1.0)
                    }
                    None => found,
                });
            };
            row("half_round_trip", "mean of all", |line| line.mean);
            row("weighted_trip", "at a random moment", |line| line.median);
        }
    }
    all
}

pub(crate) fn submit(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        let of = |metric: &str, library: &str| -> Vec<&Line> {
            let keys = [("driver", &*driver), ("library", library)];
            let never = |line: &&Line| line.key("offload") == "never";
            lines.iter().filter(|line| line.is(metric, &keys)).filter(|line| !never(line)).collect()
        };
        let sums = |lines: &[&Line]| lines.iter().filter(|line| line.median > 0.5).count();
        let ours = of("sum_or_max", "newmad");
        if ours.is_empty() {
            continue;
        }
        let mut figures = Vec::new();
        for library in values(lines, "library") {
            let here = of("sum_or_max", &library);
            if !here.is_empty() {
                figures.push((library, format!("{} of {} sizes", sums(&here), here.len())));
            }
        }
        let over = names::driver(&driver);
        let place = format!("{over}: nearer to the sum than to the longer of the two");
        all.push(Finding::shown(place, figures).judged(
            "newmad at no size",
            None,
            sums(&ours) == 0,
        ));
        let mut ratios = of("peer_ratio", "newmad");
        ratios.sort_by(|a, b| a.median.total_cmp(&b.median));
        if let [best, .., worst] = ratios[..] {
            let at = |line: &Line| format!("{} ({})", times(line.median), names::of(line, "size"));
            let figures = vec![("newmad".to_owned(), format!("{} to {}", at(best), at(worst)))];
            let place = format!("{over}: the whole over that of the best MPI library");
            all.push(Finding::shown(place, figures).weighed(
                "1 × at the most, at every size",
                &ratios,
                AtMost(1.0),
            ));
        }
    }
    all
}

pub(crate) fn idle(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        let here = by_library(lines, "cpu_time", &[("driver", &driver)]);
        let Some((_, ours)) = here.iter().find(|(name, _)| name == "newmad") else { continue };
        let seconds = ours.config.number_of("seconds").unwrap_or(1).max(1);
        let allowed = 2000.0 * seconds as f64;
        let (ratio, least) = match gain(&here, "newmad", |line| line.median) {
            Some(gain) => ((allowed / ours.median).min(gain), gain >= 1.0),
            None => (allowed / ours.median, true),
        };
        let place = format!("{}, CPU time in {seconds} s", names::driver(&driver));
        all.push(Finding::shown(place, columns(&here, |line| line.median)).judged(
            "2 ms a second at the most, and no more than any MPI library",
            ratio.is_finite().then_some(ratio),
            ours.median <= allowed && least,
        ));
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

    /// A line of each of newmad and an MPI library.
    fn pair(metric: &str, keys: &[(&str, &str)], ours: f64, theirs: f64) -> Vec<Line> {
        let of = |library, median| line(metric, &[keys, &[("library", library)]].concat(), median);
        vec![of("newmad", ours), of("mpich", theirs)]
    }

    #[test]
    fn reactions_are_compared_by_their_means() {
        let keys = [("driver", "shm"), ("threads", "32"), ("side", "both")];
        let mut lines = pair("half_round_trip", &keys, 8.0, 0.15);
        assert_eq!(verdict(&reactivity(&lines)[0]), Verdict::Missed);
        // Most trips are fast, some take milliseconds.
        lines[1].mean = 90.0;
        let said = reactivity(&lines);
        assert_eq!(verdict(&said[0]), Verdict::Met);
        assert_eq!(said[0].figures[1], ("mpich".to_owned(), "90 µs".to_owned()));
        assert_eq!(said[0].target.as_ref().unwrap().ratio, Some(90.0 / 8.0));
        lines.extend(pair("weighted_trip", &keys, 16.0, 12.0));
        assert_eq!(verdict(&reactivity(&lines)[1]), Verdict::Missed);
    }

    #[test]
    fn without_an_mpi_library_figures_are_shown_and_not_judged() {
        let keys = [("driver", "shm"), ("threads", "32"), ("side", "both"), ("size", "1")];
        let alone = &pair("half_round_trip", &keys, 8.0, 0.0)[..1];
        assert!(reactivity(alone)[0].target.is_none());
        let found = against_best(alone, "half_round_trip", "here", &keys, false, 1.0).unwrap();
        assert!(found.target.is_none() && found.figures[0].1 == "8 µs");
    }

    #[test]
    fn what_idles_cheaply_enough_still_loses_to_who_idles_cheaper() {
        let keys = [("driver", "tcp"), ("seconds", "2")];
        for (ours, theirs, missed) in
            [(300.0, 2e6, false), (5000.0, 2e6, true), (300.0, 200.0, true)]
        {
            let said = idle(&pair("cpu_time", &keys, ours, theirs));
            assert_eq!(verdict(&said[0]) == Verdict::Missed, missed, "{ours} {theirs}");
        }
        let alone = &pair("cpu_time", &keys, 300.0, 0.0)[..1];
        assert_eq!(verdict(&idle(alone)[0]), Verdict::Met);
    }

    #[test]
    fn totals_of_submissions_are_compared() {
        let at = |size, ours, theirs| {
            let mut lines = pair("sum_or_max", &[("driver", "shm"), ("size", size)], ours, theirs);
            lines.push(line(
                "peer_ratio",
                &[("driver", "shm"), ("size", size), ("library", "newmad")],
                if size == "4" { 0.9 } else { 1.2 },
            ));
            lines
        };
        let said = submit(&[at("4", 0.1, 0.9), at("64", 0.2, 0.1)].concat());
        assert_eq!(verdict(&said[0]), Verdict::Met);
        assert_eq!(said[0].figures[1], ("mpich".to_owned(), "1 of 2 sizes".to_owned()));
        assert_eq!(verdict(&said[1]), Verdict::Missed);
        assert_eq!(said[1].figures[0].1, "0.9 × (4 B) to 1.2 × (64 B)");
    }
}
