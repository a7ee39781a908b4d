//! Drivers: what carries packets between ranks. The engine calls one through [`Driver`] and nothing else.
//!
//! Each gate (the path to one peer) has two *tracks*: small (eager messages and control packets, in order)
//! and large (pieces of big messages that were asked for). Methods are on the progress path unless they say
//! otherwise: they allocate nothing, free nothing, never block or panic.

use std::sync::Arc;

use self::ready::Ready;
use self::shm::word;
use crate::error::Cause;
use crate::proto::{Header, Kind};
use crate::request::span::Span;

pub(crate) mod any;
pub(crate) mod card;
pub(crate) mod local;
pub(crate) mod ready;
pub(crate) mod shm;
pub(crate) mod tcp;

pub(crate) use shm::outlet::Outlet;

/// Most pieces of memory that one small packet is gathered from.
pub(crate) const MAX_PARTS: usize = 32;
/// As many, and a checksum.
pub(crate) const MOST_PARTS: usize = MAX_PARTS + 1;

/// For what a rank that does not poll is to be woken: a bit each. A hint for drivers that can tell them apart; the others
/// wake it for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings(pub(crate) u32);

impl Rings {
    /// Nothing.
    pub(crate) const NONE: Rings = Rings(0);
    /// A short message, or news that needs no answer.
    pub(crate) const MESSAGE: Rings = Rings(word::MESSAGE);
    /// What its sender needs an answer to: an announcement, a piece of a large message, a track that is full.
    pub(crate) const CONTROL: Rings = Rings(word::CONTROL);
    /// Room on a track that was full.
    pub(crate) const ROOM: Rings = Rings(word::ROOM);
    /// Everything.
    pub(crate) const ALL: Rings = Rings(word::MESSAGE | word::CONTROL | word::ROOM);

    /// For a packet of this kind.
    #[inline]
    pub(crate) fn of(kind: Kind) -> Rings {
        match kind {
            Kind::Eager | Kind::First | Kind::Next | Kind::Ack => Rings::MESSAGE,
            _ => Rings::CONTROL,
        }
    }

    pub(crate) fn and(self, other: Rings) -> Rings {
        Rings(self.0 | other.0)
    }

    pub(crate) fn has(self, other: Rings) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What came on a track.
#[derive(Clone, Copy)]
pub(crate) enum Peek {
    /// Nothing.
    Empty,
    /// A packet. Its payload stays where it is until `release` (small track) or is still to be read
    /// (large track: the span is empty).
    Packet(Header, Span),
    /// The peer is gone, and everything that it sent before has been taken.
    Gone(Cause),
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// It is on its way and its memory is free again.
    Posted,
    /// The track has no room now.
    Full,
}

/// Why bytes could not be copied from or to a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This is not possible between these two processes.
    Unable,
    /// The peer is gone: its gate's end will be seen when what it sent before has been taken.
    Gone,
}

/// See the module.
pub(crate) trait Driver: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Most payload bytes of one packet on the small track to `to`.
    fn mtu(&self, to: u32) -> usize;

    /// Whether this side may copy from and to the memory of `peer`.
    fn can_copy(&self, peer: u32) -> bool;

    /// Whether `peer`, whose memory can be reached, would copy its part if a message went over the large track: some
    /// thread of it waits for a large message (`waits`: one does, it said). A hint.
    fn copies_too(&self, peer: u32, waits: bool) -> bool;

    /// Looks for what is not seen by looking at the tracks: readiness, deaths. Called before each round.
    fn begin(&mut self) -> bool;

    /// Sends a packet on the small track. Its payload is gathered from at most [`MOST_PARTS`] parts.
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> Post;

    /// As `post_small`, of a whole message in one piece: what most packets are. `numbers`: the sequence number, and the one
    /// expected next.
    #[inline]
    fn post_eager(&mut self, to: u32, numbers: (u32, u32), tag: u64, data: Span) -> Post {
        let (seq, ack) = numbers;
        let (len, payload) = (data.len() as u64, data.len() as u32);
        let header = Header { seq, ack, tag, len, payload, ..Header::new(Kind::Eager) };
        self.post_small(to, &header, &[data])
    }

    /// Gives the sending end of the small track to `to` out of hand: who has it calls its `post_eager`. There is no room on
    /// the track until it is [taken back](Driver::take_back). `None`: this driver, or gate, has nothing to lend.
    fn lend(&mut self, _to: u32) -> Option<Outlet> {
        None
    }

    /// Takes back what it has lent.
    fn take_back(&mut self, _to: u32, _outlet: Outlet) {}

    /// The packet at the head of the small track from `from`. Again the same until `release`.
    fn peek_small(&mut self, from: u32) -> Peek;

    /// The packet that `peek_small` showed is done with.
    fn release(&mut self, from: u32);

    /// Sends as much as goes now of `data` on the large track, in pieces with headers made from `header` (id
    /// of the receiver and, in `len`, offset of `data` in the message). Returns the number of bytes gone.
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize;

    /// How many bytes are missing of a piece that has left in part: the next `post_large` goes on with it. (At least
    /// one while a part of the header is missing.)
    fn mid_piece(&self, to: u32) -> usize;

    /// Whether a connection of this rail can end although the peer lives.
    fn can_break(&self) -> bool;

    /// Whether what was sent to that peer gets no answer from its machine, or a question whether it is there: the link
    /// is cut, and nobody has said so. Asked now and then, in callers' context.
    fn is_silent(&self, _peer: u32) -> bool {
        false
    }

    /// The piece at the head of the large track from `from`: its header, once.
    fn peek_large(&mut self, from: u32) -> Peek;

    /// Reads up to `len` bytes of the piece that `peek_large` showed. Zero: none has come yet.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable, and nobody else touches them.
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize;

    /// Copies `len` bytes at `remote` in the memory of `from` here. Returns how many, at least one.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable and exclusive; `remote` was announced by that peer for that many.
    unsafe fn pull(
        &mut self,
        from: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused>;

    /// Copies `data` to `remote` in the memory of `to`. Returns how many bytes, at least one.
    ///
    /// # Safety
    /// `remote` was announced by that peer as writable for that many bytes.
    unsafe fn push(&mut self, to: u32, remote: u64, data: Span) -> Result<usize, Refused>;

    /// Whether everything that was posted to `to` has left this process.
    fn is_flushed(&self, to: u32) -> bool;

    /// Whether the end of this side, without the peers having said goodbye, would look like a death or lose what
    /// is on the way.
    fn waits_for_goodbye(&self) -> bool;

    /// This side ends, without waiting for goodbyes: peers that copy straight from or to its memory do so no more. False:
    /// one still does, and will wake this side when it is done.
    fn withdraw(&mut self) -> bool {
        true
    }

    /// The gate is dead: nothing more is sent to or read from `peer`. Closes its connections.
    fn bury(&mut self, peer: u32);

    /// Asks peers to ring for these packets. True: the caller must look for packets that came before. False: none of them
    /// came before.
    fn arm(&mut self, rings: Rings) -> bool;

    /// Before a look that takes every packet. A caller that stops before calls [`Driver::leave_some`].
    fn look_at_all(&mut self) {}

    /// A look may have left packets on a track.
    fn leave_some(&mut self) {}

    /// Whether its peers tell apart for what they ring. If not, arming it for anything is arming it for everything.
    fn tells_apart(&self) -> bool {
        false
    }

    /// Makes the descriptor readable.
    fn wake_oneself(&mut self);

    /// What becomes readable when something came while armed. `None`: nothing does.
    fn ready(&self) -> Option<&Arc<Ready>>;
}
