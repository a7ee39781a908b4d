//! When the last poller leaves, requests are handed to pool threads.

use std::sync::atomic::Ordering::*;

use super::server_source::{Armed, Served};
use super::shared::Shared;
use pioman::policy::{Asker, Method};

impl<R: Send + Sync + 'static> Served for Shared<R> {
    fn poll(&self) -> bool {
        Shared::poll(self)
    }

    /// Called at each switch with something pending: one load when nothing has changed.
    fn arm(&self) -> Armed {
        self.activity.pauses();
        self.sweep();
        if self.common.pending.load(SeqCst) == 0
            || self.armed_at.load(SeqCst) == self.generation.load(SeqCst)
        {
            return Armed::Watched;
        }
        let about_to_poll = self.activity.take_submission() || self.role.is_changing_hands();
        if about_to_poll && self.can_poll() && !self.core.is_loaded() {
            return Armed::Soon;
        }
        if !self.can_block() {
            return Armed::Pace;
        }
        // A thread that tests again and again polls, though it is not counted as a poller.
        if self.activity.is_tested() && self.can_poll() && !self.core.is_loaded() {
            return Armed::Tested;
        }
        let polled: Vec<_> = {
            let state = self.lock();
            state.entries.iter().filter(|e| !e.block).map(|e| e.request.clone()).collect()
        };
        let leave = |request: &_| self.choose_for(request, Asker::Leaving) == Method::Block;
        let to_block: Vec<_> = polled.into_iter().filter(leave).collect();
        if !to_block.is_empty() {
            self.set_method(&to_block, true);
        }
        self.block_more();
        let state = self.lock();
        let blocked = |id| id != 0 && state.is_in_call(id);
        if state.entries.iter().all(|entry| entry.block && blocked(entry.job)) {
            self.armed_at.store(self.generation.load(SeqCst), SeqCst);
            return Armed::Watched;
        }
        Armed::Pace
    }
}
