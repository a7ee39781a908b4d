//! The state of a slot: free, or a request in one of its states.

use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, fence};

use newmad::raw::{RawRequest, Trusted};

use super::operation::Operation;
use super::outcome::Outcome;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Data, Described, Elements};
use crate::error::Fault;
use crate::failure::has_left;
use crate::handle::Ref;
use crate::message::{Route, send_at_once};

/// The contents of a slot.
pub(super) struct State {
    pub(super) generation: u32,
    pub(super) work: Work,
    /// How a persistent request is started. `None`: it is not persistent, or it is idle and a thread is starting it.
    pub(super) again: Option<Restart>,
    /// A thread waits for it.
    pub(super) awaited: bool,
    /// The program has freed it; it goes on as an orphan.
    pub(super) freed: bool,
    /// The memory of newmad's request, kept from one message to the next. Threads that wait have a reference of their
    /// own.
    pub(super) raw: Arc<RawRequest>,
}

pub(super) enum Work {
    Free,
    /// A persistent request that was not started.
    Idle,
    Over(Outcome),
    Message(Message),
    Other(Arc<dyn Operation>),
}

/// A message under way at the state's `raw`.
pub(super) struct Message {
    pub(super) data: Data,
    pub(super) receives: bool,
    /// The outcome, if the program has asked for it before.
    pub(super) known: Option<Box<Outcome>>,
    pub(super) comm: Ref<Comm>,
}

/// What a persistent request starts.
pub(crate) enum Restart {
    Message(Arc<Template>),
    /// A message to or from `MPI_PROC_NULL`.
    NoProc,
    Other(Box<dyn FnMut() -> Result<Arc<dyn Operation>, Fault> + Send>),
}

/// A message of a persistent request.
pub(crate) struct Template {
    pub(crate) comm: Ref<Comm>,
    pub(crate) elements: Elements,
    pub(crate) route: Route,
}

impl Work {
    /// Puts other work in its place.
    #[inline(always)]
    fn replace(&mut self, by: Work) {
        if self.owns_nothing() {
            // The common case in a few instructions: the destructor of all kinds of work is a call.
            std::mem::forget(std::mem::replace(self, by));
        } else {
            *self = by;
        }
    }

    /// Whether there is nothing to drop in it.
    #[inline(always)]
    fn owns_nothing(&self) -> bool {
        if let Work::Message(Message { data, known, comm, .. }) = self {
            return matches!((data, known, comm), (Data::Whole(..), None, Ref::Fixed(_)));
        }
        matches!(self, Work::Free | Work::Idle)
    }
}

impl State {
    pub(super) fn free() -> State {
        State {
            generation: 0,
            work: Work::Free,
            again: None,
            awaited: false,
            freed: false,
            raw: Arc::new(RawRequest::idle()),
        }
    }

    pub(super) fn is_used(&self) -> bool {
        !matches!(self.work, Work::Free)
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.work.replace(Work::Free);
        self.again = None;
        self.awaited = false;
        self.freed = false;
    }

    /// Begins a message.
    #[inline]
    pub(super) fn begin(
        &mut self,
        comm: &Ref<Comm>,
        data: impl Described,
        receives: bool,
        submit: impl FnOnce(&mut RawRequest, Trusted) -> Result<(), newmad::Error>,
    ) -> Result<(), Fault> {
        if Arc::strong_count(&self.raw) > 1 {
            self.raw = Arc::new(RawRequest::idle()); // a waiter of the last message is about to leave
        }
        // Pairs with the drop of the waiter's reference.
        fence(Acquire);
        // SAFETY: the only reference: others are made under the slot's lock, and weak ones never. (`Arc::get_mut` locks the
        // count of weak ones, for each message.)
        let raw = unsafe { &mut *Arc::as_ptr(&self.raw).cast_mut() };
        // SAFETY: the program leaves the elements to the request; the state keeps the list of pieces or the copy.
        submit(raw, unsafe { data.memory().trusted() })?;
        let (data, comm) = (data.into(), comm.clone());
        self.work.replace(Work::Message(Message { data, receives, known: None, comm }));
        Ok(())
    }

    /// Whether it is under way, or over and its outcome not taken.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.work, Work::Free | Work::Idle)
    }

    /// Whether it is a short message.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        matches!(self.work, Work::Message(_)) && self.raw.is_short()
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        match &self.work {
            Work::Free | Work::Idle | Work::Over(_) => true,
            Work::Message(_) => self.raw.is_over(),
            Work::Other(other) => other.is_over(),
        }
    }

    /// Whether it is a receive that has ended because its sender has left the job in order: nothing will come. That is an error
    /// for who waits for it, and for nobody else: the program may cancel or free it as long as it likes.
    pub(super) fn is_left_alone(&self) -> bool {
        let Work::Message(Message { receives: true, .. }) = self.work else { return false };
        // Most have got their message, which is found out in fewer steps.
        self.raw.received().is_none()
            && matches!(self.raw.result(), Some(Err(error)) if has_left(&error))
    }

    /// Whether the program is to hear of it now: it is over, or it waits for any rank and one has failed.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_over() || self.alarm().is_some()
    }

    /// The fault of a receive from any rank that is not over, while a rank has failed whose failure the program has not
    /// acknowledged. The receive goes on.
    pub(super) fn alarm(&self) -> Option<Fault> {
        let Work::Message(message) = &self.work else { return None };
        if !self.raw.is_alarmed() || self.freed {
            return None;
        }
        // Before the look: a failure that comes after it alarms again.
        self.raw.calm();
        let fault = message.comm.unacknowledged(MPIX_ERR_PROC_FAILED_PENDING)?;
        self.raw.alarm();
        Some(fault.on(message.comm.share()))
    }

    /// The status of a receive that has got its message whole, unless it is to be started again, or was freed, or its outcome
    /// was asked for before. `None`: there is more to find out.
    #[inline(always)]
    pub(super) fn received(&self) -> Option<MPI_Status> {
        let Work::Message(Message { data, known: None, comm, .. }) = &self.work else {
            return None;
        };
        if self.again.is_some() || self.freed {
            return None;
        }
        let status = self.raw.received()?;
        // SAFETY: the program leaves the buffer to the request until it is over; so many bytes have come.
        unsafe { data.unpack(status.len) };
        Some(comm.status(status))
    }

    /// The outcome of a message that is over.
    #[inline]
    pub(super) fn message_outcome(raw: &RawRequest, message: &Message) -> Outcome {
        match &message.known {
            Some(known) => (**known).clone(),
            None => {
                let Message { data, receives, comm, .. } = message;
                // An error that is not needed would be made and dropped for each message.
                let result = raw.result().unwrap_or_else(|| Err(newmad::Error::Active));
                Outcome::of_message(result, *receives, data, comm)
            }
        }
    }

    /// Begins the message of a template.
    ///
    /// # Errors
    /// The communicator is revoked; as [`State::begin`].
    pub(super) fn begin_again(&mut self, template: &Template) -> Result<(), Fault> {
        let Template { comm, elements, route } = template;
        comm.check_not_revoked()?;
        let (session, route) = (&comm.session, *route);
        let data = match route {
            Route::From(..) => elements.data()?,
            Route::To(to, tag, mode) => {
                let data = elements.outgoing()?;
                if send_at_once(comm, to, tag, mode, &data)? {
                    self.work = Work::Over(Outcome::SENT);
                    return Ok(());
                }
                data
            }
        };
        let receives = matches!(route, Route::From(..));
        self.begin(comm, data, receives, |raw, memory| route.submit(session, raw, memory))
    }
}
