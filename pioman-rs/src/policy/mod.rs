//! Policies: by which method the events of a request are looked for, as long as it is pending.
//!
//! The manager asks a policy whenever somebody stands before the choice ([`Asker`]): a thread that waits, an idle virtual
//! processor, somebody who looks for others already, and whoever leaves something pending behind. It asks again while
//! the request pends: when the time that the last answer was good for is over ([`Choice::again`]), and when another one
//! asks. That is how the method of a pending request changes, in both directions: a wait that polls sleeps in the kernel
//! from the moment when every core computes; one that sleeps is found by a virtual processor that becomes idle, or by a
//! dedicated kernel thread that is switched on.
//!
//! A policy only chooses. That something pending is never forgotten is the manager's affair, whatever the answers: see
//! the invariant in `manager`. Where the chosen method cannot be had (no spare kernel thread in mode mono, no
//! dedicated one started), the nearest one serves ([`crate::Manager::explain`] says which).
//!
//! | name | a waiter | an idle virtual processor | who passes | left pending |
//! |---|---|---|---|---|
//! | `always-poll` | polls | polls | looks | an idle virtual processor is woken to poll, else ticks |
//! | `always-block` | sleeps in the kernel | sleeps | does not look | the spare kernel thread sleeps on it |
//! | `timer-only` | sleeps | sleeps | does not look | ticks |
//! | `dedicated` | sleeps | sleeps | does not look | a dedicated kernel thread polls |
//! | `load-aware` | polls for a fixed time where a core is idle, then sleeps in the kernel | the same | looks | spare |
//! | `adaptive` | polls for the time that history makes cheapest under the load | the same where a core is idle | looks, if that has paid | spare |
//!
//! Rejected: a policy that is told of events and sets methods (then each one has to keep the invariant, and a wrong one
//! hangs programs); asking it at every poll (an answer costs as much as a look).

pub(crate) mod adaptive;
pub(crate) mod ask;
pub(crate) mod explain;
pub(crate) mod fixed;
pub(crate) mod hints;
pub(crate) mod history;
pub(crate) mod load_aware;
pub(crate) mod select;
pub(crate) mod wake_up;

use std::sync::Arc;
use std::time::Duration;

use marcel::Mode;

use crate::policy::hints::{Hint, Priority};

pub use crate::policy::explain::{Answer, Explanation, OfSource};
pub use crate::policy::history::{History, Spin};
pub use crate::policy::load_aware::LoadAware;

/// How events of a request are looked for, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By looking again and again.
    Poll,
    /// By a kernel thread that sleeps in the kernel until there is one.
    Block,
    /// At the ticks of busy virtual processors; while they are idle, at the same pace.
    Tick,
    /// By a kernel thread with a core of its own that does nothing but poll while something is pending.
    Dedicated,
}

/// Who stands before the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A thread that waits for the request and has nothing else to do. [`Method::Poll`]: it polls.
    Waiter,
    /// A virtual processor with nothing to run. [`Method::Poll`]: it polls.
    Idle,
    /// Somebody who looks for others already: a context switch, a wait for something else, a tick. [`Method::Poll`]: it
    /// looks here too.
    Passing,
    /// Somebody who goes away: nobody looks from here on but whom the answer names. [`Method::Poll`]: an idle virtual
    /// processor is woken to poll, or ticks have to do.
    Leaving,
}

/// A request that is pending, or, when nobody waits, any request of the source.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Name of the source that it will be found in; empty if that is not known.
    pub source: &'a str,
    /// Who asks.
    pub asker: Asker,
    /// What the library knows of its duration.
    pub hint: Hint,
    /// The only method that the library or the application accepts. The manager sees to that.
    pub only: Option<Method>,
    /// How urgent it is.
    pub priority: Priority,
    /// For how long the asker has looked or waited already.
    pub waited: Duration,
    /// How long waits for this source, with such a hint, have taken.
    pub history: &'a History,
}

impl<'a> Request<'a> {
    /// A short request of normal priority, for which the asker has not waited yet.
    pub fn new(source: &'a str, asker: Asker, history: &'a History) -> Request<'a> {
        let (hint, priority) = (Hint::Short, Priority::Normal);
        Request { source, asker, hint, only: None, priority, waited: Duration::ZERO, history }
    }
}

/// The state of the machine, as far as a few loads tell.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Mode of the runtime.
    pub mode: Mode,
    /// Compute virtual processors; none without a runtime.
    pub vps: usize,
    /// How many of them run a thread, the asker's own included.
    pub busy_vps: usize,
    /// Every compute virtual processor is busy, the asker's own not counted.
    pub loaded: bool,
    /// Other threads want the asker's virtual processor.
    pub runnable: bool,
    /// No asker is to poll longer than this (`PIOM_BUSY_WAIT_USEC`).
    pub limit: Limit,
    /// What a wake-up by the kernel costs, as measured.
    pub wake_up: Duration,
    /// A spare kernel thread can sleep in the kernel on behalf of requests.
    pub spare: bool,
    /// Dedicated kernel threads that are switched on.
    pub dedicated: usize,
}

/// The longest time to poll before sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The policy's own.
    Auto,
    /// This long.
    For(Duration),
    /// There is none.
    Never,
}

/// A policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What to do from now on.
    pub method: Method,
    /// Ask again after this time, if the request is still pending; `None`: when there is a reason to.
    pub again: Option<Duration>,
    /// The reason, in a few words.
    pub why: &'static str,
}

impl Choice {
    /// Good until there is a reason to ask again.
    pub const fn new(method: Method, why: &'static str) -> Choice {
        Choice { method, again: None, why }
    }

    /// Good for this time.
    pub const fn again(self, after: Duration) -> Choice {
        Choice { again: Some(after), ..self }
    }
}

/// Chooses the method of detection; see the module's description. Users write their own: `examples/my_policy.rs`.
///
/// # Context
/// All methods are called from threads that wait, from the scheduler and from kernel threads of the manager, never from a
/// signal handler, and at the same time by several. They should take some ten nanoseconds, and not allocate. One that
/// panics is reported, and `load-aware` is asked instead.
pub trait Policy: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// How events of `request` are looked for from now on.
    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice;

    /// A wait has ended after [`Request::waited`].
    fn completed(&self, request: &Request<'_>, load: &Snapshot) {
        let _ = (request, load);
    }

    /// The present numbers and what follows from them, for [`crate::Manager::explain`].
    fn explain(&self, request: &Request<'_>, load: &Snapshot) -> String {
        let _ = (request, load);
        String::new()
    }
}

/// Names of the policies that come with this crate.
pub const NAMES: [&str; 6] =
    ["always-poll", "always-block", "timer-only", "dedicated", "load-aware", "adaptive"];

/// The policy of this name ([`NAMES`]).
pub fn by_name(name: &str) -> Option<Arc<dyn Policy>> {
    Some(match name {
        "always-poll" => Arc::new(fixed::AlwaysPoll),
        "always-block" => Arc::new(fixed::AlwaysBlock),
        "timer-only" => Arc::new(fixed::TimerOnly),
        "dedicated" => Arc::new(fixed::Dedicated),
        "load-aware" => Arc::new(load_aware::LoadAware),
        "adaptive" => Arc::new(adaptive::Adaptive),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert!(by_name("auto").is_none());
    }
}
