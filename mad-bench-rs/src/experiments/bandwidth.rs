//! Bandwidth between two processes, there and back and one way, beside MPI libraries.
//!
//! *pingpong*: one message at a time, size over half round trip, as [`crate::experiments::latency`] has it. *stream*: a window of
//! sixteen messages one way ([`crate::experiments::stream`]). Buffers are used again and again, so both show what fits into the
//! caches: a copy pipelined through a shared cache can then be faster than the memory. Larger messages are sent less
//! often: `--iters` counts messages of 4 KiB.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::latency::{trip, trips};
use crate::experiments::stream::Stream;
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, Worked, own_core, text, with_session};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "bandwidth",
    about: "bytes in a second between two processes, there and back or one way, beside MPI libraries",
    source: "osu_latency and osu_bw of the OSU benchmarks; [Trahay09] 7.2.1",
    keys: &[DRIVER, MODE, POLICY, PROGRESSION, LIBRARY, WORKLOAD, Key { default: SIZES, ..SIZE }],
    metrics: &METRICS,
    iters: 8000,
    points: mpi::points,
    work,
    derive: Some(|results| mpi::compare(results, "bandwidth", true)),
    mpi: Some(program),
    ..BASE
};

const SIZES: &str = "65536,262144,1048576,4194304,16777216";
/// Messages under way at once.
const WINDOW: u64 = 16;
/// Points take turns so often.
const BLOCKS: u64 = 10;

/// The library that carries the messages.
pub(crate) const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Libraries(&["newmad"]),
    default: "newmad,openmpi,mpich,openmpi5,openmpi5-ucx,mpich5,impi",
    help: "the library that carries the messages; newer MPI libraries are looked for in --peers-dir",
};
const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["pingpong", "stream"]),
    default: "pingpong,stream",
    help: "pingpong: one message there and back; stream: windows of 16 one way",
};
const METRICS: [Metric; 2] = [
    Metric { name: "bandwidth", unit: "MB/s", help: "bytes over the time that they took one way" },
    mpi::PEER_RATIO,
];

fn streams(config: &Config) -> bool {
    config.text("workload") == "stream"
}

fn program(config: &Config) -> Program {
    let size = config.number("size");
    match streams(config) {
        true => Program { name: "stream", numbers: [size, WINDOW, 0], share: false },
        false => Program { name: "latency", numbers: [size, 0, 0], share: false },
    }
}

fn work(spec: &Spec) -> Worked {
    with_session(|session, emit| measure(session, emit, spec))
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> Worked {
    own_core();
    let mut samples = vec![Vec::new(); spec.points.len()];
    let (blocks, count) = (BLOCKS.min(spec.iters), spec.points.len() as u64);
    for block in 0..blocks {
        for (at, (_, config)) in spec.points.iter().enumerate() {
            let size = config.number("size");
            let bytes = if streams(config) { size * WINDOW } else { size };
            let all = trips(spec.iters, bytes);
            let n = all * (block + 1) / blocks - all * block / blocks;
            session.barrier().map_err(text)?;
            if streams(config) {
                let times = Stream::new(session, size, WINDOW).windows(2 + n / 10, n)?;
                samples[at].extend(times.iter().map(|us| bytes as f64 / us));
            } else {
                let mut buffer = vec![0u8; size as usize];
                for _ in 0..2 + n / 10 {
                    trip(session, &mut buffer)?;
                }
                for _ in 0..n {
                    let before = now_ns();
                    trip(session, &mut buffer)?;
                    samples[at].push(size as f64 * 2000.0 / (now_ns() - before) as f64);
                }
            }
            emit.progress(block * count + at as u64, blocks * count)?;
        }
    }
    for ((number, _), samples) in spec.points.iter().zip(&samples) {
        emit.samples(*number, "bandwidth", samples)?;
    }
    Ok(())
}
