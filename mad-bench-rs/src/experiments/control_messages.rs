//! Messages over the control network between real processes: time by hops.
//!
//! Source: [Didelot14] 3.2 (event-driven messages that reach a process whatever it does).
//!
//! Rank 0 sends a control message to the rank that is `distance` further on the ring, and that one back. How many hops that
//! is, `NMAD_CONTROL_DIMENSIONS` says: set it to compare shapes. Each hop is a kernel thread that is woken. While `computing`
//! is 1 a thread that never yields computes on every virtual processor of every rank.
//!
//! Before that rank 0 exchanges a usual message with that rank, if the two have no link yet: `first_contact`, which table
//! 3.3 of the source has. `NMAD_CARDS` says where it learns how that rank is reached.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::experiments::crunch::Crunch;
use crate::experiments::spin::Speed;
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{DRIVER, Key, Takes};
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "control-messages",
    about: "half a round trip of a control message, by distance on the ring, idle and beside computation",
    source: "[Didelot14] 3.2",
    keys: &[Key { default: "shm", ..DRIVER }, RANKS, DISTANCE, COMPUTING],
    metrics: &METRICS,
    ranks: 16,
    iters: 200,
    rounds: 3,
    points,
    work: Work::Session(measure),
    ..BASE
};

const RANKS: Key =
    Key { name: "ranks", takes: Takes::Int(2, 256), default: "16", help: "processes" };
const DISTANCE: Key = Key {
    name: "distance",
    takes: Takes::Int(1, 255),
    default: "1,3,5,7",
    help: "of the two ranks on the ring",
};
const COMPUTING: Key = Key {
    name: "computing",
    takes: Takes::Int(0, 1),
    default: "0,1",
    help: "1: every virtual processor computes",
};

fn points(grid: Vec<Config>) -> Vec<Config> {
    grid.into_iter().filter(|point| point.number("distance") < point.number("ranks")).collect()
}

const METRICS: [Metric; 2] = [
    Metric::new("half_round_trip", "us", "half the time of a message there and back"),
    Metric::new("first_contact", "us", "a usual message to a rank without a link, and its answer"),
];
const CONTACT: u64 = 3;
/// Length of a unit of computation.
const UNIT_US: u64 = 100;

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let control = session.control();
    let speed = Speed::calibrate();
    let of = spec.points.len() as u64;
    for (done, (number, config)) in (0..).zip(&spec.points) {
        let far = config.number("distance") as u32;
        let computing = config.number("computing") == 1;
        let threads = if computing { marcel::topology::vp_count() } else { 0 };
        let crunch = Crunch::start(threads, speed.steps(UNIT_US));
        crunch.filled(threads)?;
        session.barrier()?;
        let me = session.rank();
        let known = session.connections().iter().any(|link| link.peer == far);
        if me == 0 {
            let before = now_ns();
            session.send(far, CONTACT, &[0])?;
            session.recv(far, CONTACT, &mut [0])?;
            if !known {
                emit.samples(*number, "first_contact", &[(now_ns() - before) as f64 / 1000.0])?;
            }
        } else if me == far {
            session.recv(0, CONTACT, &mut [0])?;
            session.send(0, CONTACT, &[0])?;
        }
        // The first ones make the short cuts.
        let warm = 5;
        let mut times = Vec::new();
        for trip in 0..warm + spec.iters {
            if me == 0 {
                let before = now_ns();
                control.send(far, &trip.to_le_bytes())?;
                control.recv()?;
                if trip >= warm {
                    times.push((now_ns() - before) as f64 / 2000.0);
                }
            } else if me == far {
                let (_, bytes) = control.recv()?;
                control.send(0, &bytes)?;
            }
        }
        emit.samples(*number, "half_round_trip", &times)?;
        session.barrier()?;
        crunch.end()?;
        emit.progress(done + 1, of)?;
    }
    Ok(())
}
