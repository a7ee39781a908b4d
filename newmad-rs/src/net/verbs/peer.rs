//! A gate over verbs: a queue pair, and a socket by whose end the peer's is noticed.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Track;
use super::flow::Flow;
use super::ibv::{Adapter, BATCH, Packet, QueuePair};
use super::pieces::Read;
use crate::error::Cause;
use crate::memory::span::Span;
use crate::net::packet::Peek;
use crate::sys::errno;
use crate::wire::{Header, Kind, LONG, Malformed};

/// What the caller writes to the socket when its queue pair can receive.
pub(super) const READY: u8 = b'r';

/// A packet that has come.
#[derive(Clone, Copy)]
struct Arrival {
    buffer: u32,
    len: usize,
}

/// See the module.
pub(crate) struct Peer {
    pub(super) pair: QueuePair,
    pub(super) socket: Option<OwnedFd>,
    flow: Flow,
    /// Requests to send: given to the adapter, and over. A request's slot is its number modulo `slots`.
    posted: usize,
    over: usize,
    slots: usize,
    /// By track.
    arrivals: [VecDeque<Arrival>; 2],
    /// Of the large track's first packet: so much is read; zero: its header is not.
    read: usize,
    /// The peer's queue pair can receive.
    pub(super) may_send: bool,
    pub(super) is_open: bool,
    /// The socket has ended: the link has, when all that came before was taken from the completion queue.
    pub(super) ends: bool,
    gone: Option<Cause>,
    /// Receive buffers that the links with this peer bring: the first one to be installed posts them.
    pub(super) buffers: std::ops::Range<u32>,
}

impl Peer {
    pub(super) fn new(
        pair: QueuePair,
        socket: OwnedFd,
        grants: (u16, u16),
        slots: usize,
        is_caller: bool,
        buffers: std::ops::Range<u32>,
    ) -> Peer {
        let room = usize::from(grants.0);
        Peer {
            pair,
            socket: Some(socket),
            flow: Flow::new(grants.0, grants.1),
            posted: 0,
            over: 0,
            slots,
            arrivals: [VecDeque::with_capacity(room), VecDeque::with_capacity(room)],
            read: 0,
            may_send: is_caller,
            is_open: true,
            ends: false,
            gone: None,
            buffers,
        }
    }

