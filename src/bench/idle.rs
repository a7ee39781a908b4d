//! What it costs to wait: a process waits for a message that comes late, and does nothing else.
//!
//! Source: idle costs nothing ("idle costs nothing"); the thesis's mixed wait (2009, 5.3.2): poll for a while, then
//! block. Rank 0 waits, rank 1 sleeps for `seconds` and then sends.

use std::time::Duration;

use newmad::Session;

use super::Bench;
use super::config::Config;
use super::key::{DRIVER, Key, MODE, POLICY, PROGRESSION, Takes};
use super::results::Metric;
use super::worker::{Emit, Spec, Worked, text, with_session};
use crate::clock::{now_ns, process_cpu_ns};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "idle",
    about: "the CPU time that a process burns while it waits for a message",
    source: "thesis 2009, 5.3.2 (mixed wait); idle costs nothing",
    keys: &[DRIVER, MODE, POLICY, PROGRESSION, SECONDS],
    metrics: &METRICS,
    ranks: 2,
    iters: 1,
    rounds: 3,
    points,
    work,
    derive: None,
    apart: None,
    summary: None,
};

const SECONDS: Key =
    Key { name: "seconds", takes: Takes::Int(1, 86_400), default: "5", help: "length of the wait" };
const METRICS: [Metric; 2] = [
    Metric {
        name: "cpu_time",
        unit: "us",
        help: "CPU time of the waiting process, all its threads",
    },
    Metric { name: "recv_time", unit: "us", help: "length of the wait" },
];

const DATA: u64 = 1;

fn points(grid: Vec<Config>) -> Vec<Config> {
    grid
}

fn work(spec: &Spec) -> Worked {
    with_session(|session, emit| measure(session, emit, spec))
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> Worked {
    let count = spec.points.len() as u64;
    for i in 0..spec.iters {
        for (done, (number, config)) in spec.points.iter().enumerate() {
            session.barrier().map_err(text)?;
            if session.rank() == 0 {
                let mut message = [0; 4];
                let (cpu, start) = (process_cpu_ns(), now_ns());
                session.recv(1, DATA, &mut message).map_err(text)?;
                let (cpu, wall) = (process_cpu_ns() - cpu, now_ns() - start);
                emit.samples(*number, "cpu_time", &[cpu as f64 / 1000.0])?;
                emit.samples(*number, "recv_time", &[wall as f64 / 1000.0])?;
            } else {
                marcel::sleep(Duration::from_secs(config.number("seconds")));
                session.send(0, DATA, &[1; 4]).map_err(text)?;
            }
            emit.progress(i * count + done as u64 + 1, spec.iters * count)?;
        }
    }
    Ok(())
}
