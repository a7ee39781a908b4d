//! Sentences that compare with MPI libraries, made from the figures: also when we lose.

use crate::harness::libraries::is_foreign;
use crate::harness::line::{Line, find, values};
use crate::harness::present::figure;
use crate::report::saying::Bound::{AtLeast, AtMost};
use crate::report::saying::{Sentence, good, judged, weighed};

/// Ours against the best MPI library, at one point. `more`: more is better.
pub(super) fn against_best(
    lines: &[Line],
    metric: &str,
    keys: &[(&str, &str)],
    more: bool,
    at_least: f64,
) -> Option<Sentence> {
    let with = |library| {
        let keys: Vec<(&str, &str)> = keys.iter().copied().chain([("library", library)]).collect();
        find(lines, metric, &keys)
    };
    let ours = with("newmad")?;
    let libraries = values(lines, "library");
    let peers = libraries.iter().filter(|name| is_foreign(name));
    let mut peers: Vec<(&String, &Line)> =
        peers.filter_map(|name| Some((name, with(name)?))).collect();
    peers.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let (name, best) = if more { peers.last()? } else { peers.first()? };
    let gain = if more { ours.median / best.median } else { best.median / ours.median };
    let place: Vec<String> = keys.iter().map(|(key, value)| format!("{key} {value}")).collect();
    let text = format!(
        "{}: newmad {} {unit}, the best MPI library here ({name}) {} {unit}; asked for is {} the best.",
        place.join(", "),
        figure(ours.median),
        figure(best.median),
        if at_least == 1.0 { "at least as good as".into() } else { format!("{at_least} times") },
        unit = ours.unit,
    );
    // Round by round they are measured next to each other: the machine was the same for both.
    let ratio = find(lines, "peer_ratio", &[keys, &[("library", "newmad")]].concat());
    Some(match ratio {
        Some(ratio) => {
            let text = format!("{text} In the same rounds: {} times.", figure(ratio.median));
            let bound = if more { AtLeast(at_least) } else { AtMost(1.0 / at_least) };
            weighed(text, &[ratio], bound)
        }
        None => judged(text, gain >= at_least),
    })
}

/// The lines with this metric and these values, one of each library.
fn by_library<'a>(
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

/// The libraries with their figures, in words.
fn named(all: &[(String, &Line)], figure: impl Fn(&Line) -> String) -> String {
    let each = all.iter().map(|(name, line)| format!("{name} {}", figure(line)));
    each.collect::<Vec<_>>().join(", ")
}

/// Whether no MPI library's figure is smaller than newmad's.
fn is_least(all: &[(String, &Line)], figure: fn(&Line) -> f64) -> bool {
    let Some((_, ours)) = all.iter().find(|(name, _)| name == "newmad") else { return true };
    let mut others = all.iter().filter(|(name, _)| is_foreign(name));
    others.all(|(_, line)| figure(ours) <= figure(line))
}

fn has_peers(all: &[(String, &Line)]) -> bool {
    all.iter().any(|(name, _)| is_foreign(name))
}

pub(crate) fn reactivity(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        for threads in ["2", "32"] {
            let keys = [("driver", &*driver), ("threads", threads), ("side", "both")];
            let here = by_library(lines, "half_round_trip", &keys);
            if here.is_empty() {
                continue;
            }
            let words = named(&here, |line| {
                let [mean, p99, max] = [line.mean, line.p99, line.max].map(figure);
                format!("{mean} (p99 {p99}, at the most {max})")
            });
            let text =
                format!("Over {driver}, beside {threads} computing threads, means in us: {words}.");
            all.push(match has_peers(&here) {
                true => judged(
                    format!("{text} Asked for is a mean below those of the MPI libraries."),
                    is_least(&here, |line| line.mean),
                ),
                false => good(text),
            });
            let here = by_library(lines, "weighted_trip", &keys);
            if has_peers(&here) {
                all.push(judged(
                    format!(
                        "Over {driver}, beside {threads} computing threads, what is under way at a random moment takes, in us: \
                         {}; asked for is less than with the MPI libraries.",
                        named(&here, |line| figure(line.median))
                    ),
                    is_least(&here, |line| line.median),
                ));
            }
        }
    }
    all
}

