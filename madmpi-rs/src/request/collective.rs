//! Collectives as requests.

use std::sync::{Arc, OnceLock};

use marcel::plumbing::KernelMutex;
use newmad::coll::Pending;
use newmad::raw::Awaited;

use super::create::{new_operation, new_persistent};
use super::operation::Operation;
use super::outcome::Outcome;
use super::state::Restart;
use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Ref;

/// The end of a collective, such as unpacking its result, with what it needs. It is dropped uncalled if the collective
/// fails.
pub(crate) type Finish = Box<dyn FnOnce() -> Result<(), Fault> + Send>;

struct Collective {
    comm: Ref<Comm>,
    pending: Pending<()>,
    finish: KernelMutex<Option<Finish>>,
    known: OnceLock<Outcome>,
}

impl Operation for Collective {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.pending.awaited().pending()
    }

    fn on_failed_test(&self) {
        self.pending.test_over(); // repeated tests listen for failures of members
    }

    fn outcome(&self) -> Outcome {
        let finish = || {
            self.pending.wait_over()?;
            let finish = self.finish.lock().take();
            finish.map_or(Ok(()), |finish| finish())
        };
        let outcome = || match finish() {
            Ok(()) => Outcome::EMPTY,
            Err(fault) => Outcome::failed(fault.on(self.comm.share())),
        };
        self.known.get_or_init(outcome).clone()
    }
}

/// A running collective as an operation.
pub(crate) fn operation(
    comm: &Ref<Comm>,
    pending: Pending<()>,
    finish: Option<Finish>,
) -> Arc<dyn Operation> {
    let (finish, known) = (KernelMutex::new(finish), OnceLock::new());
    Arc::new(Collective { comm: comm.clone(), pending, finish, known })
}

/// A request for a running collective.
///
/// # Errors
/// No request is left.
pub(crate) fn new(
    comm: &Ref<Comm>,
    pending: Pending<()>,
    finish: Option<Finish>,
) -> Result<MPI_Request, Fault> {
    new_operation(operation(comm, pending, finish))
}

/// A persistent request for a collective, or for another operation that is not one message.
///
/// # Errors
/// No request is left.
pub(crate) fn persistent(
    start: impl FnMut() -> Result<Arc<dyn Operation>, Fault> + Send + 'static,
) -> Result<MPI_Request, Fault> {
    new_persistent(Restart::Other(Box::new(start)))
}
