//! What the figures show, section by section, made from the figures: also when we lose.

use crate::harness::line::{Line, find, values};
use crate::quantity::{brief, measured};
use crate::report::names;
use crate::report::peers::{against_best, amount};
use crate::report::saying::Bound::{AtLeast, AtMost};
use crate::report::saying::Finding;

/// Where the plots say it all.
pub(crate) fn nothing(_: &[Line]) -> Vec<Finding> {
    Vec::new()
}

pub(crate) fn overlap(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for side in ["receiver", "sender"] {
            let ratio = |size: &str| {
                let keys =
                    [("driver", &*driver), ("side", side), ("size", size), ("compute_us", "20000")];
                find(lines, "overlap_ratio", &keys)
            };
            if let (Some(small), Some(large)) = (ratio("32768"), ratio("1048576")) {
                let place = format!("{}, the {side} computes 20 ms", names::driver(&driver));
                let part = |line: &Line| format!("{:.2}", line.median);
                let figures = vec![
                    ("hidden at 32 KB".to_owned(), part(small)),
                    ("hidden at 1 MB".to_owned(), part(large)),
                ];
                all.push(Finding::shown(place, figures).weighed(
                    "0.95 or more of the transfer",
                    &[small, large],
                    AtLeast(0.95),
                ));
            }
        }
    }
    all
}

pub(crate) fn interrupts(lines: &[Line]) -> Vec<Finding> {
    let of = |metric: &str, policy: &str, size: &str| {
        let keys =
            [("policy", policy), ("size", size), ("compute_us", "20000"), ("side", "receiver")];
        find(lines, metric, &keys)
    };
    let mut all = Vec::new();
    for (size, name) in [("65536", "64 KB"), ("1048576", "1 MB")] {
        let (Some(ticks), Some(signals), Some(hidden)) = (
            of("send_time", "timer-only", size),
            of("send_time", "interrupt", size),
            of("overlap_ratio", "interrupt", size),
        ) else {
            continue;
        };
        let place = format!("{name}, the receiver's only thread computes 20 ms");
        let figures = vec![
            ("the sender's call, with ticks".to_owned(), amount(ticks)),
            ("with interrupts".to_owned(), amount(signals)),
            ("hidden with interrupts".to_owned(), format!("{:.2}", hidden.median)),
        ];
        all.push(Finding::shown(place, figures).weighed(
            "0.9 or more of the transfer",
            &[hidden],
            AtLeast(0.9),
        ));
    }
    all
}

pub(crate) fn progress(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        let time = |library: &str, progression: &str| {
            let keys = [
                ("driver", &*driver),
                ("library", library),
                ("size", "1048576"),
                ("side", "receiver"),
                ("compute_us", "20000"),
                ("progression", progression),
            ];
            find(lines, "send_time", &keys)
        };
        let Some(ours) = time("newmad", "1") else { continue };
        let mut figures = vec![("newmad".to_owned(), amount(ours))];
        if let Some(without) = time("newmad", "0") {
            figures.push(("newmad, progress in calls only".to_owned(), amount(without)));
        }
        for library in values(lines, "library").into_iter().filter(|name| name != "newmad") {
            let theirs =
                ["1", "0", "none"].iter().find_map(|progression| time(&library, progression));
            if let Some(theirs) = theirs {
                figures.push((library, amount(theirs)));
            }
        }
        let place = format!("{}, 1 MB: length of the sender's call", names::driver(&driver));
        let bound = 10_000.0;
        all.push(Finding::shown(place, figures).judged(
            "less than 10 ms, half of the computation",
            AtMost(bound).ratio(ours.median),
            ours.median < bound,
        ));
    }
    all
}

pub(crate) fn latency(lines: &[Line]) -> Vec<Finding> {
    let one = |driver| {
        let place = format!("{}, 1 B", names::driver(driver));
        against_best(
            lines,
            "half_round_trip",
            place,
            &[("driver", driver), ("size", "1")],
            false,
            1.0,
        )
    };
    let mut all: Vec<Finding> = ["shm", "tcp"].into_iter().filter_map(one).collect();
    let of = |library| {
        find(lines, "half_round_trip", &[("driver", "shm"), ("size", "1"), ("library", library)])
    };
    if let (Some(ours), Some(mpi)) = (of("newmad"), of("madmpi")) {
        let added = (mpi.median - ours.median) * 1000.0;
        let figures = vec![("madmpi".to_owned(), measured(added, "ns"))];
        all.push(Finding::shown("shared memory, 1 B: added to newmad's", figures).judged(
            "30 ns at the most",
            AtMost(30.0).ratio(added),
            added <= 30.0,
        ));
    }
    all
}

