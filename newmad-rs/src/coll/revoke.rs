//! The end of a group: its members are told, and what still comes for it is received.

use std::ptr::NonNull;
use std::sync::Arc;

use pioman::Manager;

use crate::callback::CallbackRequest;
use crate::coll::context::Context;
use crate::coll::failure::Failure;
use crate::error::Error;
use crate::request::{ANY_SOURCE, Request};
use crate::session::Inner;

impl Context {
    /// Ends the group for this member, and tells the others.
    pub(super) fn revoke(&self, failure: Failure) {
        if self.failure.set(failure).is_err() {
            // After a failure of another kind, of which the others heard by the group's messages.
            if failure == Failure::Context {
                self.runs().iter().for_each(|run| run.take_back());
            }
            return;
        }
        for run in self.runs() {
            run.fail();
        }
        self.end_meeting();
        if failure == Failure::Closed {
            return;
        }
        let tag = self.notice_tag(failure.is_of_gone());
        let told = failure == Failure::Context;
        let others = (0..).zip(self.members.iter()).filter(|&(rank, _)| rank != self.rank && !told);
        for (_, &member) in others {
            // SAFETY: no byte is sent.
            let notice = unsafe { Request::send(member, tag, &[], false) };
            alone(self, notice, None);
        }
        // The janitor. It ends with the session, or when no other process is left and this one has one rank.
        alone(self, anything(self.all_tags()), Some(self.all_tags()));
    }
}

impl Context {
    /// Members that wait at the group's meeting, if the group has failed, learn of it at once.
    pub(super) fn end_meeting(&self) {
        let Some(meeting) = self.shared.failed() else { return };
        let Some(&failure) = self.failure.get() else { return };
        let told = match failure {
            Failure::Died(..) | Failure::Revoked { .. } | Failure::Context => failure,
            _ => Failure::Revoked { by: self.members[self.rank as usize], gone: false },
        };
        // The group is over here: this leader takes part in nothing that the others would wait for.
        if let Some(leaders) = self.teams.get().and_then(|teams| teams.leaders.as_ref()) {
            leaders.revoke(told);
        }
        meeting.fail(told);
    }
}

impl Context {
    /// Does a part of a collective that the others wait for: if it unwinds, this member has given up.
    pub(super) fn or_give_up<R>(&self, part: impl FnOnce() -> R) -> R {
        let gives_up = GivesUp(self);
        let result = part();
        std::mem::forget(gives_up);
        result
    }
}

struct GivesUp<'a>(&'a Context);

impl Drop for GivesUp<'_> {
    fn drop(&mut self) {
        self.0.revoke(Failure::Abandoned);
    }
}

/// A receive of nothing, for whatever comes with these tags.
fn anything((tag, mask): (u64, u64)) -> Request {
    let nothing = std::ptr::slice_from_raw_parts_mut(NonNull::dangling().as_ptr(), 0);
    // SAFETY: no byte is received.
    let receive = unsafe { Request::recv(ANY_SOURCE, tag, nothing, false) };
    receive.masked(mask)
}

/// A request without memory and without an owner: it frees itself at its end, or receives anything once more.
#[repr(C)]
struct Alone {
    callback: CallbackRequest,
    // Not the session itself, which could not close as long as the janitor works.
    manager: Arc<Manager>,
    /// The tags of the janitor's receives.
    sweeps: Option<(u64, u64)>,
}

fn alone(context: &Context, request: Request, sweeps: Option<(u64, u64)>) {
    let Inner { engine, manager, .. } = &*context.session;
    let callback = CallbackRequest::new(engine, context.session.mine(), Request::close());
    let boxed = Box::into_raw(Box::new(Alone { callback, manager: manager.clone(), sweeps }));
    // SAFETY: in a box that is freed at the end only; the request has no memory.
    unsafe {
        let callback = NonNull::new_unchecked(boxed.cast());
        if CallbackRequest::start(callback, &context.session.manager, request, ended) {
            ended(callback);
        }
    }
}

/// The end of one that is alone.
///
/// # Safety
/// It was made by [`alone`], and is over.
unsafe fn ended(callback: NonNull<CallbackRequest>) {
    let this: *mut Alone = callback.as_ptr().cast();
    // SAFETY: over, so it is ours alone; the box was leaked by `alone`.
    unsafe {
        let mut at_once = false;
        while let Some(tags) = (*this).sweeps {
            match (*this).callback.result() {
                Ok(_) | Err(Error::Truncated { .. }) => {}
                // What it has sent was not all there: others' messages still come. Not if no peer is left.
                Err(Error::PeerDied { .. }) if !at_once => {}
                Err(_) => break,
            }
            let manager = (*this).manager.clone();
            if !CallbackRequest::start(callback, &manager, anything(tags), ended) {
                return;
            }
            at_once = true;
        }
        drop(Box::from_raw(this));
    }
}
