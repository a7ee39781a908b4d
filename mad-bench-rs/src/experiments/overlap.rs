//! Overlap of communication and computation.
//!
//! Sources: \[Trahay07\], section 4, figure 3 (receiver `irecv`s, computes, waits; time of the sender's call), and
//! \[Trahay09\], 7.2.3.2 (overlap ratio, sender's and receiver's side).
//!
//! Rank 0 sends, rank 1 receives; `side` says which rank computes between posting and waiting:
//!
//! ```text
//! receiver   rank 1: irecv, barrier, compute, wait       rank 0: barrier, pause, send
//! sender     rank 0: barrier, pause, isend, compute, wait    rank 1: barrier, recv
//! both       each:   irecv, barrier, isend, compute, wait, wait
//! none       compute, with nothing to communicate: how long the computation takes alone
//! ```
//!
//! The pause (asleep, so that it takes nothing from the other process; 300 µs, or a quarter of a short computation)
//! lets the peer begin to compute, or to block, before the message starts; without it a transfer could slip into the
//! peer's last library call. `compute_us` 0 is measured beside every other length: the transfer without computation,
//! the reference. The computation runs in place, in the thread that posted and will wait, as in an MPI program. A
//! receive is timed from the moment at which its sender started: both processes read one clock, or compare theirs
//! ([`crate::experiments::clocks`]) before.
//!
//! `overlap_ratio` = 1 - (total_time - compute_time) / transfer, where transfer is the median `recv_time`
//! (`total_time` for both) without computation in the same round. Since compute_time is that of the same
//! iteration, a computation that was slowed down does not show in it: it shows in `slowdown`.
//!
//! `peer_ratio` compares what the other side waits for: `send_time` where the receiver computes, else `total_time`.

use std::time::Duration;

use newmad::Session;

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::experiments::clocks;
use crate::experiments::clocks::Clocks;
use crate::experiments::spin::{Speed, compute};
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, own_core};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "overlap",
    about: "one side computes while a message is under way: which side waits for the other",
    source: "[Trahay07] figure 3; [Trahay09] 7.2.3.2",
    keys: &[
        DRIVER,
        MODE,
        POLICY,
        PROGRESSION,
        Key { default: "newmad", ..LIBRARY },
        SIZE,
        COMPUTE,
        SIDE,
    ],
    metrics: &METRICS,
    iters: 10,
    points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(0, 10_000_000),
    default: "20000",
    help: "length of the computation; 0, the reference, is always measured too",
};
const SIDE: Key = Key {
    name: "side",
    takes: Takes::Words(&["receiver", "sender", "both", "none"]),
    default: "receiver",
    help: "the side that computes; none, the computation alone, is always measured too",
};
const METRICS: [Metric; 7] = [
    Metric::new("send_time", "us", "duration of the sender's call (side receiver)"),
    Metric::new("recv_time", "us", "from the sender's start to the end of the receive"),
    Metric::new("compute_time", "us", "duration of the computation"),
    Metric::new("total_time", "us", "computing side: posting, computing and waiting"),
    Metric::new("overlap_ratio", "ratio", "1 - (total_time - compute_time) / transfer"),
    Metric::new("slowdown", "ratio", "compute_time over compute_time alone, per round"),
    mpi::PEER_RATIO,
];

const DATA: u64 = 1;
const RECORD: u64 = 2;
const CLOCK: u64 = 3;
/// Longest head start of the peer; of a short computation it is a quarter, so that the message finds it under way.
const PAUSE: Duration = Duration::from_micros(300);

fn points(grid: Vec<Config>) -> Vec<Config> {
    distinct(mpi::points(grid).into_iter().flat_map(|point| {
        let alone =
            (point.number("compute_us") > 0).then(|| point.with("side", "none").with("size", 0));
        let meets = (point.text("side") != "none").then(|| [point.with("compute_us", 0), point]);
        meets.into_iter().flatten().chain(alone)
    }))
}

fn program(config: &Config) -> Program {
    let side = match config.text("side") {
        "receiver" => 1,
        "sender" => 2,
        "both" => 3,
        _ => 0,
    };
    let numbers = [config.number("size"), config.number("compute_us"), side];
    Program::pair("overlap", numbers)
}

