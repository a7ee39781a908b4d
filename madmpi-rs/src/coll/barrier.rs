//! `MPI_Barrier`.

use newmad::coll::Task;

use super::check::Call;
use super::recipe::Recipe;
use super::{Plan, begin, inter, prepare, run};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Held;

fn plan(comm: &Held<Comm>) -> Result<Plan, Fault> {
    match &comm.remote {
        None => Ok(Plan::Group(Recipe::new(comm, Task::Barrier))),
        Some(_) => inter::barrier(comm),
    }
}

mpi! {
    fn MPI_Barrier(comm: MPI_Comm) on comm { run(&comm, &Call::new("MPI_Barrier"), plan(&comm)?) }

    fn MPI_Ibarrier(comm: MPI_Comm, request: *mut MPI_Request) on comm {
        begin(&comm, &Call::new("MPI_Barrier"), plan(&comm)?, request)
    }

    fn MPI_Barrier_init(comm: MPI_Comm, _info: MPI_Info, request: *mut MPI_Request) on comm {
        prepare(&comm, Call::new("MPI_Barrier"), plan(&comm)?, request)
    }
}
