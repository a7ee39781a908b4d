//! Operations one after the other: the next begins when somebody finds the last one over.

use std::sync::{Arc, OnceLock};

use newmad::raw::Awaited;

use super::Plan;
use crate::error::Fault;
use crate::request::{Operation, Outcome};

/// See the module. What the plans need between them is kept.
pub(crate) struct Stages {
    plans: Arc<[Plan]>,
    /// Memory that they use.
    room: Arc<[Box<[u8]>]>,
}

struct Going {
    plans: Arc<[Plan]>,
    _room: Arc<[Box<[u8]>]>,
    begun: Vec<OnceLock<Result<Arc<dyn Operation>, Fault>>>,
}

impl Stages {
    pub(super) fn new(plans: Vec<Plan>, room: Vec<Box<[u8]>>) -> Stages {
        Stages { plans: plans.into(), room: room.into() }
    }

    pub(super) fn start(&self) -> Arc<dyn Operation> {
        let going = Going {
            plans: self.plans.clone(),
            _room: self.room.clone(),
            begun: self.plans.iter().map(|_| OnceLock::new()).collect(),
        };
        going.awaited(); // the first one begins now
        Arc::new(going)
    }
}

impl Going {
    /// The operation that goes on, or how they all ended.
    fn look(&self) -> Result<&Arc<dyn Operation>, Outcome> {
        for (plan, begun) in self.plans.iter().zip(&self.begun) {
            match begun.get_or_init(|| plan.start()) {
                Ok(operation) if !operation.is_over() => return Ok(operation),
                Ok(operation) => {
                    let outcome = operation.outcome();
                    if outcome.fault.is_some() {
                        return Err(outcome);
                    }
                }
                Err(fault) => return Err(Outcome::failed(fault.clone())),
            }
        }
        Err(Outcome::EMPTY)
    }
}

impl Operation for Going {
    fn awaited(&self) -> Awaited<'_> {
        self.look().map_or(Awaited::OVER, |operation| operation.awaited())
    }

    fn asked(&self) {
        if let Ok(operation) = self.look() {
            operation.asked();
        }
    }

    fn outcome(&self) -> Outcome {
        match self.look() {
            Err(outcome) => outcome,
            Ok(operation) => {
                // Nobody asks before it is over.
                let _ = super::complete(&**operation);
                self.outcome()
            }
        }
    }
}
