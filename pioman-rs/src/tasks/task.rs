//! The handle of a light task: wait, test, cancel, mask.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use marcel::plumbing::budget;

use crate::ltask::block::Ltask;
use crate::ltask::inside::{deny_waiting, inside};
use crate::ltask::report::TaskError;
use crate::ltask::scheduler::Tasks;
use crate::ltask::state::Mask;
use crate::manager::Manager;
use crate::progress::policy::hints::Hint;

/// A submitted light task. Any number of threads, green and kernel, may wait for it. Dropping the handle cancels the
/// task; what its closures have captured is dropped when it ends.
pub struct Task(Handle);

impl Task {
    pub(super) fn new(handle: Handle) -> Task {
        Task(handle)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.block.name()
    }

    /// Whether it has ended: done, cancelled or failed.
    pub fn is_done(&self) -> bool {
        self.0.block.state.outcome().is_some()
    }

    /// How it has ended; `None` if it has not.
    pub fn result(&self) -> Option<Result<(), TaskError>> {
        self.0.block.result()
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
        budget::spend();
        if let Some(result) = self.look() {
            return result;
        }
        loop {
            self.0.manager.wait(self.0.block.done(), Hint::Short);
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
        budget::spend();
        if let Some(result) = self.look() {
            return Some(result);
        }
        self.0.manager.wait_until(self.0.block.done(), Hint::Short, deadline);
        self.result()
    }

    /// Whether it has ended, perhaps in a visit made here: that is what a wait begins with, and a short task spares all
    /// the rest of it.
    fn look(&self) -> Option<Result<(), TaskError>> {
        self.result().or_else(|| {
            deny_waiting();
            self.0.tasks().in_wait(false);
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
        self.0.cancel()
    }

    /// From now on it is not called, until [`Task::unmask`]; masking twice is masking once. Returns when the call that
    /// may be under way has returned: true. Or false if it does not wait for that: inside a light task, this or
    /// another, and while the blocking alternative is under way.
    ///
    /// # Blocking
    /// The calling thread yields as long as the call lasts.
    #[must_use = "it may still be running"]
    pub fn mask(&self) -> bool {
        self.0.mask()
    }

    /// It may be called again.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    ///
    /// # Wakes
    /// As [`crate::TaskBuilder::submit`].
    pub fn unmask(&self) {
        self.0.unmask();
    }

    /// Gives up waiting for it: it goes on without a handle, unmasked, and is cancelled when its manager goes.
    pub fn detach(mut self) {
        self.0.detached = true;
    }
}

/// What a light task and a tasklet have: the handle of their block. Dropping it is the task's end, unless it was
/// detached: it is cancelled, and the call that may be under way is waited for, but not inside a task; nor is its
/// blocking alternative.
pub(super) struct Handle {
    pub(super) block: &'static Ltask,
    pub(super) manager: Arc<Manager>,
    detached: bool,
}

impl Handle {
    /// `block` has a handle that has no owner yet.
    pub(super) fn new(block: &'static Ltask, manager: &Arc<Manager>) -> Handle {
        Handle { block, manager: manager.clone(), detached: false }
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.manager.driver.tasks
    }

    fn cancel(&self) -> bool {
        self.block.cancel(&self.tasks().tree)
    }

    /// See [`Task::mask`].
    pub(super) fn mask(&self) -> bool {
        match self.block.state.mask() {
            Mask::Nothing => true,
            Mask::BlockingCall => false,
            Mask::Call => self.wait_for_call(),
        }
    }

    /// See [`Task::unmask`].
    pub(super) fn unmask(&self) {
        if self.block.state.unmask() {
            self.tasks().add(self.block);
        }
    }

    /// Until the call that is under way has returned; false inside a task, which would perhaps wait for itself.
    fn wait_for_call(&self) -> bool {
        if inside().is_some() {
            return !self.block.state.is_running();
        }
        // Calls are short. It may be that of a green thread here, if it yields.
        while self.block.state.is_running() {
            marcel::yield_now();
        }
        true
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _end = End(self);
        if !self.detached {
            self.cancel();
            self.wait_for_call();
        }
    }
}

/// The end of a handle that goes. A runtime that stops may unwind the first wait for the call; this waits to its end.
struct End<'a>(&'a Handle);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !self.0.detached {
            self.0.wait_for_call();
        }
        self.0.block.detach(self.0.tasks());
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name()).field("result", &self.result()).finish()
    }
}
