//! The handle of a light task: wait, test, cancel, mask.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::ltask::block::Ltask;
use crate::ltask::inside::{deny_waiting, inside};
use crate::ltask::report::TaskError;
use crate::ltask::state::Mask;
use crate::manager::Manager;
use crate::progress::policy::hints::Hint;

/// A submitted light task. Any number of threads, green and kernel, may wait for it. Dropping the handle cancels the
/// task; what its closures have captured is dropped when it ends.
pub struct Task {
    block: &'static Ltask,
    manager: Arc<Manager>,
}

impl Task {
    /// `block` has a handle that has no owner yet.
    pub(super) fn new(block: &'static Ltask, manager: Arc<Manager>) -> Task {
        Task { block, manager }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.block.name()
    }

    /// Whether it has ended: done, cancelled or failed.
    pub fn is_done(&self) -> bool {
        self.block.state.outcome().is_some()
    }

    /// How it has ended; `None` if it has not.
    pub fn result(&self) -> Option<Result<(), TaskError>> {
        self.block.result()
    }

    /// Waits until it has ended. A masked task does not end until it is unmasked or cancelled.
    ///
    /// # Context
    /// Green and kernel threads.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    ///
    /// # Errors
    /// It was cancelled, or has panicked.
    ///
    /// # Panics
    /// Inside a light task, which it names.
    pub fn wait(&self) -> Result<(), TaskError> {
        if let Some(result) = self.look() {
            return result;
        }
        loop {
            self.manager.wait(self.block.done(), Hint::Short);
            if let Some(result) = self.result() {
                return result;
            }
        }
    }

    /// As [`Task::wait`], until `deadline` at the latest; `None` if it has not ended then.
    ///
    /// # Context, Blocking, Panics
    /// As [`Task::wait`].
    pub fn wait_until(&self, deadline: Instant) -> Option<Result<(), TaskError>> {
        if let Some(result) = self.look() {
            return Some(result);
        }
        self.manager.wait_until(self.block.done(), Hint::Short, deadline);
        self.result()
    }

    /// Whether it has ended, perhaps in a visit made here: that is what a wait begins with, and a short task spares all
    /// the rest of it.
    fn look(&self) -> Option<Result<(), TaskError>> {
        self.result().or_else(|| {
            deny_waiting();
            self.manager.driver.tasks.in_wait(false);
            self.result()
        })
    }

    /// Asks for an early end: it is not called any more after the call that may be under way. If that call does the
    /// work, or the blocking alternative that is under way returns, the task is completed; else cancelled. False if it
    /// has ended, or is about to.
    ///
    /// # Context
    /// Anywhere but a signal handler, other tasks and itself included. What it has captured may be dropped here.
    pub fn cancel(&self) -> bool {
        self.block.cancel(&self.manager.driver.tasks.tree)
    }

    /// From now on it is not called, until [`Task::unmask`]; masking twice is masking once. Returns when the call that
    /// may be under way has returned: true. Or false if it does not wait for that: inside a light task, this or
    /// another, and while the blocking alternative is under way.
    ///
    /// # Blocking
    /// The calling thread yields as long as the call lasts.
    #[must_use = "it may still be running"]
    pub fn mask(&self) -> bool {
        mask(self.block)
    }

    /// It may be called again.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    ///
    /// # Wakes
    /// As [`crate::TaskBuilder::submit`].
    pub fn unmask(&self) {
        unmask(self.block, &self.manager);
    }

    /// Gives up waiting for it: it goes on without a handle, unmasked, and is cancelled when its manager goes.
    pub fn detach(self) {
        // Moved out by hand: dropping would cancel.
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once; the original is not dropped.
        let manager = unsafe { std::ptr::read(&this.manager) };
        this.block.detach(&manager.driver.tasks);
    }
}

pub(super) fn mask(block: &'static Ltask) -> bool {
    match block.state.mask() {
        Mask::Nothing => true,
        Mask::BlockingCall => false,
        Mask::Call => wait_for_call(block),
    }
}

pub(super) fn unmask(block: &'static Ltask, manager: &Manager) {
    if block.state.unmask() {
        manager.driver.tasks.add(block);
    }
}

/// Until the call that is under way has returned; false inside a task, which would perhaps wait for itself.
pub(super) fn wait_for_call(block: &Ltask) -> bool {
    if inside().is_some() {
        return !block.state.is_running();
    }
    // Calls are short. It may be that of a green thread here, if it yields.
    while block.state.is_running() {
        marcel::yield_now();
    }
    true
}

impl Drop for Task {
    /// Waits as long as the task is being called, but not inside a task, and not for its blocking alternative.
    fn drop(&mut self) {
        self.cancel();
        wait_for_call(self.block);
        self.block.detach(&self.manager.driver.tasks);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name()).field("result", &self.result()).finish()
    }
}
