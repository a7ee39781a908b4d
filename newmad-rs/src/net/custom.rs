//! The driver of a rail over a network of the program's ([`crate::driver`]).
//!
//! Each packet of newmad, header and payload, is one packet of the link. A packet that has come is read into the gate's
//! own buffer and stays there until the engine has taken it. A track is read only after one of the link's descriptors
//! has shown a change: those are watched edge-triggered, so a track is worth reading until it says that it is empty.

use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::driver::{LONGEST_PACKET, Link, Network, Reach, SHORTEST_PACKET, Track};
use crate::error::{Cause, Error};
use crate::memory::span::Span;
use crate::net::driver::Driver;
use crate::net::packet::{GATHER_MAX_CHECKED, Peek};
use crate::net::ready::{NO_BITS, Ready};
use crate::net::rings::Rings;
use crate::sys;
use crate::wire::{Header, Kind, LONG};

const EDGES: libc::c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// What has come on a track and was not taken.
struct Inbox {
    buffer: Box<[u8]>,
    /// Where the rest of the packet in the buffer begins and ends; the same: none is there.
    start: usize,
    end: usize,
    /// The track may have another packet.
    ready: bool,
}

impl Inbox {
    fn new(size: usize) -> Inbox {
        Inbox { buffer: vec![0; size].into_boxed_slice(), start: 0, end: 0, ready: true }
    }

    /// The header of the packet that comes next, if the track has one.
    fn next(&mut self, link: &mut dyn Link, track: Track) -> Result<Option<Header>, Cause> {
        if self.start == self.end {
            if !self.ready {
                return Ok(None);
            }
            match link.receive(track, &mut self.buffer) {
                Ok(0) => return Err(Cause::Vanished),
                Ok(len) => (self.start, self.end) = (0, len.min(self.buffer.len())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.ready = false;
                    return Ok(None);
                }
                Err(error) => return Err(Cause::Broken(error.raw_os_error().unwrap_or(libc::EIO))),
            }
        }
        let packet = &self.buffer[self.start..self.end];
        let header = Header::decode(packet).map_err(|_| Cause::Malformed)?;
        let whole = header.kind.header_len() + header.payload as usize;
        if whole == packet.len() { Ok(Some(header)) } else { Err(Cause::Malformed) }
    }
}

/// One gate.
struct Peer {
    link: Box<dyn Link>,
    is_open: bool,
    /// By track.
    inboxes: [Inbox; 2],
    /// The payload of the large track's packet is being read.
    reading: bool,
    gone: Option<Cause>,
}

impl Peer {
    /// Sends a packet: header and parts.
    fn send(&mut self, track: Track, header: &Header, parts: &[Span]) -> bool {
        if !self.is_open {
            return false;
        }
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let mut packet = [IoSlice::new(&[]); 1 + GATHER_MAX_CHECKED];
        packet[0] = IoSlice::new(&raw[..header.kind.header_len()]);
        let count = parts.len().min(GATHER_MAX_CHECKED);
        for (to, part) in packet[1..].iter_mut().zip(&parts[..count]) {
            // SAFETY: a span is readable, and its owner leaves it unchanged until the packet was posted.
            *to = IoSlice::new(unsafe { std::slice::from_raw_parts(part.as_ptr(), part.len()) });
        }
        match self.link.send(track, &packet[..1 + count]) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                // The receiving side tells why, after the packets that the peer sent before.
                self.inboxes.iter_mut().for_each(|inbox| inbox.ready = true);
                false
            }
        }
    }

    /// The header of a track's next packet.
    fn next(&mut self, track: Track) -> Peek {
        if self.is_open {
            match self.inboxes[track as usize].next(&mut *self.link, track) {
                Ok(Some(header)) => return Peek::Packet(header, Span::EMPTY),
                Ok(None) => {}
                Err(cause) => self.gone = Some(cause),
            }
        }
        match self.gone {
            Some(cause) => Peek::Gone(cause),
            None => Peek::Empty,
        }
    }
}

/// See the module.
pub(crate) struct Custom {
    name: &'static str,
    /// Bytes of the longest packet.
    size: usize,
    can_break: bool,
    ready: Arc<Ready>,
    /// An event counter, for waking oneself; edge-triggered, so never emptied.
    wake: OwnedFd,
    peers: Box<[Option<Peer>]>,
}

