//! Plans: what a collective call does, as often as it is started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use newmad::raw::Awaited;

use super::check::{self, Call};
use super::driver;
use super::exchange::Exchange;
use super::group_plan::GroupPlan;
use crate::abi::*;
use crate::comm::{Comm, Series};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{Operation, Outcome, complete, new_operation, new_persistent_operation};

/// What a collective call does, as often as it is started.
pub(crate) enum Plan {
    Group(GroupPlan),
    Exchange(Exchange),
    Stages(Stages),
    /// Nothing, at a rank of an intercommunicator that has no role.
    Nothing(Ref<Comm>),
}

/// An operation that is over when it begins.
struct Nothing;

impl Operation for Nothing {
    fn awaited(&self) -> Option<Awaited<'_>> {
        None
    }

    fn outcome(&self) -> Outcome {
        Outcome::EMPTY
    }
}

impl Plan {
    /// Checks the buffers against each other.
    ///
    /// # Errors
    /// As [`GroupPlan::check_apart`].
    #[inline]
    fn check(&self) -> Result<(), Fault> {
        match self {
            Plan::Group(plan) => plan.check_apart(),
            _ => Ok(()),
        }
    }

    /// Puts it into a series.
    fn in_series(&mut self, series: Series) {
        match self {
            Plan::Group(plan) => plan.series = Some(series),
            Plan::Exchange(exchange) => exchange.series = Some(series),
            Plan::Stages(stages) => {
                // It was not started, so nothing else has a reference.
                let plans = Arc::get_mut(&mut stages.plans);
                plans.into_iter().flatten().for_each(|plan| plan.in_series(series));
            }
            Plan::Nothing(_) => {}
        }
    }

    /// It is of a call that is carried out once: between two groups, in a series of its own.
    #[inline]
    fn is_carried_out_once(&mut self, comm: &Comm) {
        if comm.remote.is_some() {
            self.in_series(comm.series_of_call());
        }
    }

    /// Begins the operation.
    ///
    /// # Errors
    /// The group has failed, the communicator is revoked, or a message cannot be submitted. The fault concerns the
    /// communicator: a stage begins where no caller knows that.
    fn start(&self) -> Result<Arc<dyn Operation>, Fault> {
        let (begun, comm) = match self {
            Plan::Group(plan) => (plan.start(), &plan.comm),
            Plan::Exchange(exchange) => (exchange.start(), &exchange.comm),
            Plan::Stages(stages) => return Ok(Arc::new(stages.start())),
            Plan::Nothing(comm) => {
                (comm.check_not_revoked().map(|()| Arc::new(Nothing) as Arc<dyn Operation>), comm)
            }
        };
        begun.map_err(|fault| fault.on(comm.share()))
    }
}

/// Plans one after the other: the next begins when a caller finds the previous one over. The memory that they use goes
/// with them.
pub(crate) struct Stages {
    plans: Arc<[Plan]>,
    /// Memory that the plans use.
    room: Arc<[Vec<u8>]>,
}

struct StagesOperation {
    plans: Arc<[Plan]>,
    room: Arc<[Vec<u8>]>,
    begun: Vec<OnceLock<Result<Arc<dyn Operation>, Fault>>>,
    /// A stage has failed, and the members that wait for a later one are told.
    gave_up: AtomicBool,
}

impl Stages {
    pub(super) fn new(plans: Vec<Plan>, room: Vec<Vec<u8>>) -> Stages {
        Stages { plans: plans.into(), room: room.into() }
    }

    fn start(&self) -> StagesOperation {
        let running = StagesOperation {
            plans: self.plans.clone(),
            room: self.room.clone(),
            begun: self.plans.iter().map(|_| OnceLock::new()).collect(),
            gave_up: AtomicBool::new(false),
        };
        running.awaited(); // the first one begins now
        running
    }
}

impl StagesOperation {
    /// Whether no stage is left to be begun.
    fn is_at_its_last(&self) -> bool {
        self.begun.last().is_none_or(|last| last.get().is_some())
    }

