//! Blocking on requests: jobs of pool threads.
//!
//! ```text
//!   to be blocked on, no job ──a thread is to be had──▶ job ──next_call──▶ in a call ──returns──▶ next_call …
//!          ▲  (polled meanwhile)                            │  nothing is left to block on
//!          └────────────────────────────────────────────────┴─▶ the job ends
//! ```
//!
//! A *job* blocks on one request, on those of one interface, or on all that are to be blocked on; never do two jobs
//! block on the same request, and never is there more than one that blocks on several. Between two calls it looks at
//! the list again: requests that have ended, or are to be polled again, are left out, new ones are taken in. So a
//! request changes its method by a flag in the list, and its thread follows: got out of its call by the library's
//! *interrupt* callback, or coming back by itself from a call with time-out. A plain blocking call finishes first;
//! polls may find its requests' ends meanwhile.
//!
//! A request is polled until its job's first call begins: a job that waits in the pool's queue finds no events.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::job::{Job, whoami};
use super::kinds::{Kind, SLICE, Scope};
use super::pending::Pending;
use super::pool;
use super::server_source::PoolThread;
use super::shared::{Shared, State};
use super::word::Outcome;
use pioman::policy::{Asker, Method};

/// As [`SLICE`], where the interrupt callback gets the thread out earlier.
const LONG_SLICE: Duration = Duration::from_millis(100);
/// So many blocking calls in a row that return at once, for nothing…
const FRUITLESS: u32 = 16;
/// …and the thread rests before the next.
const REST: Duration = Duration::from_millis(1);

impl<R> State<R> {
    fn job(&mut self, id: u64) -> Option<&mut Job<R>> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub(super) fn is_in_call(&self, id: u64) -> bool {
        self.jobs.iter().any(|job| job.id == id && job.in_call != 0)
    }

    /// The calls to get a thread out of because nothing of job `id` is left to block on.
    pub(super) fn jobs_without_work(&mut self, id: u64) -> Vec<Arc<[Pending<R>]>> {
        if self.entries.iter().any(|entry| entry.job == id && entry.block) {
            return Vec::new();
        }
        self.job(id).and_then(Job::interrupt_once).into_iter().collect()
    }
}

