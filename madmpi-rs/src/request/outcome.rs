//! Outcomes: how requests ended.

use crate::abi::*;
use crate::args::StatusOut;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::Fault;
use crate::handle::Ref;

/// How a request ended: its status, and its fault if it failed.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) status: MPI_Status,
    pub(crate) fault: Option<Fault>,
}

impl Outcome {
    pub(crate) const EMPTY: Outcome = Outcome { status: MPI_Status::EMPTY, fault: None };
    /// The outcome of a send that succeeded: its status says only that it was not cancelled.
    pub(crate) const SENT: Outcome = Outcome { status: MPI_Status::SENT, fault: None };
    pub(crate) const NO_PROC: Outcome = Outcome { status: MPI_Status::NO_PROC, fault: None };

    /// Gives the program the status, and the fault for its error handler.
    #[inline]
    pub(crate) fn give(self, place: StatusOut) -> Result<(), Fault> {
        place.put(self.status);
        self.fault.map_or(Ok(()), Err)
    }

    pub(crate) fn cancelled() -> Outcome {
        let mut status = MPI_Status::EMPTY;
        status.set_cancelled(true);
        Outcome { status, fault: None }
    }

    pub(crate) fn failed(fault: Fault) -> Outcome {
        Outcome { status: MPI_Status::EMPTY, fault: Some(fault) }
    }

    /// The outcome of a message that is over: it was received into `data`, or sent from there.
    #[inline]
    pub(crate) fn of_message(
        result: Result<newmad::Status, newmad::Error>,
        receives: bool,
        data: &Data,
        comm: &Ref<Comm>,
    ) -> Outcome {
        match result {
            Ok(_) if !receives => Outcome::SENT,
            Ok(status) => {
                // SAFETY: the program leaves the buffer to the request until it is over; so many bytes have come.
                unsafe { data.unpack(status.len) };
                Outcome { status: comm.status(status), fault: None }
            }
            Err(error) => Outcome::of_error(error, data, comm),
        }
    }

    #[cold]
    fn of_error(error: newmad::Error, data: &Data, comm: &Ref<Comm>) -> Outcome {
        let mut status = MPI_Status::EMPTY;
        match error {
            newmad::Error::Cancelled => return Outcome::cancelled(),
            newmad::Error::Truncated { from, tag, capacity, .. } => {
                // SAFETY: as above; the memory is full.
                unsafe { data.unpack(capacity) };
                status = comm.status(newmad::Status { source: from, tag, len: capacity });
            }
            _ => {}
        }
        let fault = Fault::from(error).on(comm.share());
        status.MPI_ERROR = fault.class;
        Outcome { status, fault: Some(fault) }
    }
}
