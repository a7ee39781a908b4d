//! Sentences on what the figures show, made from the figures: also when we lose.

use crate::harness::line::{Line, find, values};
use crate::harness::present::figure;
use crate::report::peers::against_best;
use crate::report::saying::Bound::{AtLeast, AtMost};
use crate::report::saying::{Sentence, bounded, good, judged, weighed};

/// Where the tables say it all.
pub(crate) fn nothing(_: &[Line]) -> Vec<Sentence> {
    Vec::new()
}

pub(crate) fn overlap(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for side in ["receiver", "sender"] {
            let ratio = |size: &str| {
                let keys =
                    [("driver", &*driver), ("side", side), ("size", size), ("compute_us", "20000")];
                find(lines, "overlap_ratio", &keys)
            };
            if let (Some(small), Some(large)) = (ratio("32768"), ratio("1048576")) {
                all.push(weighed(
                    format!(
                        "Over {driver}, while the {side} computes 20 ms: {:.2} of the transfer is hidden at 32 KB, \
                         {:.2} at 1 MB; asked for is 0.95.",
                        small.median, large.median
                    ),
                    &[small, large],
                    AtLeast(0.95),
                ));
            }
        }
    }
    all
}

pub(crate) fn progress(lines: &[Line]) -> Vec<Sentence> {
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
            find(lines, "send_time", &keys).map(|line| line.median)
        };
        let Some(ours) = time("newmad", "1") else { continue };
        let mut text = format!(
            "Over {driver}, 1 MB to a receiver that computes 20 ms: newmad's sender waits {} us",
            figure(ours)
        );
        if let Some(without) = time("newmad", "0") {
            text.push_str(&format!(", {} without progress outside calls", figure(without)));
        }
        let peers: Vec<String> = values(lines, "library")
            .iter()
            .filter(|name| *name != "newmad")
            .filter_map(|name| {
                Some(format!("{name} {}", figure(time(name, "1").or_else(|| time(name, "0"))?)))
            })
            .collect();
        if !peers.is_empty() {
            text.push_str(&format!("; {} us", peers.join(", ")));
        }
        all.push(judged(text + ".", ours < 10_000.0));
    }
    all
}

pub(crate) fn latency(lines: &[Line]) -> Vec<Sentence> {
    let one = |driver| {
        against_best(lines, "half_round_trip", &[("driver", driver), ("size", "1")], false, 1.0)
    };
    let mut all: Vec<Sentence> = ["shm", "tcp"].into_iter().filter_map(one).collect();
    let of = |library| {
        find(lines, "half_round_trip", &[("driver", "shm"), ("size", "1"), ("library", library)])
    };
    if let (Some(ours), Some(mpi)) = (of("newmad"), of("madmpi")) {
        let added = (mpi.median - ours.median) * 1000.0;
        all.push(judged(
            format!("madmpi adds {added:.0} ns to newmad's 1-byte message over shm; asked for is 30 at the most."),
            added <= 30.0,
        ));
    }
    all
}

/// What is added by each value of a key to another one of its values.
pub(crate) fn added(lines: &[Line], key: &str, first: &str) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for mode in values(lines, "mode") {
            let place = [("driver", &*driver), ("mode", &*mode)];
            let at = |metric: &str, value: &str| {
                find(lines, metric, &[&place[..], &[(key, value)]].concat()).map(|line| line.median)
            };
            let Some(base) = at("half_round_trip", first) else { continue };
            let others: Vec<String> = values(lines, key)
                .iter()
                .filter_map(|value| {
                    let ns = at("added_time", value)?;
                    let (word, ns) = if ns < 0.0 { ("takes away", -ns) } else { ("adds", ns) };
                    Some(format!("{value} {word} {ns:.0} ns"))
                })
                .collect();
            if !others.is_empty() {
                all.push(good(format!(
                    "Over {driver}, mode {mode}: {} us with {key} {first}; {}.",
                    figure(base),
                    others.join(", ")
                )));
            }
        }
    }
    all
}

pub(crate) fn events(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for between in values(lines, "between") {
        let mut at: Vec<&Line> =
            lines.iter().filter(|line| line.is("event_time", &[("between", &between)])).collect();
        at.sort_by(|a, b| a.median.total_cmp(&b.median));
        let words: Vec<String> = at
            .iter()
            .map(|line| {
                let median = figure(line.median);
                format!("{} {median} (p99 {})", line.key("method"), figure(line.p99))
            })
            .collect();
        if words.is_empty() {
            continue;
        }
        let uintr = match at.iter().any(|line| line.key("method") == "uintr") {
            true => "",
            false => " User interrupts were not to be had, and are not emulated.",
        };
        let text = format!("Between {between}, medians in ns: {}.{uintr}", words.join(", "));
        all.push(good(text));
    }
    all
}

pub(crate) fn bandwidth(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in ["shm", "tcp"] {
        for workload in ["pingpong", "stream"] {
            let keys = [("driver", driver), ("workload", workload), ("size", "1048576")];
            all.extend(against_best(lines, "bandwidth", &keys, true, 1.0));
        }
    }
    all
}

pub(crate) fn rate(lines: &[Line]) -> Vec<Sentence> {
    [("shm", 1.0), ("tcp", 2.0)]
        .into_iter()
        .filter_map(|(driver, times)| {
            against_best(lines, "message_rate", &[("driver", driver)], true, times)
        })
        .collect()
}