/// What is added by each value of a key to another one of its values.
pub(crate) fn added(lines: &[Line], key: &str, first: &str) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for mode in values(lines, "mode") {
            let place = [("driver", &*driver), ("mode", &*mode)];
            let at = |metric: &str, value: &str| {
                find(lines, metric, &[&place[..], &[(key, value)]].concat())
            };
            let Some(base) = at("half_round_trip", first) else { continue };
            let word = |value: &str| names::value(key, &value.into());
            let mut figures = vec![(word(first), amount(base))];
            for value in values(lines, key) {
                if let Some(line) = at("added_time", &value) {
                    let plus = if line.median > 0.0 { "+" } else { "" };
                    figures.push((
                        format!("{} adds", word(&value)),
                        format!("{plus}{}", amount(line)),
                    ));
                }
            }
            if figures.len() > 1 {
                let mode = names::value("mode", &mode.into());
                all.push(Finding::shown(format!("{}, {mode}", names::driver(&driver)), figures));
            }
        }
    }
    all
}

pub(crate) fn events(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for between in values(lines, "between") {
        let mut at: Vec<&Line> =
            lines.iter().filter(|line| line.is("event_time", &[("between", &between)])).collect();
        at.sort_by(|a, b| a.median.total_cmp(&b.median));
        let mut figures: Vec<(String, String)> =
            at.iter().map(|line| (names::of(line, "method"), amount(line))).collect();
        if figures.is_empty() {
            continue;
        }
        if !at.iter().any(|line| line.key("method") == "uintr") {
            figures.push(("user interrupts".to_owned(), "not to be had there".to_owned()));
        }
        all.push(Finding::shown(names::value("between", &between.into()), figures));
    }
    all
}

pub(crate) fn bandwidth(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for driver in ["shm", "tcp"] {
        for workload in ["pingpong", "stream"] {
            let keys = [("driver", driver), ("workload", workload), ("size", "1048576")];
            let way = names::value("workload", &workload.into());
            let place = format!("{}, 1 MB, {way}", names::driver(driver));
            all.extend(against_best(lines, "bandwidth", place, &keys, true, 1.0));
        }
    }
    all
}

pub(crate) fn rate(lines: &[Line]) -> Vec<Finding> {
    [("shm", 1.0), ("tcp", 2.0)]
        .into_iter()
        .filter_map(|(driver, times)| {
            let keys = [("driver", driver)];
            against_best(lines, "message_rate", names::driver(driver), &keys, true, times)
        })
        .collect()
}

pub(crate) fn threads(lines: &[Line]) -> Vec<Finding> {
    let at = |library: &str, threads: &str| {
        let keys = [("library", library), ("threads", threads), ("workload", "turns")];
        find(lines, "half_round_trip", &keys)
    };
    let mut all = Vec::new();
    let most = lines.iter().filter_map(|line| line.config.number_of("threads")).max().unwrap_or(0);
    let most = most.to_string();
    for library in values(lines, "library") {
        let (Some(one), Some(many)) = (at(&library, "1"), at(&library, &most)) else {
            continue;
        };
        let figures = vec![
            ("1 thread".to_owned(), amount(one)),
            (format!("{most} threads"), amount(many)),
            ("growth".to_owned(), format!("{} times", brief(many.median / one.median))),
        ];
        let keys = [("threads", &*most), ("library", &library), ("workload", "turns")];
        let growth = find(lines, "thread_growth", &keys);
        let found = Finding::shown(format!("{library}, threads take turns"), figures);
        all.push(match (library.as_str(), growth) {
            ("newmad", Some(growth)) => {
                found.weighed("1.2 times at the most", &[growth], AtMost(1.2))
            }
            _ => found,
        });
    }
    all
}

pub(crate) fn multirail(lines: &[Line]) -> Vec<Finding> {
    let of = |metric: &str, least: u64| -> Vec<&Line> {
        let large = |line: &&Line| line.config.number_of("size") >= Some(least);
        lines.iter().filter(|line| line.metric == metric).filter(large).collect()
    };
    let row = |place: &str, metric: &str, least: u64, asked: &str, bound: f64| {
        let figures = of(metric, least);
        let bound = AtLeast(bound);
        let worst = bound.worst(&figures)?;
        let shown = vec![
            ("both rails".to_owned(), format!("{} times", brief(worst.median))),
            ("at the worst size".to_owned(), names::of(worst, "size")),
        ];
        Some(Finding::shown(place, shown).weighed(asked, &figures, bound))
    };
    let large = 262_144;
    let sum = row("over the sum of both, from 256 KB", "of_the_sum", large, "0.93 or more", 0.93);
    let best = row(
        "over the better rail alone, any size",
        "of_the_best",
        0,
        "never slower: 0.98 or more",
        0.98,
    );
    sum.into_iter().chain(best).collect()
}

