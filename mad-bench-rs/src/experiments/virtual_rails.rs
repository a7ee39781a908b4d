//! Virtual rails over verbs: whether messages come over the rail of the node on which they are received, and what changes cost.
//!
//! Source: [Didelot14] 3.3, whose figures are of machines with many NUMA nodes and several adapters. Here the nodes are synthetic,
//! so there are counts and no times: nothing is near or far.
//!
//! ```text
//! moves    rank 1 sends; rank 0 receives `each` messages by a thread on one node, then as many by a thread on the other …
//! turns    the same, and the node changes with each 8 messages: no window is of one node, so no other route is asked for
//! ```
//! A point that decides how a process is built has processes of its own. Counts are differences over a point.

use newmad::Session;

use crate::config::Config;
use crate::experiments::eager_channels;
use crate::harness::experiment::{BASE, Bench, Setup, Work};
use crate::harness::key::{DRIVER, Key, POLICY, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "virtual-rails",
    about: "messages over the virtual rail of their receiver's NUMA node: counts (needs an adapter, or the guest)",
    source: "[Didelot14] 3.3",
    keys: &[
        Key { takes: Takes::Words(&["verbs"]), default: "verbs", ..DRIVER },
        POLICY,
        PATTERN,
        VIRTUAL,
        WINDOW,
        EACH,
    ],
    metrics: &METRICS,
    iters: 6,
    rounds: 2,
    work: Work::Session(measure),
    staged: Some(stage),
    summary: Some(summary),
    ..BASE
};

const PATTERN: Key = Key {
    name: "pattern",
    takes: Takes::Words(&["moves", "turns"]),
    default: "moves,turns",
    help: "rank 0 receives on one node for a while, then on the other; or on both by turns",
};
const VIRTUAL: Key = Key {
    name: "virtual_rails",
    takes: Takes::Int(2, 2),
    default: "2",
    help: "virtual rails of the adapter, on a machine of two nodes",
};
const WINDOW: Key = Key {
    name: "virtual_window",
    takes: Takes::Int(1, 1 << 30),
    default: "16,64,256",
    help: "receives after which rank 0 looks on which node they were made",
};
const EACH: Key = Key {
    name: "each",
    takes: Takes::Int(8, 1 << 20),
    default: "200",
    help: "messages between two moves",
};

const METRICS: [Metric; 5] = [
    Metric::new(
        "local",
        "ratio",
        "packets that came over the rail of the node on which they were received",
    ),
    Metric::new("asked", "count", "routes that the receiver asked for"),
    Metric::new("changed", "count", "routes that the sender changed"),
    Metric::new("again", "ratio", "packets that were sent once more for that, of all packets"),
    Metric::new("buffers", "count", "receive buffers on each node"),
];

/// A machine of two nodes, where there is an adapter.
fn stage() -> Result<Setup, String> {
    let setup = eager_channels::stage()?;
    let topology = ("MARCEL_TOPOLOGY".into(), "numa:2 core:1".into());
    Ok(Setup { env: [setup.env, vec![topology]].concat(), ..setup })
}

const NODES: [&str; 2] = ["numa:0", "numa:1"];
const DATA: u64 = 1;
const ANSWER: u64 = 2;
const COUNTED: u64 = 3;
/// Messages that are sent before the sender waits for an answer.
const TOGETHER: u64 = 8;
const LEN: usize = 1024;

/// How often the node changes, and after how many messages.
fn phases(config: &Config, iters: u64) -> (u64, u64) {
    let each = config.number("each").next_multiple_of(TOGETHER);
    match config.text("pattern") {
        "turns" => (iters * each / TOGETHER, TOGETHER),
        _ => (iters, each),
    }
}

/// What a process has counted.
#[derive(Clone, Copy, Default)]
struct Counts {
    received: [u64; 2],
    buffers: [u64; 2],
    sent: u64,
    again: u64,
    asked: u64,
    changed: u64,
}