impl<R: Send + Sync + 'static> Shared<R> {
    /// Sees to it that every request that is to be blocked on is blocked on. Not in a signal handler.
    pub(super) fn block_more(&self) {
        while self.can_block() {
            let Some((job, thread)) = self.start_job() else { return };
            let started = self.pool.ensure(self.servers.threads_wanted(&self.pool));
            if let (Ok(()), Some(me)) = (started, self.me.upgrade()) {
                pool::hand_over(&self.pool, move || me.carry(job, thread));
            } else {
                self.common.no_thread.fetch_add(1, Relaxed);
                self.end_job(job);
                return;
            }
        }
    }

    /// Makes a job for some of the requests that no job blocks on, if a thread is to be had.
    fn start_job(&self) -> Option<(u64, PoolThread)> {
        let kinds = self.callbacks.kinds();
        let mut guard = self.lock();
        let state = &mut *guard;
        let free = state.entries.iter().filter(|e| e.block && e.job == 0 && !e.request.is_done());
        let mut free: Vec<_> = free.map(|entry| entry.request.clone()).collect();
        free.sort_by_key(|request| std::cmp::Reverse(request.options().priority));
        let first = free.first()?;
        let interface = first.options().interface;
        if let Some(wide) = state.jobs.iter_mut().find(|job| job.kind.scope() != Scope::One)
            && (wide.kind.scope() == Scope::Any || wide.interface == interface)
            && kinds.can_leave(wide.kind)
        {
            // It takes them in when it looks at the list again.
            let interrupt = kinds.interrupt.then(|| wide.interrupt_once()).flatten();
            drop(guard);
            if let Some(requests) = interrupt {
                self.callbacks.interrupt(self.whose(), &requests);
            }
            return None;
        }
        let no_wide = state.jobs.iter().all(|job| job.kind.scope() == Scope::One);
        let kind = kinds.blocking(free.len(), no_wide)?;
        let Some(thread) = self.servers.take_thread() else {
            self.common.no_thread.fetch_add(1, Relaxed);
            return None;
        };
        match kind.scope() {
            Scope::One => free.truncate(1),
            Scope::Group => free.retain(|request| request.options().interface == interface),
            Scope::Any => {}
        }
        state.last_job += 1;
        let id = state.last_job;
        for request in &free {
            if let Some(entry) = state.entries.get_mut(request.0.slot.load(Relaxed)) {
                entry.job = id;
            }
        }
        let requests = free.into();
        state.jobs.push(Job { id, kind, interface, requests, in_call: 0, interrupted: false });
        Some((id, thread))
    }

    /// What job `id` blocks on next; `None`: nothing, and the job has ended.
    fn next_call(&self, id: u64) -> Option<(Kind, Arc<[Pending<R>]>)> {
        let kinds = self.callbacks.kinds();
        let mut guard = self.lock();
        let state = &mut *guard;
        let (kind, interface) = state.job(id).map(|job| (job.kind, job.interface))?;
        let mut requests = Vec::new();
        let usable = kinds.mask & kind.bit() != 0;
        for entry in &mut state.entries {
            let options = entry.request.options();
            let ours = match kind.scope() {
                Scope::One => entry.job == id,
                Scope::Group => entry.job == id || entry.job == 0 && options.interface == interface,
                Scope::Any => entry.job == id || entry.job == 0,
            };
            if !ours {
                continue;
            }
            if usable && entry.block && !entry.request.is_done() {
                entry.job = id;
                requests.push(entry.request.clone());
            } else {
                entry.job = 0;
            }
        }
        self.changed();
        if requests.is_empty() {
            state.jobs.retain(|job| job.id != id);
            return None;
        }
        let requests: Arc<[_]> = requests.into();
        let job = state.job(id)?;
        job.requests = requests.clone();
        job.in_call = whoami();
        job.interrupted = false;
        Some((kind, requests))
    }

    fn call_returned(&self, id: u64) {
        let mut state = self.lock();
        if let Some(job) = state.job(id) {
            job.in_call = 0;
            job.requests = Arc::new([]);
        }
    }

    fn end_job(&self, id: u64) {
        let mut state = self.lock();
        state.jobs.retain(|job| job.id != id);
        state.entries.iter_mut().filter(|e| e.job == id).for_each(|entry| entry.job = 0);
        self.changed();
    }

    /// Life of a job, on a pool thread.
    fn carry(&self, id: u64, mut thread: PoolThread) {
        thread.begins();
        let mut fruitless = 0;
        let slice = if self.callbacks.interrupt.is_some() { LONG_SLICE } else { SLICE };
        while let Some((kind, requests)) = self.next_call(id) {
            self.common.blocks.fetch_add(1, Relaxed);
            let before = self.common.ends();
            let start = Instant::now();
            let works = self.callbacks.call(self.whose(), kind, &requests, slice);
            self.call_returned(id);
            if !works {
                self.kinds_changed();
            }
            let found = self.common.ends() != before;
            if found {
                self.core.count_blocking_hit();
            }
            self.sweep();
            fruitless = if found || start.elapsed() > REST { 0 } else { fruitless + 1 };
            if fruitless > FRUITLESS {
                std::thread::sleep(REST);
            }
            self.ask_about(&requests);
        }
        drop(thread);
        // No job looks after the pending requests now, and perhaps no poller.
        self.core.ensure_watched();
    }

    /// The policy may want these polled again. Without a poller this is where it is asked.
    fn ask_about(&self, requests: &[Pending<R>]) {
        if self.activity.is_polled() || !self.can_poll() {
            return; // the poller asks
        }
        let pending = requests.iter().filter(|request| !request.is_done());
        let to_poll: Vec<_> = pending
            .filter(|request| self.choose_for(request, Asker::Leaving) == Method::Poll)
            .cloned()
            .collect();
        if !to_poll.is_empty() {
            self.set_method(&to_poll, false);
        }
    }

    /// Gets threads out of blocking calls all of whose requests have ended or are polled.
    pub(super) fn call_back(&self) {
        if self.callbacks.interrupt.is_none() {
            return;
        }
        let calls: Vec<_> = {
            let mut guard = self.lock();
            let state = &mut *guard;
            let ids: Vec<_> = state.jobs.iter().map(|job| job.id).collect();
            ids.into_iter().flat_map(|id| state.jobs_without_work(id)).collect()
        };
        calls.iter().for_each(|requests| self.callbacks.interrupt(self.whose(), requests));
    }

    /// A kind of callback is out of service: requests are grouped anew. When none is left that could find the end of
    /// anything, everything has failed.
    pub(super) fn kinds_changed(&self) {
        self.changed();
        if self.can_poll() || self.can_block() {
            return;
        }
        let orphans: Vec<_> = {
            let state = self.lock();
            state.entries.iter().map(|entry| entry.request.clone()).collect()
        };
        orphans.iter().for_each(|request| {
            request.end(Outcome::Failed);
        });
    }
}
