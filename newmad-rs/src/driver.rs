//! Drivers of the program's own: a [`Network`] makes links with other processes, and a [`Link`] carries packets.
//!
//! newmad brings drivers for shared memory, TCP and verbs ([`crate::Driver`]). A program adds another network to its
//! session with [`Builder::network`](crate::Builder::network), which makes a rail of it. newmad finds the peers, authenticates
//! them, matches, splits and orders messages, and polls; the driver moves packets.
//!
//! # How a link is made
//! newmad connects the two processes with a socket on which each has proven that it belongs to the job. Both processes
//! call [`Network::offer`]. newmad passes the descriptors of each offer to the other process, and then each process
//! finishes its offer, which makes its end of the link.
//!
//! # Rules for a link
//! Packets of one [`Track`] arrive whole, once and in order, or the link ends. Tracks do not wait for each other. One
//! thread at a time uses a link. A signal handler may use it: see the safety section of [`Link`].
//!
//! `examples/pipe_driver.rs` is a driver over pipes.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The shortest packets that a network may have, in bytes.
pub const SHORTEST_PACKET: usize = 512;
/// The longest packets that newmad gives a link, in bytes.
pub const LONGEST_PACKET: usize = 64 * 1024;
/// Most descriptors of one offer.
pub const MAX_DESCRIPTORS: usize = 4;

/// How far a network reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// The processes of one machine. Offers pass descriptors; a link ends only when one of its processes does.
    Machine,
    /// Other machines. Offers pass no descriptors; a link may break while both processes live, and newmad repairs it:
    /// it keeps what was not acknowledged, makes a new link, and sends the rest again.
    Cluster,
}

/// A network: makes links with other processes. newmad's connection manager, a thread that may block for short, calls
/// it.
pub trait Network: Send {
    /// The name of its rail: up to 16 letters and digits. It has to be the same in all processes.
    fn name(&self) -> &'static str;

    /// The longest packet that its links carry, from [`SHORTEST_PACKET`] to [`LONGEST_PACKET`] bytes.
    fn packet_size(&self) -> usize;

    /// How far it reaches.
    fn reach(&self) -> Reach {
        Reach::Machine
    }

    /// Begins a link with `peer`. An offer that is dropped was in vain: the peer's own call came first, say.
    ///
    /// # Errors
    /// What the kernel refuses. newmad tries again for some time.
    fn offer(&mut self, peer: u32) -> io::Result<Offer>;
}

/// Makes this process's end of a link, of the socket with the peer and the descriptors that the peer's offer passed.
type Finish = Box<dyn FnOnce(OwnedFd, Vec<OwnedFd>) -> io::Result<Box<dyn Link>> + Send>;

/// One process's part of a link that is being made.
#[must_use = "an offer that is dropped makes no link"]
pub struct Offer {
    descriptors: Vec<Arc<OwnedFd>>,
    finish: Finish,
}

impl Offer {
    /// An offer that passes these descriptors, at most [`MAX_DESCRIPTORS`], to the peer. This process's copies are
    /// closed then. `finish` makes this process's end of the link.
    ///
    /// `finish` is given the authenticated socket with the peer and the descriptors that the peer has passed. The
    /// socket is non-blocking, nothing is on its way on it, and it is the link's own from then on.
    pub fn new<L: Link + 'static>(
        descriptors: Vec<OwnedFd>,
        finish: impl FnOnce(OwnedFd, Vec<OwnedFd>) -> io::Result<L> + Send + 'static,
    ) -> Offer {
        let finish: Finish =
            Box::new(|socket, given| Ok(Box::new(finish(socket, given)?) as Box<dyn Link>));
        Offer { descriptors: descriptors.into_iter().map(Arc::new).collect(), finish }
    }

    pub(crate) fn descriptors(&self) -> &[Arc<OwnedFd>] {
        &self.descriptors
    }

    /// Closes this process's copies of the descriptors, and makes the link.
    pub(crate) fn finish(self, socket: OwnedFd, given: Vec<OwnedFd>) -> io::Result<Box<dyn Link>> {
        drop(self.descriptors);
        (self.finish)(socket, given)
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("descriptors", &self.descriptors).finish_non_exhaustive()
    }
}

/// One of the two lines of packets that a link has in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Short messages and control packets.
    Small = 0,
    /// The fragments of long messages.
    Large = 1,
}

impl Track {
    /// Both.
    pub const ALL: [Track; 2] = [Track::Small, Track::Large];
}

/// This process's end of a link with one peer. The other rules are in the [module](self).
///
/// # Safety
/// [`Link::send`], [`Link::receive`] and [`Link::close`] may run in a signal handler, and run under the session's lock:
/// they return at once, allocate nothing, free nothing, take no lock that another thread may hold, and do not panic.
/// Errors of the kernel ([`io::Error::last_os_error`], or an [`io::ErrorKind`]) allocate nothing. [`Link::receive`]
/// returns at most the buffer's length, and has written as many bytes.
pub unsafe trait Link: Send {
    /// Sends one packet, gathered from these parts.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there is no room now, and nothing was sent. Others: the link is broken.
    fn send(&mut self, track: Track, packet: &[IoSlice<'_>]) -> io::Result<()>;

    /// Receives the next packet into `buffer`, which has the network's [`Network::packet_size`]. Returns its length;
    /// zero: the peer has closed its end, and every packet was received.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: no packet is there now. Others: the link is broken.
    fn receive(&mut self, track: Track, buffer: &mut [u8]) -> io::Result<usize>;

    /// Closes this end: the peer receives the packets that were sent, and then the end. Neither [`Link::send`] nor
    /// [`Link::receive`] is called after that. newmad drops the link later, outside the progress path.
    fn close(&mut self);

    /// The descriptors that show a change: readable when a packet may have come, writable when there may be room again.
    /// They stay the same for the life of the link, and belong to no other one.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
}
