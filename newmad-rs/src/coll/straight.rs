//! Short collectives whose caller waits: carried out by the caller, step by step, without requests.
//!
//! A recorder writes steps down in an order in which they can be done one after the other, as long as no send waits for
//! its receive. Short messages do not. So a caller that waits anyway walks through the plan: it sends at once, looks
//! for each message for a while ([`BUDGET`]), and combines in place. Most short collectives end so, and allocate
//! nothing. When a message does not come soon, or something else is to be done, the rest becomes a [`Run`], which goes
//! on from the step that was reached: it can sleep, is carried on by others, and hears of failures.
//!
//! Rejected: a function for each operation (there would be two descriptions of each algorithm); spinning for longer
//! (what it costs to make the rest a run is hidden by the wait for the message).
//!
//! [`Run`]: crate::coll::run::Run

use std::any::Any;
use std::time::{Duration, Instant};

use crate::coll::context::Context;
use crate::coll::failure::Failure;
use crate::coll::memory::{Memory, Places};
use crate::coll::operator::Operator;
use crate::coll::plan::{Action, Plan};
use crate::proto::inline::Found;
use crate::request::tag::EXACT;

/// How long the caller looks for one message: a few times what it takes to come from a peer that is here already. Time in
/// which its core goes around among others that look does not count.
const BUDGET: Duration = Duration::from_micros(20);
/// Longest message: longer ones are worth being on their way while others are combined.
const LONGEST: usize = 1024;
/// Most bytes of scratch memory, which is on the stack.
const SCRATCH: usize = 1024;
/// Most steps.
const STEPS: usize = 64;

/// Scratch memory of a plan that is short.
pub(super) type Scratch = [u128; SCRATCH / 16];

impl Plan {
    /// Whether a caller may walk through it.
    pub(super) fn is_short(&self) -> bool {
        let short = |action: Action| match action {
            Action::Send { from: place, .. } | Action::Recv { into: place, .. } => {
                place.len <= LONGEST
            }
            Action::Combine { left, .. } => left.len <= LONGEST,
            Action::Copy { from, .. } => from.len <= LONGEST,
            Action::Nothing => true,
        };
        self.scratch <= SCRATCH
            && self.steps.len() <= STEPS
            && self.steps.iter().all(|step| short(step.action))
    }
}

/// How a walk has ended.
pub(super) enum Walk {
    /// Everything is done.
    Done,
    /// So many steps are.
    Reached(usize),
    Failed(Failure),
    /// The operator panicked with this.
    Panicked(Box<dyn Any + Send>),
}

/// Walks through a plan as far as that goes without waiting for long.
///
/// # Safety
/// As [`Run::new`](crate::coll::run::Run::new), during the call.
pub(super) unsafe fn walk(
    context: &Context,
    plan: &Plan,
    operator: Option<&Operator>,
    tag: u64,
    memory: &Memory,
    scratch: &mut Scratch,
) -> Walk {
    let session = &context.session;
    let places = Places::new(memory, scratch);
    for (index, step) in plan.steps.iter().enumerate() {
        match step.action {
            Action::Send { to, from } => {
                // SAFETY: inside its buffer, which the caller leaves to the collective during the call.
                let data = unsafe { std::slice::from_raw_parts(places.at(from), from.len) };
                if !session.send_now(context.members[to as usize], tag, data) {
                    return Walk::Reached(index);
                }
            }
            Action::Recv { from, into } => {
                // SAFETY: inside its buffer, which is the collective's alone.
                let buffer = unsafe { std::slice::from_raw_parts_mut(places.at(into), into.len) };
                match receive(context, context.members[from as usize], tag, buffer) {
                    Some(len) if len == into.len => {}
                    Some(found) => {
                        let from = context.members[from as usize];
                        return Walk::Failed(Failure::Mismatch { from, expected: into.len, found });
                    }
                    None => return Walk::Reached(index),
                }
            }
            Action::Combine { left, right, keep } => {
                // SAFETY: inside their buffers and apart; the collective's alone.
                if let Err(panic) = unsafe { places.combine(operator, left, right, keep) } {
                    return Walk::Panicked(panic);
                }
            }
            Action::Copy { from, into } => {
                // SAFETY: as of places that are combined.
                unsafe { places.copy(from, into) };
            }
            Action::Nothing => {}
        }
    }
    Walk::Done
}

/// Receives a message that comes soon; its length. `None`: it does not, or it takes a request to receive it.
fn receive(context: &Context, from: u32, tag: u64, buffer: &mut [u8]) -> Option<usize> {
    let (session, manager) = (&context.session, &context.session.manager);
    let mut begun = None;
    loop {
        match session.engine.recv_soon(session.mine(), from, (tag, EXACT), buffer) {
            Found::Message(len) => return Some(len),
            Found::Other => return None,
            Found::Nothing => {}
        }
        if marcel::plumbing::others_runnable() {
            return None;
        }
        let now = Instant::now();
        let begun = begun.get_or_insert(now);
        if now - *begun > BUDGET {
            return None;
        }
        *begun += manager.looked(false);
    }
}
