//! `mad demo`: the main result in under a minute.
//!
//! Figure 3 of \[Trahay07\] over shared memory and over TCP (how long the sender's call takes while the receiver
//! computes 20 ms, without progress outside calls, with ticks, with idle cores), then reactivity on a full machine,
//! then the price of waiting, how soon an event is noticed, and what that costs by policy. The sentences below the
//! tables are made from the figures, whatever they say.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;

use crate::config::Config;
use crate::experiments::find;
use crate::harness::drive::Campaign;
use crate::harness::experiment::Effort;
use crate::harness::present::{Noise, figure, machine};
use crate::harness::results::Results;
use crate::harness::{drive, key};
use crate::out;
use crate::out::{Exit, Outcome, print};

/// Options of `mad demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  cargo run --release -- demo

The same figures with all their percentiles: mad bench overlap, mad bench reactivity, mad bench idle,
mad bench detect, mad bench policies.")]
pub struct DemoArgs {}

const COMPUTE_US: u64 = 20_000;
const SIZES: [u64; 4] = [4, 65_536, 1 << 20, 4 << 20];
const DRIVERS: [&str; 2] = ["shm", "tcp"];
/// What [Trahay07] compares: label, mode, progression.
const WAYS: [(&str, &str, u64); 3] =
    [("no progression", "smp", 0), ("mono (ticks)", "mono", 1), ("smp (idle cores)", "smp", 1)];
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
        patience: TIMEOUT,
        peers_dir: None,
    };
    let overlap = |mode, progression| Part {
        bench: "overlap",
        given: vec![("mode", mode), ("progression", progression), ("compute-us", "20000")],
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
        let bench = find(part.bench)
            .ok_or_else(|| Exit::Failed(format!("demo: there is no bench {}", part.bench)))?;
        let grid = key::grid(bench.name, bench.keys, &part.given).map_err(Exit::Failed)?;
        planned.push(Campaign::new(bench, (bench.points)(grid), part.effort, Vec::new(), None));
    }
    let bar = drive::bar(planned.iter().map(Campaign::steps).sum());
    let mut results = Vec::new();
    for mut campaign in planned {
        results.push(
            drive::measure(&mut campaign, &bar)
                .and_then(Results::whole)
                .inspect_err(|_| abandon(&bar))?,
        );
    }
    bar.finish_and_clear();
    let [smp, mono, reactivity, idle, detect, policies] = &results[..] else {
        return Err(Exit::Failed("demo: a part is missing".into()));
    };
    let figure3 = Figure3 { smp, mono };
    print(&format!("{}; {}", machine(), noise.words()))?;
    for driver in DRIVERS {
        print(&figure3.table(driver))?;
        print(&figure3.words(driver))?;
    }
    print(&reactivity_words(reactivity))?;
    print(&idle_words(idle))?;
    print(&detect_words(detect))?;
    print(&policy_words(policies))?;
    print("\nMore: mad bench --list, mad doctor, mad run --help")
}

fn abandon(bar: &ProgressBar) {
    bar.finish_and_clear();
}

/// The results of the three ways, in two runs.
struct Figure3<'a> {
    smp: &'a Results,
    mono: &'a Results,
}

impl Figure3<'_> {
    fn median(
        &self,
        metric: &'static str,
        driver: &str,
        way: usize,
        which: impl Fn(&Config) -> bool,
    ) -> Option<f64> {
        let (_, mode, progression) = WAYS[way];
        let results = if mode == "mono" { self.mono } else { self.smp };
        results.median(metric, |c| {
            c.text("driver") == driver && c.number("progression") == progression && which(c)
        })
    }

    fn send(&self, driver: &str, way: usize, size: u64) -> Option<f64> {
        self.median("send_time", driver, way, |c| {
            c.number("size") == size
                && c.number("compute_us") == COMPUTE_US
                && c.text("side") == "receiver"
        })
    }

    fn transfer(&self, driver: &str, size: u64) -> Option<f64> {
        self.median("recv_time", driver, 2, |c| {
            c.number("size") == size && c.number("compute_us") == 0
        })
    }

    fn table(&self, driver: &str) -> String {
        let mut header = vec!["bytes", "transfer alone"];
        header.extend(WAYS.map(|(label, _, _)| label));
        let mut table = out::table(&header);
        for size in SIZES {
            let mut row = vec![size.to_string(), shown(self.transfer(driver, size))];
            row.extend((0..WAYS.len()).map(|way| shown(self.send(driver, way, size))));
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        format!(
            "\nFigure 3 of [Trahay07] over {driver}: duration of the sender's call while the receiver computes \
             {} ms between irecv and wait (medians)\n{}\n",
            COMPUTE_US / 1000,
            table.trim_fmt()
        )
    }

    fn words(&self, driver: &str) -> String {
        let mut text = String::new();
        let stuck = |way: usize| -> Vec<u64> {
            let stuck = |&size: &u64| {
                self.send(driver, way, size).is_some_and(|t| t > 0.5 * COMPUTE_US as f64)
            };
            SIZES.into_iter().filter(stuck).collect()
        };
        let list = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        for (way, (label, ..)) in WAYS.into_iter().enumerate() {
            let sizes = stuck(way);
            text.push_str(&if sizes.is_empty() {
                let worst = SIZES
                    .iter()
                    .filter_map(|&size| self.send(driver, way, size))
                    .fold(0.0, f64::max);
                format!(
                    "  {label}: the sender never waits for the computation; at most {}.\n",
                    time(worst)
                )
            } else {
                format!(
                    "  {label}: the sender waits for the computation at {} bytes.\n",
                    list(&sizes)
                )
            });
        }
        let late: Vec<u64> = SIZES
            .into_iter()
            .filter(|&size| {
                let both = self.send(driver, 2, size).zip(self.transfer(driver, size));
                both.is_some_and(|(send, transfer)| send > 1.2 * transfer + 200.0)
            })
            .collect();
        text.push_str(&if late.is_empty() {
            "  With idle cores every size is within 1.2 transfers + 200 µs of what it takes without computation.\n"
                .to_owned()
        } else {
            format!(
                "  With idle cores {} bytes take MORE than 1.2 transfers + 200 µs: overlap is not complete.\n",
                list(&late)
            )
        });
        let slowdown = |size: u64| {
            self.median("slowdown", driver, 2, |c| {
                c.number("size") == size && c.number("compute_us") > 0
            })
        };
        let worst = SIZES.into_iter().filter_map(slowdown).fold(f64::MIN, f64::max);
        if worst > f64::MIN {
            text.push_str(&format!(
                "  The receiver's computation was at worst {:+.1} % longer than alone{}.\n",
                (worst - 1.0) * 100.0,
                if worst > 1.03 { ", MORE than the 3 % that are allowed" } else { "" },
            ));
        }
        text
    }
}