    /// Requests to send that are under way.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.posted - self.over
    }

    /// The link has failed, if it had not before.
    pub(super) fn fail(&mut self, cause: Cause) {
        self.gone.get_or_insert(cause);
    }

    /// A request to send is over.
    pub(super) fn sent(&mut self) {
        self.over += 1;
    }

    /// How many packets may be sent on that track: granted, and with a slot.
    #[inline]
    pub(super) fn granted(&self, track: Track) -> usize {
        if self.is_open && self.may_send && self.gone.is_none() { self.flow.left(track) } else { 0 }
    }

    /// Whether messages can be read over it.
    pub(super) fn can_read(&self) -> bool {
        self.is_open && self.may_send && self.gone.is_none()
    }

    /// Reads from the peer's memory. False: the link has failed.
    ///
    /// # Safety
    /// As [`QueuePair::read`] says.
    pub(super) unsafe fn read(&mut self, read: &Read) -> bool {
        // SAFETY: the caller's promise.
        let posted =
            unsafe { self.pair.read(read.number, read.to, read.len, (read.remote, read.key)) };
        if !posted {
            self.fail(Cause::Broken(libc::EIO));
        }
        posted
    }

    /// Slots that are free.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.slots - self.under_way()
    }

    /// Whether a word is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_open && self.gone.is_none() && self.flow.is_due()
    }

    /// Whether it may be sent.
    pub(super) fn may_tell(&self) -> bool {
        self.may_send
    }

    /// Sends a packet without data. Something is free.
    pub(super) fn tell(&mut self) -> usize {
        let packet = Packet { slot: self.posted % self.slots, len: 0, word: self.flow.tells() };
        self.post(&[packet])
    }

    /// Sends one packet. It is granted, and a slot is free.
    #[inline]
    pub(super) fn send(&mut self, track: Track, header: &Header, parts: &[Span]) -> usize {
        let packet = self.packet(track, header, parts, 0);
        self.post(&[packet])
    }

    /// Sends the beginning of a long message in up to `most` packets of `piece` bytes: how many packets, and bytes.
    pub(super) fn send_pieces(
        &mut self,
        header: &Header,
        data: Span,
        piece: usize,
        most: usize,
    ) -> (usize, usize) {
        let mut packets = [Packet { slot: 0, len: 0, word: 0 }; BATCH];
        let (mut count, mut sent) = (0, 0);
        while count < most.min(BATCH) && sent < data.len() {
            let part = data.part(sent, piece);
            let header =
                Header { len: header.len + sent as u64, payload: part.len() as u32, ..*header };
            packets[count] = self.packet(Track::Large, &header, &[part], count);
            count += 1;
            sent += part.len();
        }
        match self.post(&packets[..count]) {
            taken if taken == count => (count, sent),
            // The link has failed: what went is sent again over another one.
            taken => (taken, 0),
        }
    }

    #[inline]
    fn packet(&mut self, track: Track, header: &Header, parts: &[Span], behind: usize) -> Packet {
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let slot = (self.posted + behind) % self.slots;
        let len = self.pair.fill(slot, &raw[..header.kind.header_len()], parts);
        Packet { slot, len, word: self.flow.sends(track) }
    }

    #[inline]
    fn post(&mut self, packets: &[Packet]) -> usize {
        let taken = self.pair.post(packets);
        self.posted += taken;
        if taken < packets.len() {
            self.fail(Cause::Broken(libc::EIO));
        }
        taken
    }

    /// A packet has come into a buffer. True: the buffer stays with the link until the packet is released.
    pub(super) fn receive(&mut self, buffer: u32, len: usize, word: Option<u32>) -> bool {
        if !self.is_open {
            return false;
        }
        let taken = word.ok_or(Malformed).and_then(|word| self.flow.receives(word, len > 0));
        match taken {
            Ok(Some(track)) => {
                self.arrivals[track as usize].push_back(Arrival { buffer, len });
                true
            }
            Ok(None) => false,
            Err(Malformed) => {
                self.fail(Cause::Malformed);
                false
            }
        }
    }

    fn none(&self) -> Peek {
        match self.gone {
            Some(cause) if self.is_open => Peek::Gone(cause),
            _ => Peek::Empty,
        }
    }

    /// The first packet of a track: its header, its buffer, and its payload.
    fn first(&self, adapter: &Adapter, track: Track) -> Option<Result<(Header, Span), Malformed>> {
        let Arrival { buffer, len } = *self.arrivals[track as usize].front()?;
        // SAFETY: used before the buffer is posted again.
        let packet = unsafe { adapter.received(buffer, 0, len) };
        // SAFETY: the adapter has written that much, and writes no more until the buffer is posted again.
        let bytes = unsafe { std::slice::from_raw_parts(packet.as_ptr(), packet.len()) };
        Some(Header::decode(bytes).and_then(|header| {
            let at = header.kind.header_len();
            let payload = packet.part(at, usize::MAX);
            let is_whole = at + header.payload as usize == bytes.len();
            if is_whole { Ok((header, payload)) } else { Err(Malformed) }
        }))
    }

    pub(super) fn peek_small(&self, adapter: &Adapter) -> Peek {
        match self.first(adapter, Track::Small) {
            Some(Ok((header, payload))) => Peek::Packet(header, payload),
            Some(Err(Malformed)) => Peek::Gone(Cause::Malformed),
            None => self.none(),
        }
    }

    pub(super) fn peek_large(&mut self, adapter: &Adapter) -> Peek {
        if self.read > 0 {
            return Peek::Empty;
        }
        match self.first(adapter, Track::Large) {
            Some(Ok((header, _))) if header.kind == Kind::Data => {
                self.read = header.kind.header_len();
                if header.payload == 0 {
                    return Peek::Gone(Cause::Malformed);
                }
                Peek::Packet(header, Span::EMPTY)
            }
            Some(_) => Peek::Gone(Cause::Malformed),
            None => self.none(),
        }
    }

    /// Up to `len` bytes of the packet that `peek_large` showed, and its buffer, if that is all of it.
    pub(super) fn read_large(&mut self, adapter: &Adapter, len: usize) -> (Span, Option<u32>) {
        let Some(&Arrival { buffer, len: whole }) =
            self.arrivals[Track::Large as usize].front().filter(|_| self.read > 0)
        else {
            return (Span::EMPTY, None);
        };
        let len = len.min(whole - self.read);
        // SAFETY: the caller posts the buffer after it has copied.
        let part = unsafe { adapter.received(buffer, self.read, len) };
        self.read += len;
        if self.read < whole {
            return (part, None);
        }
        (part, self.release(Track::Large))
    }

    /// The first packet of a track is done with: its buffer.
    pub(super) fn release(&mut self, track: Track) -> Option<u32> {
        let arrival = self.arrivals[track as usize].pop_front()?;
        if track == Track::Large {
            self.read = 0;
        }
        self.flow.releases(track);
        Some(arrival.buffer)
    }

    /// Closes it, and gives `each` of the buffers that it holds away.
    pub(super) fn close(&mut self, mut each: impl FnMut(u32)) {
        self.is_open = false;
        self.socket = None;
        for track in Track::ALL {
            while let Some(buffer) = self.release(track) {
                each(buffer);
            }
        }
    }

    /// Something has happened on the socket.
    pub(super) fn look(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut byte = [0u8; 2];
        // SAFETY: a local array.
        let got = unsafe {
            libc::recv(socket.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), libc::MSG_DONTWAIT)
        };
        match got {
            1 if byte[0] == READY && !self.may_send => {
                self.may_send = true;
                // The end may have come with it.
                self.look();
            }
            0 => self.ends = true,
            1.. => self.fail(Cause::Malformed),
            _ => match errno() {
                libc::EAGAIN | libc::EINTR => {}
                libc::ECONNRESET | libc::EPIPE => self.ends = true,
                other => self.fail(Cause::Broken(other)),
            },
        }
    }
}
