//! Whole programs in small: what an application's step costs, beside MPI libraries.
//!
//! The other benches measure one mechanism each. These do what programs do all day: compute, exchange, agree, and
//! compute again, for long enough that what the library does in the background shows. Each checks its own result.
//!
//! ```text
//! halo    compute; irecv and isend `window` messages of `size` bytes; wait for all; allreduce 8 bytes
//! ```
//! `mpi_time` is the time in calls of the library, per step; what it takes from the computation shows in
//! `total_time`. The program of the same name in `peers/mpi` does step by step the same.

use newmad::coll::{Group, Op};
use newmad::{RecvOptions, Request, SendOptions, Session};

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "apps",
    about: "small applications: the time in the library per step",
    source: "none: what the benches of mechanisms do not show",
    keys: &[
        DRIVER,
        MODE,
        POLICY,
        PROGRESSION,
        Key { default: "newmad", ..LIBRARY },
        WORKLOAD,
        Key { default: "8K", ..SIZE },
        COMPUTE,
        WINDOW,
    ],
    metrics: &METRICS,
    iters: 1000,
    points: mpi::points,
    work: Work::Session(measure),
    derive: Some(|results| mpi::compare(results, "mpi_time", false)),
    mpi: Some(program),
    ..BASE
};

const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["halo"]),
    default: "halo",
    help: "the application",
};
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(0, 1_000_000),
    default: "1000",
    help: "length of a step's computation",
};
const WINDOW: Key = Key {
    name: "window",
    takes: Takes::Int(1, 64),
    default: "6",
    help: "messages each way in a step",
};
const METRICS: [Metric; 4] = [
    Metric::new("mpi_time", "us", "in calls of the library, per step"),
    Metric::new("compute_time", "us", "of the computation, per step"),
    Metric::new("total_time", "us", "of a step"),
    mpi::PEER_RATIO,
];

/// One point, and what was measured.
struct Point {
    number: usize,
    steps: u64,
    size: usize,
    // Started again at each step.
    out: Vec<Request>,
    into: Vec<Request>,
    times: [Vec<f64>; 3],
}

fn program(config: &Config) -> Program {
    let numbers = ["size", "compute_us", "window"].map(|key| config.number(key));
    Program { name: "halo", numbers, share: false }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let world = session.world()?;
    let speed = Speed::calibrate();
    let peer = 1 - session.rank();
    let new = |(number, config): &(usize, Config)| {
        let (size, window) = (config.number("size") as usize, config.number("window"));
        let send = |tag| session.send_init(peer, tag, vec![0; size], SendOptions::new());
        let receive = |tag| session.recv_init(peer, tag, vec![0; size], RecvOptions::new());
        let steps = speed.steps(config.number("compute_us"));
        let out: Result<_, newmad::Error> = (0..window).map(send).collect();
        let into: Result<_, newmad::Error> = (0..window).map(receive).collect();
        let (out, into) = (out?, into?);
        Ok(Point { number: *number, steps, size, out, into, times: Default::default() })
    };
    let points: WorkResult<Vec<Point>> = spec.points.iter().map(new).collect();
    let mut points = points?;
    let count = points.len() as u64;
    for (done, point) in points.iter_mut().enumerate() {
        let warm = 2 + spec.iters / 10;
        for step in 0..warm + spec.iters {
            if step == warm {
                point.times = Default::default();
            }
            once(session, &world, point, step)?;
            emit.progress(done as u64 * spec.iters + step, count * spec.iters)?;
        }
    }
    for point in &points {
        for (metric, times) in METRICS.iter().zip(&point.times) {
            emit.samples(point.number, metric.name, times)?;
        }
    }
    Ok(())
}

/// What the ends of message `message` of step `step` hold.
fn mark(step: u64, message: usize, from: u32) -> u8 {
    (step * 7 + message as u64 * 3 + u64::from(from)) as u8
}

fn once(session: &Session, world: &Group, point: &mut Point, step: u64) -> WorkResult {
    let (rank, peer) = (session.rank(), 1 - session.rank());
    let begun = now_ns();
    compute(point.steps);
    for (number, send) in point.out.iter_mut().enumerate() {
        let mark = mark(step, number, rank);
        let buffer = send.buffer()?;
        for end in [0, point.size.saturating_sub(1)] {
            buffer.iter_mut().skip(end).take(1).for_each(|byte| *byte = mark);
        }
    }
    let computed = now_ns();
    for request in point.into.iter_mut().chain(&mut point.out) {
        request.start(session)?;
    }
    newmad::wait_all(&mut point.into);
    for request in point.into.iter_mut().chain(&mut point.out) {
        request.wait_idle()?;
    }
    let mut sum = [(step + u64::from(rank)) as f64];
    world.allreduce(&mut sum, &Op::sum()).wait()?;
    let over = now_ns();
    for (number, receive) in point.into.iter_mut().enumerate() {
        let mark = mark(step, number, peer);
        let buffer = receive.buffer()?;
        if [buffer.first(), buffer.last()].into_iter().flatten().any(|&byte| byte != mark) {
            return Err("a message holds something else than was sent".into());
        }
    }
    if sum[0] != (2 * step + 1) as f64 {
        return Err(format!("the sum is {} instead of {}", sum[0], 2 * step + 1).into());
    }
    let us = |from: u64, to: u64| (to - from) as f64 / 1000.0;
    let times = [us(computed, over), us(begun, computed), us(begun, over)];
    point.times.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
    Ok(())
}
