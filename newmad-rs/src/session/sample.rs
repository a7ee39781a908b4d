//! Sampling while a session opens (`NMAD_SAMPLING=now`): where the network is not that of the last time.
//!
//! Ranks 0 and 1 play ping-pong, with the protocol forced by the threshold and the rail by a strategy; rank 0 tells
//! all ranks what came out. A ball's first byte says how it goes on, so rank 1 only returns what comes:
//!
//! ```text
//! rank 0   AGAIN ──▶ the same back      NEXT ──▶ (another size)      OVER ──▶ (another phase)
//! ```
//! *Bounded*: a size takes [`ENOUGH_NS`] or three balls, and after the first size that is slower than that for a single
//! ball larger ones are left out. The price: rank 0 is connected with every other rank, as a program that gathers would
//! be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Session;
use super::settings::Settings;
use crate::error::Error;
use crate::request::tag::SAMPLING as TAG;
use crate::sampling::{Protocol, Sampling, rail_names};
use crate::strategy::selection::Selection;
use crate::strategy::{Large, Packet, Rail, Strategy, Waiting};
use crate::sys;
use crate::wire::MAX_RAILS;

/// The largest ball.
const MOST: usize = 1 << 20;
/// Longest text that is told.
const TEXT: usize = 64 * 1024;
/// For so long a size is measured.
const ENOUGH_NS: u64 = 20_000_000;
/// How often at most.
const BALLS: usize = 100;
/// How long to wait for links over all rails.
const LINKS: Duration = Duration::from_secs(2);

const AGAIN: u8 = 1;
const NEXT: u8 = 2;
const OVER: u8 = 3;

const SHORT: [usize; 6] = [4, 1024, 4096, 16384, 65536, 262_144];
const LONG: [usize; 6] = [1024, 4096, 16384, 65536, 262_144, MOST];

/// Everything over one rail.
struct OneRail(usize);

impl Strategy for OneRail {
    fn name(&self) -> &str {
        "one rail"
    }
    fn fill(&self, _: &Waiting<'_>, packet: &mut Packet<'_>) {
        packet.take(0);
    }
    fn share(&self, large: &Large, rails: &[Rail], shares: &mut [usize]) {
        if let Some(at) = rails.iter().position(|rail| rail.number == self.0) {
            shares[at] = large.len;
        }
    }
}

/// Measures, and lets every rank of the session know. What the user has set stays as it is.
///
/// # Blocking
/// The caller; every rank calls it.
///
/// # Errors
/// A rank dies meanwhile.
pub(crate) fn sample(session: &Session, settings: &Settings) -> Result<(), Error> {
    let rank = session.rank();
    let mut sampling = Sampling::new();
    // The first ranks of the processes play.
    let ranks = session.inner().engine.ranks();
    let (first, second) = (ranks.of(0).start, ranks.of(1).start);
    if rank == first || rank == second {
        sampling = between(session, if rank == first { second } else { first })?;
    }
    if rank == first {
        for to in (1..ranks.processes()).map(|process| ranks.of(process).start) {
            session.send_unchecked(to, TAG, sampling.text().as_bytes())?;
        }
    } else {
        let mut text = vec![0; TEXT];
        let len = session.recv_unchecked(0.into(), TAG, &mut text)?.len;
        let text = String::from_utf8_lossy(&text[..len]);
        let told = Sampling::parse(&text);
        sampling = told.map_err(|why| Error::Bootstrap(format!("rank 0's sampling: {why}")))?;
    }
    session.inner().engine.with(|core| {
        core.gates.learn(|rail| sampling.pace(rail));
        let names = rail_names(core.gates.rails.iter().map(|rail| rail.driver_name()));
        let threshold = names.first().and_then(|name| sampling.threshold(name, true));
        if let Some(threshold) = threshold.filter(|_| settings.rdv_threshold.is_none()) {
            core.gates.threshold = threshold;
        }
        if let Some(from) = sampling.reads_from("verbs").filter(|_| settings.verbs_rdma.is_none()) {
            core.gates.reads_from = from;
        }
    });
    Ok(())
}

