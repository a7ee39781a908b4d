//! Replies of a process that computes in its only thread: the part of `reactivity` for mode mono.
//!
//! A virtual processor that computes runs no other thread, so a ping-pong would wait for the computation's end. What the
//! process can do meanwhile is to answer its peers: rank 1 posts receives, computes for a fixed time and calls nothing;
//! rank 0 sends synchronously to them, at random moments (further apart than a tick, so that ticks and messages keep no
//! step), and notes how long each answer takes. Messages that would come near the end of the computation are not sent: a
//! wait, which polls, would answer them.

use std::time::Duration;

use newmad::{SendOptions, Session};

use crate::clock::now_ns;
use crate::experiments::detect::Dice;
use crate::experiments::spin::{Speed, compute};
use crate::harness::worker::WorkResult;

const DATA: u64 = 4;
/// Receives that are posted before a computation.
const RECEIVES: usize = 64;
/// How long rank 1 computes, and how long rank 0 sends meanwhile: half, since a loaded machine may let either begin late.
const COMPUTE_US: u64 = 400_000;
const SEND_NS: u64 = 200_000_000;
/// Shortest time between two messages, and how much more it may be.
const GAP_US: u64 = 100;
const GAP_MORE_US: u64 = 4_100;

/// Half of the time until each answer, in µs: rank 0's.
///
/// # Errors
/// What the session says.
pub(crate) fn window(session: &Session, size: usize, dice: &mut Dice) -> WorkResult<Vec<f64>> {
    let peer = 1 - session.rank();
    let mut trips = Vec::new();
    if session.rank() == 1 {
        let steps = Speed::calibrate().steps(COMPUTE_US);
        let post = |_| session.irecv(peer, DATA, vec![0; size]);
        let receives = (0..RECEIVES).map(post).collect::<Result<Vec<_>, _>>()?;
        session.barrier()?;
        compute(steps);
        let mut sent = [0; 8];
        session.recv(peer, DATA + 1, &mut sent)?;
        for (number, receive) in receives.into_iter().enumerate() {
            if number as u64 >= u64::from_ne_bytes(sent) {
                receive.cancel();
            }
            let _ = receive.wait();
        }
        return Ok(trips);
    }
    session.barrier()?;
    let start = now_ns();
    while trips.len() < RECEIVES && now_ns() - start < SEND_NS {
        marcel::sleep(Duration::from_micros(GAP_US + dice.below(GAP_MORE_US)));
        let before = now_ns();
        session.isend_with(peer, DATA, vec![0; size], SendOptions::new().sync())?.wait()?;
        trips.push((now_ns() - before) as f64 / 2000.0);
    }
    session.send(peer, DATA + 1, &(trips.len() as u64).to_ne_bytes())?;
    Ok(trips)
}
