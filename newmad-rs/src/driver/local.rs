//! Ranks of one process: the rings of shared memory without the processes; large messages by plain copies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::shm::segment::{Geometry, Segment};
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
        ends.push((segment, sys::eventfd()?, Arc::new(AtomicBool::new(false))));
    }
    let reach = if direct { Reach::Direct } else { Reach::None };
    let mut drivers = Vec::new();
    for rank in 0..size {
        let (mine, bell, flag) = &ends[rank as usize];
        let mut peers = Vec::new();
        for peer in 0..size {
            if peer == rank {
                peers.push(None);
                continue;
            }
            let (theirs, bell, flag) = &ends[peer as usize];
            peers.push(Some(Peer::shared(
                rank,
                (mine, &geometry),
                peer,
                (theirs.clone(), &geometry),
                bell.try_clone().map_err(|_| os("sharing an event counter"))?,
                reach,
                Life::Flag(flag.clone()),
            )?));
        }
        let bell = bell.try_clone().map_err(|_| os("sharing an event counter"))?;
        drivers.push(Shm::new(
            "local",
            mine.clone(),
            bell,
            peers.into_boxed_slice(),
            flag.clone(),
        )?);
    }
    Ok(drivers)
}
