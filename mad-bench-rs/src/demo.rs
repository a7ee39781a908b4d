//! `mad demo`: the main result in under a minute.
//!
//! Figure 3 of \[Trahay07\] over shared memory and over TCP (how long the sender's call takes while the receiver
//! computes 20 ms, without progress outside calls, with ticks, with idle cores), then reactivity on a full machine,
//! then the price of waiting, how soon an event is noticed, and what that costs by policy. The sentences below the
//! tables are made from the figures, whatever they say.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;

use crate::experiments;
use crate::harness::drive::Campaign;
use crate::harness::experiment::Effort;
use crate::harness::line::{Line, find};
use crate::harness::present::{Noise, machine};
use crate::harness::results::Results;
use crate::harness::{drive, key};
use crate::out;
use crate::out::{Exit, Outcome, print};
use crate::quantity;

/// Options of `mad demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  cargo run --release -- demo

The same figures with all their percentiles: mad bench overlap, mad bench reactivity, mad bench idle,
mad bench detect, mad bench policies.")]
pub struct DemoArgs {}

const COMPUTE_US: &str = "20000";
const COMPUTE: f64 = 20_000.0;
const SIZES: [&str; 4] = ["4", "65536", "1048576", "4194304"];
const DRIVERS: [&str; 2] = ["shm", "tcp"];
/// What [Trahay07] compares: label, mode, progression.
const WAYS: [(&str, &str, &str); 3] = [
    ("no progression", "smp", "0"),
    ("mono (ticks)", "mono", "1"),
    ("smp (idle cores)", "smp", "1"),
];
const IDLE_CORES: usize = 2;
const TIMEOUT: Duration = Duration::from_secs(60);

/// One experiment of the demonstration.
struct Part {
    bench: &'static str,
    given: Vec<(&'static str, &'static str)>,
    effort: Effort,
}

fn parts() -> Vec<Part> {
    let effort = |iters, rounds| Effort {
        iters,
        rounds,
        timeout: TIMEOUT,
        timeout_option: None,
        patience: TIMEOUT,
        peers_dir: None,
    };
    let overlap = |mode, progression| Part {
        bench: "overlap",
        given: vec![("mode", mode), ("progression", progression), ("compute-us", COMPUTE_US)],
        effort: effort(4, 3),
    };
    vec![
        overlap("smp", "0,1"),
        overlap("mono", "1"),
        Part { bench: "reactivity", given: vec![("threads", "8")], effort: effort(4000, 2) },
        Part { bench: "idle", given: vec![("seconds", "2")], effort: effort(1, 1) },
        Part {
            bench: "detect",
            given: vec![("source", "shm"), ("library", "pioman,kernel"), ("threads", "0,1x,16x")],
            effort: effort(60, 2),
        },
        Part {
            bench: "policies",
            given: vec![
                ("policy", "always-poll,always-block,adaptive"),
                ("workload", "pingpong,silence"),
            ],
            effort: effort(1, 2),
        },
    ]
}

/// Runs the demonstration.
pub fn run(_: &DemoArgs) -> Outcome {
    let noise = Noise::start("");
    let mut planned = Vec::new();
    for part in parts() {
        let bench = experiments::find(part.bench)
            .ok_or_else(|| Exit::Failed(format!("demo: there is no bench {}", part.bench)))?;
        let grid = key::grid(bench.name, bench.keys, &part.given).map_err(Exit::Failed)?;
        planned.push(Campaign::new(bench, (bench.points)(grid), part.effort, Vec::new(), None));
    }
    let bar = drive::bar(planned.iter().map(Campaign::steps).sum());
    let mut lines = Vec::new();
    for mut campaign in planned {
        let results = drive::measure(&mut campaign, &bar).and_then(Results::whole);
        let results = results.inspect_err(|_| bar.finish_and_clear())?;
        lines.extend(results.lines(campaign.bench().name, campaign.bench().metrics));
    }
    bar.finish_and_clear();
    print(&format!("{}; {}", machine(), noise.words()))?;
    for driver in DRIVERS {
        print(&table(&lines, driver))?;
        print(&overlap_words(&lines, driver))?;
    }
    for words in [reactivity_words, idle_words, detect_words, policy_words] {
        print(&words(&lines))?;
    }
    print("\nMore: mad bench --list, mad doctor, mad run --help")
}

/// The median of what was measured at a point.
fn median(lines: &[Line], metric: &str, keys: &[(&str, &str)]) -> Option<f64> {
    find(lines, metric, keys).map(|line| line.median)
}

