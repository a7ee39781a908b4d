//! Operations: what a request stands for if it is not one message.

use core::any::Any;
use core::ffi::c_int;

use newmad::raw::Awaited;

use super::outcome::Outcome;
use crate::abi::*;
use crate::error::Fault;

/// An operation that a request stands for.
pub(crate) trait Operation: Any + Send + Sync {
    /// What it waits for now. `None`: it is over. A waiter calls this again after each wait, until it gives `None`.
    ///
    /// An operation of several parts looks at each of them once. Another thread may end the part that was pending right
    /// after the look, so the end of that part need not be the end of the operation.
    fn awaited(&self) -> Option<Awaited<'_>>;

    /// Whether it is over, without a poll for events.
    fn is_over(&self) -> bool {
        self.awaited().is_none()
    }

    /// Called after a test that found it unfinished.
    fn on_failed_test(&self) {}

    /// Its outcome. Called after its end, by one thread at a time, perhaps more than once.
    fn outcome(&self) -> Outcome;

    /// Called once the program has the outcome.
    ///
    /// # Errors
    /// The program's function has failed.
    fn release(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Called at the end of a request that the program has freed.
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
        let why = "argument request is the request of a collective, or another one that cannot be cancelled";
        Err(Fault::new(MPI_ERR_REQUEST, why))
    }

    /// Completes a generalized request.
    ///
    /// # Errors
    /// It is no generalized request, or was completed before.
    fn complete(&self) -> Result<(), Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a generalized request"))
    }

    /// Marks a partition of a partitioned send as ready.
    ///
    /// # Errors
    /// It is no partitioned send, there is no such partition, or it was ready before.
    fn ready(&self, _partition: c_int) -> Result<(), Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a partitioned send"))
    }

    /// Whether a partition of a partitioned receive has arrived.
    ///
    /// # Errors
    /// It is no partitioned receive, or there is no such partition.
    fn arrived(&self, _partition: c_int) -> Result<bool, Fault> {
        Err(Fault::new(MPI_ERR_REQUEST, "argument request is not a partitioned receive"))
    }
}

/// Waits for the end of an operation that no request stands for.
///
/// # Errors
/// The fault of its outcome.
pub(crate) fn complete(operation: &dyn Operation) -> Result<Outcome, Fault> {
    while let Some(awaited) = operation.awaited() {
        awaited.wait();
    }
    let outcome = operation.outcome();
    match outcome.fault {
        Some(fault) => Err(fault),
        None => Ok(outcome),
    }
}
