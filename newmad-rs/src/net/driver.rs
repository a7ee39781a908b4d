//! The trait of drivers: what carries packets between ranks. The engine calls a driver through [`Driver`] and nothing
//! else.
//!
//! Each gate (the path to one peer) has two *tracks*: small (eager messages and control packets, in order)
//! and large (pieces of large messages that were asked for). Methods are on the progress path unless they say
//! otherwise: they allocate nothing, free nothing, never block or panic.

use std::sync::Arc;

use crate::memory::span::Span;
use crate::net::lease::SendLease;
use crate::net::packet::{Peek, Refused};
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::net::ready::Ready;
use crate::net::rings::Rings;
use crate::net::segment::Segment;
use crate::net::segment::bell::Bell;
use crate::wire::{Envelope, Header, Kind};

/// Carries the packets of one rail. See the module.
pub(crate) trait Driver: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Most payload bytes of one packet on the small track to `to`.
    fn mtu(&self, to: u32) -> usize;

    /// Whether this side may copy from and to the memory of `peer`.
    fn can_copy(&self, _peer: u32) -> bool {
        false
    }

    /// Whether `peer`, whose memory can be reached, would copy its part if a message went over the large track: a
    /// thread of the peer waits for a large message (`waits`: the peer said so). A hint.
    fn copies_too(&self, _peer: u32, _waits: bool) -> bool {
        false
    }

    /// Looks for what the tracks do not show: readiness, deaths. Called before each round.
    fn begin(&mut self) -> bool;

    /// Sends a packet on the small track. Its payload is gathered from at most [`GATHER_MAX_CHECKED`] parts, which are
    /// free again afterwards. False: the track has no room now.
    ///
    /// [`GATHER_MAX_CHECKED`]: crate::net::GATHER_MAX_CHECKED
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool;

    /// As `post_small`, of what concerns a peer that computes only once this side waits for its answer: until then it need
    /// not be rung.
    fn post_later(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        self.post_small(to, header, parts)
    }

    /// This side waits from now on: rings the peers that it has not rung at once, unless they have looked.
    fn pay_owed(&mut self) {}

    /// What it costs this side to ring a peer, in nanoseconds, as far as is known.
    fn ring_ns(&self) -> u64 {
        0
    }

    /// As `post_small`, of a whole message in one piece: what most packets are. `numbers`: the sequence number, and the
    /// one expected next.
    #[inline]
    fn post_eager(&mut self, to: u32, numbers: (u32, u32), envelope: Envelope, data: Span) -> bool {
        let (seq, ack) = numbers;
        let (len, payload) = (data.len() as u64, data.len() as u32);
        let Envelope { tag, ends } = envelope;
        let header = Header { seq, ack, tag, ends, len, payload, ..Header::new(Kind::Eager) };
        self.post_small(to, &header, &[data])
    }

    /// Leases the sending end of the small track to `to`. The track is full until the lease is
    /// [taken back](Driver::take_back). `None`: this driver, or gate, grants no lease.
    fn lend(&mut self, _to: u32) -> Option<SendLease> {
        None
    }

    /// Whether ranks of one node map each other's segments.
    fn has_segments(&self) -> bool {
        false
    }

    /// The segments of this rank and of `peer`, if both map both. Callers' context.
    fn segments(&self, _peer: u32) -> Option<[Arc<Segment>; 2]> {
        None
    }

    /// The process of that peer, if the kernel lets this one read its memory. Callers' context.
    fn readable_process(&self, _peer: u32) -> Option<i32> {
        None
    }

    /// Takes back a lease.
    fn take_back(&mut self, _to: u32, _lease: SendLease) {}

    /// The packet at the head of the small track from `from`. Again the same until `release`.
    fn peek_small(&mut self, from: u32) -> Peek;

    /// The packet that `peek_small` showed is done with.
    fn release(&mut self, from: u32);

    /// Sends as much as goes now of `data` on the large track, in pieces with headers made from `header` (id
    /// of the receiver and, in `len`, offset of `data` in the message). Returns the number of bytes gone.
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize;

    /// How many bytes are missing of a piece that has left in part: the next `post_large` goes on with it. (At least
    /// one while a part of the header is missing.)
    fn mid_piece(&self, _to: u32) -> usize {
        0
    }

    /// Most payload bytes that `post_large` sends under one header.
    fn longest_piece(&self, _to: u32) -> usize {
        usize::MAX
    }

    /// Whether a connection of this rail can end although the peer lives.
    fn can_break(&self) -> bool;

    /// Whether the machine of that peer answers neither what was sent to it nor the kernel's probes: the link is cut,
    /// and no error has said so. Asked now and then, in callers' context.
    fn is_silent(&self, _peer: u32) -> bool {
        false
    }

    /// The piece at the head of the large track from `from`: its header, once.
    fn peek_large(&mut self, from: u32) -> Peek;

    /// Reads up to `len` bytes of the piece that `peek_large` showed. Zero: none has come yet.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable and exclusive.
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize;

    /// Copies `len` bytes at `remote` in the memory of `from` here. Returns how many, at least one.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable and exclusive; `remote` was announced by that peer for that many.
    unsafe fn get(
        &mut self,
        _from: u32,
        _remote: u64,
        _to: *mut u8,
        _len: usize,
    ) -> Result<usize, Refused> {
        Err(Refused::Unable)
    }

    /// Copies `data` to `remote` in the memory of `to`. Returns how many bytes, at least one.
    ///
    /// # Safety
    /// `remote` was announced by that peer as writable for that many bytes.
    unsafe fn put(&mut self, _to: u32, _remote: u64, _data: Span) -> Result<usize, Refused> {
        Err(Refused::Unable)
    }

    /// Whether the adapter of this link can read messages from the memory of `peer`.
    fn can_read(&self, _peer: u32) -> bool {
        false
    }

    /// Begins to register memory, for messages with `peer`. [`Driver::rdma_event`] tells when a source is registered, or
    /// that the memory cannot be. `None`: there is no place for it now.
    ///
    /// # Safety
    /// A source is readable until `unregister`; after that, peers may go on to read what is there.
    /// A target is writable and exclusive from a [`Driver::read`] on until an event tells the read's end.
    unsafe fn register(
        &mut self,
        _peer: u32,
        _at: *mut u8,
        _len: usize,
        _access: Access,
    ) -> Option<Ticket> {
        None
    }

    /// Fills a target from `remote` in the memory of its peer, which has told `key` for it, as soon as the target is
    /// registered. Once for each. An event tells the end.
    ///
    /// # Safety
    /// As `register` says.
    unsafe fn read(&mut self, _target: Ticket, _remote: u64, _key: u32) {}

    /// The memory is not needed any more, and no event tells of it. No read into it is to end.
    fn unregister(&mut self, _memory: Ticket) {}

    /// What has become of registered memory: the next event, if there is one.
    fn rdma_event(&mut self) -> Option<(Ticket, RdmaEvent)> {
        None
    }

    /// Whether everything that was posted to `to` has left this process.
    fn is_flushed(&self, _to: u32) -> bool {
        true
    }

    /// Whether an end of this side before the peers' goodbyes would look like a death, or lose packets that are under
    /// way.
    fn waits_for_goodbye(&self) -> bool {
        true
    }

    /// This side ends, without waiting for goodbyes: peers stop copying from and to its memory. False: one peer is
    /// still copying, and will wake this side when it is done.
    fn withdraw(&mut self) -> bool {
        true
    }

    /// The gate is dead: nothing more is sent to or read from `peer`. Closes its connections.
    fn close(&mut self, peer: u32);

    /// Asks peers to ring for these packets. True: the caller must look for packets that came before. False: no such
    /// packet came before.
    fn arm(&mut self, rings: Rings) -> bool;

    /// Before a poll that takes every packet. A caller that stops earlier calls [`Driver::leave_some`].
    fn look_at_all(&mut self) {}

    /// A poll may have left packets on a track.
    fn leave_some(&mut self) {}

    /// Whether its peers ring for some packets only. If not, arming it for anything is arming it for everything.
    fn tells_apart(&self) -> bool {
        false
    }

    /// The doorbell that peers ring, which any thread may silence without the engine's lock. `None`: a sleeper is woken
    /// by the descriptor alone.
    fn doorbell(&self) -> Option<&Arc<Bell>> {
        None
    }

    /// Whether each packet costs a system call, so that packets of several messages pay.
    fn calls_the_kernel(&self) -> bool {
        false
    }

    /// Makes the descriptor readable.
    fn wake_oneself(&mut self);

    /// As [`Driver::wake_oneself`], at that moment of [`now_ns`](crate::sys::now_ns), and at no other for which this was
    /// called before; 0: at none. False: the driver has no timer.
    fn wake_oneself_at(&mut self, _ns: u64) -> bool {
        false
    }

    /// What becomes readable when a packet came while armed. `None`: nothing does.
    fn ready(&self) -> Option<&Arc<Ready>>;
}
