//! Short messages in a second between two processes, beside MPI libraries.
//!
//! Windows of `window` messages one way ([`crate::experiments::stream`]), as `osu_mbw_mr` with one pair: what a send
//! and a receive cost when many are under way, and what gathering several into one packet saves where a packet is
//! dear.

use newmad::Session;

use crate::config::Config;
use crate::experiments::stream::Stream;
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "rate",
    about: "short messages in a second between two processes, beside MPI libraries",
    source: "osu_mbw_mr of the OSU benchmarks",
    keys: &[DRIVER, MODE, POLICY, PROGRESSION, LIBRARY, WINDOW, Key { default: "8", ..SIZE }],
    metrics: &METRICS,
    iters: 2000,
    points: mpi::points,
    work: Work::Session(measure),
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
const METRICS: [Metric; 2] =
    [Metric::new("message_rate", "M/s", "millions of messages in a second"), mpi::PEER_RATIO];

fn program(config: &Config) -> Program {
    let numbers = [config.number("size"), config.number("window"), 0];
    Program::pair("stream", numbers)
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let count = |config: &Config| {
        turns::of_size(spec.iters, config.number("size") * config.number("window"))
    };
    turns::sampled(session, emit, spec, &METRICS[0], count, |config, count| {
        let (size, window) = (config.number("size"), config.number("window"));
        let times = Stream::new(session, size, window).windows(turns::warm(count), count)?;
        Ok(times.iter().map(|us| window as f64 / us).collect())
    })
}
