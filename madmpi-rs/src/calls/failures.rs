//! Fault tolerance: the functions of the ULFM proposal, which are no part of the standard (`mpi-ext.h`).

use core::ffi::c_int;
use std::sync::{Arc, OnceLock};

use newmad::raw::Awaited;
use newmad::tolerance::Agreement;

use super::comm::give;
use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, out, read};
use crate::comm::Comm;
use crate::error::Fault;
use crate::group;
use crate::handle::Ref;
use crate::request::{Operation, Outcome, new_operation};

/// Gives the program the decision.
fn agreed(comm: &Comm, agreement: &Agreement, flag: Out<c_int>) -> Result<(), Fault> {
    let decision = agreement.wait()?;
    out(flag, "flag", comm.agreed_flags(decision.flags))?;
    if decision.acknowledged {
        return Ok(());
    }
    let text = format!(
        "{} of the processes are gone (processes {:?} of the job), and not all others have acknowledged that",
        decision.failed.len(),
        decision.failed
    );
    Err(Fault::new(MPIX_ERR_PROC_FAILED, text))
}

/// Gives the program the result of an agreement.
type Finish = Box<dyn Fn(&Comm) -> Result<(), Fault> + Send + Sync>;

/// An agreement with a request.
struct Agreeing {
    agreement: Agreement,
    comm: Ref<Comm>,
    finish: Finish,
    known: OnceLock<Outcome>,
}

impl Operation for Agreeing {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.agreement.awaited().pending()
    }

    fn outcome(&self) -> Outcome {
        let outcome = || match (self.finish)(&self.comm) {
            Ok(()) => Outcome::EMPTY,
            Err(fault) => Outcome::failed(fault.on(self.comm.share())),
        };
        self.known.get_or_init(outcome).clone()
    }
}

/// The program's place for a result.
struct Place<T>(Out<T>);
// SAFETY: the program leaves the place to the request until it is over, whatever thread completes it.
unsafe impl<T> Send for Place<T> {}
// SAFETY: as above; one thread at a time asks for the outcome.
unsafe impl<T> Sync for Place<T> {}

impl<T> Place<T> {
    fn get(&self) -> Out<T> {
        self.0
    }
}

fn request(comm: &Ref<Comm>, agreement: Agreement, finish: Finish) -> Result<MPI_Request, Fault> {
    let (comm, known) = (comm.clone(), OnceLock::new());
    new_operation(Arc::new(Agreeing { agreement, comm, finish, known }))
}

mpi! {
    fn MPIX_Comm_revoke(comm: MPI_Comm) on comm {
        comm.revoke();
        Ok(())
    }

    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) on comm {
        out(flag, "flag", c_int::from(comm.was_said_to_be_revoked()))
    }

    fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        failedgrp.made("failedgrp", MPI_GROUP_NULL, || group::handle(comm.failed_group()))
    }

    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) on comm {
        let Ok(most) = usize::try_from(num_to_ack) else {
            let why = "it must not be negative";
            return Err(Fault::argument(MPI_ERR_ARG, "num_to_ack", num_to_ack, why));
        };
        out(num_acked, "num_acked", comm.acknowledge(Some(most)) as c_int)
    }

    fn MPIX_Comm_failure_ack(comm: MPI_Comm) on comm {
        comm.acknowledge(None);
        Ok(())
    }

    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        failedgrp.made("failedgrp", MPI_GROUP_NULL, || group::handle(comm.acknowledged_group()))
    }

    fn MPIX_Comm_agree(comm: MPI_Comm, flag: InOut<c_int>) on comm {
        agreed(&comm, &comm.agree(read(flag, "flag")?)?, flag.into())
    }

    fn MPIX_Comm_iagree(comm: MPI_Comm, flag: InOut<c_int>, request: Out<MPI_Request>) on comm {
        let (begun, place) = (comm.agree(read(flag, "flag")?)?, Place(flag.into()));
        let agreement = begun.clone();
        let finish = Box::new(move |comm: &Comm| agreed(comm, &agreement, place.get()));
        request.make(|| self::request(&comm, begun, finish))
    }

    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        let shrinking = comm.begin_to_shrink()?;
        give(newcomm, Some(comm.shrunk(&shrinking)?))
    }

    fn MPIX_Comm_ishrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        give(newcomm, None)?;
        let (shrinking, place) = (comm.begin_to_shrink()?, Place(newcomm));
        let begun = shrinking.agreement.clone();
        let finish = Box::new(move |comm: &Comm| give(place.get(), Some(comm.shrunk(&shrinking)?)));
        request.make(|| self::request(&comm, begun, finish))
    }
}
