//! A server: its pending requests, and the method by which each is looked for.
//!
//! One lock protects the list of requests, with the method by which each is looked for, and the jobs of spare kernel
//! threads. It is held for a few instructions, never while a callback, a policy or a destructor of the library's runs,
//! and never asked for in a signal handler. *Generation* counts the changes, so that the poller sees with one load
//! whether its group of requests is still the right one (grouping costs more than a poll).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use marcel::plumbing::lwp::LwpPool;

use super::activity::Activity;
use super::callbacks::{Callbacks, Whose};
use super::counters::Common;
use super::job::{Job, whoami};
use super::options::{Only, Options};
use super::pass::{FORGET, Pass};
use super::pending::{Node, Pending, Settles};
use super::poller::{Entry, Poller, Role};
use super::server_source::ServerSource;
use super::waiters::{Waiter, Waiters};
use super::word::{Outcome, Word};
use pioman::Hints;
use pioman::Manager;
use pioman::SourceId;
use pioman::plumbing::CoreHandle;
use pioman::plumbing::DelegationLock;
use pioman::policy::History;
use pioman::policy::LoadAware;
use pioman::policy::{self, Asker, Method, Policy};

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The server is stopped.
    Stopped,
    /// No callback of the server can find its end: by polling where it is to be polled, or by blocking, for which a
    /// spare kernel thread is allowed (`PIOM_SPARE_LWP`).
    NoWay,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refused::Stopped => "the server is stopped",
            Refused::NoWay => {
                "the server has no callback that could find the end of such a request"
            }
        })
    }
}

impl std::error::Error for Refused {}

/// A request that was not taken, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotTaken<R> {
    /// The reason.
    pub why: Refused,
    /// What was to be submitted.
    pub value: R,
}

impl<R> std::fmt::Display for NotTaken<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(f)
    }
}

impl<R> std::fmt::Debug for NotTaken<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NotTaken({:?})", self.why)
    }
}

impl<R> std::error::Error for NotTaken<R> {}

/// A pending request, and how its end is looked for.
pub(super) struct Listed<R> {
    pub(super) request: Pending<R>,
    /// To be blocked on; else to be polled.
    pub(super) block: bool,
    /// The job that blocks on it, or is about to; 0: none.
    pub(super) job: u64,
}

pub(super) struct State<R> {
    pub(super) entries: Vec<Listed<R>>,
    /// The library's requests that have ended, oldest first.
    pub(super) ended: VecDeque<Pending<R>>,
    pub(super) jobs: Vec<Job<R>>,
    pub(super) last_job: u64,
    pub(super) stopped: bool,
}

impl<R> State<R> {
    pub(super) fn new() -> State<R> {
        State {
            entries: Vec::new(),
            ended: VecDeque::new(),
            jobs: Vec::new(),
            last_job: 0,
            stopped: false,
        }
    }
}

impl<R> std::fmt::Debug for State<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let polled = self.entries.iter().filter(|entry| !entry.block).count();
        let calls = self.jobs.iter().filter(|job| job.in_call != 0).count();
        f.debug_struct("State")
            .field("to_poll", &polled)
            .field("to_block_on", &(self.entries.len() - polled))
            .field("jobs", &self.jobs.len())
            .field("in_call", &calls)
            .field("stopped", &self.stopped)
            .finish()
    }
}

/// A server, without the rights of its owner. See the module's description.
pub(super) struct Shared<R> {
    pub(super) name: Box<str>,
    /// The name in traces.
    pub(super) number: u32,
    pub(super) core: CoreHandle,
    pub(super) servers: Arc<ServerSource>,
    /// Names [`ServerSource`] in waits.
    pub(super) source: SourceId,
    pub(super) pool: Arc<LwpPool>,
    pub(super) me: Weak<Shared<R>>,
    pub(super) callbacks: Callbacks<R>,
    pub(super) policy: Option<Arc<dyn Policy>>,
    pub(super) history: History,
    pub(super) common: Arc<Common>,
    pub(super) state: KernelMutex<State<R>>,
    pub(super) generation: AtomicU64,
    pub(super) role: Role,
    pub(super) pass: DelegationLock<Pass<R>>,
    /// The thread that polls now, as [`whoami`] has it; 0: none.
    pub(super) polled_by: AtomicUsize,
    /// Rounds of polling that have begun.
    pub(super) passes: AtomicU64,
    /// Generation at which [`Shared::arm`] last found everything looked after.
    pub(super) armed_at: AtomicU64,
    pub(super) activity: Activity,
}