/// What one iteration took, in nanoseconds; rank 1's part travels in a record.
#[derive(Clone, Copy, Default)]
struct Times {
    send: u64,
    /// When the receive ended; on rank 0 then how long after the start of the send.
    recv: u64,
    compute: u64,
    total: u64,
}

impl Times {
    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (place, value) in
            bytes.chunks_exact_mut(8).zip([self.send, self.recv, self.compute, self.total])
        {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; 32]) -> Times {
        let mut values =
            bytes.chunks_exact(8).map(|place| place.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || values.next().unwrap_or(0);
        Times { send: next(), recv: next(), compute: next(), total: next() }
    }
}

/// One point, and what is kept for it.
struct Point {
    number: usize,
    side: String,
    steps: u64,
    /// Head start of the peer.
    pause: Duration,
    buffer: Vec<u8>,
    other: Vec<u8>,
    mine: Vec<Times>,
    theirs: Vec<Times>,
}

struct Side<'a> {
    session: &'a Session,
    rank: u32,
    /// Whether rank 0, rank 1 compute alone at points with side none.
    alone: [bool; 2],
    clocks: Clocks,
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    own_core();
    let speed = Speed::calibrate();
    let mut points: Vec<Point> = spec
        .points
        .iter()
        .map(|(number, config)| Point {
            number: *number,
            side: config.text("side").to_owned(),
            steps: speed.steps(config.number("compute_us")),
            pause: PAUSE.min(Duration::from_micros(config.number("compute_us")) / 4),
            buffer: vec![0; config.number("size") as usize],
            other: vec![0; config.number("size") as usize],
            mine: Vec::new(),
            theirs: Vec::new(),
        })
        .collect();
    let computes = |rank: usize| {
        let own = ["sender", "receiver"][rank];
        points.iter().any(|point| point.side == own || point.side == "both")
    };
    let only_alone = points.iter().all(|point| point.side == "none");
    let alone = [computes(0) || only_alone, computes(1)];
    let side = Side { session, rank: session.rank(), alone, clocks: Clocks::of(session, CLOCK)? };
    // Once without counting: buffers, connections and stacks are touched for the first time.
    for point in &mut points {
        let steps = std::mem::take(&mut point.steps);
        side.once(point, 0)?;
        point.mine.clear();
        point.theirs.clear();
        point.steps = steps;
    }
    turns::in_turn(emit, spec.iters, points.len(), |at, i| side.once(&mut points[at], i as u8))?;
    points.iter().try_for_each(|point| report(emit, point))
}

fn report(emit: &Emit, point: &Point) -> WorkResult {
    let us = |of: &[Times], field: fn(&Times) -> u64| -> Vec<f64> {
        of.iter().map(field).filter(|&ns| ns > 0).map(|ns| ns as f64 / 1000.0).collect()
    };
    let Point { number, mine, theirs, .. } = point;
    for of in [mine, theirs] {
        emit.samples(*number, "send_time", &us(of, |t| t.send))?;
        emit.samples(*number, "recv_time", &us(of, |t| t.recv))?;
        emit.samples(*number, "compute_time", &us(of, |t| t.compute))?;
        emit.samples(*number, "total_time", &us(of, |t| t.total))?;
    }
    Ok(())
}