fn counts(session: &Session) -> Counts {
    // Takes the engine's lock: what its holder counts is counted then.
    session.connections();
    let sources = session.manager().counters().sources;
    let figures = || sources.iter().flat_map(|source| &source.figures);
    let of =
        |name: &str| figures().filter(|(known, _)| *known == name).map(|&(_, n)| n).sum::<u64>();
    let by_rail = |what: &str| [0, 1].map(|rail| of(&format!("{what} virtual rail {rail}")));
    Counts {
        received: by_rail("packets received by"),
        buffers: by_rail("buffers on the node of"),
        sent: by_rail("packets sent by").iter().sum(),
        again: of("packets sent again"),
        asked: of("routes asked for"),
        changed: of("routes changed"),
    }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    for (number, config) in &spec.points {
        let (phases, each) = phases(config, spec.iters);
        session.barrier()?;
        let before = counts(session);
        if session.rank() == 0 {
            let local = receive(session, (phases, each), emit)?;
            let mut theirs = [0; 24];
            session.recv(1, COUNTED, &mut theirs)?;
            let of =
                |at: usize| theirs[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
            let (sent, again, changed) = (of(0), of(8), of(16));
            let after = counts(session);
            emit.samples(*number, "local", &[local])?;
            emit.samples(*number, "asked", &[(after.asked - before.asked) as f64])?;
            emit.samples(*number, "changed", &[changed as f64])?;
            emit.samples(*number, "again", &[again as f64 / (sent + again).max(1) as f64])?;
            emit.samples(*number, "buffers", &after.buffers.map(|buffers| buffers as f64))?;
        } else {
            send(session, phases * each)?;
            let after = counts(session);
            let all = [
                after.sent - before.sent,
                after.again - before.again,
                after.changed - before.changed,
            ];
            session.send(0, COUNTED, &all.map(u64::to_le_bytes).concat())?;
        }
    }
    Ok(())
}

/// Receives by threads on one node after the other. The part of the packets that came over the rail of the node.
fn receive(session: &Session, (phases, each): (u64, u64), emit: &Emit) -> WorkResult<f64> {
    let (mut local, mut all) = (0, 0);
    for phase in 0..phases {
        let node = phase as usize % NODES.len();
        let before = counts(session);
        let own = session.clone();
        let receive = move || -> Result<(), String> {
            let mut buffer = [0; LEN];
            for number in phase * each..(phase + 1) * each {
                let wrong = |why: newmad::Error| why.to_string();
                let status = own.recv(1, DATA, &mut buffer).map_err(wrong)?;
                if status.len != LEN || buffer.iter().any(|&byte| byte != number as u8) {
                    return Err(format!("message {number} is another one"));
                }
                if (number + 1) % TOGETHER == 0 {
                    own.send(1, ANSWER, &[]).map_err(wrong)?;
                }
            }
            Ok(())
        };
        let place = NODES[node].parse()?;
        marcel::Builder::new()
            .bind(place)
            .spawn(receive)?
            .join()
            .map_err(|_| "a receiver has panicked")??;
        let after = counts(session);
        let [first, second] = [0, 1].map(|rail| after.received[rail] - before.received[rail]);
        local += if node == 0 { first } else { second };
        all += first + second;
        emit.progress(phase + 1, phases)?;
    }
    Ok(local as f64 / all.max(1) as f64)
}

fn send(session: &Session, all: u64) -> WorkResult {
    for first in (0..all).step_by(TOGETHER as usize) {
        let mut sends = Vec::new();
        for number in first..first + TOGETHER {
            sends.push(session.isend(0, DATA, vec![number as u8; LEN])?);
        }
        for send in sends {
            send.wait()?;
        }
        session.recv(0, ANSWER, &mut [])?;
    }
    Ok(())
}

fn summary(_: &[Line]) -> String {
    "The nodes are synthetic: what is counted is where packets went, and nothing here says what that gains.".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::key::grid;

    #[test]
    fn both_patterns_have_as_many_messages() {
        let all = grid("virtual-rails", BENCH.keys, &[]).unwrap();
        assert_eq!(all.len(), 6);
        for point in &all {
            let (phases, each) = phases(point, 20);
            assert_eq!(phases * each, 4_000);
            assert_eq!(each == TOGETHER, point.text("pattern") == "turns");
        }
    }
}
