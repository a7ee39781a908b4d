//! Half round trip and bandwidth of a ping-pong, both processes with nothing else to do.
//!
//! Source: [Trahay09] 7.2.1 (4 B ping-pong); [Trahay07] section 4. Each process stays on a core of
//! its own and polls. The same two processes also play ping-pong without the library ([`crate::experiments::bare`],
//! `library` bare), in alternating blocks: what the library adds to the machine's part is `latency_ratio`.
//!
//! One reading of the clock per round trip (25 ns) is part of what is measured. Large messages are sent less
//! often than `--iters` says: as many times as make the same number of bytes with 4 KiB each, at least 20.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::bare::Bare;
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{AUTO, DRIVER, Key, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::worker::{Emit, Spec, Worked, own_core, text, with_session};

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
        Key { default: "1,64,1024,16384,65536,1048576", ..SIZE },
    ],
    metrics: &METRICS,
    iters: 5000,
    points: mpi::points,
    work,
    derive: Some(derive),
    mpi: Some(program),
    ..BASE
};

const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Libraries(&["newmad", "bare"]),
    default: "newmad,bare",
    help: "the library that carries the messages; bare: a plain socket, a polled flag; the others: MPI libraries",
};
pub(super) const LOCK: Key = Key {
    name: "lock",
    takes: Takes::Words(&[AUTO, "none", "coarse", "fine"]),
    default: AUTO,
    help: "how the session's engine is locked; auto: what NMAD_LOCK or its default says",
};
pub(super) const HALF_ROUND_TRIP: Metric = Metric {
    name: "half_round_trip",
    unit: "us",
    help: "half the time of a message there and back",
};
const METRICS: [Metric; 4] = [
    HALF_ROUND_TRIP,
    Metric { name: "bandwidth", unit: "MB/s", help: "size over half round trip, from 1 KiB up" },
    Metric { name: "latency_ratio", unit: "ratio", help: "newmad over bare: medians of a round" },
    mpi::PEER_RATIO,
];

const DATA: u64 = 1;
const BLOCKS: u64 = 10;
const LEAST: u64 = 20;

fn program(config: &Config) -> Program {
    Program { name: "latency", numbers: [config.number("size"), 0, 0], share: false }
}

pub(super) fn work(spec: &Spec) -> Worked {
    with_session(|session, emit| measure(session, emit, spec))
}

/// How often a message of this size goes there and back.
pub(super) fn trips(iters: u64, size: u64) -> u64 {
    (iters * 4096 / size.max(4096)).clamp(LEAST.min(iters), iters)
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> Worked {
    own_core();
    let wants_bare = spec.points.iter().any(|(_, config)| config.text("library") == "bare");
    let most = spec.points.iter().map(|(_, config)| config.number("size")).max().unwrap_or(1);
    let mut bare = if wants_bare { Some(Bare::connect(session, most as usize)?) } else { None };
    let mut samples = vec![Vec::new(); spec.points.len()];
    let blocks = BLOCKS.min(spec.iters);
    for block in 0..blocks {
        for (at, (_, config)) in spec.points.iter().enumerate() {
            let size = config.number("size");
            let all = trips(spec.iters, size);
            let trips = all * (block + 1) / blocks - all * block / blocks;
            let mut buffer = vec![0u8; size as usize];
            session.barrier().map_err(text)?;
            let mut trip = |buffer: &mut [u8]| match &mut bare {
                Some(bare) if config.text("library") == "bare" => bare.trip(session.rank(), buffer),
                _ => trip(session, buffer),
            };
            for _ in 0..2 + trips / 10 {
                trip(&mut buffer)?;
            }
            let mut before = now_ns();
            for _ in 0..trips {
                trip(&mut buffer)?;
                let now = now_ns();
                samples[at].push((now - before) as f64 / 2000.0);
                before = now;
            }
            emit.progress(
                block * spec.points.len() as u64 + at as u64,
                blocks * spec.points.len() as u64,
            )?;
        }
    }
    for ((number, config), samples) in spec.points.iter().zip(&samples) {
        emit.samples(*number, "half_round_trip", samples)?;
        let size = config.number("size");
        if size >= 1024 {
            let bandwidth: Vec<f64> = samples.iter().map(|us| size as f64 / us).collect();
            emit.samples(*number, "bandwidth", &bandwidth)?;
        }
    }
    Ok(())
}

pub(super) fn trip(session: &Session, buffer: &mut [u8]) -> Worked {
    if session.rank() == 0 {
        session.send(1, DATA, buffer).map_err(text)?;
        session.recv(1, DATA, buffer).map_err(text)?;
    } else {
        session.recv(0, DATA, buffer).map_err(text)?;
        session.send(0, DATA, buffer).map_err(text)?;
    }
    Ok(())
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        if point.text("library") != "newmad" {
            continue;
        }
        let Some(bare) = results.find(&point.with("library", "bare")) else { continue };
        for round in 0..results.rounds {
            let ours = median(results.round(index, "half_round_trip", round));
            let bare = median(results.round(bare, "half_round_trip", round));
            if let (Some(ours), Some(bare)) = (ours, bare) {
                results.add(index, "latency_ratio", round, &[ours / bare]);
            }
        }
    }
    mpi::compare(results, "half_round_trip", false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_go_less_often() {
        assert_eq!(trips(5000, 1), 5000);
        assert_eq!(trips(5000, 1 << 20), 20);
        assert_eq!(trips(5000, 65536), 312);
        assert_eq!(trips(3, 1 << 20), 3);
    }
}
