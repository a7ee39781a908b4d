//! Off-loading of submissions: what a send costs a thread that computes meanwhile.
//!
//! Source: [Trahay09] 6.3.3 and 7.2.4.1: `isend`, a computation of 20 us, `wait`. When an idle core submits
//! the message, the whole takes as long as the longer of the two, and not as their sum.
//!
//! ```text
//! sender     irecv, barrier, a pause; isend, compute, wait     total_time; the first call alone: submit_time
//!            the same without computing                        send_time
//!            compute                                           compute_time
//! receiver   irecv, barrier, wait; answer
//! ```
//!
//! The sender expects an answer, as programs do: so its idle cores look for events. During the pause (awake) they
//! begin to. The three are measured in turn. `sum_or_max` says where the total is between the two: 0, the longer of
//! sending and computing; 1, their sum. `peer_ratio` compares the total with that of MPI libraries.

use marcel::topology::{Topology, bind_current_thread, vp_count};
use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{AUTO, DRIVER, Key, LIBRARY, MODE, POLICY, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "submit",
    about: "isend, compute, wait: which core submits the message",
    source: "[Trahay09] 6.3.3 and 7.2.4.1",
    keys: &[
        DRIVER,
        MODE,
        POLICY,
        OFFLOAD,
        Key { default: "newmad", ..LIBRARY },
        Key { default: SIZES, ..SIZE },
        COMPUTE,
    ],
    metrics: &METRICS,
    iters: 200,
    points: mpi::points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

const SIZES: &str = "4,256,1K,2K,4K,8K,16K,32K,64K,256K,1M";
const OFFLOAD: Key = Key {
    name: "offload",
    takes: Takes::Words(&[AUTO, "never", "always"]),
    default: "auto,never",
    help: "whether idle cores submit; auto: what NMAD_OFFLOAD or its default says",
};
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(1, 1_000_000),
    default: "20",
    help: "length of the computation",
};
const METRICS: [Metric; 6] = [
    Metric::new("total_time", "us", "isend, compute and wait"),
    Metric::new("compute_time", "us", "the computation alone"),
    Metric::new("send_time", "us", "isend and wait, without computation"),
    Metric::new("submit_time", "us", "isend alone, before the computation"),
    Metric::new(
        "sum_or_max",
        "ratio",
        "(total_time - max) / min of sending and computing: 0 when they overlap, 1 when not",
    ),
    mpi::PEER_RATIO,
];

const DATA: u64 = 1;
const ANSWER: u64 = 2;
/// Microseconds, so that the receiver waits already, and the sender's idle cores look for events.
const PAUSE: u64 = 30;

/// One point, and what was measured.
struct Point {
    number: usize,
    pause: u64,
    steps: u64,
    buffer: Vec<u8>,
    times: [Vec<f64>; 4],
}

fn program(config: &Config) -> Program {
    let numbers = [config.number("size"), config.number("compute_us"), 0];
    Program { share: true, ..Program::pair("submit", numbers) }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    last_core();
    let speed = Speed::calibrate();
    let new = |(number, config): &(usize, Config)| Point {
        number: *number,
        pause: speed.steps(PAUSE),
        steps: speed.steps(config.number("compute_us")),
        buffer: vec![0; config.number("size") as usize],
        times: Default::default(),
    };
    let mut points: Vec<Point> = spec.points.iter().map(new).collect();
    for point in &mut points {
        once(session, point)?;
        point.times = Default::default();
    }
    turns::in_turn(emit, spec.iters, points.len(), |at, _| once(session, &mut points[at]))?;
    for point in &points {
        for (metric, times) in METRICS.iter().zip(&point.times) {
            emit.samples(point.number, metric.name, times)?;
        }
    }
    Ok(())
}

/// Keeps the calling thread on the last of this process's cores: the first is the one whose virtual processor is
/// woken when there is something to look for.
fn last_core() {
    let cores = Topology::current().and_then(|topology| topology.cores_for(vp_count(), None));
    if let Some(&last) = cores.as_deref().ok().and_then(|cores| cores.last()) {
        let _ = bind_current_thread(last);
    }
}

fn once(session: &Session, point: &mut Point) -> WorkResult {
    if session.rank() == 1 {
        for _ in 0..2 {
            let buffer = std::mem::take(&mut point.buffer);
            let request = session.irecv(0, DATA, buffer)?;
            session.barrier()?;
            point.buffer = request.wait()?.0;
            session.send(0, ANSWER, &[])?;
        }
        return Ok(());
    }
    let Point { pause, steps, buffer, times: [total, computing, sending, submitting], .. } = point;
    for steps in [*steps, 0] {
        let data = std::mem::take(buffer);
        let answer = session.irecv(1, ANSWER, Vec::new())?;
        session.barrier()?;
        compute(*pause);
        let start = now_ns();
        let request = session.isend(1, DATA, data)?;
        let submitted = now_ns();
        compute(steps);
        *buffer = request.wait()?.0;
        let end = now_ns();
        answer.wait()?;
        if steps > 0 {
            total.push(us(end - start));
            submitting.push(us(submitted - start));
        } else {
            sending.push(us(end - start));
        }
    }
    let start = now_ns();
    compute(*steps);
    computing.push(us(now_ns() - start));
    Ok(())
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        for round in 0..results.rounds {
            let of = |metric| median(results.round(index, metric, round));
            let (Some(total), Some(compute), Some(send)) =
                (of("total_time"), of("compute_time"), of("send_time"))
            else {
                continue;
            };
            if compute.min(send) > 0.0 {
                let ratio = (total - compute.max(send)) / compute.min(send);
                results.add(index, "sum_or_max", round, &[ratio]);
            }
        }
    }
    mpi::compare(results, "total_time", false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_one_and_a_maximum_zero() {
        let mut results = Results::new(vec![Config::default()], 2);
        for (round, total) in [(0, 30.0), (1, 20.0)] {
            results.add(0, "total_time", round, &[total]);
            results.add(0, "compute_time", round, &[20.0]);
            results.add(0, "send_time", round, &[10.0]);
        }
        derive(&mut results);
        assert_eq!(results.round(0, "sum_or_max", 0), [1.0]);
        assert_eq!(results.round(0, "sum_or_max", 1), [0.0]);
    }
}
