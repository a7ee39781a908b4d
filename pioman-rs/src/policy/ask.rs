//! The manager asks a source's policy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::manager::Core;
use crate::manager::registry::Pinned;
use crate::policy::hints::{Hint, Hints};
use crate::policy::history::History;
use crate::policy::load_aware::LoadAware;
use crate::policy::{Asker, Choice, Policy, Request, Snapshot};

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
    pub(crate) fn of(slot: usize, asker: Asker, waited: Duration) -> Question {
        Question { slot: Some(slot), asker, hints: Hints::new(Hint::Short), waited }
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
            runnable: marcel::others_runnable(),
            limit: self.limit,
            wake_up: Duration::from_micros(5),
            spare: self.points.block,
            dedicated: 0,
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
    pub(crate) fn tell(&self, sources: &Pinned<'_>, question: &Question) {
        self.history(question).note(question.waited);
        if let Some(slot) = question.slot {
            self.registry.counts().waited(slot, question.waited);
        }
        let load = self.snapshot();
        let _ =
            self.with_policy(sources, question, |policy, request| policy.completed(request, &load));
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
        catch_unwind(AssertUnwindSafe(|| f(policy, &request))).map_err(|_| request)
    }
}
