//! Waiting for one request, and testing it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use marcel::plumbing::budget;
use newmad::raw::{Awaited, RawRequest};

use super::operation::Operation;
use super::orphans;
use super::outcome::Outcome;
use super::state::{State, Work};
use super::table::{self, SlotGuard};
use super::take::{Taken, take, take_alone, take_at_once};
use crate::abi::*;
use crate::error::Fault;
use crate::{job, per_rank};

/// What a thread waits for.
enum What {
    Message(Arc<RawRequest>),
    Other(Arc<dyn Operation>),
}

/// The calling thread, while it waits for a request.
pub(super) struct Waiter {
    request: MPI_Request,
    what: What,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(mut locked) = table::find(self.request) {
            locked.awaited = false;
        }
    }
}

impl Waiter {
    /// `None`: the request is over.
    ///
    /// # Errors
    /// The handle stands for no request; another thread waits for it.
    pub(super) fn new(request: MPI_Request) -> Result<Option<Waiter>, Fault> {
        let mut locked = table::get(request)?;
        if locked.is_over() {
            return Ok(None);
        }
        if locked.awaited {
            let why = "another thread waits for it, and only one thread may wait at a time";
            return Err(Fault::handle(MPI_ERR_REQUEST, "request", request.0, why));
        }
        let what = match &locked.work {
            Work::Message(_) => What::Message(locked.raw.clone()),
            Work::Other(other) => What::Other(other.clone()),
            Work::Free | Work::Idle | Work::Over(_) => return Ok(None),
        };
        locked.awaited = true;
        Ok(Some(Waiter { request, what }))
    }

    pub(super) fn awaited(&self) -> Awaited<'_> {
        match &self.what {
            // SAFETY: one thread at a time waits for a request: `State::awaited`.
            What::Message(message) => unsafe { message.awaited() },
            What::Other(other) => other.awaited().unwrap_or(Awaited::OVER),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.what {
            What::Message(message) => {
                message.is_over() || (message.is_alarmed() && is_due(self.request))
            }
            What::Other(other) => other.is_over(),
        }
    }

    /// Waits until it is over.
    #[inline]
    pub(super) fn wait(&self) {
        match &self.what {
            What::Message(message) => loop {
                // SAFETY: as in `awaited`.
                unsafe { message.wait_shared() };
                if message.is_over() || is_due(self.request) {
                    return;
                }
            },
            What::Other(other) => {
                while let Some(awaited) = other.awaited() {
                    awaited.wait();
                }
            }
        }
    }
}

/// Whether the program is to hear of the request now. One that it has freed meanwhile needs no wait.
#[cold]
fn is_due(request: MPI_Request) -> bool {
    table::find(request).is_none_or(|slot| slot.is_due())
}

/// Waits for a request, and takes its outcome. The handle becomes null unless the request is persistent.
///
/// # Errors
/// The handle stands for no request. A fault of the request is in the outcome.
#[inline]
pub(crate) fn wait(request: &mut MPI_Request) -> Result<Outcome, Fault> {
    budget::spend();
    if let Some(status) = take_at_once(request, SlotGuard::free) {
        return Ok(Outcome { status, fault: None });
    }
    loop {
        match take(request)? {
            Taken::Inactive => return Ok(Outcome::EMPTY),
            Taken::Over(outcome) => return Ok(outcome),
            Taken::Alone => return take_alone(request),
            Taken::Pending => {
                if let Some(waiting) = Waiter::new(*request)? {
                    waiting.wait();
                }
            }
        }
    }
}

/// Takes the outcome of a request that is over, after a poll if need be. `None`: it is not over.
///
/// # Errors
/// As [`wait`].
#[inline]
pub(crate) fn test(request: &mut MPI_Request) -> Result<Option<Outcome>, Fault> {
    let mut found = take(request)?;
    if matches!(found, Taken::Pending | Taken::Alone) {
        poll()?;
        found = take(request)?;
    }
    match found {
        Taken::Inactive => Ok(Some(Outcome::EMPTY)),
        Taken::Over(outcome) => Ok(Some(outcome)),
        Taken::Pending | Taken::Alone => {
            on_failed_test(*request);
            Ok(None)
        }
    }
}

/// Tells the operation of a request that a test has failed.
pub(super) fn on_failed_test(request: MPI_Request) {
    let operation = match table::find(request).as_deref() {
        Some(State { work: Work::Other(operation), .. }) => operation.clone(),
        _ => return,
    };
    operation.on_failed_test();
}

/// Polls for events once, and ends orphans that are over.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn poll() -> Result<(), Fault> {
    if !job::session()?.look() {
        per_rank::give_way();
    }
    if orphans::COUNT.load(Ordering::Relaxed) > 0 {
        orphans::reap();
    }
    Ok(())
}
