//! Ranks of one process: the rings of shared memory without the processes; large messages by plain copies.
//!
//! One thread may end several ranks in turn, so a rank that ends does not wait for the goodbyes of the others; but its
//! requests' memory is their owners' again when it has ended, and another thread may be copying from there. So a copier
//! [enters](Loan::enter) first, and a rank that ends [withdraws](Loan::withdraw) what it has lent: it goes on when the
//! copiers that were inside have left (one piece of a copy, by a thread that waits for nothing), and no other enters.
//!
//! Rejected: large messages through the rings (two copies instead of one, and both sides have to look).

use std::sync::Arc;

use super::segment::peer_bell::PeerBell;
use super::segment::{Geometry, Segment};
use super::shm::loan::Loan;
use super::shm::{Life, Peer, Reach, Shm};
use crate::error::{Error, os};
use crate::sys;

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
        ends.push((segment, sys::eventfd()?, Arc::new(Loan::new())));
    }
    let reach = if direct { Reach::Direct } else { Reach::None };
    let process = std::process::id() as i32;
    let mut drivers = Vec::new();
    for rank in 0..size {
        let (mine, bell, loan) = &ends[rank as usize];
        let mut peers = Vec::new();
        for peer in 0..size {
            if peer == rank {
                peers.push(None);
                continue;
            }
            let (theirs, bell, loan) = &ends[peer as usize];
            peers.push(Some(Peer::new(
                rank,
                (mine, &geometry),
                peer,
                (theirs.clone(), &geometry),
                PeerBell::new(
                    bell.try_clone().map_err(|_| os("sharing an event counter"))?,
                    Some(process),
                ),
                reach,
                Life::Here(loan.clone()),
            )?));
        }
        let bell = bell.try_clone().map_err(|_| os("sharing an event counter"))?;
        drivers.push(Shm::new(
            "local",
            mine.clone(),
            bell,
            peers.into_boxed_slice(),
            loan.clone(),
        )?);
    }
    Ok(drivers)
}
