//! Collectives of newmad as operations.

use std::sync::{Arc, OnceLock};

use marcel::plumbing::KernelMutex;
use newmad::coll::Pending;
use newmad::raw::Awaited;

use super::operation::Operation;
use super::outcome::Outcome;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Ref;

/// The end of a collective, such as unpacking its result, with what it needs. If the collective fails, it is dropped
/// uncalled, inside the program's call that learns of that.
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
        // It parks no thread: the collective is over when this is called.
        let outcome = self.known.get_or_init(outcome).clone();
        if outcome.fault.is_some() {
            let unused = self.finish.lock().take();
            drop(unused); // without the lock: it may call the program
        }
        outcome
    }
}

impl Drop for Collective {
    /// A collective whose end nobody awaits goes on by itself, with the memory that the end was to free: that stays.
    fn drop(&mut self) {
        if self.pending.awaited().pending().is_some() {
            std::mem::forget(self.finish.get_mut().take());
        }
    }
}

/// A running collective as an operation.
pub(crate) fn operation(
    comm: &Ref<Comm>,
    pending: Pending<()>,
    finish: Finish,
) -> Arc<dyn Operation> {
    let (finish, known) = (KernelMutex::new(Some(finish)), OnceLock::new());
    Arc::new(Collective { comm: comm.clone(), pending, finish, known })
}
