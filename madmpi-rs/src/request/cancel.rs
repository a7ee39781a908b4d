//! Taking requests back, and letting go of them.

use super::wait::{Found, find, take_from};
use super::{NOBODY, Outcome, SENT, Work, orphans};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, out, read};

mpi! {
    /// Receives that nothing has matched are taken back; sends never are: they may have been received already.
    fn MPI_Cancel(request: *mut MPI_Request) {
        let request = read(request, "request")?;
        if matches!(request, SENT | NOBODY) {
            return Ok(());
        }
        let locked = find(request)?;
        let operation = match &locked.work {
            Work::Message(message) => {
                if message.receives {
                    locked.place.cancel();
                }
                return Ok(());
            }
            Work::Over(_) => return Ok(()),
            Work::Free | Work::Idle => {
                let why = "it was not started";
                return Err(Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why));
            }
            Work::Other(operation) => operation.clone(),
        };
        drop(locked);
        operation.cancel()
    }

    fn MPI_Request_free(request: *mut MPI_Request) {
        let handle = read(request, "request")?;
        if !matches!(handle, SENT | NOBODY) {
            let mut locked = find(handle)?;
            if let Work::Idle = locked.work {
                locked.free();
            } else {
                locked.freed = true;
                match take_from(locked)? {
                    Found::Pending => orphans::add(handle),
                    Found::Over { outcome: Outcome { fault: Some(fault), .. }, .. } => {
                        out(request, "request", MPI_REQUEST_NULL)?;
                        return Err(fault);
                    }
                    Found::Inactive | Found::Over { .. } => {}
                }
            }
        }
        out(request, "request", MPI_REQUEST_NULL)
    }
}