impl Side<'_> {
    fn once(&self, point: &mut Point, stamp: u8) -> WorkResult {
        match (point.side.as_str(), self.rank) {
            ("receiver", 0) => self.send_to_computing(point, stamp),
            ("receiver", _) => self.receive_computing(point, stamp),
            ("sender", 0) => self.send_computing(point, stamp),
            ("sender", _) => self.receive_from_computing(point, stamp),
            ("both", _) => self.both(point, stamp),
            _ => self.alone(point),
        }
    }

    fn compute(&self, steps: u64) -> u64 {
        let start = now_ns();
        compute(steps);
        if steps > 0 { now_ns() - start } else { 0 }
    }

    /// Lets both sides begin together. Without computation both are to be wide awake, so that the reference
    /// is the transfer and not a wake-up: the later barriers pass while both poll.
    fn together(&self, steps: u64) -> WorkResult {
        for _ in 0..if steps > 0 { 1 } else { 3 } {
            self.session.barrier()?;
        }
        Ok(())
    }

    fn pause(&self, point: &Point) {
        if point.steps > 0 {
            marcel::sleep(point.pause);
        }
    }

    fn send_to_computing(&self, point: &mut Point, stamp: u8) -> WorkResult {
        mark(&mut point.buffer, stamp);
        let ahead = self.clocks.ahead(self.session)?;
        self.together(point.steps)?;
        self.pause(point);
        let start = now_ns();
        self.session.send(1, DATA, &point.buffer)?;
        let send = now_ns() - start;
        let mut theirs = self.record()?;
        theirs.recv = clocks::here(theirs.recv, ahead).saturating_sub(start);
        point.mine.push(Times { send, ..Times::default() });
        point.theirs.push(theirs);
        Ok(())
    }

    fn receive_computing(&self, point: &mut Point, stamp: u8) -> WorkResult {
        let buffer = std::mem::take(&mut point.buffer);
        let request = self.session.irecv(0, DATA, buffer)?;
        self.clocks.ahead(self.session)?;
        self.together(point.steps)?;
        let start = now_ns();
        let compute = self.compute(point.steps);
        let (buffer, status) = request.wait()?;
        let end = now_ns();
        check(&buffer[..status.len], stamp)?;
        point.buffer = buffer;
        self.send_record(Times { recv: end, compute, total: end - start, send: 0 })
    }

    fn send_computing(&self, point: &mut Point, stamp: u8) -> WorkResult {
        mark(&mut point.buffer, stamp);
        let ahead = self.clocks.ahead(self.session)?;
        self.together(point.steps)?;
        self.pause(point);
        let buffer = std::mem::take(&mut point.buffer);
        let start = now_ns();
        let request = self.session.isend(1, DATA, buffer)?;
        let compute = self.compute(point.steps);
        point.buffer = request.wait()?.0;
        let total = now_ns() - start;
        let mut theirs = self.record()?;
        theirs.recv = clocks::here(theirs.recv, ahead).saturating_sub(start);
        point.mine.push(Times { compute, total, ..Times::default() });
        point.theirs.push(theirs);
        Ok(())
    }

    fn receive_from_computing(&self, point: &mut Point, stamp: u8) -> WorkResult {
        self.clocks.ahead(self.session)?;
        self.together(point.steps)?;
        self.session.recv(0, DATA, &mut point.buffer)?;
        let end = now_ns();
        check(&point.buffer, stamp)?;
        self.send_record(Times { recv: end, ..Times::default() })
    }

    fn both(&self, point: &mut Point, stamp: u8) -> WorkResult {
        let peer = 1 - self.rank;
        mark(&mut point.buffer, stamp);
        let other = std::mem::take(&mut point.other);
        let receive = self.session.irecv(peer, DATA, other)?;
        self.together(point.steps)?;
        let start = now_ns();
        let buffer = std::mem::take(&mut point.buffer);
        let send = self.session.isend(peer, DATA, buffer)?;
        let compute = self.compute(point.steps);
        point.buffer = send.wait()?.0;
        let (other, status) = receive.wait()?;
        let total = now_ns() - start;
        check(&other[..status.len], stamp)?;
        point.other = other;
        let mine = Times { compute, total, ..Times::default() };
        if self.rank == 0 {
            point.mine.push(mine);
            point.theirs.push(self.record()?);
            return Ok(());
        }
        self.send_record(mine)
    }

    /// The other process sleeps meanwhile.
    fn alone(&self, point: &mut Point) -> WorkResult {
        self.session.barrier()?;
        for (rank, _) in self.alone.iter().enumerate().filter(|(_, computes)| **computes) {
            let rank = rank as u32;
            if self.rank == rank {
                self.pause(point);
                let compute = self.compute(point.steps);
                let times = Times { compute, ..Times::default() };
                if rank == 0 {
                    point.mine.push(times)
                } else {
                    point.theirs.push(times)
                }
                self.session.send(1 - rank, RECORD, &times.to_bytes())?;
            } else {
                let times = self.record()?;
                if self.rank == 0 {
                    point.theirs.push(times);
                }
            }
        }
        Ok(())
    }

    fn record(&self) -> WorkResult<Times> {
        let mut bytes = [0; 32];
        self.session.recv(1 - self.rank, RECORD, &mut bytes)?;
        Ok(Times::from_bytes(&bytes))
    }

    fn send_record(&self, times: Times) -> WorkResult {
        Ok(self.session.send(0, RECORD, &times.to_bytes())?)
    }
}

