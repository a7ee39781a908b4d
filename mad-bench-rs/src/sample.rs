//! `mad sample`: how long messages take over each rail and by each protocol, for sessions to choose by.
//!
//! The ping-pong of `mad bench latency` between two processes, with the protocol forced: a rendezvous threshold beyond
//! every size (eager) or of zero (stream; with cross-memory attach: pull; by an adapter: read). Rounds are interleaved, so
//! that a drift of the machine hits all alike, and medians are kept. What is written is described in `newmad::sampling`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use newmad::sampling::{Protocol, Sampling, default_path};

use crate::config::Config;
use crate::experiments;
use crate::harness::drive::bar;
use crate::harness::key;
use crate::harness::present::machine;
use crate::harness::results::{Metric, Results};
use crate::harness::worker::{Record, Spec};
use crate::out;
use crate::out::{Exit, Outcome, complain};
use crate::quantity;
use mad_launch::{Failure, Job, Stream, Words};

/// What the processes measure.
const BENCH: &str = "latency";
const METRIC: Metric =
    Metric::new("half_round_trip", "us", "half the time of a message there and back");
const SIZES: [u64; 13] = [
    4, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131_072, 262_144, 524_288, 1_048_576, 4_194_304,
];
/// The rendezvous threshold under which every size that is sent so is eager: the largest there is.
const EAGER: u64 = 1 << 20;
/// Less is not worth asking for.
const ASKED: u64 = 1024;
/// Samples per point and round, if the user does not say how many.
const ITERS: u64 = 400;
/// Most time for one job with so many samples, or fewer.
const TIMEOUT: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(2);

/// Options of `mad sample`.
#[derive(Args, Debug)]
#[command(after_help = "\
Sessions read the file when they open and take from it from which size on a message is asked for first
(NMAD_RDV_THRESHOLD) and read by adapters (NMAD_VERBS_RDMA), and how large messages are shared over several rails.
See NMAD_SAMPLING in `mad knobs`.

Examples:
  mad sample                                            this machine's file, for shm and tcp
  NMAD_TCP_ADDRESS=10.0.0.1,10.0.1.1 mad sample --driver tcp+tcp
  mad sample --driver shm+tcp+verbs                     InfiniBand and RoCE adapters, too
  mad sample --json --output /tmp/figures.txt