fn reactivity_words(results: &Results) -> String {
    let mut text = String::from(
        "\nReactivity: 4 B ping-pong while 8 green threads compute in each of the two processes\n",
    );
    for driver in DRIVERS {
        let busy = |c: &Config| c.text("driver") == driver && c.text("side") == "both";
        let Some(trip) = results.stats("half_round_trip", busy) else { continue };
        let slowdown = results.median("slowdown", busy).unwrap_or(f64::NAN);
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

fn idle_words(results: &Results) -> String {
    let mut text = String::from("\nIdle: a process waits for a message\n");
    for driver in DRIVERS {
        let cpu = results.median("cpu_time", |c| c.text("driver") == driver);
        let wall = results.median("recv_time", |c| c.text("driver") == driver);
        if let (Some(cpu), Some(wall)) = (cpu, wall) {
            text.push_str(&format!(
                "  {driver}: {} of CPU in {} of waiting.\n",
                time(cpu),
                time(wall)
            ));
        }
    }
    text
}

fn detect_words(results: &Results) -> String {
    let mut text =
        String::from("\nDetection: from an event in shared memory to the waiting thread\n");
    let mut loads: Vec<u64> = results.points.iter().map(|c| c.number("threads")).collect();
    loads.sort_unstable();
    loads.dedup();
    for threads in loads {
        let of = |library: &str| {
            results.stats("detect_time", |c| {
                c.text("library") == library && c.number("threads") == threads
            })
        };
        if let (Some(own), Some(kernel)) = (of("pioman"), of("kernel")) {
            text.push_str(&format!(
                "  {threads} computing threads: median {}, p90 {}; a kernel thread that blocks: {}, {}.\n",
                time(own.median),
                time(own.p90),
                time(kernel.median),
                time(kernel.p90),
            ));
        }
    }
    text
}

fn policy_words(results: &Results) -> String {
    let mut text = String::from("\nPolicies: what an event costs (see mad bench policies)\n");
    let workloads =
        [("pingpong", "answers while every core computes"), ("silence", "after a long silence")];
    for (workload, words) in workloads {
        let each = results.points.iter().filter(|c| c.text("workload") == workload);
        let each = each.filter_map(|point| {
            let score = results.median("score", |c| c == point)?;
            Some(format!("{} {}", point.text("policy"), time(score)))
        });
        let each: Vec<String> = each.collect();
        text.push_str(&format!("  {words}: {}.\n", each.join(", ")));
    }
    text
}

fn shown(us: Option<f64>) -> String {
    us.map_or("-".into(), time)
}

/// Microseconds in the unit that reads best.
fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", figure(us / 1e6)),
        us if us >= 1e4 => format!("{} ms", figure(us / 1e3)),
        us => format!("{} µs", figure(us)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(send: f64) -> Results {
        let bench = find("overlap").unwrap();
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
        results
    }

    #[test]
    fn bad_figures_are_said() {
        let bad = results(20_100.0);
        let words = Figure3 { smp: &bad, mono: &bad }.words("shm");
        assert!(
            words.contains("waits for the computation at 4, 65536") && words.contains("MORE"),
            "{words}"
        );
    }

    #[test]
    fn good_figures_are_said() {
        let good = results(40.0);
        let words = Figure3 { smp: &good, mono: &good }.words("tcp");
        assert!(
            words.contains("at most 40.00 µs") && words.contains("every size is within"),
            "{words}"
        );
        assert!(words.contains("+5.0 %") && words.contains("MORE than the 3 %"), "{words}");
    }

    #[test]
    fn every_part_can_be_planned() {
        for part in parts() {
            let bench = find(part.bench).unwrap();
            assert!(
                !(bench.points)(key::grid(bench.name, bench.keys, &part.given).unwrap()).is_empty()
            );
        }
    }
}
