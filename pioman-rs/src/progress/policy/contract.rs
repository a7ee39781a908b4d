//! What the manager asks a policy, and what the policy answers.

use std::time::Duration;

use marcel::Mode;

use crate::progress::policy::hints::{Hint, Method, Priority};
use crate::progress::policy::history::History;

/// The caller for which a policy chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A thread that waits for the request and has nothing else to do. [`Method::Poll`]: it polls.
    Waiter,
    /// A virtual processor with nothing to run. [`Method::Poll`]: it polls.
    Idle,
    /// A caller that polls other sources already: a context switch, a wait for something else, a tick.
    /// [`Method::Poll`]: it polls this source, too.
    Passing,
    /// A submitter or poller that leaves: from here on only the method of the answer finds events. [`Method::Poll`]: an
    /// idle virtual processor is woken to poll; without one, ticks poll.
    /// [`Method::Interrupt`]: peers interrupt a busy virtual processor.
    Leaving,
}

/// A request that is pending, or, without a waiter, any request of the source.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Name of the source that it will be found in; empty if that is not known.
    pub source: &'a str,
    /// The caller.
    pub asker: Asker,
    /// What the library knows of its duration.
    pub hint: Hint,
    /// The only method that the library or the application accepts. The manager sees to that.
    pub only: Option<Method>,
    /// How urgent it is.
    pub priority: Priority,
    /// For how long the caller has polled or waited already.
    pub waited: Duration,
    /// How long waits for this source, with such a hint, have taken.
    pub history: &'a History,
}

impl<'a> Request<'a> {
    /// A short request of normal priority, for which the caller has not waited yet.
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
    /// How many of them run a thread, the caller's own included.
    pub busy_vps: usize,
    /// Every compute virtual processor is busy, the caller's own not counted.
    pub loaded: bool,
    /// Other threads want the caller's virtual processor.
    pub runnable: bool,
    /// No caller is to poll longer than this (`PIOM_BUSY_WAIT_USEC`).
    pub limit: Limit,
    /// What a wake-up by the kernel costs, as measured.
    pub wake_up: Duration,
    /// The background watcher can sleep in the kernel on behalf of requests.
    pub has_watcher: bool,
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
/// All methods are called from threads that wait, from the scheduler and from kernel threads of the manager, never from
/// a signal handler, and at the same time by several. They should take some ten nanoseconds, and not allocate. One that
/// panics is reported, and `load-aware` is asked instead.
pub trait Policy: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// How events of `request` are looked for from now on.
    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice;

    /// What was waited for has come after [`Request::waited`]: the wait's end, or an event of the same source that was
    /// another's, from which on time is counted anew.
    fn completed(&self, request: &Request<'_>, load: &Snapshot) {
        let _ = (request, load);
    }

    /// The present numbers and what follows from them, for [`crate::Manager::explain`].
    fn explain(&self, request: &Request<'_>, load: &Snapshot) -> String {
        let _ = (request, load);
        String::new()
    }
}
