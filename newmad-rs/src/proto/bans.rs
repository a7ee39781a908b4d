//! Bans: messages that this process does not wait for, whatever their senders do.
//!
//! A layer above that knows which ranks belong together (a communicator) names its messages by a tag and the bits of it
//! that count.
//!
//! | ban | receives and probes that wait, and those to come | sends |
//! |---|---|---|
//! | *revoked* | end | announced ones that no receive has matched end, or are asked back; later announced ones end |
//! | *any source* | those from any rank end; one that *stays* is alarmed: its owner's wait ends, the request goes on | go on |
//!
//! A message that has come already is received as ever: the layer above refuses the call if it is to be refused.
//!
//! `banning` puts them in force.
//!
//! In good times there are no bans, and a request that is to wait asks one flag.

use crate::error::{Cause, Error};
use crate::request::tag::{is_call, is_collective};
use crate::request::{ANY_SOURCE, Outcome, Ref};

/// Whether a receive is for remote calls from anywhere, or for what groups tell of failures. It waits on when no other process
/// is left: this one may call itself, and ranks of it may be members.
pub(super) fn serves_all(request: Ref, has_neighbours: bool) -> bool {
    request.peer == ANY_SOURCE
        && (is_call(request.tag) || has_neighbours && is_collective(request.tag))
}

/// Why messages are not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Revoked,
    /// This rank has failed: receives from any rank may wait for its message.
    AnySource(u32, Cause),
}

impl Reason {
    pub(super) fn error(self) -> Error {
        match self {
            Reason::Revoked => Error::ContextRevoked,
            Reason::AnySource(rank, cause) => Error::PeerDied { rank, cause },
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        match self {
            Reason::Revoked => Outcome::Revoked,
            Reason::AnySource(rank, cause) => Outcome::Died(rank, cause),
        }
    }

    /// Whether the ban is the same, though perhaps for another rank.
    pub(super) fn is_like(self, other: Reason) -> bool {
        (self == Reason::Revoked) == (other == Reason::Revoked)
    }
}

/// A ban of the messages of one rank of this process whose tags agree with `tag` in the bits of `mask`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ban {
    pub(crate) mine: u16,
    pub(crate) tag: u64,
    pub(crate) mask: u64,
    pub(crate) reason: Reason,
}

impl Ban {
    /// Whether it is about all messages that such a request of `mine` may wait for.
    pub(super) fn covers(&self, mine: u16, peer: u32, (tag, mask): (u64, u64)) -> bool {
        let same =
            self.mine == mine && mask & self.mask == self.mask && tag & self.mask == self.tag;
        same && (self.reason == Reason::Revoked || peer == ANY_SOURCE)
    }

    pub(super) fn is_on(&self, request: Ref) -> bool {
        self.covers(request.mine.get(), request.peer, (request.tag, request.mask))
    }
}
