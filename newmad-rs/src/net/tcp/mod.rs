//! TCP: two sockets per gate, one for each track ([`small`], [`large`]); [`readiness`] knows which are worth reading.

use std::sync::Arc;

use crate::error::Error;
use crate::memory::span::Span;
use crate::net::driver::Driver;
use crate::net::packet::Peek;
use crate::net::ready::Ready;
use crate::net::rings::Rings;
use crate::wire::Header;

pub(crate) mod connect;
pub(crate) mod large;
mod peer;
mod readiness;
mod small;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use peer::Peer;
use readiness::Readiness;
use small::MTU;

/// See the module.
pub(crate) struct Tcp {
    readiness: Readiness,
    peers: Box<[Option<Peer>]>,
}

impl Tcp {
    /// A driver over these gates.
    pub(crate) fn new(peers: Box<[Option<Peer>]>) -> Result<Tcp, Error> {
        let mut readiness = Readiness::new(peers.len())?;
        for rank in 0..peers.len() as u32 {
            readiness.add(&peers, rank)?;
        }
        Ok(Tcp { readiness, peers })
    }

    /// Uses `link` for that peer from now on, and closes the one that there was.
    pub(crate) fn install(&mut self, rank: u32, link: Peer) -> Result<(), Error> {
        self.readiness.watch_all(&self.peers);
        if let Some(place) = self.peers.get_mut(rank as usize) {
            *place = Some(link);
            self.readiness.add(&self.peers, rank)?;
        }
        Ok(())
    }

    #[inline]
    fn peer(&mut self, rank: u32) -> Option<&mut Peer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }
}

impl Driver for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    #[inline]
    fn mtu(&self, _to: u32) -> usize {
        MTU
    }

    #[inline]
    fn begin(&mut self) -> bool {
        let alone = self.readiness.alone;
        if alone {
            // A sleeper may watch for room.
            if !self.readiness.ready().holds_back() {
                self.readiness.polled_again(&self.peers);
            }
        } else {
            self.readiness.look_around(&mut self.peers);
        }
        let (mut any, mut holds_back) = (false, false);
        for peer in self.peers.iter_mut().flatten() {
            if alone {
                peer.readable();
            }
            if peer.small.backlog() {
                any |= peer.small.flush();
                holds_back |= peer.holds_back();
            }
        }
        self.readiness.ready().set_holds_back(holds_back);
        any
    }

    #[inline]
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let Some(peer) = self.peer(to) else { return false };
        let posted = peer.small.post(header, parts);
        if peer.holds_back() {
            self.readiness.ready().set_holds_back(true);
        }
        posted
    }

    #[inline]
    fn peek_small(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        match peer.small.peek() {
            // In the middle of a piece the protocol does not look at the large track. (Where that alone ended, both sides waited
            // for ever.)
            Peek::Empty => peer.large.gone.map_or(Peek::Empty, Peek::Gone),
            peek => peek,
        }
    }

    #[inline]
    fn release(&mut self, from: u32) {
        if let Some(peer) = self.peer(from) {
            peer.small.release();
        }
    }

    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let Some(peer) = self.peer(to) else { return 0 };
        peer.large.post(header, data)
    }

    fn mid_piece(&self, to: u32) -> usize {
        match self.peers.get(to as usize) {
            Some(Some(peer)) => peer.large.mid_piece(),
            _ => 0,
        }
    }

    fn can_break(&self) -> bool {
        true
    }

    fn is_silent(&self, peer: u32) -> bool {
        let Some(Some(peer)) = self.peers.get(peer as usize) else { return false };
        [&peer.small.socket, &peer.large.socket].into_iter().flatten().any(socket::is_silent)
    }

    fn peek_large(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        peer.large.peek()
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(peer) = self.peer(from) else { return 0 };
        // SAFETY: the caller's promise.
        unsafe { peer.large.read(to, len) }
    }

    fn is_flushed(&self, to: u32) -> bool {
        match self.peers.get(to as usize) {
            Some(Some(peer)) => !peer.small.backlog() && !peer.large.backlog(),
            _ => true,
        }
    }

    fn close(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.close();
        }
    }

    fn arm(&mut self, _: Rings) -> bool {
        self.readiness.arm(&mut self.peers);
        true
    }

    fn calls_the_kernel(&self) -> bool {
        true
    }

    fn wake_oneself(&mut self) {
        self.readiness.wake();
    }

    fn wake_oneself_at(&mut self, ns: u64) -> bool {
        self.readiness.wake_at(ns)
    }

    fn ready(&self) -> Option<&Arc<Ready>> {
        Some(self.readiness.ready())
    }
}
