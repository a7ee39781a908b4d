//! Links over shared memory: what a process passes to a peer, and the link that it makes of what the peer passes.
//!
//! Both sides of a link show two descriptors (segment, bell), after the caller has proven that it knows the key of the
//! called (`connect`). The kernel vouches for the process number. The Unix socket stays open and carries nothing any
//! more: its end is how a death is noticed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::loan::Loan;
use super::{Life, Peer, Reach, Shm, cma};
use crate::error::{Error, during};
use crate::net::details::Details;
use crate::net::segment::peer_bell::PeerBell;
use crate::net::segment::{Geometry, Segment};
use crate::sys;

/// This process's side of all its links over shared memory.
pub(crate) struct Own {
    rank: u32,
    segment: Arc<Segment>,
    memory: Arc<OwnedFd>,
    bell: Arc<OwnedFd>,
    geometry: Geometry,
    cma: bool,
}

impl Own {
    /// The memory in which this process receives, and a driver without any link.
    /// `cma`: large messages may be copied by cross-memory attach.
    pub(crate) fn open(rank: u32, geometry: Geometry, cma: bool) -> Result<(Own, Shm), Error> {
        let (segment, memory) = Segment::create(&geometry)?;
        let segment = Arc::new(segment);
        let bell = sys::eventfd()?;
        if cma {
            cma::permit();
        }
        let shared = bell.try_clone().map_err(during("sharing an event counter"))?;
        let none = (0..geometry.ranks).map(|_| None).collect();
        let driver = Shm::new("shm", segment.clone(), bell, none, Arc::new(Loan::new()))?;
        let (memory, bell) = (Arc::new(memory), Arc::new(shared));
        Ok((Own { rank, segment, memory, bell, geometry, cma }, driver))
    }

    /// What a peer has to know.
    pub(crate) fn details(&self) -> Details {
        Details {
            probe: self.segment.probe_address(),
            slots: self.geometry.slots as u32,
            slot_size: self.geometry.slot_size as u32,
            queue_pair: None,
        }
    }

    /// What a peer is given.
    pub(crate) fn descriptors(&self) -> [Arc<OwnedFd>; 2] {
        [self.memory.clone(), self.bell.clone()]
    }

    /// The link with `peer`, of which it has told and given this.
    pub(crate) fn link(
        &self,
        peer: u32,
        line: OwnedFd,
        theirs: Details,
        given: Vec<OwnedFd>,
    ) -> Result<Peer, Error> {
        let wrong =
            |what: &str| Error::Bootstrap(format!("rank {peer} has given {what} for its memory"));
        let [memory, bell] =
            <[OwnedFd; 2]>::try_from(given).map_err(|_| wrong("no descriptors"))?;
        let there = Geometry {
            ranks: self.geometry.ranks,
            slots: theirs.slots as usize,
            slot_size: theirs.slot_size as usize,
        };
        if !there.is_sound() {
            return Err(wrong("a geometry that makes no sense"));
        }
        let process = sys::peer_of(line.as_raw_fd()).map(|(pid, _)| pid).filter(|&pid| pid > 0);
        let reach = match process.filter(|_| self.cma) {
            Some(pid) if cma::probe(pid, theirs.probe) => Reach::Process(pid),
            _ => Reach::None,
        };
        // The bell may be shared with a process that makes writes to it block: it must not.
        rustix::fs::fcntl_setfl(&bell, OFlags::NONBLOCK)
            .map_err(during("setting up a peer's bell"))?;
        let bell = PeerBell::new(bell, process);
        let mine = (&self.segment, &self.geometry);
        let theirs = (Arc::new(Segment::open(&memory, &there)?), &there);
        Peer::new(self.rank, mine, peer, theirs, bell, reach, Life::Line(line))
    }
}
