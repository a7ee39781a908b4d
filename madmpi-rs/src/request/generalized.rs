//! Generalized requests: the program does the work, and says when it is over.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use newmad::raw::Awaited;
use pioman::Completion;

use super::wait::{Found, take_from};
use super::{Operation, Outcome, Work, bad, new_operation, table};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, out};
use crate::process;

type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// See the module.
pub(crate) struct Generalized {
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
    fn awaited(&self) -> Awaited<'_> {
        self.session.awaited(&self.done)
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

    fn as_generalized(&self) -> Option<&Generalized> {
        Some(self)
    }
}

mpi! {
    fn MPI_Grequest_start(
        query_fn: Option<Query>, free_fn: Option<Free>, cancel_fn: Option<Cancel>, extra_state: *mut c_void,
        request: *mut MPI_Request,
    ) {
        out(request, "request", MPI_REQUEST_NULL)?;
        let operation = Generalized {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra: extra_state.expose_provenance(),
            done: Completion::new(),
            session: process::get()?.session.clone(),
        };
        out(request, "request", new_operation(Arc::new(operation))?)
    }

    fn MPI_Grequest_complete(request: MPI_Request) {
        // Even if the program has freed it: then it ends here.
        let locked = table::find(request).ok_or_else(|| bad(request))?;
        let Work::Other(operation) = &locked.work else { return Err(other(request)) };
        let (operation, freed) = (operation.clone(), locked.freed);
        drop(locked);
        let Some(generalized) = operation.as_generalized() else { return Err(other(request)) };
        if generalized.done.is_done() {
            let why = "it was completed before";
            return Err(Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why));
        }
        generalized.done.complete();
        if freed
            && let Some(locked) = table::find(request)
            && let Found::Over { outcome, .. } = take_from(locked)?
            && let Some(fault) = outcome.fault
        {
            return Err(fault);
        }
        Ok(())
    }
}

fn other(request: MPI_Request) -> Fault {
    let why = "it is not a generalized request";
    Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why)
}
