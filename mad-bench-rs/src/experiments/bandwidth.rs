//! Bandwidth between two processes, there and back and one way, beside MPI libraries.
//!
//! *pingpong*: one message at a time, size over half round trip, as [`crate::experiments::latency`] has it. *stream*:
//! a window of sixteen messages one way ([`crate::experiments::stream`]). Buffers are used again and again, so both
//! show what fits into the caches: a copy pipelined through a shared cache can then be faster than the memory. Larger
//! messages are sent less often: `--iters` counts messages of 4 KB.

use newmad::Session;

use crate::config::Config;
use crate::experiments::latency::{DATA, trip};
use crate::experiments::stream::Stream;
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "bandwidth",
    about: "bytes in a second between two processes, there and back or one way, beside MPI libraries",
    source: "osu_latency and osu_bw of the OSU benchmarks; [Trahay09] 7.2.1",
    keys: &[DRIVER, MODE, POLICY, PROGRESSION, LIBRARY, WORKLOAD, Key { default: SIZES, ..SIZE }],
    metrics: &METRICS,
    iters: 8000,
    points: mpi::points,
    work: Work::Session(measure),
    derive: Some(|results| mpi::compare(results, "bandwidth", true)),
    mpi: Some(program),
    ..BASE
};

const SIZES: &str = "65536,262144,1048576,4194304,16777216";
/// Messages under way at once.
const WINDOW: u64 = 16;

const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["pingpong", "stream"]),
    default: "pingpong,stream",
    help: "pingpong: one message there and back; stream: windows of 16 one way",
};
const METRICS: [Metric; 2] = [
    Metric::new("bandwidth", "MB/s", "bytes over the time that they took one way"),
    mpi::PEER_RATIO,
];

fn streams(config: &Config) -> bool {
    config.text("workload") == "stream"
}

fn program(config: &Config) -> Program {
    let size = config.number("size");
    match streams(config) {
        true => Program::pair("stream", [size, WINDOW, 0]),
        false => Program::pair("latency", [size, 0, 0]),
    }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let bytes = |config: &Config| config.number("size") * if streams(config) { WINDOW } else { 1 };
    let count = |config: &Config| turns::of_size(spec.iters, bytes(config));
    turns::sampled(session, emit, spec, &METRICS[0], count, |config, count| {
        let (size, bytes) = (config.number("size"), bytes(config));
        if streams(config) {
            let times = Stream::new(session, size, WINDOW).windows(turns::warm(count), count)?;
            return Ok(times.iter().map(|us| bytes as f64 / us).collect());
        }
        let mut buffer = vec![0u8; size as usize];
        let times = turns::timed(turns::warm(count), count, || trip(session, DATA, &mut buffer))?;
        Ok(times.iter().map(|us| 2.0 * bytes as f64 / us).collect())
    })
}
