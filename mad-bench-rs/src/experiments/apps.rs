//! Whole programs in small: what an application's step costs, beside MPI libraries.
//!
//! The other benches measure one mechanism each. These do what programs do all day: compute, exchange, agree, and
//! compute again, for long enough that what the library does in the background shows. Each checks its own result.
//!
//! ```text
//! halo        compute; irecv and isend `window` messages of `size` bytes; wait for all; allreduce 8 bytes
//! hidden      irecv and isend two messages of 32 KiB; compute; wait for all; allreduce 8 bytes
//! cg          conjugate gradients on a grid of 256 x 256: exchange border rows; two allreduces of 8 bytes
//! wavefront   a pipeline of small blocking sends and receives through a box of 128 x 128 x 48, corner to corner
//! bfs         breadth-first search in a graph of 2^14 vertices: several messages under way, waits by loops around MPI_Test
//! sort        samples, alltoall and alltoallv of 32768 integers a rank
//! montecarlo  particles handed over: iprobe and probe, receives from any source, an allreduce until all have ended
//! ```
//! `mpi_time` is the time in calls of the library, per step; what it takes from the computation shows in
//! `total_time`. `peer_ratio` compares the whole run, the mean of `total_time`: medians do not show a step in a hundred
//! that takes milliseconds. With more ranks than cores the kernel places them.
//!
//! The C programs of the same names are in `peers/mpi`; `halo` exists over newmad, too, and does step by step the same.

use newmad::coll::{Group, Op};
use newmad::{RecvOptions, Request, SendOptions, Session};

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, NONE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::Metric;
use crate::harness::stats::mean;
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
        RANKS,
        Key { default: "8K", help: "bytes of a message of halo", ..SIZE },
        COMPUTE,
        WINDOW,
    ],
    metrics: &METRICS,
    iters: 1000,
    points,
    work: Work::Session(measure),
    derive: Some(|results| mpi::compare_by(results, |_| Some("total_time"), mean, false)),
    mpi: Some(program),
    ..BASE
};

const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["halo", "hidden", "cg", "wavefront", "bfs", "sort", "montecarlo"]),
    default: "halo,hidden,cg,wavefront,bfs,sort,montecarlo",
    help: "the application; over newmad itself there is halo",
};
const RANKS: Key = Key { name: "ranks", takes: Takes::Int(1, 16), default: "2", help: "processes" };
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(0, 1_000_000),
    default: "1000",
    help: "length of the computation in a step of halo",
};
const WINDOW: Key = Key {
    name: "window",
    takes: Takes::Int(1, 64),
    default: "6",
    help: "messages each way in a step of halo",
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

/// What only `halo` takes.
const OF_HALO: [&str; 3] = ["size", "compute_us", "window"];

/// Over newmad only `halo`; the others once, whatever it takes.
fn points(grid: Vec<Config>) -> Vec<Config> {
    let is_there = |point: &Config| mpi::is(point) || point.text("workload") == "halo";
    distinct(mpi::points(grid).into_iter().filter(is_there).map(|mut point| {
        if point.text("workload") != "halo" {
            OF_HALO.iter().for_each(|key| point.set(key, NONE));
        }
        point
    }))
}

fn program(config: &Config) -> Program {
    let (name, numbers) = match config.text("workload") {
        "hidden" => ("hidden", [32 * 1024, 1000, 2]),
        "cg" => ("cg", [256, 0, 0]),
        "wavefront" => ("wavefront", [128, 48, 0]),
        "bfs" => ("bfs", [14, 8, 512]),
        "sort" => ("sort", [32_768, 64, 0]),
        "montecarlo" => ("montecarlo", [4000, 16, 64]),
        _ => ("halo", OF_HALO.map(|key| config.number(key))),
    };
    Program { ranks: BENCH.ranks_of(config), ..Program::pair(name, numbers) }
}

/// The ring: even messages go to the right, odd ones to the left. With two ranks all go to the other one.
#[derive(Clone, Copy)]
struct Ring {
    rank: u32,
    size: u32,
}

impl Ring {
    /// Where message `message` goes; it comes from the other side.
    fn neighbour(self, message: u64) -> u32 {
        let Ring { rank, size } = self;
        (rank + if message.is_multiple_of(2) { 1 } else { size - 1 }) % size
    }

    /// The sum of what all ranks give in step `step`.
    fn sum(self, step: u64) -> f64 {
        let size = u64::from(self.size);
        (size * step + size * (size - 1) / 2) as f64
    }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let ring = Ring { rank: session.rank(), size: session.size() };
    if ring.size as usize <= marcel::topology::allowed_cpus().len() {
        own_core();
    }
    let world = session.world()?;
    let speed = Speed::calibrate();
    let new = |(number, config): &(usize, Config)| {
        let (size, window) = (config.number("size") as usize, config.number("window"));
        let send =
            |tag| session.send_init(ring.neighbour(tag), tag, vec![0; size], SendOptions::new());
        let receive = |tag| {
            session.recv_init(ring.neighbour(tag + 1), tag, vec![0; size], RecvOptions::new())
        };
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
            once(session, &world, ring, point, step)?;
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

fn once(session: &Session, world: &Group, ring: Ring, point: &mut Point, step: u64) -> WorkResult {
    let begun = now_ns();
    compute(point.steps);
    for (number, send) in point.out.iter_mut().enumerate() {
        let mark = mark(step, number, ring.rank);
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
    let mut sum = [(step + u64::from(ring.rank)) as f64];
    world.allreduce(&mut sum, &Op::sum()).wait()?;
    let over = now_ns();
    for (number, receive) in point.into.iter_mut().enumerate() {
        let mark = mark(step, number, ring.neighbour(number as u64 + 1));
        let buffer = receive.buffer()?;
        if [buffer.first(), buffer.last()].into_iter().flatten().any(|&byte| byte != mark) {
            return Err("a message holds something else than was sent".into());
        }
    }
    if sum[0] != ring.sum(step) {
        return Err(format!("the sum is {} instead of {}", sum[0], ring.sum(step)).into());
    }
    let us = |from: u64, to: u64| (to - from) as f64 / 1000.0;
    let times = [us(computed, over), us(begun, computed), us(begun, over)];
    point.times.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::key::grid;

    #[test]
    fn over_newmad_there_is_one_application_and_what_it_takes_makes_no_other_point_of_the_others() {
        let chosen = [
            ("driver", "shm"),
            ("library", "newmad,madmpi"),
            ("workload", "halo,cg"),
            ("size", "8,64K"),
        ];
        let points = points(grid("apps", BENCH.keys, &chosen).unwrap());
        let shown: Vec<_> = points
            .iter()
            .map(|p| (p.text("library"), p.text("workload"), p.number_of("size")))
            .collect();
        let halo = |library, size| (library, "halo", Some(size));
        assert_eq!(
            shown,
            [
                halo("newmad", 8),
                halo("newmad", 65536),
                halo("madmpi", 8),
                halo("madmpi", 65536),
                ("madmpi", "cg", None)
            ]
        );
    }

    #[test]
    fn a_message_comes_from_where_its_sender_sends_it() {
        for size in 1..6 {
            for (rank, message) in (0..size).flat_map(|rank| [(rank, 0), (rank, 1)]) {
                let from = Ring { rank, size }.neighbour(message + 1);
                assert_eq!(Ring { rank: from, size }.neighbour(message), rank, "{size} {message}");
            }
        }
    }
}