/// The two ranks that measure. What rank 0 has found.
fn between(session: &Session, peer: u32) -> Result<Sampling, Error> {
    let engine = &session.inner().engine;
    let gate = engine.ranks().home(peer);
    let common = common_links(session, peer)?;
    let (small, pulls, reader, names) = engine.with(|core| {
        let names = rail_names(core.gates.rails.iter().map(|rail| rail.driver_name()));
        let reader = core.gates.readers(gate, usize::MAX).next();
        (core.gates[gate as usize].small, core.gates.reach(gate), reader, names)
    });
    // The adapters of both sides, or of none.
    let theirs = swap(session, peer, reader.map_or(0, |rail| 1 << rail))?;
    let reader = reader.filter(|&rail| theirs == 1 << rail);
    let (threshold, reads_from) = engine.with(|core| (core.gates.threshold, core.gates.reads_from));
    let mut sampling = Sampling::new();
    let mut phase = |rail: usize, protocol, sizes: &[usize]| {
        let before = engine.with(|core| {
            core.gates.threshold = if protocol == Protocol::Eager { threshold } else { 0 };
            core.gates.reads_from = if protocol == Protocol::Read { 0 } else { usize::MAX };
            core.gates.set_strategy(gate, Selection::new(Arc::new(OneRail(rail))))
        });
        let done = match session.rank() {
            0 => throw(session, peer, sizes, |bytes, ns| {
                sampling.add(&names[rail], protocol, bytes as u64, ns);
            }),
            _ => bounce(session, peer),
        };
        engine.with(|core| {
            core.gates.threshold = threshold;
            core.gates.reads_from = reads_from;
            before.and_then(|before| core.gates.set_strategy(gate, before))
        });
        done
    };
    let short: Vec<usize> = SHORT.into_iter().filter(|&size| size <= threshold).collect();
    phase(small, Protocol::Eager, &short)?;
    match pulls {
        Some(rail) => phase(rail, Protocol::Get, &LONG)?,
        None => {
            for rail in (0..names.len()).filter(|rail| common & 1 << rail != 0) {
                phase(rail, Protocol::Fragments, &LONG)?;
            }
            if let Some(rail) = reader {
                phase(rail, Protocol::Read, &LONG)?;
            }
        }
    }
    Ok(sampling)
}

/// Waits for links over all rails; those that both sides have, bit by rail.
fn common_links(session: &Session, peer: u32) -> Result<u8, Error> {
    let gate = session.inner().engine.ranks().home(peer);
    let links = || {
        session.inner().engine.with(|core| (core.gates[gate as usize].open, core.gates.rails.len()))
    };
    // Asks for the links.
    swap(session, peer, 0)?;
    let start = Instant::now();
    let mut open = links();
    while (open.0.count_ones() as usize) < open.1.min(MAX_RAILS) && start.elapsed() < LINKS {
        std::thread::sleep(Duration::from_millis(1));
        session.manager().poll(pioman::Point::Library);
        open = links();
    }
    Ok(swap(session, peer, open.0)? & open.0)
}

/// Both say a byte; the other one's.
fn swap(session: &Session, peer: u32, mine: u8) -> Result<u8, Error> {
    let mut theirs = [0];
    if session.rank() == 0 {
        session.send_unchecked(peer, TAG, &[mine])?;
        session.recv_unchecked(peer.into(), TAG, &mut theirs)?;
    } else {
        session.recv_unchecked(peer.into(), TAG, &mut theirs)?;
        session.send_unchecked(peer, TAG, &[mine])?;
    }
    Ok(theirs[0])
}

/// Rank 0: throws balls of these sizes, and gives the median of half a round trip to `found`.
fn throw(
    session: &Session,
    peer: u32,
    sizes: &[usize],
    mut found: impl FnMut(usize, u64),
) -> Result<(), Error> {
    let mut ball = vec![0; MOST];
    let mut times = Vec::with_capacity(BALLS);
    for &size in sizes {
        times.clear();
        let start = sys::now_ns();
        while times.len() < 4 || (times.len() < BALLS && sys::now_ns() - start < ENOUGH_NS) {
            ball[0] = AGAIN;
            let thrown = sys::now_ns();
            session.send_unchecked(peer, TAG, &ball[..size])?;
            session.recv_unchecked(peer.into(), TAG, &mut ball[..size])?;
            times.push((sys::now_ns() - thrown) / 2);
        }
        // The first one warmed up.
        times.remove(0);
        times.sort_unstable();
        found(size, times[times.len() / 2]);
        if times[0] > ENOUGH_NS {
            break;
        }
        ball[0] = NEXT;
        session.send_unchecked(peer, TAG, &ball[..1])?;
    }
    ball[0] = OVER;
    session.send_unchecked(peer, TAG, &ball[..1])
}

/// Rank 1: returns the balls.
fn bounce(session: &Session, peer: u32) -> Result<(), Error> {
    let mut ball = vec![0; MOST];
    loop {
        let len = session.recv_unchecked(peer.into(), TAG, &mut ball)?.len;
        match ball[0] {
            AGAIN if len > 0 => session.send_unchecked(peer, TAG, &ball[..len])?,
            NEXT => {}
            _ => return Ok(()),
        }
    }
}
