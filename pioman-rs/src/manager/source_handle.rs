//! A registered source, as its library holds it, and what its users are told when it goes.

use std::io;
use std::sync::Arc;

use crate::completion::one_shot::Completion;
use crate::manager::Manager;
use crate::progress::policy::contract::Policy;
use crate::progress::source::{Source, SourceId};

/// A registered source. Dropping it unregisters the source, and returns when no poller uses the source any more.
///
/// A poller must not drop it, as it would wait for itself: neither a source's functions, nor a policy, a light task or
/// a server's callback. A waker or a function for a completion may, since it is called when the poller has left.
#[derive(Debug)]
pub struct SourceHandle {
    manager: Arc<Manager>,
    slot: usize,
    removed: Removed,
}

/// The end of a source, for waiters on its events: see [`Manager::wait_unless_removed`].
#[derive(Clone, Debug, Default)]
pub struct Removed(Arc<Completion>);

impl Removed {
    /// Whether the source has been removed.
    pub fn is_removed(&self) -> bool {
        self.0.is_done()
    }
}

/// The source was removed before it had found what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRemoved;

impl std::fmt::Display for SourceRemoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the source of the event was removed")
    }
}

impl std::error::Error for SourceRemoved {}

impl SourceHandle {
    /// What waits name it by ([`crate::Hints::on`]).
    pub fn id(&self) -> SourceId {
        SourceId(self.slot as u8)
    }

    /// Tells waiters on its events when it is removed.
    pub fn removed(&self) -> Removed {
        self.removed.clone()
    }

    /// From now on this policy chooses, also for what is pending. The one before is returned.
    ///
    /// # Context
    /// Not the progress path, nor a light task or a server's callback: it waits for pollers.
    ///
    /// # Errors
    /// The policy wants a dedicated kernel thread, and the kernel gives none. It is in force all the same.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) -> io::Result<Option<Arc<dyn Policy>>> {
        let before = self.manager.driver.registry.set_policy(self.slot, policy);
        self.manager.policy_is_new(self.slot)?;
        Ok(before)
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.manager.driver.remove_source(self.slot);
        // It finds nothing any more: its waiters would wait for ever.
        self.removed.0.complete();
    }
}

impl Manager {
    /// Registers a source. It is polled, watched and armed until the handle is dropped.
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Errors
    /// The manager has 64 sources already; the kernel refuses the descriptor. (Without a background watcher or
    /// dedicated kernel thread events are found in other ways, which is told on standard error.)
    pub fn add_source(self: &Arc<Self>, source: Arc<dyn Source>) -> io::Result<SourceHandle> {
        let slot = self.register(source)?;
        Ok(SourceHandle { manager: self.clone(), slot, removed: Removed::default() })
    }

    /// As [`Manager::wait`], for what only this source will find. A library's handle ([`SourceHandle`]) may be dropped
    /// while its users wait.
    ///
    /// ```
    /// # use pioman::{Completion, Manager, Source, SourceHandle};
    /// fn wait(done: &Completion, source: &SourceHandle) -> Result<(), pioman::SourceRemoved> {
    ///     Manager::here().expect("a manager").wait_unless_removed(done, &source.removed())
    /// }
    /// ```
    ///
    /// # Context, Blocking
    /// As [`Manager::wait`].
    ///
    /// # Errors
    /// The source was removed, now or before, and `completion` is not complete.
    pub fn wait_unless_removed(
        &self,
        completion: &Completion,
        source: &Removed,
    ) -> Result<(), SourceRemoved> {
        self.wait_any(&[completion.into(), (&*source.0).into()]);
        if completion.is_done() { Ok(()) } else { Err(SourceRemoved) }
    }
}
