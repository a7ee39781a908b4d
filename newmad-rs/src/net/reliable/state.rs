//! Reliability of a gate's links: how they open, break, are repaired, and which of them carries the small track.
//!
//! ```text
//! Closed --first send, or receive that names the peer--> Wanted --attach--> Open
//! Open --end, gap, bad checksum, silence--> Broken --attach--> Open
//! ```
//! *Numbers.* The small packets of a gate are numbered across its links. A receiver takes each number once, in order:
//! it drops a packet that it has, and a number that is ahead means that the link has lost a packet, which breaks the
//! link. (A link delivers in order or breaks, and a second link begins with the oldest packet that is not acknowledged,
//! so an honest sender's numbers are never ahead.)
//!
//! *Acknowledgements.* Every packet says which number its sender expects next. Over rails that can break the sender
//! keeps a copy of each packet until then ([`retransmit`](super::retransmit)). The receiver sends an `Ack` of its own
//! once a quarter of the sender's buffer is unacknowledged, for a packet that comes twice, for `Bye`, and for a
//! `Probe`.
//!
//! *A link breaks*: its driver closes it, the connection manager is asked for a new one, and what was under way on it
//! does not count. If it carried the small track, the track moves to the best open link, or waits for one, and all
//! packets that are not acknowledged are sent again before any new one. The receiver of a large message is asked which
//! of the lost parts it has, and the missing ranges go over any link (`proto/missing.rs`); a part that was still under
//! way then comes twice, to the same place. A link that is attached while the old one seems open means that the peer
//! has noticed the break first: the old one is given up.
//!
//! *Time* comes from `Core::tick` alone, which polls first: no other thread may be polling. While packets are not
//! acknowledged, or pieces are under way, each tick asks the drivers whether their links are silent, which breaks
//! them. The connection manager calls it each 50 ms; where a thread sleeps for events, which is woken by news and by the end of a
//! link, and every link is whole, only when a peer is to be asked (twenty looks a second were the most of what a process spent that
//! waited for an answer). A tick asks for an acknowledgement with a `Probe`, then ever more seldom: a probe wakes the peer, which may be
//! waiting for something else. A link without news for [`PATIENCE_MS`] breaks. A peer has failed after `NMAD_REPAIR_MS`
//! without a working link; a link that breaks before it delivers anything does not reset that timer. So a connection on
//! which no more is sent costs one probe and its answer, and then nothing.
//!
//! Rejected: packets kept by their user's buffer (a send would be over only when acknowledged: a round trip for
//! each small message); acknowledgement by rail (two windows to reconcile when one breaks).

use crate::error::Cause;
use crate::net::reliable::retransmit::Retransmit;

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
    /// Links over which something has come since they were opened last.
    pub(crate) carried: u8,
    /// Why the last one broke.
    pub(crate) cause: Cause,
    /// When the gate was first seen without any link, since anything came over one.
    pub(crate) alone_since: Option<u64>,
    /// A link was made again, the small track goes over one that can break, and nothing has come since.
    pub(crate) unheard: bool,
    /// Packets that are not acknowledged; made with the first link that can break.
    pub(crate) retransmit: Option<Box<Retransmit>>,
    /// The oldest unacknowledged number at the last news, and when that was.
    pub(crate) news: Option<(u32, u64)>,
    /// When the peer is asked next, and how long after that it would be asked again.
    pub(crate) ask: (u64, u64),
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
    pub(crate) fn new() -> Reliability {
        Reliability {
            broken: 0,
            carried: 0,
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

    /// Something came over that rail.
    pub(crate) fn heard_over(&mut self, rail: usize) {
        self.carried |= 1 << rail;
        self.heard();
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
    pub(crate) fn wait_for_news(&mut self, oldest: u32, now: u64) {
        self.news = Some((oldest, now));
        self.ask = (now + SOON_MS, SOON_MS);
    }

    /// Whether the peer is to be asked now; then it is asked again ever later.
    pub(crate) fn asks_at(&mut self, now: u64) -> bool {
        let (at, pause) = self.ask;
        if now < at {
            return false;
        }
        let pause = SELDOM_MS.min(pause * 2);
        self.ask = (now + pause, pause);
        true
    }

    /// In how many milliseconds the peer is to be asked.
    pub(crate) fn asks_in(&self, now: u64) -> u32 {
        self.ask.0.saturating_sub(now).min(SELDOM_MS) as u32
    }
}
