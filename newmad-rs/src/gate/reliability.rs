//! The links of a gate: how they open, break, are repaired, and which of them carries the small track.
//!
//! ```text
//! Closed --first send, or receive that names the peer--> Wanted --attach--> Open
//! Open --end, gap, bad checksum, silence--> Broken --attach--> Open
//! ```
//! *Numbers.* Small packets of a gate are numbered, over whichever link they go. A receiver takes them in that order,
//! each once: what it has it drops, and a number that is ahead means that the link has lost something, which breaks
//! it. (A link delivers in order or breaks; what is sent over a second one begins with the oldest packet that is not
//! acknowledged, so an honest sender's numbers are never ahead.)
//!
//! *Acknowledgements.* Every packet says which number its sender expects next. Over rails that can break the sender keeps
//! a copy until then ([`retransmit`](super::retransmit)); the receiver sends an `Ack` of its own when it owes word for a quarter of
//! what the sender can keep, when it gets something twice, for `Bye`, and for a `Probe`.
//!
//! *A link breaks*: its driver closes it, the connection manager is asked for a new one, and nothing that was on it counts. If it had
//! the small track, that moves to the best link that is open, or waits for one, and everything that is not acknowledged
//! is sent again before anything new. Of parts of large messages that went over it the receiver is asked what it has, and
//! what is missing goes over any link (`proto/missing.rs`); what is still on its way then it has twice, in the same place. When a link is attached although the old one is not
//! known to be broken, the peer has noticed first: the old one is given up.
//!
//! *Time* comes from `Core::tick` alone, which polls first: no other thread may be polling. As long as something
//! is not acknowledged or pieces are on their way each tick asks the drivers whether their links are silent, which breaks
//! them. What stays unacknowledged is asked after with a `Probe`, then ever more seldom: it wakes the peer, who may be waiting
//! for something else. A link over which no news has come for [`PATIENCE_MS`] breaks; a peer has failed
//! after `NMAD_REPAIR_MS` without a working link. A link that breaks before it delivers anything does not reset that timer. So a connection on which nothing is
//! sent any more costs one probe and its answer, and then nothing.
//!
//! Rejected: packets kept by their user's buffer (a send would be over only when acknowledged: a round trip for
//! each small message); acknowledgement by rail (two windows to reconcile when one breaks).

use crate::error::Cause;
use crate::gate::retransmit::Retransmit;

/// How long unacknowledged packets wait for news before their link counts as broken.
pub(crate) const PATIENCE_MS: u64 = 5_000;
/// How long they wait before the peer is asked for the first time; it doubles each time, up to [`SELDOM_MS`].
const SOON_MS: u64 = 50;
const SELDOM_MS: u64 = 400;

/// A word that is owed to the peer: what it sent is here.
pub(crate) const ACK: u8 = 1;
/// A word that is owed to the peer: whether it is there.
pub(crate) const PROBE: u8 = 2;

/// What a gate needs where its links can break.
pub(crate) struct Reliability {
    /// Links that were open and are not.
    pub(crate) broken: u8,
    /// Why the last one broke.
    pub(crate) cause: Cause,
    /// When the gate was first seen without any link, since anything came over one.
    pub(super) alone_since: Option<u64>,
    /// A link was made again, the small track goes over one that can break, and nothing has come since.
    pub(super) unheard: bool,
    /// Packets that are not acknowledged; made with the first link that can break.
    pub(crate) retransmit: Option<Box<Retransmit>>,
    /// The oldest unacknowledged number at the last news, and when that was.
    pub(super) news: Option<(u32, u64)>,
    /// When the peer is asked next, and how long after that it would be asked again.
    pub(super) ask: (u64, u64),
    /// Bytes that were taken and not acknowledged.
    pub(crate) unacknowledged: usize,
    /// Words owed: [`ACK`], [`PROBE`].
    pub(crate) due: u8,
    /// What is kept is being sent again.
    pub(crate) resending: bool,
    /// Pieces may come that no request waits for any more.
    pub(crate) late: bool,
    /// Messages that stream have lost something, and the peer was not asked what it has.
    pub(crate) asks: bool,
}

impl Reliability {
    pub(super) fn new() -> Reliability {
        Reliability {
            broken: 0,
            cause: Cause::Vanished,
            alone_since: None,
            unheard: false,
            retransmit: None,
            news: None,
            ask: (0, SOON_MS),
            unacknowledged: 0,
            due: 0,
            resending: false,
            late: false,
            asks: false,
        }
    }

    /// Something came.
    pub(crate) fn heard(&mut self) {
        self.alone_since = None;
        self.unheard = false;
    }

    /// Whether the peer has acknowledged everything.
    pub(crate) fn is_settled(&self) -> bool {
        self.retransmit.as_ref().is_none_or(|buffer| buffer.is_empty())
    }

    /// The oldest packet without an acknowledgement is this one since `now`: the peer is asked soon.
    pub(super) fn wait_for_news(&mut self, oldest: u32, now: u64) {
        self.news = Some((oldest, now));
        self.ask = (now + SOON_MS, SOON_MS);
    }

    /// Whether the peer is to be asked now; then it is asked again ever later.
    pub(super) fn asks_at(&mut self, now: u64) -> bool {
        let (at, pause) = self.ask;
        if now < at {
            return false;
        }
        let pause = SELDOM_MS.min(pause * 2);
        self.ask = (now + pause, pause);
        true
    }
}