pub(crate) fn overhead(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for method in values(lines, "method") {
        let at: Vec<&Line> =
            lines.iter().filter(|line| line.is("op_time", &[("method", &method)])).collect();
        if at.is_empty() {
            continue;
        }
        let place = match &*method {
            "poll" => "an empty poll",
            "task" => "an empty light task",
            "block" => "an empty blocking call",
            other => other,
        };
        let figures = at.iter().map(|line| (names::of(line, "mode"), amount(line)));
        all.push(Finding::shown(place, figures.collect()));
    }
    all
}

pub(crate) fn detect(lines: &[Line]) -> Vec<Finding> {
    let computing =
        |line: &&Line| line.metric == "detect_ratio" && line.config.number_of("threads") > Some(0);
    let figures: Vec<&Line> = lines.iter().filter(computing).collect();
    let bound = AtMost(1.5);
    let Some(worst) = bound.worst(&figures) else { return Vec::new() };
    let shown = vec![
        ("at the worst point".to_owned(), format!("{} times", brief(worst.median))),
        (
            "which is".to_owned(),
            format!("{}, {} computing threads", names::of(worst, "source"), worst.key("threads")),
        ),
    ];
    let place = "all cores compute: time over that of a kernel thread that blocks";
    vec![Finding::shown(place, shown).weighed("1.5 times at the most", &figures, bound)]
}

pub(crate) fn policies(lines: &[Line]) -> Vec<Finding> {
    let ratio =
        |policy: &str| find(lines, "score_ratio", &[("policy", policy), ("workload", "all")]);
    let mut all: Vec<(String, f64)> = values(lines, "policy")
        .into_iter()
        .filter_map(|policy| Some((policy.clone(), ratio(&policy)?.median)))
        .collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    if all.is_empty() {
        return Vec::new();
    }
    let figures =
        all.into_iter().map(|(policy, ratio)| (policy, format!("{} times", brief(ratio))));
    let place = "cost of an event over that of each workload's best fixed policy, geometric mean";
    vec![Finding::shown(place, figures.collect())]
}

pub(crate) fn green_threads(lines: &[Line]) -> Vec<Finding> {
    let mut all = Vec::new();
    for op in values(lines, "op") {
        let mut at: Vec<&Line> = lines
            .iter()
            .filter(|line| line.is("op_time", &[("op", &op), ("workers", "1")]))
            .collect();
        at.sort_by(|a, b| a.median.total_cmp(&b.median));
        let Some(place) = at.iter().position(|line| line.key("library") == "marcel") else {
            continue;
        };
        let first = at[0];
        let figures = vec![
            ("marcel".to_owned(), amount(at[place])),
            ("place".to_owned(), format!("{} of {}", place + 1, at.len())),
            (
                "fastest here".to_owned(),
                format!("{}, {}", names::of(first, "library"), amount(first)),
            ),
        ];
        all.push(Finding::shown(format!("{op}, 1 worker"), figures));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use crate::report::saying::Verdict;

    fn latencies(ours: f64) -> Vec<Line> {
        [("newmad", ours), ("mpich", 0.3), ("openmpi", 0.4)]
            .iter()
            .map(|(library, time)| {
                line(
                    "half_round_trip",
                    &[("driver", "shm"), ("size", "1"), ("library", library)],
                    *time,
                )
            })
            .collect()
    }

    #[test]
    fn a_loss_is_said() {
        let target = |ours| latency(&latencies(ours)).remove(0).target.unwrap();
        let (won, lost) = (target(0.2), target(0.5));
        assert_eq!((won.verdict, won.ratio), (Verdict::Met, Some(0.3 / 0.2)));
        assert_eq!((lost.verdict, lost.ratio), (Verdict::Missed, Some(0.3 / 0.5)));
        assert!(won.asked.contains("best"), "{}", won.asked);
    }

    #[test]
    fn what_a_choice_adds_is_said() {
        let at = |metric: &str, lock, value| {
            let mut line =
                line(metric, &[("driver", "shm"), ("mode", "mono"), ("lock", lock)], value);
            line.unit = if metric == "added_time" { "ns" } else { "us" }.into();
            line
        };
        let lines = [at("half_round_trip", "none", 0.2), at("added_time", "coarse", 31.0)];
        let said = added(&lines, "lock", "none");
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].place, "shared memory, one VP");
        let figures = [("no lock", "200 ns"), ("coarse adds", "+31 ns")];
        assert_eq!(said[0].figures, figures.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn mechanisms_are_named_fastest_first() {
        let at = |method, ns| line("event_time", &[("between", "threads"), ("method", method)], ns);
        let said = events(&[at("signal", 3000.0), at("poll", 150.0)]);
        let names: Vec<&str> = said[0].figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["polling", "signal", "user interrupts"]);
        assert_eq!(said[0].figures[2].1, "not to be had there");
    }

    #[test]
    fn without_figures_nothing_is_said() {
        for section in super::super::sections::SECTIONS {
            assert!((section.says)(&[]).is_empty(), "{}", section.title);
        }
    }
}
