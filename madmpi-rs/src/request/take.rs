//! Taking the outcome of a request that is over.

use std::sync::Arc;

use super::operation::Operation;
use super::outcome::Outcome;
use super::state::{State, Work};
use super::table::{self, SlotGuard, PROC_NULL, SENT};
use crate::abi::*;
use crate::error::Fault;

/// What a look at a request finds.
pub(super) enum Taken {
    /// There is none, or it was not started.
    Inactive,
    Pending,
    /// It is over, and was told of: the handle stands for it no more, if `ended`.
    Over {
        outcome: Outcome,
        ended: bool,
    },
}

/// What the handles stand for that have no slot.
#[inline]
pub(super) fn without_slot(request: MPI_Request) -> Option<Taken> {
    let outcome = match request {
        MPI_REQUEST_NULL => return Some(Taken::Inactive),
        SENT => Outcome::SENT,
        PROC_NULL => Outcome::NO_PROC,
        _ => return None,
    };
    Some(Taken::Over { outcome, ended: true })
}

/// Takes what came of it, if it is over.
///
/// # Errors
/// The handle is none.
#[inline]
pub(super) fn take(request: MPI_Request) -> Result<Taken, Fault> {
    match without_slot(request) {
        Some(found) => Ok(found),
        None => take_from(table::get(request)?),
    }
}

#[inline]
pub(super) fn take_from(mut locked: SlotGuard) -> Result<Taken, Fault> {
    if let Work::Idle = locked.work {
        return Ok(Taken::Inactive);
    }
    if !locked.is_over() {
        return Ok(Taken::Pending);
    }
    let freed = locked.freed;
    let ended = locked.again.is_none() || freed;
    let work = std::mem::replace(&mut locked.work, Work::Idle);
    let (outcome, operation) = match work {
        Work::Message(message) => (State::message_outcome(&locked.place, &message), None),
        Work::Over(outcome) => (outcome, None),
        Work::Other(operation) => (Outcome::EMPTY, Some(operation)),
        Work::Free | Work::Idle => return Ok(Taken::Inactive),
    };
    if ended {
        locked.free();
    } else {
        drop(locked);
    }
    let Some(operation) = operation else { return Ok(Taken::Over { outcome, ended }) };
    // Without the lock: this may take long, or call the program.
    if freed {
        let outcome = Outcome { status: MPI_Status::EMPTY, fault: operation.abandon().err() };
        return Ok(Taken::Over { outcome, ended });
    }
    let mut outcome = operation.outcome();
    if ended && let Err(fault) = operation.release() {
        outcome.fault.get_or_insert(fault);
    }
    Ok(Taken::Over { outcome, ended })
}

/// What came of it, which stays to be told again; `None`: it is not over. No request, and one that was not started, have
/// an empty outcome.
///
/// # Errors
/// The handle is none.
pub(crate) fn peek(request: MPI_Request) -> Result<Option<Outcome>, Fault> {
    match without_slot(request) {
        Some(Taken::Over { outcome, .. }) => return Ok(Some(outcome)),
        Some(_) => return Ok(Some(Outcome::EMPTY)),
        None => {}
    }
    let mut locked = table::get(request)?;
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

/// What is under way for a request, if it is not a message. `None` also if nothing is.
///
/// # Errors
/// The handle is none.
pub(crate) fn operation(request: MPI_Request) -> Result<Option<Arc<dyn Operation>>, Fault> {
    if matches!(request, SENT | PROC_NULL) {
        return Ok(None);
    }
    match &table::get(request)?.work {
        Work::Other(operation) => Ok(Some(operation.clone())),
        _ => Ok(None),
    }
}
