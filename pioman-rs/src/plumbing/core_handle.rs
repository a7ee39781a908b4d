//! What a library's own machinery keeps of a manager.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use marcel::plumbing::lwp::LwpPool;

use crate::driver::core::Driver;
use crate::manager::Manager;
use crate::manager::own_sources::OwnSource;
use crate::progress::policy::contract::{Policy, Snapshot};
use crate::progress::source::Source;

/// The part of a manager that its kernel threads share. A callback that runs on one of them keeps this: dropping it
/// never waits for a kernel thread, as dropping the last `Arc<Manager>` does.
#[derive(Clone, Debug)]
pub struct CoreHandle(Arc<Driver>);

impl CoreHandle {
    /// The part of `manager`.
    pub fn of(manager: &Manager) -> CoreHandle {
        CoreHandle(manager.driver.clone())
    }

    /// Whether pool threads may block on behalf of requests (`PIOM_POINTS`, the mode).
    pub fn may_block(&self) -> bool {
        self.0.machine.points.block
    }

    /// The policy of sources that have none of their own.
    pub fn default_policy(&self) -> &Arc<dyn Policy> {
        &self.0.advisor.policies.default
    }

    /// The state of the machine, for a policy. A few loads.
    pub fn snapshot(&self) -> Snapshot {
        self.0.machine.snapshot()
    }

    /// As [`Manager::is_loaded`].
    pub fn is_loaded(&self) -> bool {
        self.0.machine.is_loaded()
    }

    /// As [`Manager::ensure_watched`].
    pub fn ensure_watched(&self) {
        self.0.ensure_watched();
    }

    /// Counts a blocking call of a pool thread that has found an event ([`Manager::hits`]).
    pub fn count_blocking_hit(&self) {
        self.0.tasks.blocking_hits.fetch_add(1, Relaxed);
    }

    /// Waits until every thread has left that is polling, arming or disarming sources now. False, and at once, if the
    /// caller is one of them, or the kernel does not say.
    ///
    /// # Context
    /// Not the progress path.
    pub fn wait_for_pollers(&self) -> bool {
        self.0.registry.wait_for_pins()
    }

    /// The period of ticks, and of pollers that keep their pace.
    pub fn tick_period(&self) -> Duration {
        self.0.machine.tick_period
    }
}

impl Manager {
    /// The pool threads for blocking calls, and how many threads it may have (`PIOM_SPARE_LWP`).
    pub fn blocking_pool(&self) -> (&Arc<LwpPool>, usize) {
        (self.spare.pool(), self.spare.most())
    }

    /// The manager's own source of type `T`. The first call makes it; it goes with the manager.
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Errors
    /// Those of `make` and of [`Manager::add_source`].
    pub fn own_source<T: Source + 'static>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<&OwnSource<T>> {
        self.own_sources.get(|| {
            let source = Arc::new(make()?);
            let id = self.add_builtin(source.clone())?;
            Ok(OwnSource { source, id })
        })
    }
}