pub(crate) fn threads(lines: &[Line]) -> Vec<Sentence> {
    let at = |library: &str, threads: &str| {
        let keys = [("library", library), ("threads", threads), ("workload", "turns")];
        find(lines, "half_round_trip", &keys).map(|line| line.median)
    };
    let mut all = Vec::new();
    let most = lines.iter().filter_map(|line| line.config.number_of("threads")).max().unwrap_or(0);
    let most = most.to_string();
    for library in values(lines, "library") {
        let (Some(one), Some(many)) = (at(&library, "1"), at(&library, &most)) else {
            continue;
        };
        let text = format!(
            "{library}: {} us with one thread, {} with {most} ({:.1} times).",
            figure(one),
            figure(many),
            many / one
        );
        all.push(match library.as_str() {
            "newmad" => {
                let keys = [("threads", &*most), ("library", &library), ("workload", "turns")];
                let growth = find(lines, "thread_growth", &keys);
                let text = format!("{text} Asked for is 1.2 times.");
                weighed(text, growth.as_slice(), AtMost(1.2))
            }
            _ => good(text),
        });
    }
    all
}

pub(crate) fn multirail(lines: &[Line]) -> Vec<Sentence> {
    let of = |metric| lines.iter().filter(move |line: &&Line| line.metric == metric);
    let large = |line: &&Line| line.config.number_of("size") >= Some(262_144);
    let sum = bounded(of("of_the_sum").filter(large), AtLeast(0.93), |worst| {
        let sum = worst.median;
        format!("From 256 KB on both rails give {sum:.2} of their sum or more; asked for is 0.93.")
    });
    let best = bounded(of("of_the_best"), AtLeast(0.98), |worst| {
        let best = worst.median;
        format!(
            "At the worst size both are {best:.2} of the better rail alone; asked for is never slower (0.98)."
        )
    });
    sum.into_iter().chain(best).collect()
}

pub(crate) fn overhead(lines: &[Line]) -> Vec<Sentence> {
    let at =
        |mode: &str, method: &str| find(lines, "op_time", &[("mode", mode), ("method", method)]);
    let (Some(one), Some(several)) = (at("no-thread", "poll"), at("smp", "poll")) else {
        return Vec::new();
    };
    let mut text = format!(
        "An empty poll costs {} ns without threads and {} on several virtual processors",
        figure(one.median),
        figure(several.median)
    );
    if let Some(block) = at("smp", "block") {
        text.push_str(&format!(", an empty blocking call {} us", figure(block.median / 1000.0)));
    }
    vec![good(text + ".")]
}

pub(crate) fn detect(lines: &[Line]) -> Vec<Sentence> {
    let computing =
        |line: &&Line| line.metric == "detect_ratio" && line.config.number_of("threads") > Some(0);
    let said = bounded(lines.iter().filter(computing), AtMost(1.5), |worst| {
        format!(
            "Where all cores compute an event takes, at the worst point ({}, {} computing threads), {:.1} times as long as in \
             a kernel thread that blocks; asked for is 1.5.",
            worst.key("source"),
            worst.key("threads"),
            worst.median
        )
    });
    said.into_iter().collect()
}

pub(crate) fn policies(lines: &[Line]) -> Vec<Sentence> {
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
    let words: Vec<String> =
        all.iter().map(|(policy, ratio)| format!("{policy} {ratio:.2}")).collect();
    vec![good(format!(
        "Cost of an event over that of the best fixed policy of each workload, geometric mean: {}.",
        words.join(", ")
    ))]
}

pub(crate) fn green_threads(lines: &[Line]) -> Vec<Sentence> {
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
        let (ours, first) = (at[place], at[0]);
        all.push(good(match place {
            0 => format!("{op}: marcel is the fastest here, {} ns.", figure(ours.median)),
            _ => format!(
                "{op}: marcel {} ns, number {} of {}; the fastest here is {} with {}.",
                figure(ours.median),
                place + 1,
                at.len(),
                first.key("library"),
                figure(first.median)
            ),
        }));
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
        let won = latency(&latencies(0.2));
        assert!(
            won[0].verdict == Verdict::Good && won[0].text.contains("mpich"),
            "{}",
            won[0].text
        );
        let lost = latency(&latencies(0.5));
        assert!(
            lost[0].verdict == Verdict::Missed && lost[0].text.contains("not reached"),
            "{}",
            lost[0].text
        );
    }

    #[test]
    fn what_a_choice_adds_is_said() {
        let at = |metric, lock, value| {
            line(metric, &[("driver", "shm"), ("mode", "mono"), ("lock", lock)], value)
        };
        let lines = [at("half_round_trip", "none", 0.2), at("added_time", "coarse", 31.0)];
        let said = added(&lines, "lock", "none");
        assert_eq!(said.len(), 1);
        assert!(said[0].text.contains("mono") && said[0].text.contains("coarse adds 31 ns"));
    }

    #[test]
    fn mechanisms_are_named_fastest_first() {
        let at = |method, ns| line("event_time", &[("between", "threads"), ("method", method)], ns);
        let said = events(&[at("signal", 3000.0), at("poll", 150.0)]);
        let text = &said[0].text;
        assert!(text.find("poll").unwrap() < text.find("signal").unwrap(), "{text}");
        assert!(text.contains("User interrupts were not to be had"), "{text}");
    }

    #[test]
    fn without_figures_nothing_is_said() {
        for section in super::super::sections::SECTIONS {
            assert!((section.says)(&[]).is_empty(), "{}", section.title);
        }
    }
}