/// Marks a message so that its receiver can tell it from the one before.
fn mark(buffer: &mut [u8], stamp: u8) {
    if let Some(first) = buffer.first_mut() {
        *first = stamp;
    }
    if let Some(last) = buffer.last_mut() {
        *last = stamp;
    }
}

fn check(buffer: &[u8], stamp: u8) -> WorkResult {
    match (buffer.first(), buffer.last()) {
        (Some(&first), Some(&last)) if first != stamp || last != stamp => Err(format!(
            "message {stamp} of {} bytes arrived with the contents of another ({first}, {last})",
            buffer.len()
        )
        .into()),
        _ => Ok(()),
    }
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        if point.number("compute_us") == 0 || point.text("side") == "none" {
            continue;
        }
        let reference = results.find(&point.with("compute_us", 0));
        let alone = results.find(&point.with("side", "none").with("size", 0));
        let of = if point.text("side") == "both" { "total_time" } else { "recv_time" };
        for round in 0..results.rounds {
            let computed = results.round(index, "compute_time", round).to_vec();
            let total = results.round(index, "total_time", round).to_vec();
            let transfer = reference.and_then(|at| median(results.round(at, of, round)));
            if let Some(transfer) = transfer.filter(|&transfer| transfer > 0.0) {
                let ratios: Vec<f64> = total
                    .iter()
                    .zip(&computed)
                    .map(|(total, compute)| 1.0 - (total - compute) / transfer)
                    .collect();
                results.add(index, "overlap_ratio", round, &ratios);
            }
        }
        if let Some(alone) = alone {
            results.ratio((index, alone), "compute_time", "slowdown");
        }
    }
    let about = |point: &Config| match point.text("side") {
        "receiver" => Some("send_time"),
        "none" => None,
        _ => Some("total_time"),
    };
    mpi::compare_by(results, about, median, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_added_once() {
        let grid =
            crate::harness::key::grid("overlap", BENCH.keys, &[("size", "4,8"), ("driver", "shm")]);
        let points = points(grid.unwrap());
        let shown: Vec<_> = points
            .iter()
            .map(|p| (p.text("side"), p.number("size"), p.number("compute_us")))
            .collect();
        assert_eq!(
            shown,
            [
                ("receiver", 4, 0),
                ("receiver", 4, 20000),
                ("none", 0, 20000),
                ("receiver", 8, 0),
                ("receiver", 8, 20000)
            ]
        );
    }

    #[test]
    fn ratios_compare_with_the_references_of_their_round() {
        let point =
            Config::default().with("size", 8).with("compute_us", 100).with("side", "receiver");
        let mut results = Results::new(points(vec![point.clone()]), 1);
        let at = |results: &Results, config: &Config| results.find(config).unwrap();
        let main = at(&results, &point);
        let reference = at(&results, &point.with("compute_us", 0));
        let alone = at(&results, &point.with("side", "none").with("size", 0));
        results.add(reference, "recv_time", 0, &[10.0]);
        results.add(alone, "compute_time", 0, &[100.0]);
        results.add(main, "compute_time", 0, &[102.0, 102.0]);
        results.add(main, "total_time", 0, &[102.0, 107.0]);
        derive(&mut results);
        assert_eq!(results.round(main, "overlap_ratio", 0), [1.0, 0.5]);
        assert_eq!(results.round(main, "slowdown", 0), [1.02]);
    }

    #[test]
    fn records_survive_the_way() {
        let times = Times { send: 1, recv: 2, compute: 3, total: u64::MAX };
        let back = Times::from_bytes(&times.to_bytes());
        assert_eq!((back.send, back.recv, back.compute, back.total), (1, 2, 3, u64::MAX));
    }
}
