//! Half round trip and bandwidth of a ping-pong, both processes with nothing else to do.
//!
//! Source: [Trahay09] 7.2.1 (4 B ping-pong); [Trahay07] section 4. Each process stays on a core of
//! its own and polls. The same two processes also play ping-pong without the library ([`crate::experiments::bare`],
//! `library` bare), in alternating blocks: what the library adds to the machine's part is `latency_ratio`.
//!
//! One reading of the clock per round trip (25 ns) is part of what is measured. Large messages are sent less
//! often than `--iters` says: as many times as make the same number of bytes with 4 KB each, at least 20.

use newmad::Session;

use crate::config::Config;
use crate::experiments::bare::Bare;
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{self, DRIVER, Key, LOCK, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "latency",
    about: "half round trip and bandwidth between two processes that do nothing else",
    source: "[Trahay09] 7.2.1; [Trahay07] section 4",
    keys: &[
        DRIVER,
        MODE,
        POLICY,
        PROGRESSION,
        LOCK,
        LIBRARY,
        Key { default: "1,64,1K,16K,64K,1M", ..SIZE },
    ],
    metrics: &METRICS,
    iters: 5000,
    points: mpi::points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    ..BASE
};

const LIBRARY: Key = Key {
    takes: Takes::Libraries(&["newmad", "bare"]),
    default: "newmad,bare",
    help: "the library that carries the messages; bare: a plain socket, a polled flag; the others: MPI libraries",
    ..key::LIBRARY
};
pub(super) const HALF_ROUND_TRIP: Metric =
    Metric::new("half_round_trip", "us", "half the time of a message there and back");
const METRICS: [Metric; 6] = [
    HALF_ROUND_TRIP,
    Metric::new("bandwidth", "MB/s", "size over half round trip, from 1 KB up"),
    Metric::new("exchange_time", "us", "a message each way at once, by one call of an MPI library"),
    Metric::new("waitall_time", "us", "the same by MPI_Irecv, MPI_Isend and MPI_Waitall"),
    Metric::new("latency_ratio", "ratio", "newmad over bare: medians of a round"),
    mpi::PEER_RATIO,
];

/// The tag of messages that go there and back.
pub(super) const DATA: u64 = 1;

fn program(config: &Config) -> Program {
    Program::pair("latency", [config.number("size"), 0, 0])
}

pub(super) fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let wants_bare = spec.points.iter().any(|(_, config)| config.text("library") == "bare");
    let most = spec.points.iter().map(|(_, config)| config.number("size")).max().unwrap_or(1);
    let mut bare = if wants_bare { Some(Bare::connect(session, most as usize)?) } else { None };
    let count = |config: &Config| turns::of_size(spec.iters, config.number("size"));
    turns::sampled(session, emit, spec, &HALF_ROUND_TRIP, count, |config, count| {
        let mut buffer = vec![0u8; config.number("size") as usize];
        let trips = turns::timed(turns::warm(count), count, || match &mut bare {
            Some(bare) if config.text("library") == "bare" => {
                bare.trip(session.rank(), &mut buffer)
            }
            _ => trip(session, DATA, &mut buffer),
        })?;
        Ok(trips.iter().map(|us| us / 2.0).collect())
    })
}

/// A message of that tag from rank 0 to rank 1 and back.
pub(super) fn trip(session: &Session, tag: u64, buffer: &mut [u8]) -> WorkResult {
    if session.rank() == 0 {
        session.send(1, tag, buffer)?;
        session.recv(1, tag, buffer)?;
    } else {
        session.recv(0, tag, buffer)?;
        session.send(0, tag, buffer)?;
    }
    Ok(())
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        let size = point.number("size");
        // The programs of MPI libraries give theirs.
        if size >= 1024 && !mpi::is(&point) {
            for round in 0..results.rounds {
                let trips = results.round(index, HALF_ROUND_TRIP.name, round);
                let bandwidth: Vec<f64> = trips.iter().map(|us| size as f64 / us).collect();
                results.add(index, "bandwidth", round, &bandwidth);
            }
        }
        let bare = results.find(&point.with("library", "bare"));
        if let Some(bare) = bare.filter(|_| point.text("library") == "newmad") {
            results.ratio((index, bare), "half_round_trip", "latency_ratio");
        }
    }
    mpi::compare(results, "half_round_trip", false);
}
