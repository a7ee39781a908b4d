//! The control network of many processes, in virtual time: connections, hops and messages against the ring alone.
//!
//! Source: [Didelot14] 3.2, table 3.3 (128 nodes: a new connection over a ring, and over torus networks of two and three
//! dimensions).
//!
//! The state machines of newmad's control network run as they are, over links without sockets. A session of `processes`
//! opens; then `requests` of them ask a peer each for a link at the same moment. The unit of time is a hop: a process treats
//! one frame in one unit. Nothing here is the performance of a machine; what a hop takes on one, `control-messages` measures.

use newmad::plumbing::control_network::{Counts, requests};

use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{Key, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "control-network",
    about: "connections, hops and messages of the control network, ring and torus, in virtual time",
    source: "[Didelot14] 3.2, table 3.3",
    keys: &[PROCESSES, DIMENSIONS, REQUESTS],
    metrics: &METRICS,
    ranks: 1,
    rounds: 1,
    work: Work::Process(work),
    summary: Some(summary),
    ..BASE
};

const PROCESSES: Key = Key {
    name: "processes",
    takes: Takes::Int(2, 65_536),
    default: "128,1024,65536",
    help: "processes that are simulated",
};
const DIMENSIONS: Key = Key {
    name: "dimensions",
    takes: Takes::Int(1, 4),
    default: "1,2,3,4",
    help: "of the torus; 1: the ring",
};
const REQUESTS: Key = Key {
    name: "requests",
    takes: Takes::Int(1, 65_536),
    default: "128",
    help: "processes that ask for a link at the same moment, as many as there are at the most",
};
const METRICS: [Metric; 7] = [
    Metric::new("hops", "hops", "of a request, one way"),
    Metric::new("answer_time", "hops", "from a request to its answer, in the time of a hop"),
    Metric::new("connections", "count", "of a process after the requests, on the average"),
    Metric::new("most_connections", "count", "of the process that has most"),
    Metric::new(
        "start_connections",
        "count",
        "of a process when the session is open, on the average",
    ),
    Metric::new(
        "start_messages",
        "count",
        "calls and frames to open the session, for each process",
    ),
    Metric::new(
        "request_messages",
        "count",
        "calls and frames for each request, its answer and their acknowledgements",
    ),
];

fn work(spec: &Spec) -> WorkResult {
    let emit = Emit::of(0);
    for (done, (number, config)) in (0..).zip(&spec.points) {
        let processes = config.number("processes") as u32;
        let asking = (config.number("requests") as u32).min(processes);
        let counts = requests(processes, config.number("dimensions") as u32, asking);
        let Counts { connections_at_start, connections, most_connections, .. } = counts;
        let Counts { start_messages, request_messages, hops, times, .. } = &counts;
        let each = |messages: u64, of: u32| messages as f64 / f64::from(of);
        emit.samples(*number, "hops", hops)?;
        emit.samples(*number, "answer_time", times)?;
        emit.samples(*number, "connections", &[connections])?;
        emit.samples(*number, "most_connections", &[f64::from(most_connections)])?;
        emit.samples(*number, "start_connections", &[connections_at_start])?;
        emit.samples(*number, "start_messages", &[each(*start_messages, processes)])?;
        emit.samples(*number, "request_messages", &[each(*request_messages, asking)])?;
        emit.progress(done + 1, spec.points.len() as u64)?;
    }
    Ok(())
}

fn summary(_: &[Line]) -> String {
    "In virtual time: the unit is what one process takes for one frame. `mad bench control-messages` measures that here.".into()
}
