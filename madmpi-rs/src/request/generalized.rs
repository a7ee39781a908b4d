//! Generalized requests: the program does the work, and says when it is done.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use newmad::raw::Awaited;
use pioman::Completion;

use super::create::new_operation;
use super::operation::Operation;
use super::outcome::Outcome;
use super::state::Work;
use super::table::{self, bad};
use super::take::{Taken, take_from};
use crate::abi::*;
use crate::error::Fault;
use crate::job;

pub(crate) type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(crate) type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The operation of a generalized request.
struct Generalized {
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra: usize,
    done: Completion,
    session: newmad::Session,
}

impl Generalized {
    fn extra(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.extra)
    }

    fn says(code: c_int, function: &str) -> Result<(), Fault> {
        match code {
            MPI_SUCCESS => Ok(()),
            _ => Err(Fault::new(code, format!("the program's {function} says so"))),
        }
    }
}

impl Operation for Generalized {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        let mut status = MPI_Status::EMPTY;
        let fault = self.query.and_then(|query| {
            // SAFETY: the program gave it as such a function.
            let code = unsafe { query(self.extra(), &raw mut status) };
            Self::says(code, "query function").err()
        });
        Outcome { status, fault }
    }

    fn release(&self) -> Result<(), Fault> {
        match self.free {
            // SAFETY: the program gave it as such a function.
            Some(free) => Self::says(unsafe { free(self.extra()) }, "free function"),
            None => Ok(()),
        }
    }

    fn abandon(&self) -> Result<(), Fault> {
        self.release()
    }

    fn cancel(&self) -> Result<(), Fault> {
        let over = c_int::from(self.done.is_done());
        match self.cancel {
            // SAFETY: the program gave it as such a function.
            Some(cancel) => Self::says(unsafe { cancel(self.extra(), over) }, "cancel function"),
            None => Ok(()),
        }
    }

    fn complete(&self) -> Result<(), Fault> {
        if self.done.is_done() {
            let why = "argument request is a generalized request that was completed before";
            return Err(Fault::new(MPI_ERR_REQUEST, why));
        }
        self.done.complete();
        Ok(())
    }
}

/// Makes a generalized request.
///
/// # Errors
/// No request is left.
pub(crate) fn start(
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra: *mut c_void,
) -> Result<MPI_Request, Fault> {
    let session = job::session()?.clone();
    let (extra, done) = (extra.expose_provenance(), Completion::new());
    new_operation(Arc::new(Generalized { query, free, cancel, extra, done, session }))
}

/// Completes a generalized request. If the program has freed it, the request ends here.
///
/// # Errors
/// The request is no generalized one, or was completed before; the program's functions have failed.
pub(crate) fn complete(request: MPI_Request) -> Result<(), Fault> {
    let locked = table::find(request).ok_or_else(|| bad(request))?;
    let Work::Other(operation) = &locked.work else {
        let why = "it is not a generalized request";
        return Err(Fault::handle(MPI_ERR_REQUEST, "request", request.0, why));
    };
    let (operation, freed) = (operation.clone(), locked.freed);
    drop(locked);
    operation.complete()?;
    if freed
        && let Some(locked) = table::find(request)
        && let Taken::Over(outcome) = take_from(locked, &mut { request })?
        && let Some(fault) = outcome.fault
    {
        return Err(fault);
    }
    Ok(())
}
