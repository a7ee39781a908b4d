//! Cancelling and freeing requests.

use std::sync::Arc;

use newmad::raw::RawRequest;

use super::messages::{Messages, go_on};
use super::orphans;
use super::outcome::Outcome;
use super::state::{Message, Work};
use super::table::{self, PROC_NULL, SENT, SlotGuard};
use super::take::{Taken, take_from};
use crate::abi::*;
use crate::error::Fault;
use crate::per_rank::per_rank;
use crate::under_way::UnderWay;

/// Cancels a receive that nothing has matched, or a send that is neither gone nor matched. The send's receiver says
/// whether: this does not wait for it.
///
/// # Errors
/// The request cannot be cancelled, or was not started.
pub(crate) fn cancel(request: MPI_Request) -> Result<(), Fault> {
    if matches!(request, SENT | PROC_NULL) {
        return Ok(());
    }
    let mut locked = table::get(request)?;
    let operation = match &locked.work {
        Work::Message(message) => {
            match message.receives {
                true => {
                    locked.raw.cancel();
                    if locked.is_left_alone() {
                        locked.work = Work::Over(Outcome::cancelled());
                    }
                }
                false => locked.raw.take_back(),
            }
            return Ok(());
        }
        Work::Over(_) => return Ok(()),
        Work::Free | Work::Idle => {
            return Err(Fault::handle(MPI_ERR_REQUEST, "request", request.0, "it was not started"));
        }
        Work::Other(operation) => operation.clone(),
    };
    drop(locked);
    operation.cancel()
}

/// Frees a request; if it is not over, it goes on without a handle. Returns the fault of a request that was over.
///
/// # Errors
/// The handle stands for no request.
pub(crate) fn free(request: MPI_Request) -> Result<Option<Fault>, Fault> {
    if matches!(request, SENT | PROC_NULL) {
        return Ok(None);
    }
    let locked = table::get(request)?;
    if matches!(locked.work, Work::Idle) || locked.is_left_alone() {
        locked.free();
        return Ok(None);
    }
    let Some(mut locked) = let_go(locked) else { return Ok(None) };
    locked.freed = true;
    Ok(match take_from(locked, &mut { request })? {
        Taken::Pending => {
            orphans::add(request);
            None
        }
        Taken::Over(Outcome { fault, .. }) => fault,
        Taken::Inactive | Taken::Alone => None,
    })
}

per_rank! {
    /// Messages that the program has freed.
    static FREED: UnderWay = UnderWay::new();
}

/// The session is closed: what came of freed receives is in the program's memory when this returns.
pub(crate) fn finish_freed(session: &newmad::Session) {
    FREED.close(session);
}

/// Lets messages that are under way go on by themselves: what comes is in the program's memory when it has come, not when
/// somebody looks. Returns the slot of anything else, and of messages that another thread waits for.
fn let_go(mut slot: SlotGuard) -> Option<SlotGuard> {
    if slot.is_over() {
        return Some(slot);
    }
    slot = let_message_go(slot)?;
    slot.work = match std::mem::replace(&mut slot.work, Work::Free) {
        Work::Other(operation) => match Messages::alone(operation) {
            Ok(messages) => {
                slot.free();
                messages.let_go(&FREED);
                return None;
            }
            Err(operation) => Work::Other(operation),
        },
        work => work,
    };
    Some(slot)
}

/// As [`let_go`], for a request that is one message.
fn let_message_go(mut slot: SlotGuard) -> Option<SlotGuard> {
    if !matches!(slot.work, Work::Message(_)) {
        return Some(slot);
    }
    let raw = match Arc::try_unwrap(std::mem::replace(&mut slot.raw, Arc::new(RawRequest::idle())))
    {
        Ok(raw) => raw,
        Err(shared) => {
            slot.raw = shared;
            return Some(slot);
        }
    };
    if let Work::Message(message) = std::mem::replace(&mut slot.work, Work::Free) {
        let Message { data, receives, comm, .. } = message;
        go_on(raw, (data, receives, comm), &FREED);
    }
    slot.free();
    None
}
