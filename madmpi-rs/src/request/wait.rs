//! Looking at one request: whether it is over, waiting for that, and taking what came of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use newmad::raw::{Awaited, RawRequest};

use super::table::{self, Locked};
use super::{NOBODY, Operation, Outcome, SENT, State, Work, bad, orphans};
use crate::abi::*;
use crate::error::Fault;
use crate::process;

/// What a look at a request finds.
pub(super) enum Found {
    /// There is none, or it was not started.
    Inactive,
    Pending,
    /// It is over, and was told of: the handle stands for it no more, if `ended`.
    Over {
        outcome: Outcome,
        ended: bool,
    },
}

/// The request that a handle stands for.
///
/// # Errors
/// None, or the program has freed it.
#[inline]
pub(super) fn find(request: MPI_Request) -> Result<Locked, Fault> {
    table::find(request).filter(|locked| !locked.freed).ok_or_else(|| bad(request))
}

/// What the handles stand for that have no slot.
#[inline]
pub(super) fn without_slot(request: MPI_Request) -> Option<Found> {
    let outcome = match request {
        MPI_REQUEST_NULL => return Some(Found::Inactive),
        SENT => Outcome::SENT,
        NOBODY => Outcome::NO_PROC,
        _ => return None,
    };
    Some(Found::Over { outcome, ended: true })
}

/// Takes what came of it, if it is over.
///
/// # Errors
/// The handle is none.
#[inline]
pub(super) fn take(request: MPI_Request) -> Result<Found, Fault> {
    match without_slot(request) {
        Some(found) => Ok(found),
        None => take_from(find(request)?),
    }
}

#[inline]
pub(super) fn take_from(mut locked: Locked) -> Result<Found, Fault> {
    if let Work::Idle = locked.work {
        return Ok(Found::Inactive);
    }
    if !locked.is_over() {
        return Ok(Found::Pending);
    }
    let freed = locked.freed;
    let ended = locked.again.is_none() || freed;
    let work = std::mem::replace(&mut locked.work, Work::Idle);
    let (outcome, operation) = match work {
        Work::Message(message) => (State::message_outcome(&locked.place, &message), None),
        Work::Over(outcome) => (outcome, None),
        Work::Other(operation) => (Outcome::EMPTY, Some(operation)),
        Work::Free | Work::Idle => return Ok(Found::Inactive),
    };
    if ended {
        locked.free();
    } else {
        drop(locked);
    }
    let Some(operation) = operation else { return Ok(Found::Over { outcome, ended }) };
    // Without the lock: this may take long, or call the program.
    if freed {
        let outcome = Outcome { status: MPI_Status::EMPTY, fault: operation.abandon().err() };
        return Ok(Found::Over { outcome, ended });
    }
    let mut outcome = operation.outcome();
    if ended && let Err(fault) = operation.release() {
        outcome.fault.get_or_insert(fault);
    }
    Ok(Found::Over { outcome, ended })
}

/// What came of it, which stays to be told again; `None`: it is not over. No request, and one that was not started, have
/// an empty outcome.
///
/// # Errors
/// The handle is none.
pub(super) fn peek(request: MPI_Request) -> Result<Option<Outcome>, Fault> {
    match without_slot(request) {
        Some(Found::Over { outcome, .. }) => return Ok(Some(outcome)),
        Some(_) => return Ok(Some(Outcome::EMPTY)),
        None => {}
    }
    let mut locked = find(request)?;
    if !locked.is_over() {
        return Ok(None);
    }
    let state = &mut *locked;
    let operation = match &mut state.work {
        Work::Free | Work::Idle => return Ok(Some(Outcome::EMPTY)),
        Work::Over(outcome) => return Ok(Some(outcome.clone())),
        Work::Message(message) => {
            let outcome = State::message_outcome(&state.place, message);
            message.known = Some(Box::new(outcome.clone()));
            return Ok(Some(outcome));
        }
        Work::Other(operation) => operation.clone(),
    };
    drop(locked);
    Ok(Some(operation.outcome()))
}

/// What is waited for, kept while that is so.
enum What {
    Message(Arc<RawRequest>),
    Other(Arc<dyn Operation>),
}

/// The calling thread waits for this request.
pub(super) struct Waiting {
    request: MPI_Request,
    what: What,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mut locked) = table::find(self.request) {
            locked.awaited = false;
        }
    }
}

impl Waiting {
    /// `None`: there is nothing to wait for any more.
    ///
    /// # Errors
    /// The handle is none; another thread waits.
    pub(super) fn new(request: MPI_Request) -> Result<Option<Waiting>, Fault> {
        let mut locked = find(request)?;
        if locked.is_over() {
            return Ok(None);
        }
        if locked.awaited {
            let why = "another thread waits for it, and only one may at a time";
            return Err(Fault::argument(
                MPI_ERR_REQUEST,
                "request",
                format_args!("{:#x}", request.0),
                why,
            ));
        }
        let what = match &locked.work {
            Work::Message(_) => What::Message(locked.place.clone()),
            Work::Other(other) => What::Other(other.clone()),
            Work::Free | Work::Idle | Work::Over(_) => return Ok(None),
        };
        locked.awaited = true;
        Ok(Some(Waiting { request, what }))
    }

    pub(super) fn awaited(&self) -> Awaited<'_> {
        match &self.what {
            What::Message(message) => message.awaited(),
            What::Other(other) => other.awaited(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.what {
            What::Message(message) => message.is_over(),
            What::Other(other) => other.is_over(),
        }
    }

    /// Waits until it is over.
    #[inline]
    pub(super) fn wait(&self) {
        match &self.what {
            // What came of it is asked for later.
            What::Message(message) => drop(message.wait()),
            What::Other(other) => {
                while !other.is_over() {
                    other.awaited().wait();
                }
            }
        }
    }
}

/// Waits for a request, and takes what came of it. The handle becomes null if it stands for nothing any more.
///
/// # Errors
/// The handle is none. What went wrong with the request is in the outcome.
#[inline]
pub(crate) fn wait(request: &mut MPI_Request) -> Result<Outcome, Fault> {
    loop {
        match take(*request)? {
            Found::Inactive => return Ok(Outcome::EMPTY),
            Found::Over { outcome, ended } => {
                if ended {
                    *request = MPI_REQUEST_NULL;
                }
                return Ok(outcome);
            }
            Found::Pending => {
                if let Some(waiting) = Waiting::new(*request)? {
                    waiting.wait();
                }
            }
        }
    }
}

/// As [`wait`], if it is over, after a look for events if it is not; else `None`.
///
/// # Errors
/// As [`wait`].
#[inline]
pub(super) fn test(request: &mut MPI_Request) -> Result<Option<Outcome>, Fault> {
    let mut found = take(*request)?;
    if let Found::Pending = found {
        look()?;
        found = take(*request)?;
    }
    match found {
        Found::Inactive => Ok(Some(Outcome::EMPTY)),
        Found::Over { outcome, ended } => {
            if ended {
                *request = MPI_REQUEST_NULL;
            }
            Ok(Some(outcome))
        }
        Found::Pending => {
            asked(*request);
            Ok(None)
        }
    }
}

/// Somebody asks in vain whether it is over.
pub(super) fn asked(request: MPI_Request) {
    let operation = match table::find(request).as_deref() {
        Some(State { work: Work::Other(operation), .. }) => operation.clone(),
        _ => return,
    };
    operation.asked();
}

/// Looks for events.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn look() -> Result<(), Fault> {
    process::get()?.session.look();
    if orphans::COUNT.load(Ordering::Relaxed) > 0 {
        orphans::reap();
    }
    Ok(())
}
