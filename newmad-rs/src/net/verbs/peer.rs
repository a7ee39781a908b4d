//! A gate over verbs: a queue pair, and a socket by whose end the peer's is noticed.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{SendFlags, send};

use super::Track;
use super::channels::{Route, TAIL};
use super::eager::{BEHIND, Eager, News, Next};
use super::flow::Flow;
use super::ibv::{Adapter, BATCH, Packet, QueuePair};
use super::pieces::Read;
use crate::error::Cause;
use crate::memory::span::Span;
use crate::net::packet::Peek;
use crate::sys::errno;
use crate::wire::{Header, Kind, LONG, Malformed};

/// What the caller writes to the socket when its queue pair can receive.
const READY: u8 = b'r';

/// Where the flags begin in the word that travels with every packet, behind flow control's part.
const FLAGS: u32 = 25;
/// The packet is one of control between the ends of eager channels.
const CONTROL: u32 = 1 << FLAGS;
/// The packet's last bytes say how many slots of an eager channel were written before it.
const AFTER_SLOTS: u32 = 2 << FLAGS;

/// A packet that has come.
#[derive(Clone, Copy)]
struct Arrival {
    buffer: u32,
    len: usize,
    /// Slots of the eager channel that were written before it.
    behind: u32,
}

/// See the module.
pub(crate) struct Peer {
    pub(super) pair: QueuePair,
    pub(super) socket: Option<OwnedFd>,
    flow: Flow,
    /// Requests to send, which are packets and writes, not reads: given to the adapter, and over. A request's slot is its
    /// number modulo `slots`.
    posted: usize,
    over: usize,
    slots: usize,
    /// Reads that are under way.
    reads: usize,
    /// Bytes of the small packets that are under way by send and receive, by slot; zero for other requests.
    sizes: Box<[u16]>,
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
    // Behind the queue pair, by which the peer writes into its memory.
    /// `None`: this process has no eager channels.
    pub(super) eager: Option<Box<Eager>>,
}

impl Peer {
    pub(super) fn new(
        pair: QueuePair,
        socket: OwnedFd,
        grants: (u16, u16),
        slots: usize,
        is_caller: bool,
        buffers: std::ops::Range<u32>,
        eager: Option<Box<Eager>>,
    ) -> Peer {
        let room = usize::from(grants.0);
        Peer {
            pair,
            socket: Some(socket),
            flow: Flow::new(grants.0, grants.1),
            posted: 0,
            over: 0,
            slots,
            reads: 0,
            sizes: vec![0; slots].into_boxed_slice(),
            arrivals: [VecDeque::with_capacity(room), VecDeque::with_capacity(room)],
            read: 0,
            may_send: is_caller,
            is_open: true,
            ends: false,
            gone: None,
            buffers,
            eager,
        }
    }

    /// Packets and writes that are under way.
    #[inline]
    pub(super) fn under_way(&self) -> usize {
        self.posted - self.over
    }