impl Custom {
    /// A driver over this network for so many ranks, without any link.
    pub(crate) fn new(ranks: u32, network: &dyn Network) -> Result<Custom, Error> {
        let (name, size) = (network.name(), network.packet_size());
        let named =
            (1..=16).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric());
        if !named || !(SHORTEST_PACKET..=LONGEST_PACKET).contains(&size) {
            return Err(Error::Bootstrap(format!(
                "the network {name:?} with packets of {size} bytes: a name has 1 to 16 letters and digits, a packet \
                 {SHORTEST_PACKET} to {LONGEST_PACKET} bytes"
            )));
        }
        let (ready, wake) = (Ready::new(ranks as usize)?, sys::eventfd()?);
        ready.watch(wake.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, NO_BITS)?;
        let peers = (0..ranks).map(|_| None).collect();
        let can_break = network.reach() == Reach::Cluster;
        Ok(Custom { name, size, can_break, ready: Arc::new(ready), wake, peers })
    }

    /// Uses `link` for that peer from now on, and closes the one that there was. Callers' context.
    pub(crate) fn install(&mut self, rank: u32, link: Box<dyn Link>) -> Result<(), Error> {
        let Some(place) = self.peers.get_mut(rank as usize) else { return Ok(()) };
        for descriptor in link.descriptors() {
            self.ready.watch(descriptor.as_raw_fd(), EDGES, u64::from(rank))?;
        }
        let inboxes = [Inbox::new(self.size), Inbox::new(self.size)];
        *place = Some(Peer { link, is_open: true, inboxes, reading: false, gone: None });
        Ok(())
    }

    fn peer(&mut self, rank: u32) -> Option<&mut Peer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    /// Asks which links have changed.
    fn look_around(&mut self) {
        let Custom { ready, peers, .. } = self;
        ready.take(|rank, _| {
            if let Some(Some(peer)) = peers.get_mut(rank) {
                peer.inboxes.iter_mut().for_each(|inbox| inbox.ready = true);
            }
        });
    }
}

impl Driver for Custom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn mtu(&self, _to: u32) -> usize {
        self.size - LONG
    }

    fn begin(&mut self) -> bool {
        self.look_around();
        false
    }

    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        match self.peer(to) {
            Some(peer) => peer.send(Track::Small, header, parts),
            None => false,
        }
    }

    fn peek_small(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        match peer.next(Track::Small) {
            Peek::Packet(header, _) => {
                let inbox = &peer.inboxes[Track::Small as usize];
                let payload = &inbox.buffer[inbox.start + header.kind.header_len()..inbox.end];
                // SAFETY: the buffer stays, and is written to again only after `release`.
                Peek::Packet(header, unsafe { Span::new(payload.as_ptr(), payload.len()) })
            }
            peek => peek,
        }
    }

    fn release(&mut self, from: u32) {
        if let Some(peer) = self.peer(from) {
            let inbox = &mut peer.inboxes[Track::Small as usize];
            inbox.start = inbox.end;
        }
    }

    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let longest = self.mtu(to);
        let Some(peer) = self.peer(to) else { return 0 };
        let mut sent = 0;
        while sent < data.len() {
            let piece = data.part(sent, longest);
            let header =
                Header { len: header.len + sent as u64, payload: piece.len() as u32, ..*header };
            if !peer.send(Track::Large, &header, &[piece]) {
                break;
            }
            sent += piece.len();
        }
        sent
    }

    fn longest_piece(&self, to: u32) -> usize {
        self.mtu(to)
    }

    fn can_break(&self) -> bool {
        self.can_break
    }

    fn peek_large(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        if peer.reading {
            return Peek::Empty;
        }
        match peer.next(Track::Large) {
            Peek::Packet(header, _) if header.kind == Kind::Data => {
                peer.inboxes[Track::Large as usize].start += header.kind.header_len();
                peer.reading = true;
                Peek::Packet(header, Span::EMPTY)
            }
            Peek::Packet(..) => Peek::Gone(Cause::Malformed),
            peek => peek,
        }
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(peer) = self.peer(from) else { return 0 };
        let inbox = &mut peer.inboxes[Track::Large as usize];
        let len = if peer.reading { len.min(inbox.end - inbox.start) } else { 0 };
        let rest = &inbox.buffer[inbox.start..inbox.start + len];
        // SAFETY: writable by the caller's promise; the buffer is this driver's.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to, len) };
        inbox.start += len;
        peer.reading = inbox.start < inbox.end;
        len
    }

    fn close(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer)
            && std::mem::take(&mut peer.is_open)
        {
            peer.link.close();
        }
    }

    fn arm(&mut self, _: Rings) -> bool {
        self.look_around();
        true
    }

    fn calls_the_kernel(&self) -> bool {
        true
    }

    fn wake_oneself(&mut self) {
        sys::ring(self.wake.as_raw_fd());
    }

    fn ready(&self) -> Option<&Arc<Ready>> {
        Some(&self.ready)
    }
}
