//! Short messages in a second between two processes, beside MPI libraries.
//!
//! Windows of `window` messages one way ([`crate::experiments::stream`]), as `osu_mbw_mr` with one pair: what a send and a receive
//! cost when many are under way, and what gathering several into one packet saves where a packet is dear.

use newmad::Session;

use crate::config::Config;
use crate::experiments::bandwidth::LIBRARY;
use crate::experiments::latency::trips;
use crate::experiments::stream::Stream;
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, Worked, own_core, text, with_session};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "rate",
    about: "short messages in a second between two processes, beside MPI libraries",
    source: "osu_mbw_mr of the OSU benchmarks",
    keys: &[DRIVER, MODE, POLICY, PROGRESSION, LIBRARY, WINDOW, Key { default: "8", ..SIZE }],
    metrics: &METRICS,
    iters: 2000,
    points: mpi::points,
    work,
    derive: Some(|results| mpi::compare(results, "message_rate", true)),
    mpi: Some(program),
    ..BASE
};

const WINDOW: Key = Key {
    name: "window",
    takes: Takes::Int(1, 100_000),
    default: "64",
    help: "messages under way at once",
};
const METRICS: [Metric; 2] = [
    Metric { name: "message_rate", unit: "M/s", help: "millions of messages in a second" },
    mpi::PEER_RATIO,
];
/// Points take turns so often.
const BLOCKS: u64 = 10;

fn program(config: &Config) -> Program {
    let numbers = [config.number("size"), config.number("window"), 0];
    Program { name: "stream", numbers, share: false }
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
            let (size, window) = (config.number("size"), config.number("window"));
            let all = trips(spec.iters, size * window);
            let n = all * (block + 1) / blocks - all * block / blocks;
            session.barrier().map_err(text)?;
            let times = Stream::new(session, size, window).windows(2 + n / 10, n)?;
            samples[at].extend(times.iter().map(|us| window as f64 / us));
            emit.progress(block * count + at as u64, blocks * count)?;
        }
    }
    for ((number, _), samples) in spec.points.iter().zip(&samples) {
        emit.samples(*number, "message_rate", samples)?;
    }
    Ok(())
}
