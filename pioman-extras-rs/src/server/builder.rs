//! Making a server: the library's callbacks.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use super::activity::Activity;
use super::callbacks::Callbacks;
use super::counters::Common;
use super::handle::Server;
use super::pass::Pass;
use super::pending::{Group, Pending};
use super::poller::Role;
use super::server_source::ServerSource;
use super::shared::{Shared, State};
use marcel::plumbing::KernelMutex;
use pioman::Manager;
use pioman::Policy;
use pioman::plumbing::{CoreHandle, DelegationLock};
use pioman::policy::History;

/// Configures a [`Server`]: its name and callbacks, of which one is enough. Which is taken when: see [`crate::server`].
///
/// # What callbacks may do
/// They are ordinary code, never run in a signal handler, and may allocate and lock. They run wherever the manager
/// looks for events, on the scheduler's own stack too, so polling ones must be short and must not wait: one that takes
/// longer than `PIOM_LONG_CALLBACK_USEC` is named on standard error. At most one *polling* callback of a server runs at
/// a time; blocking ones run beside it, and beside one another if they are about different requests. A panic is named
/// and ends there: the request that the callback was called for has failed, or, if it was called for several, it is not
/// called any more and other kinds take over.
#[must_use = "a builder does nothing before `start`"]
pub struct Builder<R> {
    manager: Arc<Manager>,
    name: Box<str>,
    callbacks: Callbacks<R>,
    policy: Option<Arc<dyn Policy>>,
}

impl<R: Send + Sync + 'static> Server<R> {
    /// Configures a server of this name. `R` is what one request is to the library.
    pub fn builder(manager: &Arc<Manager>, name: &str) -> Builder<R> {
        Builder::new(manager, name)
    }
}

impl<R: Send + Sync + 'static> Builder<R> {
    pub(super) fn new(manager: &Arc<Manager>, name: &str) -> Builder<R> {
        Builder {
            manager: manager.clone(),
            name: name.into(),
            callbacks: Callbacks::default(),
            policy: None,
        }
    }

    /// Looks whether the event of one request has come, and if so completes it.
    pub fn poll_one(mut self, f: impl Fn(&Pending<R>) + Send + Sync + 'static) -> Self {
        self.callbacks.poll_one = Some(Box::new(f));
        self
    }

    /// Looks at all these requests, which are on one interface, and completes those whose event has come.
    pub fn poll_group(mut self, f: impl Fn(&Group<'_, R>) + Send + Sync + 'static) -> Self {
        self.callbacks.poll_group = Some(Box::new(f));
        self
    }

    /// Looks for any event, and completes the requests that it ends; it is given all that are looked for.
    pub fn poll_any(mut self, f: impl Fn(&Group<'_, R>) + Send + Sync + 'static) -> Self {
        self.callbacks.poll_any = Some(Box::new(f));
        self
    }

    /// Blocks until the event of this request has come, and completes it. If it has come before the call, returns at
    /// once: so it is with all that block. May return for nothing; it is called again then.
    pub fn block_one(mut self, f: impl Fn(&Pending<R>) + Send + Sync + 'static) -> Self {
        self.callbacks.block_one = Some(Box::new(f));
        self
    }

    /// As [`Builder::block_one`], for at most the given time, which may be zero.
    pub fn block_one_timeout(
        mut self,
        f: impl Fn(&Pending<R>, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.block_one_timeout = Some(Box::new(f));
        self
    }

    /// Blocks until the event of one of these requests, which are on one interface, has come; completes all that have.
    pub fn block_group(mut self, f: impl Fn(&Group<'_, R>) + Send + Sync + 'static) -> Self {
        self.callbacks.block_group = Some(Box::new(f));
        self
    }

    /// Blocks until the event of any of these requests has come; completes all that have.
    pub fn block_any(mut self, f: impl Fn(&Group<'_, R>) + Send + Sync + 'static) -> Self {
        self.callbacks.block_any = Some(Box::new(f));
        self
    }

    /// As [`Builder::block_any`], for at most the given time, which may be zero.
    pub fn block_any_timeout(
        mut self,
        f: impl Fn(&Group<'_, R>, Duration) + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.block_any_timeout = Some(Box::new(f));
        self
    }

    /// Makes the blocking call on these requests return soon, also one that is only about to begin: the mark that it
    /// leaves (a byte in a pipe, a flag under the lock of a condition variable) has to last until the call sees it.
    /// Some of the requests may have ended. With it, requests are taken out of blocking calls when they are cancelled
    /// or to be polled again, and new ones are taken in.
    pub fn interrupt(mut self, f: impl Fn(&Group<'_, R>) + Send + Sync + 'static) -> Self {
        self.callbacks.interrupt = Some(Box::new(f));
        self
    }

    /// The policy that chooses between polling and blocking for requests without one of their own; else the manager's.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Makes the server, and starts it.
    ///
    /// # Errors
    /// The kernel gives no descriptor, or no thread for the manager's watch; the manager has as many sources
    /// as it takes.
    pub fn start(self) -> io::Result<Server<R>> {
        let (servers, source) = ServerSource::of(&self.manager)?;
        let shared = Arc::new_cyclic(|me| Shared {
            number: marcel::trace::intern(&self.name),
            name: self.name,
            core: CoreHandle::of(&self.manager),
            pool: self.manager.blocking_pool().0.clone(),
            me: me.clone(),
            callbacks: self.callbacks,
            policy: self.policy,
            history: History::default(),
            common: Arc::new(Common::new(servers.pending.clone())),
            servers,
            source,
            state: KernelMutex::new(State::new()),
            generation: AtomicU64::new(0),
            role: Role::new(),
            pass: DelegationLock::new(Pass::new()),
            polled_by: AtomicUsize::new(0),
            passes: AtomicU64::new(0),
            armed_at: AtomicU64::new(u64::MAX),
            activity: Activity::new(),
        });
        Ok(Server::new(shared, self.manager))
    }
}

impl<R: Send + Sync + 'static> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("callbacks", &self.callbacks.kinds())
            .finish_non_exhaustive()
    }
}
