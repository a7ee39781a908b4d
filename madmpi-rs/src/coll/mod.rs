//! Collectives.
//!
//! What a call asks for becomes a [`Plan`], which is carried out in one of three forms: at once and waited for, as a request,
//! or as a persistent request. Plans are made of three things:
//!
//! | file | what | for |
//! |---|---|---|
//! | `recipe` | a collective of newmad's, with its data in place or packed | one group |
//! | `exchange` | messages to and from several ranks, all at once | neighbours; intercommunicators |
//! | `stages` | one after the other | intercommunicators: here, between leaders, there |
//!
//! `side`: the data of a collective in memory. `barrier`, `rooted`, `all`, `reduce`, `neighbours`: the functions.
//! `check`: whether all members call the same (`NMAD_CHECK=1`).

mod all;
mod barrier;
mod check;
mod exchange;
mod inter;
mod neighbours;
mod recipe;
mod reduce;
mod rooted;
mod side;
mod stages;

use std::sync::Arc;

use crate::abi::*;
use crate::comm::Comm;
use crate::error::{Fault, out};
use crate::handle::Held;
use crate::request::{self, Operation, Outcome};

use exchange::Exchange;
use recipe::Recipe;
use stages::Stages;

/// What is to be done, as often as it is started.
pub(crate) enum Plan {
    Group(Recipe),
    Exchange(Exchange),
    Stages(Stages),
    /// Nothing: a rank of an intercommunicator that has no part in it.
    Nothing,
}

/// Something that is over when it begins.
struct Over;

impl Operation for Over {
    fn awaited(&self) -> newmad::raw::Awaited<'_> {
        newmad::raw::Awaited::OVER
    }

    fn outcome(&self) -> Outcome {
        Outcome::EMPTY
    }
}

impl Plan {
    /// Begins.
    ///
    /// # Errors
    /// The group is over, or something cannot be submitted.
    fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        match self {
            Plan::Group(recipe) => recipe.start(),
            Plan::Exchange(exchange) => exchange.start(),
            Plan::Stages(stages) => Ok(stages.start()),
            Plan::Nothing => Ok(Arc::new(Over)),
        }
    }
}

/// Waits for the end of an operation that no request stands for.
pub(super) fn complete(operation: &dyn Operation) -> Result<(), Fault> {
    loop {
        let awaited = operation.awaited();
        if awaited.is_over() {
            break;
        }
        awaited.wait();
    }
    match operation.outcome().fault {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// The blocking form.
fn run(comm: &Held<Comm>, call: &check::Call, plan: Plan) -> Result<(), Fault> {
    check::before(comm, call)?;
    match plan {
        Plan::Group(recipe) => recipe.run(),
        other => complete(&*other.start()?),
    }
}

/// The form with a request.
fn begin(
    comm: &Held<Comm>,
    call: &check::Call,
    plan: Plan,
    request: *mut MPI_Request,
) -> Result<(), Fault> {
    out(request, "request", MPI_REQUEST_NULL)?;
    let operation = check::beside(comm, call, plan.start()?)?;
    out(request, "request", request::new_operation(operation)?)
}

/// The form with a persistent request.
fn prepare(
    comm: &Held<Comm>,
    call: check::Call,
    plan: Plan,
    request: *mut MPI_Request,
) -> Result<(), Fault> {
    out(request, "request", MPI_REQUEST_NULL)?;
    let comm = comm.clone();
    let start = move || check::beside(&comm, &call, plan.start()?);
    out(request, "request", request::collective::persistent(start)?)
}

/// The functions of a collective in all its forms: the six names, its arguments but for the communicator, and what gives
/// the plan and what is to be the same everywhere.
macro_rules! collective {
    ($name:ident $large:ident $iname:ident $ilarge:ident $pname:ident $plarge:ident
     ($($arg:ident : $ty:ty),* $(,)?) $comm:ident $plan:block) => {
        $crate::call::mpi! {
            fn $name / $large ($($arg: $ty,)* $comm: MPI_Comm) on $comm {
                let (call, plan) = $plan;
                $crate::coll::run(&$comm, &call, plan?)
            }
            fn $iname / $ilarge ($($arg: $ty,)* $comm: MPI_Comm, request: *mut MPI_Request) on $comm {
                let (call, plan) = $plan;
                $crate::coll::begin(&$comm, &call, plan?, request)
            }
            fn $pname / $plarge (
                $($arg: $ty,)* $comm: MPI_Comm, _info: MPI_Info, request: *mut MPI_Request,
            ) on $comm {
                let (call, plan) = $plan;
                $crate::coll::prepare(&$comm, call, plan?, request)
            }
        }
    };
}
use collective;

/// The root of a collective of one group.
///
/// # Errors
/// There is no such rank.
fn root(comm: &Comm, root: i32) -> Result<u32, Fault> {
    let found = u32::try_from(root).ok().filter(|&root| root < comm.group.size());
    found.ok_or_else(|| {
        let why = format!("the communicator has ranks 0 to {}", comm.group.size() - 1);
        Fault::argument(MPI_ERR_ROOT, "root", root, &why)
    })
}
