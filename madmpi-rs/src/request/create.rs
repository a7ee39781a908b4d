//! Making requests.

use std::sync::Arc;

use newmad::raw::{RawRequest, Trusted};

use super::operation::Operation;
use super::state::{Restart, Work};
use super::table;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Described;
use crate::error::Fault;
use crate::handle::Ref;

/// Makes a request for a message, which `submit` submits.
///
/// # Errors
/// The message cannot be submitted; then there is no request.
#[inline(always)]
pub(crate) fn new_message(
    comm: &Ref<Comm>,
    data: impl Described,
    receives: bool,
    submit: impl FnOnce(&mut RawRequest, Trusted) -> Result<(), newmad::Error>,
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

/// Makes a request for an operation.
///
/// # Errors
/// No request is left.
pub(crate) fn new_operation(operation: Arc<dyn Operation>) -> Result<MPI_Request, Fault> {
    let mut locked = table::new()?;
    locked.work = Work::Other(operation);
    Ok(locked.handle())
}

/// Makes a persistent request, which is idle.
///
/// # Errors
/// No request is left.
pub(crate) fn new_persistent(again: Restart) -> Result<MPI_Request, Fault> {
    let mut locked = table::new()?;
    locked.work = Work::Idle;
    locked.again = Some(again);
    Ok(locked.handle())
}

/// Makes a persistent request for an operation.
///
/// # Errors
/// No request is left.
pub(crate) fn new_persistent_operation(
    start: impl FnMut() -> Result<Arc<dyn Operation>, Fault> + Send + 'static,
) -> Result<MPI_Request, Fault> {
    new_persistent(Restart::Other(Box::new(start)))
}
