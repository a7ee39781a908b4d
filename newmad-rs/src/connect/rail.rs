//! What the connection manager has to know of a rail: where it listens, what it offers, and what it makes of sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use super::socket::Listener;
use crate::driver::{self, MAX_DESCRIPTORS, Network, Reach};
use crate::error::Error;
use crate::net::custom::Custom;
use crate::net::details::Details;
use crate::net::segment::Geometry;
use crate::net::virtual_rails::Home;
use crate::net::{AnyDriver, Link, shm, tcp, verbs};

enum Kind {
    Shm(shm::connect::Own),
    Tcp,
    Verbs(verbs::connect::Own),
    Custom(Box<dyn Network>),
}

/// Which end of a link a process makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Caller,
    Called,
}

/// This process's part of a link that is being made.
pub(super) enum Offer {
    /// A socket is all.
    Nothing,
    /// The segment and the bell.
    Shm([Arc<OwnedFd>; 2]),
    /// A queue pair.
    Verbs(Box<verbs::connect::Offer>),
    /// Of a network of the program's.
    Custom(driver::Offer),
}

impl Offer {
    /// What the peer is given, when it has proven itself.
    pub(super) fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        match self {
            Offer::Nothing | Offer::Verbs(_) => Vec::new(),
            Offer::Shm(descriptors) => descriptors.to_vec(),
            Offer::Custom(offer) => offer.descriptors().to_vec(),
        }
    }
}

/// See the module.
pub(crate) struct Rail {
    pub(crate) listener: Listener,
    kind: Kind,
}

impl Rail {
    /// The rail over shared memory of this machine, and its driver. `cma`: cross-memory attach may copy large messages.
    pub(crate) fn shm(
        rank: u32,
        geometry: Geometry,
        cma: bool,
    ) -> Result<(Rail, AnyDriver), Error> {
        let (own, driver) = shm::connect::Own::open(rank, geometry, cma)?;
        Ok((Rail { listener: Listener::unix()?, kind: Kind::Shm(own) }, AnyDriver::Shm(driver)))
    }

    /// A rail over TCP, and its driver.
    pub(crate) fn tcp(size: u32, address: IpAddr) -> Result<(Rail, AnyDriver), Error> {
        let driver = tcp::Tcp::new((0..size).map(|_| None).collect())?;
        let rail = Rail { listener: Listener::tcp(address)?, kind: Kind::Tcp };
        Ok((rail, AnyDriver::Tcp(Box::new(driver))))
    }

    /// A rail over the port of an adapter that has this name, and its driver.
    /// `slots`: packets under way on a link, and what is done about eager channels. `address`: where it listens for
    /// handshakes. `home`: where its memory is made.
    pub(crate) fn verbs(
        size: u32,
        port: &str,
        slots: (usize, verbs::channels::Settings),
        reads: bool,
        address: IpAddr,
        home: Home,
    ) -> Result<(Rail, AnyDriver), Error> {
        let (own, driver) = verbs::connect::Own::open(size, port, slots, reads, home)?;
        let rail = Rail { listener: Listener::tcp(address)?, kind: Kind::Verbs(own) };
        Ok((rail, AnyDriver::Verbs(Box::new(driver))))
    }

    /// A rail over a network of the program's, and its driver. `address`: where it listens, if it reaches other
    /// machines.
    pub(crate) fn custom(
        size: u32,
        network: Box<dyn Network>,
        address: Option<IpAddr>,
    ) -> Result<(Rail, AnyDriver), Error> {
        let driver = Custom::new(size, &*network)?;
        let listener = match network.reach() {
            Reach::Machine => Listener::unix()?,
            Reach::Cluster => Listener::tcp(address.unwrap_or(Ipv4Addr::LOCALHOST.into()))?,
        };
        let rail = Rail { listener, kind: Kind::Custom(network) };
        Ok((rail, AnyDriver::Custom(Box::new(driver))))
    }

