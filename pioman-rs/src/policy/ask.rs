//! The manager asks a source's policy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::manager::Core;
use crate::manager::registry::{MAX, Pinned};
use crate::policy::hints::{Hint, Hints};
use crate::policy::history::History;
use crate::policy::load_aware::LoadAware;
use crate::policy::{Asker, Choice, Method, Policy, Request, Snapshot};

/// What is asked for: a wait, or any request of a source.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    /// Slot of the source; `None`: it is not known.
    pub(crate) slot: Option<usize>,
    pub(crate) asker: Asker,
    pub(crate) hints: Hints,
    pub(crate) waited: Duration,
}

impl Question {
    /// About whatever pends in a source.
    pub(crate) fn of(slot: usize, asker: Asker, hint: Hint, waited: Duration) -> Question {
        Question { slot: Some(slot), asker, hints: Hints::new(hint), waited }
    }
}

impl Core {
    /// A few loads.
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        let load = self.load.get();
        Snapshot {
            mode: self.mode,
            vps: load.map_or(0, |load| load.compute_vps()),
            busy_vps: load.map_or(0, |load| load.busy_compute_vps()),
            loaded: self.is_loaded(),
            runnable: marcel::plumbing::others_runnable(),
            limit: self.limit,
            wake_up: self.wake_up.cost(),
            spare: self.has_watcher(),
            dedicated: if self.progresses() { self.dedicated.on() } else { 0 },
        }
    }

    pub(crate) fn history(&self, question: &Question) -> &History {
        match question.slot {
            Some(slot) => self.registry.history(slot, question.hints.hint),
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

    /// Tells it that a wait is over.
    #[inline]
    pub(crate) fn tell(&self, sources: &Pinned<'_>, question: &Question, load: &Snapshot) {
        self.history(question).note(question.waited);
        if let Some(slot) = question.slot {
            self.registry.counts().waited(slot, question.waited);
        }
        let _ =
            self.with_policy(sources, question, |policy, request| policy.completed(request, load));
    }

    /// Sees whether those who poll for others are to look here.
    pub(crate) fn refresh(&self, sources: &Pinned<'_>, slot: usize) {
        let question = Question::of(slot, Asker::Passing, Hint::Short, Duration::ZERO);
        match self.ask(sources, &question, &self.snapshot()).method {
            Method::Poll => self.passed.fetch_or(1 << slot, Relaxed),
            _ => self.passed.fetch_and(!(1 << slot), Relaxed),
        };
    }

    /// Whether the policy of a source would have a dedicated thread, if there was one.
    pub(crate) fn wants_dedicated(&self, sources: &Pinned<'_>, slot: usize) -> bool {
        let load = Snapshot { dedicated: 1, ..self.snapshot() };
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

    /// Calls a policy, which is a user's safe code: it may panic.
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
            history: self.history(question),
        };
        // Slot 63, the last one to be given away, goes with those that have none.
        let bit = question.slot.map_or(1 << (MAX - 1), |slot| 1 << (slot % MAX));
        if self.broken.load(Relaxed) & bit != 0 {
            return Err(request);
        }
        catch_unwind(AssertUnwindSafe(|| f(policy, &request))).map_err(|_| {
            self.broken.fetch_or(bit, Relaxed);
            let (policy, source) = (policy.name(), request.source);
            eprintln!("pioman: policy \"{policy}\" of source \"{source}\" panicked; load-aware takes its place");
            request
        })
    }
}
