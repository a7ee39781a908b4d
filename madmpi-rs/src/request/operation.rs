//! Operations: what a request can stand for beside one message.

use core::ffi::c_int;

use newmad::raw::Awaited;

use super::outcome::Outcome;
use crate::abi::*;
use crate::error::Fault;

/// Something that a request can be, beside a message.
pub(crate) trait Operation: Send + Sync {
    /// What it waits for now. When that is over there may be something else.
    fn awaited(&self) -> Awaited<'_>;

    /// Whether it is over. Does not look for events.
    fn is_over(&self) -> bool {
        self.awaited().is_over()
    }

    /// Somebody asks in vain whether it is over.
    fn on_failed_test(&self) {}

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

    /// The program says that the work of a generalized request is done.
    ///
    /// # Errors
    /// It is none, or was completed before.
    fn complete(&self) -> Result<(), Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a generalized request"))
    }

    /// A part of a partitioned message to be sent is ready.
    ///
    /// # Errors
    /// There is no such part, or it was ready before.
    fn ready(&self, _partition: c_int) -> Result<(), Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a partitioned send"))
    }

    /// Whether a part of a partitioned message to be received is there.
    ///
    /// # Errors
    /// There is no such part.
    fn arrived(&self, _partition: c_int) -> Result<bool, Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a partitioned receive"))
    }
}

/// Waits for the end of an operation that no request stands for.
///
/// # Errors
/// What came of it.
pub(crate) fn complete(operation: &dyn Operation) -> Result<Outcome, Fault> {
    while !operation.is_over() {
        operation.awaited().wait();
    }
    let outcome = operation.outcome();
    match outcome.fault {
        Some(fault) => Err(fault),
        None => Ok(outcome),
    }
}
