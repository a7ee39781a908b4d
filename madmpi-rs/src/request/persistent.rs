//! Starting persistent requests.

use super::outcome::Outcome;
use super::state::{Restart, Work};
use super::table::{self, PROC_NULL, SENT};
use crate::abi::*;
use crate::error::Fault;

/// Starts a persistent request.
///
/// # Errors
/// The handle stands for no persistent request; the request is active.
pub(crate) fn start(request: MPI_Request) -> Result<(), Fault> {
    let wrong = |why| Fault::handle(MPI_ERR_REQUEST, "request", request.0, why);
    if matches!(request, SENT | PROC_NULL) {
        return Err(wrong("it is not a persistent request"));
    }
    let mut locked = table::get(request)?;
    if locked.is_active() {
        return Err(wrong(match locked.again {
            Some(_) => "it was started before, and the program has not completed it",
            None => "it is not a persistent request",
        }));
    }
    let other = match &locked.again {
        Some(Restart::Other(_)) => locked.again.take(),
        Some(Restart::Message(template)) => {
            let template = template.clone();
            let begun = locked.begin_again(&template);
            return begun.map_err(|fault| fault.on(template.comm.share()));
        }
        Some(Restart::NoProc) => {
            locked.work = Work::Over(Outcome::NO_PROC);
            return Ok(());
        }
        None => return Err(wrong("another thread is starting it")),
    };
    drop(locked);
    let Some(Restart::Other(mut begin)) = other else { return Ok(()) };
    let begun = begin();
    let mut locked = table::get(request)?;
    locked.again = Some(Restart::Other(begin));
    locked.work = Work::Other(begun?);
    Ok(())
}