    /// This end is installed: the caller tells the called, which has waited, by a byte. (It told before it was installed, and
    /// packets that came in between were taken for those of a link that there was.)
    pub(super) fn is_installed(&mut self) {
        let Some(socket) = self.socket.as_ref().filter(|_| self.may_send) else { return };
        // The socket is new, so it has room.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if let Err(errno) = send(socket, &[READY], flags) {
            self.fail(Cause::Broken(errno.raw_os_error()));
        }
    }

    /// The link has failed, if it had not before.
    pub(super) fn fail(&mut self, cause: Cause) {
        self.gone.get_or_insert(cause);
    }

    /// A request to send is over.
    pub(super) fn sent(&mut self) {
        let size = std::mem::take(&mut self.sizes[self.over % self.slots]);
        if let Some(eager) = self.eager.as_mut().filter(|_| size > 0) {
            eager.out.over(size.into());
        }
        self.over += 1;
    }

    /// How many packets may be sent on that track: granted, and with a slot.
    #[inline]
    pub(super) fn granted(&self, track: Track) -> usize {
        if self.may_post() { self.flow.left(track) } else { 0 }
    }

    #[inline]
    fn may_post(&self) -> bool {
        self.is_open && self.may_send && self.gone.is_none()
    }

    /// Which way a packet of `len` bytes of the small track goes.
    #[inline]
    pub(super) fn route(&self, len: usize) -> Route {
        match &self.eager {
            Some(eager) if self.may_post() => eager.route(len),
            _ => Route::Closed,
        }
    }

    /// Whether messages can be read over it.
    pub(super) fn can_read(&self) -> bool {
        self.may_post()
    }

    /// Reads that are under way.
    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// A read is over.
    pub(super) fn has_read(&mut self) {
        self.reads -= 1;
    }

    /// Reads from the peer's memory. False: the link has failed.
    ///
    /// # Safety
    /// As [`QueuePair::read`] says.
    pub(super) unsafe fn read(&mut self, read: &Read) -> bool {
        // SAFETY: the caller's promise.
        let posted =
            unsafe { self.pair.read(read.number, read.to, read.len, (read.remote, read.key)) };
        self.reads += usize::from(posted);
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
        self.is_open && self.gone.is_none() && (self.flow.is_due() || self.has_news())
    }

    /// Whether there is news about eager channels.
    #[inline]
    fn has_news(&self) -> bool {
        self.eager.as_ref().is_some_and(|eager| eager.has_news())
    }

    /// Whether it may be sent.
    pub(super) fn may_tell(&self) -> bool {
        self.may_send
    }

    /// Sends news about eager channels, else a packet without data. A slot is free. The number of requests, and whether
    /// a sleeper is woken.
    pub(super) fn tell(&mut self) -> (usize, bool) {
        let slot = self.posted % self.slots;
        let (len, flags, target) = match self.eager.as_mut().and_then(|eager| eager.news()) {
            Some(News::Message(message)) => {
                (self.pair.fill(slot, &message.encode(), &[], &[]), CONTROL, None)
            }
            Some(News::Word(place, word)) => {
                let len = self.pair.fill(slot, &word.to_le_bytes(), &[], &[]);
                let target = Some((place.address, place.key));
                return (self.post(&[Packet { slot, len, word: 0, target }]), false);
            }
            Some(News::Wake) => {
                let packet = Packet { slot, len: 0, word: self.flow.tells(), target: None };
                return (self.post(&[packet]), true);
            }
            None => (0, 0, None),
        };
        let packet = Packet { slot, len, word: self.flow.tells() | flags, target };
        (self.post(&[packet]), false)
    }

    /// Sends one packet. It is granted, and a slot is free.
    #[inline]
    pub(super) fn send(&mut self, track: Track, header: &Header, parts: &[Span]) -> usize {
        let packet = self.packet(track, header, parts, 0);
        self.post(&[packet])
    }

    /// Sends one packet of the small track by send and receive, and tells the eager channel why it did not go that way.
    #[inline]
    pub(super) fn send_small(&mut self, route: Route, header: &Header, parts: &[Span]) -> usize {
        let Some(eager) = &mut self.eager else { return self.send(Track::Small, header, parts) };
        let slot = self.posted % self.slots;
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let head = &raw[..header.kind.header_len()];
        let (len, flag) = match eager.out.behind() {
            None => (self.pair.fill(slot, head, parts, &[]), 0),
            Some(slots) => (self.pair.fill(slot, head, parts, &slots.to_le_bytes()), AFTER_SLOTS),
        };
        self.sizes[slot] = len as u16;
        eager.out.posted(route, len);
        let word = self.flow.sends(Track::Small) | flag;
        self.post(&[Packet { slot, len, word, target: None }])
    }

    /// Writes one packet of `len` bytes of the small track into the peer's memory. Its route is the ring, and a slot to
    /// send from is free.
    #[inline]
    pub(super) fn write(&mut self, len: usize, header: &Header, parts: &[Span]) -> usize {
        let Some(eager) = &mut self.eager else { return 0 };
        let slot = self.posted % self.slots;
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let (place, tail) = eager.out.target(len);
        let whole = self.pair.fill(slot, &raw[..header.kind.header_len()], parts, &tail.encode());
        if whole != len + TAIL {
            return 0;
        }
        eager.out.posted(Route::Ring, len);
        let target = Some((place.address, place.key));
        self.post(&[Packet { slot, len: whole, word: 0, target }])
    }

    /// Sends the beginning of a long message in up to `most` packets of `piece` bytes: how many packets, and bytes.
    pub(super) fn send_pieces(
        &mut self,
        header: &Header,
        data: Span,
        piece: usize,
        most: usize,
    ) -> (usize, usize) {
        let mut packets = [Packet { slot: 0, len: 0, word: 0, target: None }; BATCH];
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
        let len = self.pair.fill(slot, &raw[..header.kind.header_len()], parts, &[]);
        Packet { slot, len, word: self.flow.sends(track), target: None }
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
    pub(super) fn receive(
        &mut self,
        adapter: &Adapter,
        (buffer, len): (u32, usize),
        word: Option<u32>,
    ) -> bool {
        if !self.is_open {
            return false;
        }
        let taken =
            word.ok_or(Malformed).and_then(|word| self.accept(adapter, (buffer, len), word));
        match taken {
            Ok(Some((track, arrival))) => {
                self.arrivals[track as usize].push_back(arrival);
                true
            }
            Ok(None) => false,
            Err(Malformed) => {
                self.fail(Cause::Malformed);
                false
            }
        }
    }

    /// A packet with that word. `Some`: it is one for the engine.
    #[inline]
    fn accept(
        &mut self,
        adapter: &Adapter,
        (buffer, len): (u32, usize),
        word: u32,
    ) -> Result<Option<(Track, Arrival)>, Malformed> {
        let (flags, word) = (word >> FLAGS << FLAGS, word & ((1 << FLAGS) - 1));
        // SAFETY: used before the buffer is posted again.
        let part = |from, len| unsafe { adapter.received(buffer, from, len) };
        match flags {
            0 => {
                let track = self.flow.receives(word, len > 0)?;
                Ok(track.map(|track| (track, Arrival { buffer, len, behind: 0 })))
            }
            CONTROL => {
                self.flow.receives(word, false)?;
                // To a process without channels nothing of this matters: it gives no answer.
                self.eager.as_mut().map_or(Ok(()), |eager| eager.on_packet(part(0, len)))?;
                Ok(None)
            }
            AFTER_SLOTS if len > BEHIND => {
                let mut behind = [0; BEHIND];
                let len = len - BEHIND;
                let bytes = part(len, BEHIND);
                if bytes.len() != BEHIND || self.flow.receives(word, true)? != Some(Track::Small) {
                    return Err(Malformed);
                }
                // SAFETY: as long as the array.
                unsafe { bytes.copy_to(behind.as_mut_ptr()) };
                let behind = u32::from_le_bytes(behind);
                Ok(Some((Track::Small, Arrival { buffer, len, behind })))
            }
            _ => Err(Malformed),
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
        let Arrival { buffer, len, .. } = *self.arrivals[track as usize].front()?;
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

    #[inline]
    pub(super) fn peek_small(&mut self, adapter: &Adapter) -> Peek {
        if let Some(eager) = &mut self.eager {
            let behind = self.arrivals[Track::Small as usize].front().map(|first| first.behind);
            match eager.next(behind) {
                Ok(Some(Next::Slot(header, payload))) if self.is_open => {
                    return Peek::Packet(header, payload);
                }
                Ok(Some(Next::Packet)) => {}
                Ok(_) => return self.none(),
                Err(Malformed) => return Peek::Gone(Cause::Malformed),
            }
        }
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
        let Some(&Arrival { buffer, len: whole, .. }) =
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

    /// The packet of the small track that `peek_small` showed is done with: its buffer, if it was not in a slot.
    /// `clock`: for what channel was used least recently.
    #[inline]
    pub(super) fn release_small(&mut self, clock: &mut u64) -> Option<u32> {
        if let Some(eager) = &mut self.eager {
            *clock += 1;
            if eager.release(*clock) {
                return None;
            }
            if !self.arrivals[Track::Small as usize].is_empty() {
                eager.come.release_packet();
            }
        }
        self.release(Track::Small)
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
        if let Some(eager) = &mut self.eager {
            eager.close();
        }
        for track in Track::ALL {
            while let Some(buffer) = self.release(track) {
                each(buffer);
            }
        }
    }

    /// A poll begins: looks whether the peer polls. True: the peer is to be told that this side does.
    #[inline]
    pub(super) fn poll_channels(&mut self) -> bool {
        let Some(eager) = self.eager.as_mut().filter(|_| self.is_open) else { return false };
        let awake = eager.come.polled();
        if eager.look().is_err() {
            self.fail(Cause::Malformed);
        }
        awake
    }

    /// Whether the connection manager has something to do for its channels.
    #[inline]
    pub(super) fn has_wish(&self) -> bool {
        self.eager.as_ref().is_some_and(|eager| {
            if self.is_open { eager.come.has_wish() } else { eager.has_memory() }
        })
    }

    /// Bytes of rings in this process's memory.
    pub(super) fn bytes_of_channels(&self) -> u64 {
        self.eager.as_ref().map_or(0, |eager| eager.bytes())
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
