//! One round of polling: one thread at a time polls on behalf of all.
//!
//! Every poller comes here (idle virtual processors, switches, waits, tests, the background watcher). A poller that
//! finds a round under way returns at once, since that round serves its requests, too. Never in a signal handler:
//! callbacks are safe code. What is looked for is grouped once for each change of the list ([`Pass`]), not at each
//! round.
//!
//! A request that a pool thread blocks on at this moment is left out, unless it is to be polled again and its
//! thread cannot be got out: then both look, and the first to find the event ends it ([`super::word`]).

use std::sync::atomic::Ordering::*;
use std::time::Duration;

use super::job::whoami;
use super::kinds::{Kind, Scope};
use super::pass::Pass;
use super::pending::Pending;
use super::shared::Shared;
use pioman::policy::{Asker, Method};

/// Requests that are polled one by one in a round.
const BATCH: usize = 64;

/// The calling thread is in [`Shared::polled_by`] until this is dropped.
struct Polling<'a, R: Send + Sync + 'static>(&'a Shared<R>);

impl<R: Send + Sync + 'static> Drop for Polling<'_, R> {
    fn drop(&mut self) {
        self.0.polled_by.store(0, SeqCst);
    }
}

impl<R: Send + Sync + 'static> Shared<R> {
    /// A round, unless another thread is in one. True if a request has ended. Never in a signal handler.
    pub(super) fn poll(&self) -> bool {
        if self.common.pending.load(Relaxed) == 0 && !self.common.dirty.load(Relaxed) {
            return false;
        }
        let Some(mut pass) = self.pass.try_lock() else { return false };
        self.passes.fetch_add(1, SeqCst);
        self.polled_by.store(whoami(), SeqCst);
        let polling = Polling(self);
        self.sweep();
        if pass.generation != self.generation.load(SeqCst) {
            self.group(&mut pass);
        }
        let before = self.common.ends();
        if let Some(kind) = pass.by {
            self.common.polls.fetch_add(1, Relaxed);
            self.poll_by(kind, &mut pass);
        }
        let found = self.common.ends() != before;
        drop(polling);
        drop(pass);
        self.look_at_methods();
        found
    }

    /// A round by a thread that does not wait.
    pub(super) fn test(&self) -> bool {
        self.activity.tests();
        self.poll()
    }

    fn group(&self, pass: &mut Pass<R>) {
        pass.requests.clear();
        pass.ends.clear();
        {
            let state = self.lock();
            pass.generation = self.generation.load(SeqCst);
            let to_poll = state
                .entries
                .iter()
                .filter(|entry| !(entry.block && entry.job != 0 && state.is_in_call(entry.job)));
            pass.requests.extend(to_poll.map(|entry| entry.request.clone()));
        }
        pass.by = self.callbacks.kinds().polling(pass.requests.len());
        let urgent_first = |r: &Pending<R>| std::cmp::Reverse(r.options().priority);
        if pass.by.map(Kind::scope) == Some(Scope::Group) {
            pass.requests.sort_by_key(|r| (r.options().interface, urgent_first(r)));
            let mut end = 0;
            for group in
                pass.requests.chunk_by(|a, b| a.options().interface == b.options().interface)
            {
                end += group.len();
                pass.ends.push(end);
            }
        } else if pass.requests.len() > 1 {
            pass.requests.sort_by_key(urgent_first);
        }
    }

    fn poll_by(&self, kind: Kind, pass: &mut Pass<R>) {
        let call = |requests: &[Pending<R>]| {
            if !self.callbacks.call(self.whose(), kind, requests, Duration::ZERO) {
                self.kinds_changed();
            }
        };
        match kind.scope() {
            Scope::Any => call(&pass.requests),
            Scope::Group => {
                let mut start = 0;
                for &end in &pass.ends {
                    call(&pass.requests[start..end]);
                    start = end;
                }
            }
            Scope::One => {
                let all = pass.requests.len();
                let first = if all <= BATCH { 0 } else { pass.next % all };
                for i in first..first + all.min(BATCH) {
                    let request = &pass.requests[i % all];
                    if !request.is_done() {
                        call(std::slice::from_ref(request));
                    }
                }
                pass.next = first + BATCH;
            }
        }
    }

    /// The caller is about to wait for `request`, and will poll if the policy says so. The pool thread that blocks on
    /// it stays in its call: it is wanted again when the polling is over.
    pub(super) fn begin_wait(&self, request: &Pending<R>) {
        self.activity.waits();
        let blocked = {
            let state = self.lock();
            state.entries.get(request.0.slot.load(Relaxed)).is_some_and(|entry| entry.block)
        };
        if blocked && self.can_poll() && self.choose_for(request, Asker::Waiter) == Method::Poll {
            self.set_method(std::slice::from_ref(request), false);
        }
    }

    /// Asks the policies again about what is pending, from time to time.
    fn look_at_methods(&self) {
        let Some(now) = self.activity.polls() else { return };
        if !self.can_block() || !self.can_poll() {
            return;
        }
        let pending: Vec<_> = {
            let state = self.lock();
            if !self.activity.take_turn(now, state.entries.len()) {
                return;
            }
            state.entries.iter().map(|entry| (entry.request.clone(), entry.block)).collect()
        };
        let for_long = self.activity.is_polled_for_long(now);
        let (mut to_block, mut to_poll) = (Vec::new(), Vec::new());
        for (request, block) in pending {
            match (block, self.choose_for(&request, Asker::Passing)) {
                (false, Method::Block) => to_block.push(request),
                (true, Method::Poll) if for_long => to_poll.push(request),
                _ => {}
            }
        }
        if !to_poll.is_empty() {
            self.set_method(&to_poll, false);
        }
        if for_long {
            self.call_back();
        }
        if !to_block.is_empty() {
            self.set_method(&to_block, true);
            self.block_more();
        }
    }

    /// Sets by which method these are looked for from now on.
    pub(super) fn set_method(&self, requests: &[Pending<R>], block: bool) {
        let mut state = self.lock();
        let mut changes = 0;
        for request in requests {
            let slot = request.0.slot.load(Relaxed);
            if let Some(entry) = state.entries.get_mut(slot)
                && entry.block != block
            {
                entry.block = block;
                changes += 1;
            }
        }
        if changes > 0 {
            let counter = if block { &self.common.to_block } else { &self.common.to_poll };
            counter.fetch_add(changes, Relaxed);
            self.changed();
        }
    }
}
