//! What it costs to wait: a process waits for a message that comes late, and does nothing else.
//!
//! Source: idle costs nothing ("idle costs nothing"); the mixed wait of [Trahay09] 5.3.2: poll for a while, then
//! block. Rank 0 waits, rank 1 sleeps for `seconds` and then sends.
//!
//! An MPI library's process waits in `MPI_Recv` (`library`); `peer_ratio` compares the CPU time.
//!
//! With another `source` than a message (driver none) there is one process, which waits without a session for an event
//! that one of its kernel threads raises after `seconds`.

use std::sync::Arc;
use std::time::Duration;

use newmad::Session;
use pioman::Manager;

use crate::clock::{now_ns, process_cpu_ns};
use crate::config::{Config, distinct};
use crate::experiments::detect::sources;
use crate::experiments::detect::stage::Raiser;
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{AUTO, DRIVER, Key, LIBRARY, MODE, NONE, POLICY, PROGRESSION, Takes};
use crate::harness::line::Line;
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, with_session};
use crate::quantity::figure;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "idle",
    about: "the CPU time that a process burns while it waits for a message",
    source: "[Trahay09] 5.3.2 (mixed wait); idle costs nothing",
    keys: &[
        SOURCE,
        DRIVER_OR_NONE,
        MODE,
        POLICY,
        PROGRESSION,
        Key { default: "newmad", ..LIBRARY },
        SECONDS,
    ],
    metrics: &METRICS,
    iters: 1,
    rounds: 3,
    points,
    work: Work::Process(work),
    derive: Some(|results| mpi::compare(results, "cpu_time", false)),
    summary: Some(summary),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

const MESSAGE: &str = "message";
const SOURCE: Key = Key {
    name: "source",
    takes: Takes::Words(&[MESSAGE, "shm", "eventfd", "tcp", "pipe", "uring", "timer", "child"]),
    default: MESSAGE,
    help: "what is waited for: a message of the driver, or an event as in bench detect",
};
const DRIVER_OR_NONE: Key = Key {
    takes: Takes::Words(&["shm", "tcp", NONE]),
    help: "driver between the processes; none: where no message is waited for",
    ..DRIVER
};
const SECONDS: Key =
    Key { name: "seconds", takes: Takes::Int(1, 86_400), default: "5", help: "length of the wait" };
const METRICS: [Metric; 3] = [
    Metric::new("cpu_time", "us", "CPU time of the waiting process, all its threads"),
    Metric::new("recv_time", "us", "length of the wait"),
    mpi::PEER_RATIO,
];

const DATA: u64 = 1;
/// An idle wait of 5 s may burn 10 ms.
const ALLOWED_US_PER_S: f64 = 2000.0;

fn points(grid: Vec<Config>) -> Vec<Config> {
    distinct(mpi::points(grid).into_iter().filter_map(|point| match point.text("source") {
        MESSAGE => (point.text("driver") != NONE).then_some(point),
        _ => (!mpi::is(&point)).then(|| point.with("driver", NONE)),
    }))
}

fn program(config: &Config) -> Program {
    Program { share: true, ..Program::pair("idle", [config.number("seconds"), 0, 0]) }
}

fn work(spec: &Spec) -> WorkResult {
    if spec.points.iter().any(|(_, config)| config.text("driver") == NONE) {
        if std::env::var("PMI_RANK").is_ok_and(|rank| rank != "0") {
            return Ok(()); // no process sends
        }
        let runtime = pioman::Runtime::new()?;
        let manager = runtime.manager();
        return runtime.run(|| alone(spec, manager));
    }
    with_session(BENCH.ranks, |session, emit| measure(session, emit, spec))
}

/// Waits for events instead of messages.
fn alone(spec: &Spec, manager: &Arc<Manager>) -> WorkResult {
    let emit = Emit::of(0);
    let raiser = Raiser::start()?;
    turns::in_turn(&emit, spec.iters, spec.points.len(), |at, _| {
        let (number, config) = &spec.points[at];
        let stage = sources::stage(config.text("source"), AUTO, manager)?;
        let waited = Waited::of(|| {
            raiser.sample(&stage, Duration::from_secs(config.number("seconds")))?;
            Ok(())
        })?;
        waited.report(&emit, *number)
    })
}

/// What a wait has cost.
struct Waited {
    cpu_ns: u64,
    wall_ns: u64,
}

impl Waited {
    fn of(wait: impl FnOnce() -> WorkResult) -> WorkResult<Waited> {
        let (cpu, start) = (process_cpu_ns(), now_ns());
        wait()?;
        Ok(Waited { cpu_ns: process_cpu_ns() - cpu, wall_ns: now_ns() - start })
    }

    fn report(&self, emit: &Emit, number: usize) -> WorkResult {
        emit.samples(number, "cpu_time", &[self.cpu_ns as f64 / 1000.0])?;
        emit.samples(number, "recv_time", &[self.wall_ns as f64 / 1000.0])
    }
}

/// What each wait costs, beside what it may cost.
fn summary(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines.iter().filter(|line| line.metric == "cpu_time") {
        let key = |key| line.config.text(key);
        let wait = line.config.number("seconds");
        let allowed = ALLOWED_US_PER_S * wait as f64;
        text.push_str(&format!(
            "{} by {}, {}: {} µs of CPU in {wait} s{}\n",
            key("source"),
            key("driver"),
            match key("library") {
                "newmad" => format!("mode {}, policy {}", key("mode"), key("policy")),
                library => library.to_owned(),
            },
            figure(line.median),
            if line.median > allowed {
                format!(" (MORE than {} ms)", figure(allowed / 1000.0))
            } else {
                String::new()
            },
        ));
    }
    text
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    turns::in_turn(emit, spec.iters, spec.points.len(), |at, _| {
        let (number, config) = &spec.points[at];
        let length = Duration::from_secs(config.number("seconds"));
        match session.rank() {
            0 => wait(session, length)?.report(emit, *number),
            _ => send_late(session, length),
        }
    })
}

/// Waits for a message that comes after `length`. Where other processes hold this one up after the barrier, so that it waits
/// for less than half of that time, it asks for another message: such a wait is no sample. (A word to the other side instead
/// of the barrier stays unacknowledged over tcp while that side sleeps, and this one asks after it now and then: another wait.)
fn wait(session: &Session, length: Duration) -> WorkResult<Waited> {
    loop {
        session.barrier()?;
        let waited = Waited::of(|| {
            session.recv(1, DATA, &mut [0; 4])?;
            Ok(())
        })?;
        let enough = Duration::from_nanos(waited.wall_ns) >= length / 2;
        session.send(1, DATA, &[u8::from(enough)])?;
        if enough {
            return Ok(waited);
        }
    }
}

/// The other side of [`wait`].
fn send_late(session: &Session, length: Duration) -> WorkResult {
    let mut answer = [0];
    while answer != [u8::from(true)] {
        session.barrier()?;
        marcel::sleep(length);
        session.send(0, DATA, &[1; 4])?;
        session.recv(0, DATA, &mut answer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_have_a_driver() {
        let given =
            [("source", "message,pipe"), ("driver", "shm,tcp,none"), ("library", "newmad,mpich")];
        let grid = crate::harness::key::grid("idle", BENCH.keys, &given).unwrap();
        let shown: Vec<_> = points(grid)
            .iter()
            .map(|p| format!("{} {} {}", p.text("source"), p.text("driver"), p.text("library")))
            .collect();
        assert_eq!(
            shown,
            [
                "message shm newmad",
                "message shm mpich",
                "message tcp newmad",
                "message tcp mpich",
                "pipe none newmad"
            ]
        );
    }
}