    /// Whether it is between processes of one machine, where the kernel tells of every end.
    pub(super) fn is_local(&self) -> bool {
        match &self.kind {
            Kind::Shm(_) => true,
            Kind::Tcp | Kind::Verbs(_) => false,
            Kind::Custom(network) => network.reach() == Reach::Machine,
        }
    }

    /// Sockets of a link.
    pub(super) fn tracks(&self) -> u8 {
        match self.kind {
            Kind::Shm(_) | Kind::Verbs(_) | Kind::Custom(_) => 1,
            Kind::Tcp => tcp::connect::TRACKS,
        }
    }

    /// Whether packets go another way than the socket: then the called attaches its link before it answers.
    pub(super) fn sends_beside_the_socket(&self) -> bool {
        matches!(self.kind, Kind::Verbs(_))
    }

    /// What the peer is told of this end.
    pub(super) fn details(&self, offer: &Offer) -> Details {
        match (&self.kind, offer) {
            (Kind::Shm(own), _) => own.details(),
            (_, Offer::Verbs(offer)) => {
                Details { queue_pair: Some(offer.address()), ..Details::default() }
            }
            _ => Details::default(),
        }
    }

    /// The descriptor that shows events of an adapter.
    pub(super) fn events(&self) -> Option<RawFd> {
        match &self.kind {
            Kind::Verbs(own) => Some(own.events()),
            _ => None,
        }
    }

    /// The next event of the adapter, if there is one.
    pub(super) fn event(&self) -> Option<verbs::Event> {
        match &self.kind {
            Kind::Verbs(own) => own.event(),
            _ => None,
        }
    }

    /// Begins a link with `peer`.
    pub(super) fn offer(&mut self, peer: u32) -> Result<Offer, Error> {
        match &mut self.kind {
            Kind::Shm(own) => Ok(Offer::Shm(own.descriptors())),
            Kind::Tcp => Ok(Offer::Nothing),
            Kind::Verbs(own) => Ok(Offer::Verbs(Box::new(own.offer()?))),
            Kind::Custom(network) => {
                let doing = "offering a link of the program's network";
                let offer = network.offer(peer).map_err(|source| Error::Io { doing, source })?;
                let most = if network.reach() == Reach::Machine { MAX_DESCRIPTORS } else { 0 };
                match offer.descriptors().len() {
                    count if count <= most => Ok(Offer::Custom(offer)),
                    count => Err(Error::Bootstrap(format!(
                        "the network {} offers {count} descriptors and may offer {most}",
                        network.name()
                    ))),
                }
            }
        }
    }

    /// The link with `peer` over these sockets, of which it has told `theirs`. `given`: the own offer, and the
    /// descriptors of the peer's.
    pub(super) fn link(
        &mut self,
        end: End,
        peer: u32,
        mut sockets: Vec<OwnedFd>,
        theirs: Details,
        (offer, given): (Offer, Vec<OwnedFd>),
    ) -> Result<Link, Error> {
        if let Kind::Tcp = &self.kind {
            return tcp::connect::link(peer, sockets).map(Link::Tcp);
        }
        let no_socket = || Error::Bootstrap(format!("the link with rank {peer} has no socket"));
        let socket = sockets.pop().ok_or_else(no_socket)?;
        match (&mut self.kind, offer) {
            (Kind::Verbs(own), Offer::Verbs(offer)) => {
                let is_caller = end == End::Caller;
                let link = own.link(peer, socket, *offer, theirs.queue_pair, is_caller)?;
                Ok(Link::Verbs(Box::new(link)))
            }
            (Kind::Shm(own), _) => own.link(peer, socket, theirs, given).map(Link::Shm),
            (_, Offer::Custom(offer)) => {
                let doing = "making a link of the program's network";
                let link = offer.finish(socket, given);
                link.map(Link::Custom).map_err(|source| Error::Io { doing, source })
            }
            _ => Err(no_socket()),
        }
    }
}