    /// The current operation and what it waits for, or how they all ended.
    fn current(&self) -> Result<(&Arc<dyn Operation>, Awaited<'_>), Outcome> {
        for (stage, (plan, begun)) in self.plans.iter().zip(&self.begun).enumerate() {
            let outcome = match begun.get_or_init(|| plan.start()) {
                Ok(operation) => match operation.awaited() {
                    Some(awaited) => return Ok((operation, awaited)),
                    None => operation.outcome(),
                },
                Err(fault) => Outcome::failed(fault.clone()),
            };
            if let Some(fault) = &outcome.fault {
                // Of a revocation all learn anyhow.
                if fault.class != MPIX_ERR_REVOKED && !self.gave_up.swap(true, Ordering::Relaxed) {
                    let gone = fault.class == MPIX_ERR_PROC_FAILED;
                    self.plans[stage + 1..].iter().for_each(|plan| plan.give_up(gone));
                }
                return Err(outcome);
            }
        }
        Err(Outcome::EMPTY)
    }
}

impl Drop for StagesOperation {
    /// A stage whose end nobody awaits goes on by itself, in the room: that stays.
    fn drop(&mut self) {
        let begun = self.begun.iter().filter_map(|begun| begun.get()?.as_ref().ok());
        if begun.into_iter().any(|operation| operation.awaited().is_some()) {
            std::mem::forget(self.room.clone());
        }
    }
}

impl Operation for StagesOperation {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.current().ok().map(|(_, awaited)| awaited)
    }

    fn on_failed_test(&self) {
        if let Ok((operation, _)) = self.current() {
            operation.on_failed_test();
        }
    }

    fn outcome(&self) -> Outcome {
        match self.current() {
            Err(outcome) => outcome,
            Ok((operation, _)) => {
                // Callers ask after the end; this waits for it nevertheless.
                let _ = complete(&**operation);
                self.outcome()
            }
        }
    }
}

impl Plan {
    /// A stage before has failed here. `gone`: since a process is gone.
    fn give_up(&self, gone: bool) {
        match self {
            Plan::Group(plan) => {
                if let Ok(group) = plan.comm.coll_group() {
                    group.give_up(gone);
                }
            }
            Plan::Exchange(exchange) => exchange.give_up(),
            Plan::Stages(_) | Plan::Nothing(_) => {}
        }
    }

    /// Begins the operation, which goes on whatever the program waits for.
    ///
    /// # Errors
    /// As [`Plan::start`].
    fn start_aside(&self, comm: &Comm) -> Result<Arc<dyn Operation>, Fault> {
        let Plan::Stages(stages) = self else { return self.start() };
        let operation = stages.start();
        if operation.is_at_its_last() {
            return Ok(Arc::new(operation));
        }
        Ok(driver::drive(Arc::new(operation), &comm.session))
    }
}

/// The blocking form.
///
/// # Errors
/// The buffers have bytes in common; members call different collectives; the collective has failed.
pub(crate) fn run(comm: &Ref<Comm>, call: &Call, mut plan: Plan) -> Result<(), Fault> {
    plan.check()?;
    check::check(comm, call)?;
    plan.is_carried_out_once(comm);
    // By reference: a plan is long.
    match &plan {
        // The leaders of an intercommunicator do these as one of several stages, which are started. What one member
        // starts, all do.
        Plan::Group(plan) if comm.remote.is_none() => plan.run(),
        other => complete(&*other.start()?).map(drop),
    }
}

/// The form with a request.
///
/// # Errors
/// As [`Plan::start`].
pub(crate) fn begin(comm: &Ref<Comm>, call: &Call, mut plan: Plan) -> Result<MPI_Request, Fault> {
    plan.check()?;
    plan.is_carried_out_once(comm);
    let operation = plan.start_aside(comm)?;
    new_operation(check::check_beside(comm, call, None, operation)?)
}

/// The form with a persistent request.
///
/// # Errors
/// No request is left; as [`Comm::series_of_persistent`].
pub(crate) fn prepare(comm: &Ref<Comm>, call: Call, mut plan: Plan) -> Result<MPI_Request, Fault> {
    plan.check()?;
    let kept = comm.series_of_persistent()?;
    plan.in_series(kept.series);
    let comm = comm.clone();
    new_persistent_operation(move || {
        let begun = plan
            .start_aside(&comm)
            .and_then(|operation| check::check_beside(&comm, &call, Some(kept.series), operation));
        // The call that starts it concerns no communicator.
        begun.map_err(|fault| fault.on(comm.share()))
    })
}
