//! Policies: by which method the events of a request are looked for, as long as it is pending.
//!
//! The manager asks a policy for each caller ([`Asker`]): a waiter, an idle virtual processor, a poller that passes by
//! other sources, and a submitter that leaves something pending. It asks again while the request pends: when the last
//! answer expires ([`Choice::again`]), and when another caller asks. That is how the method of a pending request
//! changes, in both directions: a wait that polls sleeps in the kernel from the moment when every core computes; one
//! that sleeps is found by a virtual processor that becomes idle, or by a dedicated kernel thread that is switched on.
//!
//! A policy only chooses. Whatever the answers, the manager keeps the detection invariant (see `driver`).
//! Where the chosen method cannot be had (no background watcher in mode mono, no
//! dedicated one started), the nearest one serves ([`crate::Manager::explain`] says which).
//!
//! | name | a waiter | an idle virtual processor | a passing poller | left pending |
//! |---|---|---|---|---|
//! | `always-poll` | polls | polls | looks | an idle virtual processor is woken to poll, else ticks |
//! | `always-block` | sleeps in the kernel | sleeps | does not look | the background watcher sleeps on it |
//! | `timer-only` | sleeps | sleeps | does not look | ticks |
//! | `dedicated` | sleeps | sleeps | does not look | a dedicated kernel thread polls |
//! | `interrupt` | as `load-aware` | as `load-aware` | looks | peers interrupt a virtual processor that computes, and ticks look; without one, or where the source cannot: background watcher |
//! | `load-aware` | polls for a fixed time where a core is idle, then sleeps in the kernel | the same | looks | background watcher; without one, as `interrupt` |
//! | `adaptive` | polls for the time that history makes cheapest under the load | the same where a core is idle | looks, if that has paid | background watcher; without one, as `interrupt` |
//!
//! Rejected: a policy that is told of events and sets methods (then each one has to keep the invariant, and a wrong one
//! hangs programs); asking it at every poll (an answer costs as much as a look).

pub use crate::manager::explain::{Answer, Explanation, OfSource};
pub use crate::progress::policy::contract::{Asker, Choice, Limit, Policy, Request, Snapshot};
pub use crate::progress::policy::hints::{Hint, Hints, Method, Priority};
pub use crate::progress::policy::history::{History, Spin};
pub use crate::progress::policy::load_aware::LoadAware;
pub use crate::progress::policy::named::{NAMES, by_name};
