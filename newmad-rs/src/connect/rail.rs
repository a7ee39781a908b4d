//! What the porter has to know of a rail: where it listens, what it shows, and what it makes of sockets.

use std::os::fd::{OwnedFd, RawFd};

use super::greeting::Details;
use super::socket::Listener;
use crate::error::Error;
use crate::knobs::Settings;
use crate::net::any::{Any, Link};
use crate::net::{shm, tcp};

enum Kind {
    Shm(shm::connect::Own),
    Tcp,
}

/// See the module.
pub(crate) struct Rail {
    pub(crate) listener: Listener,
    kind: Kind,
}

impl Rail {
    /// The rail over shared memory of this machine, and its driver.
    pub(crate) fn shm(rank: u32, size: u32, settings: &Settings) -> Result<(Rail, Any), Error> {
        let (own, driver) = shm::connect::Own::open(rank, size, settings)?;
        Ok((Rail { listener: Listener::unix()?, kind: Kind::Shm(own) }, Any::Shm(driver)))
    }

    /// A rail over TCP, and its driver.
    pub(crate) fn tcp(size: u32, address: std::net::IpAddr) -> Result<(Rail, Any), Error> {
        let driver = tcp::Tcp::new((0..size).map(|_| None).collect())?;
        let rail = Rail { listener: Listener::tcp(address)?, kind: Kind::Tcp };
        Ok((rail, Any::Tcp(Box::new(driver))))
    }

    /// Whether it is between processes of one machine, where the kernel tells of every end.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.kind, Kind::Shm(_))
    }

    /// Sockets of a link.
    pub(super) fn tracks(&self) -> u8 {
        match self.kind {
            Kind::Shm(_) => 1,
            Kind::Tcp => tcp::connect::TRACKS,
        }
    }

    pub(super) fn details(&self) -> Details {
        match &self.kind {
            Kind::Shm(own) => own.details(),
            Kind::Tcp => Details::default(),
        }
    }

    /// What is shown to who has proven itself.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        match &self.kind {
            Kind::Shm(own) => own.descriptors().to_vec(),
            Kind::Tcp => Vec::new(),
        }
    }

    /// The link with `peer` over these sockets, of which it has told and given that.
    pub(super) fn link(
        &self,
        peer: u32,
        mut sockets: Vec<OwnedFd>,
        theirs: Details,
        given: Vec<OwnedFd>,
    ) -> Result<Link, Error> {
        match &self.kind {
            Kind::Tcp => tcp::connect::link(peer, sockets).map(Link::Tcp),
            Kind::Shm(own) => {
                let line = sockets.pop().ok_or_else(|| {
                    Error::Bootstrap(format!("the link with rank {peer} has no socket"))
                })?;
                own.link(peer, line, theirs, given).map(Link::Shm)
            }
        }
    }
}
