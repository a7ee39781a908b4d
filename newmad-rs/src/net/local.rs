//! Ranks of one process: the rings of shared memory without the processes; large messages by plain copies.
//!
//! One thread may end several ranks in turn, so a rank that ends does not wait for the goodbyes of the others; but its
//! requests' memory is their owners' again when it has ended, and another thread may be copying from there. So who copies
//! [enters](Lent::enter) first, and a rank that ends [withdraws](Lent::withdraw) what it has lent: it goes on when those
//! who were inside have left (one piece of a copy, by a thread that waits for nothing), and nobody enters any more.
//!
//! Rejected: large messages through the rings (two copies instead of one, and both sides have to look).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::shm::segment::{Geometry, Segment};
use super::shm::{Life, Peer, Reach, Shm};
use crate::error::{Error, os};
use crate::sys;

/// The memory that the requests of a rank lend to the other ranks of its process.
#[derive(Default)]
pub(crate) struct Lent(AtomicU32);

/// Bit: it is withdrawn. Below: how many are inside.
const WITHDRAWN: u32 = 1 << 31;

impl Lent {
    /// Before a copy from or to it. False: it is withdrawn, and may be somebody else's.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let enters = self.0.fetch_add(1, Ordering::AcqRel) & WITHDRAWN == 0;
        if !enters {
            self.leave();
        }
        enters
    }

    /// After the copy. True: its owner waits for that, and is to be woken.
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & WITHDRAWN != 0
    }

    /// Nobody enters any more. Says whether this is new, and whether nobody is inside.
    pub(crate) fn withdraw(&self) -> (bool, bool) {
        let before = self.0.fetch_or(WITHDRAWN, Ordering::AcqRel);
        (before & WITHDRAWN == 0, before & !WITHDRAWN == 0)
    }

    /// Whether its rank has ended, or is about to: nothing more comes from there.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) & WITHDRAWN != 0
    }
}

/// One driver per rank, connected with each other. `direct`: large messages by plain copies; otherwise through
/// the rings.
pub(crate) fn world(
    size: u32,
    slots: usize,
    slot_size: usize,
    direct: bool,
) -> Result<Vec<Shm>, Error> {
    let geometry = Geometry { ranks: size as usize, slots, slot_size };
    let mut ends = Vec::new();
    for _ in 0..size {
        let segment = Arc::new(Segment::create(&geometry)?.0);
        ends.push((segment, sys::eventfd()?, Arc::new(Lent::default())));
    }
    let reach = if direct { Reach::Direct } else { Reach::None };
    let mut drivers = Vec::new();
    for rank in 0..size {
        let (mine, bell, lent) = &ends[rank as usize];
        let mut peers = Vec::new();
        for peer in 0..size {
            if peer == rank {
                peers.push(None);
                continue;
            }
            let (theirs, bell, lent) = &ends[peer as usize];
            peers.push(Some(Peer::shared(
                rank,
                (mine, &geometry),
                peer,
                (theirs.clone(), &geometry),
                bell.try_clone().map_err(|_| os("sharing an event counter"))?,
                reach,
                Life::Here(lent.clone()),
            )?));
        }
        let bell = bell.try_clone().map_err(|_| os("sharing an event counter"))?;
        drivers.push(Shm::new(
            "local",
            mine.clone(),
            bell,
            peers.into_boxed_slice(),
            lent.clone(),
        )?);
    }
    Ok(drivers)
}
