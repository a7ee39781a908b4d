//! Requests: what goes on, what it waits for, and what came of it.
//!
//! ```text
//!            ┌───────────── start ──────────────┐
//!            ▼                                  │
//!   new ─▶ under way ──over──▶ taken ─▶ idle (a persistent one)
//!                                   └─▶ free
//! ```
//! A request is a message of newmad's, whose memory stays with the slot ([`table`]), or an [`Operation`] of another chapter:
//! a collective, several messages, the program's own. A message that left at once has no request: [`SENT`] stands for
//! all of them.
//!
//! What takes long, or calls the program, is done without the slot's lock. One thread waits for a request at a time, as
//! the standard has it; a second one is told so.

mod calls;
mod cancel;
pub(crate) mod collective;
mod generalized;
mod orphans;
mod persistent;
mod several;
mod table;
mod wait;

use std::sync::Arc;

use newmad::raw::{Awaited, Memory, RawRequest};

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::Fault;
use crate::handle::Held;
use crate::p2p::partitioned::Partitioned;

pub(crate) use persistent::{Again, Letter, Way, new_persistent};
pub(crate) use wait::{look, wait};

/// A send that is over: it left at once, and nobody can tell it from others.
pub(crate) const SENT: MPI_Request = MPI_Request(4096);
/// A message to or from nobody.
pub(crate) const NOBODY: MPI_Request = MPI_Request(4097);

/// What came of a request.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) status: MPI_Status,
    pub(crate) fault: Option<Fault>,
}

impl Outcome {
    pub(crate) const EMPTY: Outcome = Outcome { status: MPI_Status::EMPTY, fault: None };
    /// Of a send: there is nothing to know of it but that it was not cancelled.
    pub(crate) const SENT: Outcome = Outcome { status: MPI_Status::SENT, fault: None };
    pub(crate) const NO_PROC: Outcome = Outcome { status: MPI_Status::NO_PROC, fault: None };

    pub(crate) fn failed(fault: Fault) -> Outcome {
        Outcome { status: MPI_Status::EMPTY, fault: Some(fault) }
    }

    /// What `result` says of a message that was received into `data`, or sent from there. It is over.
    #[inline]
    pub(crate) fn of_message(
        result: Result<newmad::Status, newmad::Error>,
        receives: bool,
        data: &Data,
        comm: &Held<Comm>,
    ) -> Outcome {
        match result {
            Ok(_) if !receives => Outcome::SENT,
            Ok(status) => {
                // SAFETY: the program leaves the buffer to the request until it is over; so many bytes came.
                unsafe { data.unpack(status.len) };
                Outcome { status: comm.status(status), fault: None }
            }
            Err(error) => Outcome::of_error(error, data, comm),
        }
    }

    #[cold]
    fn of_error(error: newmad::Error, data: &Data, comm: &Held<Comm>) -> Outcome {
        let mut status = MPI_Status::EMPTY;
        match error {
            newmad::Error::Cancelled => {
                status.set_cancelled(true);
                return Outcome { status, fault: None };
            }
            newmad::Error::Truncated { from, tag, capacity, .. } => {
                // SAFETY: as above; the memory is full.
                unsafe { data.unpack(capacity) };
                status = comm.status(newmad::Status { source: from, tag, len: capacity });
            }
            _ => {}
        }
        let fault = Fault::from(error).on_comm(comm);
        status.MPI_ERROR = fault.class;
        Outcome { status, fault: Some(fault) }
    }
}

/// Something that a request can be, beside a message.
pub(crate) trait Operation: Send + Sync {
    /// What it waits for now. When that is over there may be something else.
    fn awaited(&self) -> Awaited<'_>;

    /// Whether it is over. Does not look for events.
    fn is_over(&self) -> bool {
        self.awaited().is_over()
    }

    /// Somebody asks in vain whether it is over.
    fn asked(&self) {}

    /// What came of it. It is over; called by one thread at a time, and perhaps again.
    fn outcome(&self) -> Outcome;

