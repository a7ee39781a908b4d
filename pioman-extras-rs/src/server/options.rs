//! What may be said of a request when it is submitted.

use std::fmt;
use std::sync::Arc;

use pioman::Policy;
use pioman::{Hint, Priority};

/// By which method a request may be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Only by polling.
    Poll,
    /// Only by a pool thread that blocks. While none is to be had it is polled, if the server can.
    Block,
}

/// Hints of one request. `Options::default()` is right for most.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long it is expected to take.
    pub hint: Hint,
    /// The only method that is accepted.
    pub only: Option<Only>,
    /// Requests of a higher priority are polled first, and get a pool thread first.
    pub priority: Priority,
    /// Requests on one interface are polled and blocked on together, where a group is asked for.
    pub interface: usize,
    /// The policy that chooses its method; else the server's, else the manager's.
    pub policy: Option<Arc<dyn Policy>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hint: Hint::Short,
            only: None,
            priority: Priority::Normal,
            interface: 0,
            policy: None,
        }
    }
}

impl Options {
    /// How long it is expected to take.
    pub fn hint(self, hint: Hint) -> Self {
        Options { hint, ..self }
    }

    /// It is only polled.
    pub fn poll_only(self) -> Self {
        Options { only: Some(Only::Poll), ..self }
    }

    /// It is only blocked on.
    pub fn block_only(self) -> Self {
        Options { only: Some(Only::Block), ..self }
    }

    /// How urgent it is.
    pub fn priority(self, priority: Priority) -> Self {
        Options { priority, ..self }
    }

    /// On which interface its event will come.
    pub fn interface(self, interface: usize) -> Self {
        Options { interface, ..self }
    }

    /// Its own policy.
    pub fn policy(self, policy: Arc<dyn Policy>) -> Self {
        Options { policy: Some(policy), ..self }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("hint", &self.hint)
            .field("only", &self.only)
            .field("priority", &self.priority)
            .field("interface", &self.interface)
            .field("policy", &self.policy.as_ref().map(|policy| policy.name().to_owned()))
            .finish()
    }
}