With --json: one object per measured point on standard output, as `mad bench` has them, and nothing else.")]
pub struct SampleArgs {
    /// Rails to measure, as NMAD_DRIVER has them
    #[arg(long, value_name = "RAILS", default_value = "shm+tcp")]
    driver: String,
    /// Samples per point and round; fewer of large messages
    #[arg(long, value_name = "N", default_value_t = ITERS, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    iters: u64,
    /// Rounds; each measures everything once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// The file to write (NMAD_SAMPLING, else newmad/sampling-HOST.txt in $XDG_CACHE_HOME or ~/.cache)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// A rail and a protocol: what a job measures.
struct Way {
    rail: String,
    protocol: Protocol,
    env: Vec<(OsString, OsString)>,
    /// Numbers of its points.
    points: Vec<usize>,
}

/// Measures, shows and writes.
pub fn run(args: &SampleArgs) -> Outcome {
    let output = output(args)?;
    let mut points = Vec::new();
    let ways = ways(&args.driver, &mut points)?;
    let failed = |error| Exit::Failed(format!("sample: {}: {error}", output.display()));
    Sampling::try_place(&output).map_err(failed)?;
    let mut results = Results::new(points, args.rounds as usize);
    let bar = bar(args.rounds * ways.len() as u64);
    for round in 0..args.rounds as usize {
        for turn in 0..ways.len() {
            let way = &ways[(turn + round) % ways.len()];
            bar.set_message(format!("{}, {}", way.rail, way.protocol.name()));
            let done = measure(way, args.iters, round, &mut results, &mut |text| {
                bar.suspend(|| complain(text));
            });
            if let Err(exit) = done {
                bar.finish_and_clear();
                return Err(exit);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let sampling = sampling(&ways, &results);
    // Neither a disk that is full nor output without a reader costs the other its figures.
    let printed = match args.json {
        true => print_lines(&results),
        false => out::print(&shown(&sampling)),
    };
    sampling.write(&output).map_err(failed)?;
    printed?;
    match args.json {
        true => Ok(()),
        false => out::print(&format!("{}\nwritten to {}", machine(), output.display())),
    }
}

fn print_lines(results: &Results) -> Outcome {
    for line in results.lines("sample", &[METRIC]) {
        let line =
            serde_json::to_string(&line).map_err(|e| Exit::Failed(format!("sample: {e}")))?;
        out::print(&line)?;
    }
    Ok(())
}

/// Where the figures go.
fn output(args: &SampleArgs) -> Result<PathBuf, Exit> {
    let knob = std::env::var_os("NMAD_SAMPLING")
        .filter(|value| !["", "now", "off"].iter().any(|word| value == word));
    args.output.clone().or(knob.map(PathBuf::from)).or_else(default_path).ok_or_else(|| {
        Exit::Usage("sample: neither XDG_CACHE_HOME nor HOME is set: give --output FILE".into())
    })
}

/// What is to be measured.
fn ways(rails: &str, points: &mut Vec<Config>) -> Result<Vec<Way>, Exit> {
    let addresses = std::env::var("NMAD_TCP_ADDRESS").unwrap_or_default();
    let mut addresses = addresses.split(',').map(str::trim).filter(|one| !one.is_empty()).cycle();
    let mut ways = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for driver in rails.split(['+', ',']).map(str::trim) {
        let protocols: &[Protocol] = match driver {
            "shm" if newmad::plumbing::cma_works().is_ok() => {
                &[Protocol::Eager, Protocol::Fragments, Protocol::Get]
            }
            "shm" | "tcp" => &[Protocol::Eager, Protocol::Fragments],
            "verbs" => &[Protocol::Eager, Protocol::Fragments, Protocol::Read],
            _ => {
                return Err(Exit::Usage(format!(
                    "sample: there is no rail '{driver}' between processes: take shm, tcp, verbs or several"
                )));
            }
        };
        seen.push(driver);
        let rail = match seen.iter().filter(|other| **other == driver).count() {
            1 => driver.to_owned(),
            number => format!("{driver}.{number}"),
        };
        let address = if driver == "tcp" { addresses.next() } else { None };
        for &protocol in protocols {
            let first = points.len();
            let fits = |size: &u64| match protocol {
                Protocol::Eager => *size <= EAGER / 2,
                Protocol::Fragments | Protocol::Get | Protocol::Read => *size >= ASKED,
            };
            points.extend(SIZES.into_iter().filter(fits).map(|size| {
                let point = Config::default().with("driver", rail.as_str());
                point.with("protocol", protocol.name()).with("size", size)
            }));
            let threshold = if protocol == Protocol::Eager { EAGER } else { 0 };
            let mut env: Vec<(OsString, OsString)> = vec![
                ("NMAD_DRIVER".into(), driver.into()),
                ("NMAD_RDV_THRESHOLD".into(), threshold.to_string().into()),
                ("NMAD_SAMPLING".into(), "off".into()),
                // What the user has said about the process manager is not about the launcher of these.
                ("NMAD_BOOTSTRAP".into(), "pmi1".into()),
            ];
            if protocol != Protocol::Eager {
                let pull = if protocol == Protocol::Get { "1" } else { "0" };
                env.push(("NMAD_CMA".into(), pull.into()));
                let read = if protocol == Protocol::Read { "1" } else { "0" };
                env.push(("NMAD_VERBS_RDMA".into(), read.into()));
            }
            env.extend(address.map(|address| ("NMAD_TCP_ADDRESS".into(), address.into())));
            ways.push(Way {
                rail: rail.clone(),
                protocol,
                env,
                points: (first..points.len()).collect(),
            });
        }
    }
    Ok(ways)
}

/// The point of the bench for messages of so many bytes. The way's environment decides how its processes are built,
/// whatever the point has for that.
fn point(size: u64) -> Result<Config, String> {
    let bench = experiments::find(BENCH).ok_or_else(|| format!("there is no bench {BENCH}"))?;
    let given = [("library", "newmad"), ("size", &size.to_string())];
    let mut points = key::grid(bench.name, bench.keys, &given)?.into_iter();
    points.next().ok_or_else(|| format!("bench {BENCH} has no point of {size} bytes"))
}

/// Most time for one job: more samples take longer.
fn limit(iters: u64) -> Duration {
    TIMEOUT.mul_f64((iters as f64 / ITERS as f64).max(1.0))
}

/// Runs one job: all sizes of a way.
fn measure(
    way: &Way,
    iters: u64,
    round: usize,
    results: &mut Results,
    say: &mut dyn FnMut(&str),
) -> Result<(), Exit> {
    let failed = |why: String| Exit::Failed(format!("sample: {why}"));
    let program = mad_launch::own_program()
        .map_err(|e| failed(format!("the path of this program cannot be found: {e}")))?;
    let points: Result<Vec<_>, String> =
        way.points.iter().map(|&at| Ok((at, point(results.points[at].number("size"))?))).collect();
    let points = points.map_err(failed)?;
    let spec = Spec { bench: BENCH.into(), points, iters, peers_dir: None };
    let spec = serde_json::to_string(&spec).map_err(|e| failed(e.to_string()))?;
    let job = Job {
        program: program.into(),
        args: vec!["worker".into(), spec.into()],
        ranks: 2,
        unit: "rank",
        env: way.env.clone(),
        places: Vec::new(),
        timeout: Some(limit(iters)),
        timeout_option: None,
        dump_on_timeout: false,
        grace: GRACE,
        keep_going: false,
        name: "mad sample",
    };
    let mut lines = Vec::new();
    let mut on_line = |rank: u32, stream: Stream, line: &[u8]| {
        match (rank, stream, serde_json::from_slice(line)) {
            (0, Stream::Out, Ok(Record::Samples(point, metric, samples))) => {
                if metric == METRIC.name && way.points.contains(&point) {
                    results.add(point, METRIC.name, round, &samples);
                }
            }
            (0, Stream::Out, Ok(Record::Progress(_))) => {}
            _ => lines.push(format!("[{rank}] {}", String::from_utf8_lossy(line))),
        }
        Ok(())
    };
    let ended = mad_launch::run(&job, Words::Given { line: &mut on_line, message: say });
    lines.iter().for_each(|line| say(line));
    match ended {
        Ok(()) => Ok(()),
        Err(Failure::Run { .. }) => Err(Exit::Code(1)),
        Err(other) => Err(failed(other.to_string())),
    }
}

/// Medians, as sessions want them.
fn sampling(ways: &[Way], results: &Results) -> Sampling {
    let mut sampling = Sampling::new();
    for way in ways {
        for &point in &way.points {
            let point = &results.points[point];
            if let Some(us) = results.median(METRIC.name, |other| other == point) {
                let (bytes, ns) = (point.number("size"), (us * 1000.0).round() as u64);
                sampling.add(&way.rail, way.protocol, bytes, ns);
            }
        }
    }
    sampling
}

/// A table of times and bandwidths, and what follows from them.
fn shown(sampling: &Sampling) -> String {
    let mut table = out::table(&["rail", "protocol", "message", "half round trip", "bandwidth"]);
    let mut rails: Vec<&str> = Vec::new();
    for (rail, protocol, curve) in sampling.curves() {
        if !rails.contains(&rail) {
            rails.push(rail);
        }
        for &(bytes, ns) in curve.points() {
            table.add_row([
                rail.to_owned(),
                protocol.name().to_owned(),
                quantity::size(bytes),
                quantity::time(ns as f64),
                quantity::measured(bytes as f64 * 1000.0 / ns as f64, "MB/s"),
            ]);
        }
    }
    let mut text = format!("{table}\n");
    for rail in rails {
        if let Some(threshold) = sampling.threshold(rail, true) {
            text.push_str(&format!(
                "{rail}: messages of more than {} are asked for first\n",
                quantity::size(threshold as u64)
            ));
        }
        match sampling.reads_from(rail) {
            Some(usize::MAX) => text.push_str(&format!("{rail}: adapters read no messages\n")),
            Some(from) => text.push_str(&format!(
                "{rail}: messages from {} on are read by adapters\n",
                quantity::size(from as u64)
            )),
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_samples_may_take_longer() {
        assert_eq!(limit(5), TIMEOUT);
        assert_eq!(limit(ITERS), TIMEOUT);
        assert_eq!(limit(10 * ITERS), 10 * TIMEOUT);
    }

    #[test]
    fn every_rail_is_measured_by_every_protocol_that_it_has() {
        let mut points = Vec::new();
        let ways = ways("shm+tcp,tcp+verbs", &mut points).unwrap();
        let of = |rail: &str| ways.iter().filter(|way| way.rail == rail).count();
        assert_eq!((of("tcp"), of("tcp.2"), of("verbs")), (2, 2, 3));
        assert!(of("shm") >= 2);
        let all: usize = ways.iter().map(|way| way.points.len()).sum();
        assert_eq!(all, points.len());
        for way in &ways {
            for &point in &way.points {
                let (text, size) = (points[point].text("protocol"), points[point].number("size"));
                assert_eq!(text, way.protocol.name());
                assert!(way.protocol != Protocol::Eager || size < EAGER);
            }
        }
        assert!(matches!(super::ways("pigeon", &mut points), Err(Exit::Usage(_))));
    }
}