/// The same of one of the ways.
fn of_way(
    lines: &[Line],
    metric: &str,
    driver: &str,
    way: usize,
    keys: &[(&str, &str)],
) -> Option<f64> {
    let (_, mode, progression) = WAYS[way];
    let place = [("driver", driver), ("mode", mode), ("progression", progression)];
    median(lines, metric, &[&place, keys].concat())
}

/// How long the sender's call takes while the receiver computes.
fn send(lines: &[Line], driver: &str, way: usize, size: &str) -> Option<f64> {
    let keys = [("size", size), ("compute_us", COMPUTE_US), ("side", "receiver")];
    of_way(lines, "send_time", driver, way, &keys)
}

/// How long a message takes that no computation holds up.
fn transfer(lines: &[Line], driver: &str, size: &str) -> Option<f64> {
    of_way(lines, "recv_time", driver, IDLE_CORES, &[("size", size), ("compute_us", "0")])
}

/// A size that is given as an option's value.
fn of_bytes(size: &str) -> String {
    size.parse().map_or_else(|_| size.to_owned(), quantity::size)
}

fn table(lines: &[Line], driver: &str) -> String {
    let shown = |us: Option<f64>| us.map_or("-".into(), time);
    let mut header = vec!["message", "transfer alone"];
    header.extend(WAYS.map(|(label, _, _)| label));
    let mut table = out::table(&header);
    for size in SIZES {
        let mut row = vec![of_bytes(size), shown(transfer(lines, driver, size))];
        row.extend((0..WAYS.len()).map(|way| shown(send(lines, driver, way, size))));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    format!(
        "\nFigure 3 of [Trahay07] over {driver}: duration of the sender's call while the receiver computes \
         {} ms between irecv and wait (medians)\n{}\n",
        COMPUTE / 1000.0,
        table.trim_fmt()
    )
}

fn overlap_words(lines: &[Line], driver: &str) -> String {
    let mut text = String::new();
    let sizes_of = |which: &dyn Fn(&str) -> bool| -> String {
        SIZES.into_iter().filter(|size| which(size)).map(of_bytes).collect::<Vec<_>>().join(", ")
    };
    for (way, (label, ..)) in WAYS.into_iter().enumerate() {
        let send = |size: &str| send(lines, driver, way, size);
        let stuck = sizes_of(&|size| send(size).is_some_and(|us| us > 0.5 * COMPUTE));
        let words = match stuck.as_str() {
            "" => {
                let worst = time(SIZES.into_iter().filter_map(send).fold(0.0, f64::max));
                format!("the sender never waits for the computation; at most {worst}")
            }
            stuck => format!("the sender waits for the computation at {stuck}"),
        };
        text.push_str(&format!("  {label}: {words}.\n"));
    }
    let late = sizes_of(&|size| {
        let both = send(lines, driver, IDLE_CORES, size).zip(transfer(lines, driver, size));
        both.is_some_and(|(send, transfer)| send > 1.2 * transfer + 200.0)
    });
    text.push_str(&match late.as_str() {
        "" => "  With idle cores every size is within 1.2 transfers + 200 µs of what it takes without computation.\n"
            .to_owned(),
        late => format!(
            "  With idle cores {late} take MORE than 1.2 transfers + 200 µs: overlap is not complete.\n"
        ),
    });
    let slowdown = |size: &str| {
        let keys = [("size", size), ("compute_us", COMPUTE_US)];
        of_way(lines, "slowdown", driver, IDLE_CORES, &keys)
    };
    if let Some(worst) = SIZES.into_iter().filter_map(slowdown).reduce(f64::max) {
        text.push_str(&format!(
            "  The receiver's computation was at worst {:+.1} % longer than alone{}.\n",
            (worst - 1.0) * 100.0,
            if worst > 1.03 { ", MORE than the 3 % that are allowed" } else { "" },
        ));
    }
    text
}

fn reactivity_words(lines: &[Line]) -> String {
    let mut text = String::from(
        "\nReactivity: 4 B ping-pong while 8 green threads compute in each of the two processes\n",
    );
    for driver in DRIVERS {
        let busy = [("driver", driver), ("side", "both"), ("threads", "8")];
        let Some(trip) = find(lines, "half_round_trip", &busy) else { continue };
        let slowdown = median(lines, "slowdown", &busy).unwrap_or(f64::NAN);
        text.push_str(&format!(
            "  {driver}: half round trip mean {}, median {}, p99 {}; a unit of computation takes {:+.1} % more CPU time than alone{}.\n",
            time(trip.mean),
            time(trip.median),
            time(trip.p99),
            (slowdown - 1.0) * 100.0,
            if trip.mean > 12.0 || trip.p99 > 60.0 { " (the aim is mean 12 µs, p99 60 µs: MISSED)" } else { "" },
        ));
    }
    text
}

fn idle_words(lines: &[Line]) -> String {
    let mut text = String::from("\nIdle: a process waits for a message\n");
    for driver in DRIVERS {
        let waits = [("driver", driver), ("seconds", "2")];
        let [cpu, wall] = ["cpu_time", "recv_time"].map(|metric| median(lines, metric, &waits));
        if let (Some(cpu), Some(wall)) = (cpu.map(time), wall.map(time)) {
            text.push_str(&format!("  {driver}: {cpu} of CPU in {wall} of waiting.\n"));
        }
    }
    text
}

fn detect_words(lines: &[Line]) -> String {
    let mut text =
        String::from("\nDetection: from an event in shared memory to the waiting thread\n");
    let detected = lines.iter().filter(|line| line.metric == "detect_time");
    let loads: BTreeSet<u64> =
        detected.filter_map(|line| line.config.number_of("threads")).collect();
    for threads in loads.iter().map(u64::to_string) {
        let of = |library| {
            let line = find(lines, "detect_time", &[("library", library), ("threads", &threads)])?;
            Some((time(line.median), time(line.p90)))
        };
        if let (Some((median, p90)), Some((kernel, kernel_p90))) = (of("pioman"), of("kernel")) {
            text.push_str(&format!(
                "  {threads} computing threads: median {median}, p90 {p90}; a kernel thread that blocks: {kernel}, {kernel_p90}.\n"
            ));
        }
    }
    text
}

fn policy_words(lines: &[Line]) -> String {
    let mut text = String::from("\nPolicies: what an event costs (see mad bench policies)\n");
    let workloads =
        [("pingpong", "answers while every core computes"), ("silence", "after a long silence")];
    for (workload, words) in workloads {
        let scores = lines.iter().filter(|line| line.is("score", &[("workload", workload)]));
        let each: Vec<String> =
            scores.map(|line| format!("{} {}", line.key("policy"), time(line.median))).collect();
        text.push_str(&format!("  {words}: {}.\n", each.join(", ")));
    }
    text
}

/// A time given in microseconds.
fn time(us: f64) -> String {
    quantity::time(us * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;

    fn measured(send: f64) -> Vec<Line> {
        let bench = experiments::find("overlap").unwrap();
        let mut points = Vec::new();
        for part in &parts()[..2] {
            points.extend((bench.points)(key::grid("overlap", bench.keys, &part.given).unwrap()));
        }
        let mut results = Results::new(points, 1);
        for index in 0..results.points.len() {
            results.add(index, "send_time", 0, &[send]);
            results.add(index, "recv_time", 0, &[30.0]);
            results.add(index, "slowdown", 0, &[1.05]);
        }
        results.lines(bench.name, bench.metrics)
    }

    #[test]
    fn bad_figures_are_said() {
        let words = overlap_words(&measured(20_100.0), "shm");
        assert!(
            words.contains("waits for the computation at 4 B, 64 KB") && words.contains("MORE"),
            "{words}"
        );
    }

    #[test]
    fn good_figures_are_said() {
        let words = overlap_words(&measured(40.0), "tcp");
        assert!(
            words.contains("at most 40 µs") && words.contains("every size is within"),
            "{words}"
        );
        assert!(words.contains("+5.0 %") && words.contains("MORE than the 3 %"), "{words}");
    }

    #[test]
    fn what_two_parts_measure_is_told_apart() {
        let of = |metric, keys: &[(&str, &str)], figure| line(metric, keys, figure);
        let at =
            |library, figure| of("detect_time", &[("library", library), ("threads", "2")], figure);
        let policy = [("policy", "adaptive"), ("workload", "silence")];
        let lines = [
            of("detect_time", &policy, 9.0),
            of("score", &policy, 7.0),
            at("pioman", 3.0),
            at("kernel", 2.0),
        ];
        let words = detect_words(&lines);
        assert!(words.contains("2 computing threads: median 3 µs"), "{words}");
        assert!(policy_words(&lines).contains("after a long silence: adaptive 7 µs."));
    }

    #[test]
    fn every_part_can_be_planned() {
        for part in parts() {
            let bench = experiments::find(part.bench).unwrap();
            assert!(
                !(bench.points)(key::grid(bench.name, bench.keys, &part.given).unwrap()).is_empty()
            );
        }
    }
}
