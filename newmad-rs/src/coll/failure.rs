//! Why a collective fails, and with it its group.
//!
//! A collective needs all members. A member that cannot go on (a peer is dead, the lengths do not agree, an operator
//! panics) *revokes* the group: its collectives of the group end with an error, those under way and later ones, and it
//! sends a notice to all other members, which do the same in turn. So every member is told even if the first one dies
//! meanwhile.
//!
//! In good times no receive for notices is posted: it would be in the path of every message. A thread that has waited
//! for a collective for longer than [`PATIENCE`] posts one beside it, and so does every 64th collective from its start,
//! for the sake of members that never wait. A notice that came earlier is there as an unexpected message.
//!
//! A member that has given up does not match the messages of the others any more. Its *janitor* receives and discards
//! them: a receive of no bytes for any tag of the group, from any member, again and again, until the session ends. So a
//! long send of a member that is told later ends as well, and its memory is its owner's again.
//!
//! Rejected: messages that say "failed" instead of the data, passed on along the plan (a member that has given up
//! earlier does not carry out the plan of the next collective, and would have to); a time limit (which?).

use std::time::Duration;

use crate::error::{Cause, Error};

/// How long a thread waits for a collective before it listens for notices.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Why a group is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A member is gone.
    Died(u32, Cause),
    /// A message had another length than the plan says.
    Mismatch {
        from: u32,
        expected: usize,
        found: usize,
    },
    /// That member has given up, because a member is gone or for another reason.
    Revoked {
        by: u32,
        gone: bool,
    },
    /// Another collective of the group has failed here, not because a member is gone.
    Before,
    /// An operator panicked here.
    Panicked,
    /// A member has revoked the group, and the members tell each other by other means.
    Context,
    /// The thread that waited was unwound here.
    Abandoned,
    Closed,
}

impl Failure {
    /// Of a request that failed.
    pub(super) fn of(error: &Error, expected: usize) -> Failure {
        match *error {
            Error::PeerDied { rank, cause } => Failure::Died(rank, cause),
            Error::Truncated { from, message, .. } => {
                Failure::Mismatch { from, expected, found: message }
            }
            _ => Failure::Closed,
        }
    }

    /// Of a collective that others did for this one.
    pub(super) fn of_part(error: &Error) -> Failure {
        match *error {
            Error::PeerDied { rank, cause } => Failure::Died(rank, cause),
            Error::Revoked { by: Some(by), gone } => Failure::Revoked { by, gone },
            Error::Mismatch { from, expected, found } => {
                Failure::Mismatch { from, expected, found }
            }
            Error::Revoked { by: None, .. } => Failure::Before,
            Error::ContextRevoked => Failure::Context,
            _ => Failure::Closed,
        }
    }

    /// As a program is told.
    pub(super) fn error(self) -> Error {
        match self {
            Failure::Died(rank, cause) => Error::PeerDied { rank, cause },
            Failure::Mismatch { from, expected, found } => {
                Error::Mismatch { from, expected, found }
            }
            Failure::Revoked { by, gone } => Error::Revoked { by: Some(by), gone },
            Failure::Panicked | Failure::Abandoned | Failure::Before => {
                Error::Revoked { by: None, gone: false }
            }
            Failure::Context => Error::ContextRevoked,
            Failure::Closed => Error::Closed,
        }
    }

    /// As the other collectives of the group fail with it.
    pub(super) fn of_another(self) -> Failure {
        if let Failure::Mismatch { .. } = self { Failure::Before } else { self }
    }

    /// Whether a member is gone.
    pub(super) fn is_of_gone(self) -> bool {
        matches!(self, Failure::Died(..) | Failure::Revoked { gone: true, .. })
    }
}
