//! Taking the outcome of a request that is over.

use std::sync::Arc;

use super::operation::Operation;
use super::outcome::Outcome;
use super::state::{State, Work};
use super::table::{self, PROC_NULL, SENT, SlotGuard};
use crate::abi::*;
use crate::error::Fault;

/// The result of an attempt to take an outcome.
pub(super) enum Taken {
    /// The handle is null, or the request was not started.
    Inactive,
    Pending,
    /// It is over without a message, and nothing was taken: see [`State::is_left_alone`].
    Alone,
    Over(Outcome),
}

/// The result for the handles without a slot.
#[inline]
pub(super) fn without_slot(request: MPI_Request) -> Option<Taken> {
    match request {
        MPI_REQUEST_NULL => Some(Taken::Inactive),
        SENT => Some(Taken::Over(Outcome::SENT)),
        PROC_NULL => Some(Taken::Over(Outcome::NO_PROC)),
        _ => None,
    }
}

/// Takes the outcome of a request, if it is over. The handle becomes null unless the request is persistent.
///
/// # Errors
/// The handle stands for no request.
#[inline]
pub(super) fn take(request: &mut MPI_Request) -> Result<Taken, Fault> {
    if let Some(found) = without_slot(*request) {
        *request = MPI_REQUEST_NULL;
        return Ok(found);
    }
    take_from(table::get(*request)?, request)
}

/// The status of a request that is over and has not failed, in a few steps. It is taken: the handle becomes null, and the slot,
/// if there is one, is given to `free`. `None`: nothing was done, and [`take`] says more.
#[inline(always)]
pub(super) fn take_at_once(
    request: &mut MPI_Request,
    free: impl FnOnce(SlotGuard),
) -> Option<MPI_Status> {
    let status = match *request {
        MPI_REQUEST_NULL => return None,
        SENT => MPI_Status::SENT,
        PROC_NULL => MPI_Status::NO_PROC,
        _ => {
            let slot = table::find(*request)?;
            let status = slot.received()?;
            free(slot);
            status
        }
    };
    *request = MPI_REQUEST_NULL;
    Some(status)
}

/// Takes the outcome of a request that is over although no message has come.
///
/// # Errors
/// The handle stands for no request.
#[cold]
pub(super) fn take_alone(request: &mut MPI_Request) -> Result<Outcome, Fault> {
    Ok(match take_over(table::get(*request)?, request)? {
        Taken::Over(outcome) => outcome,
        _ => Outcome::EMPTY,
    })
}

/// Takes the outcome of the request in a slot, if it is over. Unless the request is persistent, the slot becomes free
/// and the handle null.
///
/// # Errors
/// None; what fails is in the outcome.
#[inline]
pub(super) fn take_from(slot: SlotGuard, request: &mut MPI_Request) -> Result<Taken, Fault> {
    if let Work::Idle = slot.work {
        return Ok(Taken::Inactive);
    }
    if !slot.is_over() {
        // Of a request that fails so, the handle stays.
        return Ok(alarmed(&slot).map_or(Taken::Pending, Taken::Over));
    }
    if slot.is_left_alone() && !slot.freed {
        return Ok(Taken::Alone);
    }
    take_over(slot, request)
}

/// Takes the outcome of the request in a slot, which is over.
///
/// # Errors
/// None; what fails is in the outcome.
#[inline]
fn take_over(mut slot: SlotGuard, request: &mut MPI_Request) -> Result<Taken, Fault> {
    let freed = slot.freed;
    let ended = slot.again.is_none() || freed;
    // A message is looked at where it is: to move it out of the slot costs more.
    let (outcome, operation) = match &slot.work {
        Work::Message(message) => (State::message_outcome(&slot.raw, message), None),
        Work::Over(outcome) => (outcome.clone(), None),
        Work::Other(operation) => (Outcome::EMPTY, Some(operation.clone())),
        Work::Free | Work::Idle => return Ok(Taken::Inactive),
    };
    if ended {
        *request = MPI_REQUEST_NULL;
        slot.free();
    } else {
        slot.work = Work::Idle;
        drop(slot);
    }
    match operation {
        None => Ok(Taken::Over(outcome)),
        Some(operation) => take_operation(operation, ended, freed),
    }
}

/// Takes the outcome of an operation that is over, without the lock of its slot: this may take long, or call the program.
fn take_operation(operation: Arc<dyn Operation>, ended: bool, freed: bool) -> Result<Taken, Fault> {
    if freed {
        let outcome = Outcome { status: MPI_Status::EMPTY, fault: operation.abandon().err() };
        return Ok(Taken::Over(outcome));
    }
    let mut outcome = operation.outcome();
    // The function that is called last counts.
    if ended && let Err(fault) = operation.release() {
        outcome.fault = Some(fault);
    }
    Ok(Taken::Over(outcome))
}

/// The outcome of a pending receive from any rank one of which has failed.
fn alarmed(slot: &SlotGuard) -> Option<Outcome> {
    let mut outcome = Outcome::failed(slot.alarm()?);
    outcome.status.MPI_ERROR = MPIX_ERR_PROC_FAILED_PENDING;
    Some(outcome)
}

/// The outcome of a request, which stays there; `None`: it is not over. A null handle and a request that was not
/// started have an empty outcome.
///
/// # Errors
/// The handle stands for no request.
pub(crate) fn peek(request: MPI_Request) -> Result<Option<Outcome>, Fault> {
    match without_slot(request) {
        Some(Taken::Over(outcome)) => return Ok(Some(outcome)),
        Some(_) => return Ok(Some(Outcome::EMPTY)),
        None => {}
    }
    let mut slot = table::get(request)?;
    if !slot.is_over() || slot.is_left_alone() {
        return Ok(alarmed(&slot));
    }
    let state = &mut *slot;
    let operation = match &mut state.work {
        Work::Free | Work::Idle => return Ok(Some(Outcome::EMPTY)),
        Work::Over(outcome) => return Ok(Some(outcome.clone())),
        Work::Message(message) => {
            let outcome = State::message_outcome(&state.raw, message);
            message.known = Some(Box::new(outcome.clone()));
            return Ok(Some(outcome));
        }
        Work::Other(operation) => operation.clone(),
    };
    drop(slot);
    Ok(Some(operation.outcome()))
}

/// The operation that a request stands for; `None`: it is a message, or not active.
///
/// # Errors
/// The handle stands for no request.
pub(crate) fn operation(request: MPI_Request) -> Result<Option<Arc<dyn Operation>>, Fault> {
    if matches!(request, SENT | PROC_NULL) {
        return Ok(None);
    }
    match &table::get(request)?.work {
        Work::Other(operation) => Ok(Some(operation.clone())),
        _ => Ok(None),
    }
}