    /// The program has been told of the outcome.
    ///
    /// # Errors
    /// The program's own.
    fn release(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// It is over, and the program wants to hear no more of it.
    ///
    /// # Errors
    /// As [`Operation::release`].
    fn abandon(&self) -> Result<(), Fault> {
        self.outcome();
        self.release()
    }

    /// # Errors
    /// It cannot be cancelled.
    fn cancel(&self) -> Result<(), Fault> {
        let why = "argument request is a collective's or another that cannot be cancelled";
        Err(Fault::new(MPI_ERR_REQUEST, why))
    }

    fn as_generalized(&self) -> Option<&generalized::Generalized> {
        None
    }

    fn as_partitioned(&self) -> Option<&dyn Partitioned> {
        None
    }
}

/// What is behind a handle.
struct State {
    generation: u32,
    work: Work,
    /// It can be started again, like this.
    again: Option<Again>,
    /// A thread waits for it.
    awaited: bool,
    /// The program has freed it: it only goes on.
    freed: bool,
    /// Messages are sent and received here. Others have a count of it while they wait.
    place: Arc<RawRequest>,
}

enum Work {
    Free,
    /// It was not started.
    Idle,
    Over(Outcome),
    Message(Message),
    Other(Arc<dyn Operation>),
}

/// A message on its way at the state's `place`.
struct Message {
    data: Data,
    receives: bool,
    /// What came of it, if somebody has asked before.
    known: Option<Box<Outcome>>,
    comm: Held<Comm>,
}

impl State {
    fn free() -> State {
        State {
            generation: 0,
            work: Work::Free,
            again: None,
            awaited: false,
            freed: false,
            place: Arc::new(RawRequest::idle()),
        }
    }

    fn is_used(&self) -> bool {
        !matches!(self.work, Work::Free)
    }

    #[inline]
    fn clear(&mut self) {
        self.work = Work::Free;
        self.again = None;
        self.awaited = false;
        self.freed = false;
    }

    /// Begins a message.
    #[inline]
    fn begin(
        &mut self,
        comm: &Held<Comm>,
        data: Data,
        receives: bool,
        submit: impl FnOnce(&mut RawRequest, Memory) -> Result<(), newmad::Error>,
    ) -> Result<(), Fault> {
        if Arc::get_mut(&mut self.place).is_none() {
            self.place = Arc::new(RawRequest::idle()); // somebody who waited for the last one is about to leave
        }
        let Some(place) = Arc::get_mut(&mut self.place) else {
            return Err(Fault::new(MPI_ERR_INTERN, "a request's place is in use"));
        };
        submit(place, data.memory())?;
        self.work = Work::Message(Message { data, receives, known: None, comm: comm.clone() });
        Ok(())
    }

    /// Whether it is under way, or over and not told yet.
    fn is_active(&self) -> bool {
        !matches!(self.work, Work::Free | Work::Idle)
    }

    #[inline]
    fn is_over(&self) -> bool {
        match &self.work {
            Work::Free | Work::Idle | Work::Over(_) => true,
            Work::Message(_) => self.place.is_over(),
            Work::Other(other) => other.is_over(),
        }
    }

    /// What came of a message that is over.
    #[inline]
    fn message_outcome(place: &RawRequest, message: &Message) -> Outcome {
        match &message.known {
            Some(known) => (**known).clone(),
            None => {
                let Message { data, receives, comm, .. } = message;
                Outcome::of_message(place.wait(), *receives, data, comm)
            }
        }
    }
}

/// A new request for a message that `submit` submits.
///
/// # Errors
/// It cannot be submitted; then there is no request.
#[inline]
pub(crate) fn new_message(
    comm: &Held<Comm>,
    data: Data,
    receives: bool,
    submit: impl FnOnce(&mut RawRequest, Memory) -> Result<(), newmad::Error>,
) -> Result<MPI_Request, Fault> {
    let mut locked = table::new()?;
    match locked.begin(comm, data, receives, submit) {
        Ok(()) => Ok(locked.handle()),
        Err(fault) => {
            locked.free();
            Err(fault)
        }
    }
}

/// A new request for something else.
///
/// # Errors
/// There are too many.
pub(crate) fn new_operation(operation: Arc<dyn Operation>) -> Result<MPI_Request, Fault> {
    let mut locked = table::new()?;
    locked.work = Work::Other(operation);
    Ok(locked.handle())
}

/// What is under way for a request, if it is not a message. `None` also if nothing is.
///
/// # Errors
/// The handle is none.
pub(crate) fn operation(request: MPI_Request) -> Result<Option<Arc<dyn Operation>>, Fault> {
    if matches!(request, SENT | NOBODY) {
        return Ok(None);
    }
    match &wait::find(request)?.work {
        Work::Other(operation) => Ok(Some(operation.clone())),
        _ => Ok(None),
    }
}

#[cold]
fn bad(request: MPI_Request) -> Fault {
    let why = match request {
        MPI_REQUEST_NULL => "MPI_REQUEST_NULL is no request",
        _ => "it is not a request, or was freed, or is over and was told of",
    };
    Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why)
}