impl<R: Send + Sync + 'static> Settles<R> for Shared<R> {
    /// Takes a request that has ended out of the list; those of the library's go to the waiters for any. The thread
    /// that ends it calls this; if that was in a signal handler, the next [`Shared::sweep`] does. May be repeated.
    fn settle(&self, request: &Pending<R>) {
        let mut idle = Vec::new();
        {
            let mut state = self.lock();
            let slot = request.0.slot.swap(usize::MAX, Relaxed);
            if slot == usize::MAX {
                return;
            }
            let entry = state.entries.swap_remove(slot);
            if let Some(moved) = state.entries.get(slot) {
                moved.request.0.slot.store(slot, Relaxed);
            }
            if request.0.of_library {
                state.ended.push_back(request.clone());
            }
            if entry.job != 0 {
                idle = state.jobs_without_work(entry.job);
            }
            self.changed();
        }
        self.pass.delegate(FORGET);
        idle.iter().for_each(|requests| self.callbacks.interrupt(self.whose(), requests));
    }
}

impl<R: Send + Sync + 'static> Shared<R> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock()
    }

    /// The list has changed: pollers and `arm` have to look at it anew. With the lock held.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, SeqCst);
    }

    pub(super) fn whose(&self) -> Whose<'_> {
        Whose { name: &self.name, number: self.number, common: &self.common }
    }

    /// Whether its requests can be found by polling.
    pub(super) fn can_poll(&self) -> bool {
        self.callbacks.kinds().polling(1).is_some()
    }

    /// Whether pool threads may block for it: where the manager lets them, or where nothing else is left.
    pub(super) fn can_block(&self) -> bool {
        let kinds = self.callbacks.kinds();
        kinds.blocking(1, true).is_some()
            && self.servers.max_blocked > 0
            && (self.core.may_block() || kinds.polling(1).is_none())
    }

    /// Takes a request; or gives its value back.
    pub(super) fn submit(
        &self,
        value: R,
        options: Options,
        of_library: bool,
    ) -> Result<Pending<R>, NotTaken<R>> {
        let (polls, blocks) = (self.can_poll(), self.can_block());
        let possible = if options.only == Some(Only::Poll) { polls } else { polls || blocks };
        if !possible {
            return Err(NotTaken { why: Refused::NoWay, value });
        }
        let now = Instant::now();
        let block = !polls || blocks && self.choose(&options, now, Asker::Waiter) == Method::Block;
        let mut state = self.lock();
        if state.stopped {
            return Err(NotTaken { why: Refused::Stopped, value });
        }
        let request = Pending(Arc::new(Node {
            word: Word::new(),
            waiters: Waiters::default(),
            options,
            of_library,
            slot: AtomicUsize::new(state.entries.len()),
            submitted: now,
            common: self.common.clone(),
            server: self.me.clone(),
            value,
        }));
        state.entries.push(Listed { request: request.clone(), block, job: 0 });
        self.common.submitted();
        self.changed();
        drop(state);
        if block {
            self.block_more();
        } else {
            self.activity.submits();
        }
        Ok(request)
    }

    /// Asks the request's policy, the server's, or the manager's.
    pub(super) fn choose(&self, options: &Options, submitted: Instant, asker: Asker) -> Method {
        match options.only {
            Some(Only::Poll) => return Method::Poll,
            Some(Only::Block) => return Method::Block,
            None => {}
        }
        let mut question = policy::Request::new(&self.name, asker, &self.history);
        question.hint = options.hint;
        question.priority = options.priority;
        question.waited = submitted.elapsed();
        let policy = options.policy.as_ref().or(self.policy.as_ref());
        let policy: &dyn Policy = match policy {
            Some(policy) => &**policy,
            None => &**self.core.default_policy(),
        };
        let load = self.core.snapshot();
        let choice = catch_unwind(AssertUnwindSafe(|| policy.choose(&question, &load)));
        match choice.unwrap_or_else(|_| LoadAware.choose(&question, &load)).method {
            // No peer knows that a request of a server is pending.
            Method::Interrupt => Method::Block,
            method => method,
        }
    }

    /// How a thread waits for such a request.
    pub(super) fn hints(&self, options: &Options) -> Hints {
        let hints = Hints::new(options.hint).priority(options.priority);
        let hints = hints.on(self.source);
        if options.only == Some(Only::Block) { hints.block_only() } else { hints }
    }

    /// As [`Shared::choose`], of a request that was submitted.
    pub(super) fn choose_for(&self, request: &Pending<R>, asker: Asker) -> Method {
        self.choose(request.options(), request.0.submitted, asker)
    }

    /// Settles what has ended in signal handlers.
    pub(super) fn sweep(&self) {
        if !self.common.dirty.load(Relaxed) || !self.common.dirty.swap(false, SeqCst) {
            return;
        }
        let ended: Vec<_> = {
            let state = self.lock();
            state.entries.iter().map(|e| &e.request).filter(|r| r.is_done()).cloned().collect()
        };
        ended.iter().for_each(|request| self.settle(request));
    }

    /// Waits until `look` finds something: one of the waiting threads polls, the others sleep.
    pub(super) fn wait_on<T>(
        &self,
        manager: &Manager,
        waiters: &Waiters,
        hints: Hints,
        deadline: Option<Instant>,
        look: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let mut poller: Option<Poller<'_>> = None;
        loop {
            let waiter = Waiter::new();
            let _enlisted = waiters.enlist(&waiter);
            self.sweep();
            if let Some(found) = look() {
                return Some(found);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            match &poller {
                Some(role) => role.becomes(&waiter),
                // A destructor in a runtime that stops polls by itself: no other thread may be left that would.
                None if marcel::is_stopping() => {}
                None => match self.role.enter(&waiter) {
                    Entry::Poller(role) => poller = Some(role),
                    Entry::Follower(follower) => {
                        match deadline {
                            None => waiter.woken.latch().wait("I/O"),
                            Some(deadline) => {
                                waiter.woken.latch().wait_until("I/O", deadline);
                            }
                        }
                        poller = follower.leave_queue();
                        continue;
                    }
                },
            }
            match deadline {
                None => manager.wait(&waiter.woken, hints),
                Some(deadline) => {
                    manager.wait_until(&waiter.woken, hints, deadline);
                }
            }
        }
    }

    /// Ends everything that is pending, and takes nothing any more.
    pub(super) fn stop(&self) {
        let pending: Vec<_> = {
            let mut state = self.lock();
            state.stopped = true;
            state.entries.iter().map(|entry| entry.request.clone()).collect()
        };
        pending.iter().for_each(|request| {
            request.end(Outcome::Stopped);
            self.settle(request);
        });
        self.common.any.wake();
        self.quiesce(None);
    }

    /// Waits until no callback works on `request` any more, or on any: on what has ended, that is. Blocking calls that
    /// nothing gets out are not waited for, nor is the caller itself, if it is in a callback.
    pub(super) fn quiesce(&self, request: Option<&Pending<R>>) {
        let me = whoami();
        let pass = self.passes.load(SeqCst);
        let polled = || {
            let by = self.polled_by.load(SeqCst);
            by != 0 && by != me && self.passes.load(SeqCst) == pass
        };
        let blocked = || {
            let kinds = self.callbacks.kinds();
            self.lock().jobs.iter().any(|job| {
                job.in_call != 0
                    && job.in_call != me
                    && kinds.can_leave(job.kind)
                    && request.is_none_or(|request| job.is_about(request))
            })
        };
        let mut rounds = 0u32;
        while polled() || blocked() {
            rounds += 1;
            if rounds < 100 {
                marcel::yield_now();
            } else {
                marcel::sleep(Duration::from_micros(100));
            }
        }
    }
}
