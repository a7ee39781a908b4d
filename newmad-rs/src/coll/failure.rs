//! How a collective fails, and with it its group.
//!
//! A collective needs all members. So when one of them cannot go on (a peer is dead, the lengths do not agree, an operator
//! panics), it *revokes* the group: what it has under way in the group ends with an error, so does whatever it starts there
//! later, and it sends a notice to all other members, who do the same in turn. So everybody is told even if whoever
//! noticed first dies on the way.
//!
//! Nobody listens for notices in good times: that would be one more posted receive in the path of every message. Who has
//! waited for a collective for longer than [`PATIENCE`] posts a receive for them beside it, and so does every 64th collective
//! from its start, for the sake of those that never have to wait. A notice that came earlier is there as an unexpected
//! message.
//!
//! A member that has given up does not match the messages of the others any more. Its *janitor* takes them and throws them
//! away: a receive of no bytes for any tag of the group, from anybody, again and again, until the session ends. So a long
//! send of a member that is told later ends as well, and its memory is its own again.
//!
//! Rejected: messages that say "failed" instead of the data, passed on along the plan (who has given up earlier
//! does not carry out the plan of the next collective, and would have to); a time limit (which?).

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use pioman::Manager;

use crate::api::errand::Errand;
use crate::coll::group::{Context, LAST};
use crate::error::{Cause, Error};
use crate::request::{ANY_SOURCE, Request};
use crate::session::Inner;

/// How long one waits before one listens for notices.
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
    /// That member has given up.
    Revoked(u32),
    /// An operator panicked here.
    Panicked,
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

    /// As a program is told.
    pub(super) fn error(self) -> Error {
        match self {
            Failure::Died(rank, cause) => Error::PeerDied { rank, cause },
            Failure::Mismatch { from, expected, found } => {
                Error::Mismatch { from, expected, found }
            }
            Failure::Revoked(by) => Error::Revoked { by: Some(by) },
            Failure::Panicked | Failure::Abandoned => Error::Revoked { by: None },
            Failure::Closed => Error::Closed,
        }
    }
}

impl Context {
    /// Ends the group for this member, and tells the others.
    pub(super) fn revoke(&self, failure: Failure) {
        if self.failure.set(failure).is_err() {
            return;
        }
        for run in self.runs() {
            run.fail();
        }
        if failure == Failure::Closed {
            return;
        }
        for (_, &member) in (0..).zip(self.members.iter()).filter(|&(rank, _)| rank != self.rank) {
            // SAFETY: no byte is sent.
            let notice = unsafe { Request::send(member, self.notice_tag(), &[], false) };
            alone(self, notice, None);
        }
        // The janitor. It ends with the session, or when nobody else is left.
        alone(self, anything(self.tag(0)), Some(self.tag(0)));
    }
}

/// A receive of nothing, for whatever comes for the group of that tag.
fn anything(tag: u64) -> Request {
    let nothing = std::ptr::slice_from_raw_parts_mut(NonNull::dangling().as_ptr(), 0);
    // SAFETY: no byte is received.
    let receive = unsafe { Request::recv(ANY_SOURCE, tag, nothing, false) };
    receive.masked(!LAST)
}

/// A request without memory that is nobody's: its errand frees itself at its end, or receives anything once more.
#[repr(C)]
struct Alone {
    errand: Errand,
    // Not the session itself, which could not close as long as the janitor works.
    manager: Arc<Manager>,
    /// The tag of the janitor's receives.
    sweeps: Option<u64>,
}

fn alone(context: &Context, request: Request, sweeps: Option<u64>) {
    let Inner { engine, manager, .. } = &*context.session;
    let errand = Errand::new(engine, Request::close());
    let boxed = Box::into_raw(Box::new(Alone { errand, manager: manager.clone(), sweeps }));
    // SAFETY: in a box that is freed at the end only; the request has no memory.
    unsafe {
        let errand = NonNull::new_unchecked(boxed.cast());
        if Errand::start(errand, &context.session.manager, request, ended) {
            ended(errand);
        }
    }
}

/// The end of one that is alone.
///
/// # Safety
/// It was made by [`alone`], and is over.
unsafe fn ended(errand: NonNull<Errand>) {
    let this: *mut Alone = errand.as_ptr().cast();
    // SAFETY: over, so it is ours alone; the box was leaked by `alone`.
    unsafe {
        while let (Some(tag), Ok(_) | Err(Error::Truncated { .. })) =
            ((*this).sweeps, (*this).errand.result())
        {
            let manager = (*this).manager.clone();
            if !Errand::start(errand, &manager, anything(tag), ended) {
                return;
            }
        }
        drop(Box::from_raw(this));
    }
}
