//! Asks the policy of a source, and remembers the answers that pollers look up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

use crate::progress::machine::Machine;
use crate::progress::policy::contract::{Asker, Choice, Policy, Request, Snapshot};
use crate::progress::policy::hints::{Hint, Hints, Method};
use crate::progress::policy::history::History;
use crate::progress::policy::load_aware::LoadAware;
use crate::progress::policy::select::Selection;
use crate::progress::registry::Pinned;
use crate::progress::source::MAX;
use crate::stderr::say;

/// What a policy is asked about: a wait, or any request of a source.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    /// Slot of the source; `None`: it is not known.
    pub(crate) slot: Option<usize>,
    pub(crate) asker: Asker,
    pub(crate) hints: Hints,
    pub(crate) waited: Duration,
}

impl Question {
    /// About any pending request of a source.
    pub(crate) fn of(slot: usize, asker: Asker, hint: Hint, waited: Duration) -> Question {
        Question { slot: Some(slot), asker, hints: Hints::new(hint), waited }
    }
}

/// The policies of a manager.
pub(crate) struct Advisor {
    machine: Arc<Machine>,
    pub(crate) policies: Selection,
    /// Of waits that name no source, while several sources have pending requests.
    nameless: History,
    /// A bit for each source that pollers of other sources look at.
    passed: AtomicU64,
    /// A bit for each source whose policy has panicked.
    broken: AtomicU64,
}

impl Advisor {
    pub(crate) fn new(machine: Arc<Machine>, policies: Selection) -> Advisor {
        Advisor {
            machine,
            policies,
            nameless: History::default(),
            passed: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
    }

    /// The sources, a bit each, that pollers of other sources look at.
    #[inline]
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Relaxed)
    }

    /// The history of such requests.
    #[inline]
    pub(crate) fn history<'a>(&'a self, sources: &Pinned<'a>, question: &Question) -> &'a History {
        match question.slot {
            Some(slot) => sources.registry().history(slot, question.hints.hint),
            None => &self.nameless,
        }
    }

    /// Asks the policy of the source, or that of the manager.
    #[inline]
    pub(crate) fn ask(&self, sources: &Pinned<'_>, question: &Question, load: &Snapshot) -> Choice {
        if let Some(method) = question.hints.only {
            return Choice::new(method, "the request asks for it");
        }
        self.with_policy(sources, question, |policy, request| policy.choose(request, load))
            .unwrap_or_else(|request| LoadAware.choose(&request, load))
    }

    /// Tells the policy that what was waited for has come.
    #[inline]
    pub(crate) fn tell(&self, sources: &Pinned<'_>, question: &Question, load: &Snapshot) {
        self.history(sources, question).note(question.waited);
        let _ =
            self.with_policy(sources, question, |policy, request| policy.completed(request, load));
    }

    /// Asks again whether pollers of other sources look at this one.
    pub(crate) fn refresh(&self, sources: &Pinned<'_>, slot: usize) {
        let question = Question::of(slot, Asker::Passing, Hint::Short, Duration::ZERO);
        match self.ask(sources, &question, &self.machine.snapshot()).method {
            Method::Poll => self.passed.fetch_or(1 << slot, Relaxed),
            _ => self.passed.fetch_and(!(1 << slot), Relaxed),
        };
    }

    /// The source has a new policy, which has not panicked yet.
    pub(crate) fn has_new_policy(&self, slot: usize) {
        self.broken.fetch_and(!(1 << slot), SeqCst);
    }

    /// The source has gone.
    pub(crate) fn forget(&self, slot: usize) {
        self.passed.fetch_and(!(1 << slot), SeqCst);
    }

    /// Whether the policy of a source would choose a dedicated thread, if there was one.
    pub(crate) fn wants_dedicated(&self, sources: &Pinned<'_>, slot: usize) -> bool {
        let load = Snapshot { dedicated: 1, ..self.machine.snapshot() };
        [Asker::Leaving, Asker::Waiter].into_iter().any(|asker| {
            let question = Question::of(slot, asker, Hint::Short, Duration::ZERO);
            self.ask(sources, &question, &load).method == Method::Dedicated
        })
    }

    /// The policy's own words.
    pub(crate) fn detail(
        &self,
        sources: &Pinned<'_>,
        question: &Question,
        load: &Snapshot,
    ) -> String {
        self.with_policy(sources, question, |policy, request| policy.explain(request, load))
            .unwrap_or_default()
    }

    /// The nearest method that there is, for a source without a waiter.
    pub(crate) fn possible(&self, sources: &Pinned<'_>, slot: usize, method: Method) -> Method {
        let machine = &*self.machine;
        let has_fd = sources.fd(slot).is_some();
        let can_tick = machine.can_tick();
        match method {
            Method::Interrupt if !machine.can_interrupt() || !sources.can_interrupt(slot) => {
                self.possible(sources, slot, Method::Block)
            }
            Method::Dedicated if machine.snapshot().dedicated == 0 => {
                self.possible(sources, slot, Method::Block)
            }
            Method::Poll if !machine.points.idle || machine.load().is_none() => {
                self.possible(sources, slot, Method::Tick)
            }
            Method::Tick if !can_tick && has_fd => Method::Block,
            Method::Block if !has_fd && can_tick => Method::Tick,
            method => method,
        }
    }

    /// Calls a policy, which is a user's safe code and may panic. `Err`: it has panicked, now or before.
    fn with_policy<'a, T>(
        &'a self,
        sources: &'a Pinned<'_>,
        question: &Question,
        f: impl FnOnce(&dyn Policy, &Request<'_>) -> T,
    ) -> Result<T, Request<'a>> {
        let registered = question.slot.and_then(|slot| sources.get(slot));
        let policy = question.slot.and_then(|slot| sources.policy(slot));
        let policy = policy.unwrap_or(&*self.policies.default);
        let request = Request {
            source: registered.map_or("", |registered| registered.source.name()),
            asker: question.asker,
            hint: question.hints.hint,
            only: question.hints.only,
            priority: question.hints.priority,
            waited: question.waited,
            history: self.history(sources, question),
        };
        // Requests without a source share the bit of the last slot.
        let bit = question.slot.map_or(1 << (MAX - 1), |slot| 1 << (slot % MAX));
        if self.broken.load(Relaxed) & bit != 0 {
            return Err(request);
        }
        catch_unwind(AssertUnwindSafe(|| f(policy, &request))).map_err(|_| {
            self.broken.fetch_or(bit, Relaxed);
            let (policy, source) = (policy.name(), request.source);
            say(format_args!("pioman: policy \"{policy}\" of source \"{source}\" panicked; load-aware takes its place"));
            request
        })
    }
}
