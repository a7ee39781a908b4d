//! Cancelling and freeing requests.

use super::orphans;
use super::outcome::Outcome;
use super::state::Work;
use super::table::{self, PROC_NULL, SENT};
use super::take::{Taken, take_from};
use crate::abi::*;
use crate::error::Fault;

/// Cancels a receive that nothing has matched, or a send that is neither gone nor matched. The send's receiver says
/// whether: this does not wait for it.
///
/// # Errors
/// The request cannot be cancelled, or was not started.
pub(crate) fn cancel(request: MPI_Request) -> Result<(), Fault> {
    if matches!(request, SENT | PROC_NULL) {
        return Ok(());
    }
    let locked = table::get(request)?;
    let operation = match &locked.work {
        Work::Message(message) => {
            match message.receives {
                true => drop(locked.raw.cancel()),
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
    let mut locked = table::get(request)?;
    if let Work::Idle = locked.work {
        locked.free();
        return Ok(None);
    }
    locked.freed = true;
    Ok(match take_from(locked, &mut { request })? {
        Taken::Pending => {
            orphans::add(request);
            None
        }
        Taken::Over(Outcome { fault, .. }) => fault,
        Taken::Inactive => None,
    })
}