pub(crate) fn submit(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        let of = |metric: &str, library: &str| -> Vec<&Line> {
            let keys = [("driver", &*driver), ("library", library)];
            let never = |line: &&Line| line.key("offload") == "never";
            lines.iter().filter(|line| line.is(metric, &keys)).filter(|line| !never(line)).collect()
        };
        let sums = |lines: &[&Line]| -> Vec<String> {
            lines.iter().filter(|line| line.median > 0.5).map(|line| line.key("size")).collect()
        };
        let ours = of("sum_or_max", "newmad");
        if ours.is_empty() {
            continue;
        }
        let others: Vec<String> = values(lines, "library")
            .iter()
            .filter(|library| *library != "newmad")
            .map(|library| (library, of("sum_or_max", library)))
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(library, lines)| {
                format!("{library} at {} of {}", sums(&lines).len(), lines.len())
            })
            .collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(" Nearer to the sum are {} sizes.", others.join(", ")),
        };
        let sums = sums(&ours);
        all.push(match sums.is_empty() {
            true => good(format!(
                "Over {driver} newmad's time is nearer to the longer of the two at every size.{others}"
            )),
            false => judged(
                format!(
                    "Over {driver} newmad's time is nearer to the sum at {} bytes; asked for is the longer of the two.{others}",
                    sums.join(", ")
                ),
                false,
            ),
        });
        let mut ratios = of("peer_ratio", "newmad");
        ratios.sort_by(|a, b| a.median.total_cmp(&b.median));
        if let [best, .., worst] = ratios[..] {
            let text = format!(
                "Over {driver} the whole takes from {} ({} bytes) to {} times ({} bytes) the time of the best MPI \
                 library; asked for is 1 at the most.",
                figure(best.median),
                best.key("size"),
                figure(worst.median),
                worst.key("size")
            );
            all.push(weighed(text, &ratios, AtMost(1.0)));
        }
    }
    all
}

pub(crate) fn idle(lines: &[Line]) -> Vec<Sentence> {
    let mut all = Vec::new();
    for driver in values(lines, "driver") {
        let here = by_library(lines, "cpu_time", &[("driver", &driver)]);
        let Some((_, ours)) = here.iter().find(|(name, _)| name == "newmad") else { continue };
        let seconds = ours.config.number_of("seconds").unwrap_or(1).max(1) as f64;
        let words = named(&here, |line| format!("{} ms", figure(line.median / 1000.0)));
        all.push(judged(
            format!(
                "Over {driver}, CPU time in {seconds} s: {words}; asked for is 2 ms a second at the most, and less than \
                 the MPI libraries."
            ),
            ours.median <= 2000.0 * seconds && is_least(&here, |line| line.median),
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use crate::report::saying::Verdict;

    /// A line of each of newmad and an MPI library.
    fn pair(metric: &str, keys: &[(&str, &str)], ours: f64, theirs: f64) -> Vec<Line> {
        let of = |library, median| line(metric, &[keys, &[("library", library)]].concat(), median);
        vec![of("newmad", ours), of("mpich", theirs)]
    }

    #[test]
    fn reactions_are_compared_by_their_means() {
        let keys = [("driver", "shm"), ("threads", "32"), ("side", "both")];
        let mut lines = pair("half_round_trip", &keys, 8.0, 0.15);
        assert_eq!(reactivity(&lines)[0].verdict, Verdict::Missed);
        // Most trips are fast, some take milliseconds.
        lines[1].mean = 90.0;
        let said = reactivity(&lines);
        assert!(
            said[0].verdict == Verdict::Good && said[0].text.contains("mpich 90"),
            "{}",
            said[0].text
        );
        lines.extend(pair("weighted_trip", &keys, 16.0, 12.0));
        assert_eq!(reactivity(&lines)[1].verdict, Verdict::Missed);
    }

    #[test]
    fn what_idles_cheaply_enough_still_loses_to_who_idles_cheaper() {
        let keys = [("driver", "tcp"), ("seconds", "2")];
        for (ours, theirs, missed) in
            [(300.0, 2e6, false), (5000.0, 2e6, true), (300.0, 200.0, true)]
        {
            let said = idle(&pair("cpu_time", &keys, ours, theirs));
            assert_eq!(said[0].verdict == Verdict::Missed, missed, "{}", said[0].text);
        }
        let alone = &pair("cpu_time", &keys, 300.0, 0.0)[..1];
        assert_eq!(idle(alone)[0].verdict, Verdict::Good);
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
        assert!(
            said[0].verdict == Verdict::Good && said[0].text.contains("mpich at 1 of 2"),
            "{}",
            said[0].text
        );
        assert!(
            said[1].verdict == Verdict::Missed && said[1].text.contains("1.2"),
            "{}",
            said[1].text
        );
    }
}
