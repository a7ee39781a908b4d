//! Fault tolerance: what a program needs to go on after ranks have failed. (MPI's user-level failure mitigation is made of
//! this.)
//!
//! * *Failures*: [`Session::failed_ranks`](crate::Session::failed_ranks); a [`Hook`] is called when there are more.
//! * *Revocation*: [`Session::revoke`](crate::Session::revoke) names messages by a key. Each process that hears of it tells the others before it
//!   acts, so all that live hear of it, whoever fails meanwhile. The hook then bans these messages ([`Session::ban_revoked`](crate::Session::ban_revoked)).
//! * *Agreement*: [`Session::agree`](crate::Session::agree) is uniform: all ranks that live, and those that have failed after they had a
//!   decision, have the same.
//!
//! | file | what |
//! |---|---|
//! | `face`, `contract` | the calls of a session; what they take and give |
//! | `agreement` | the protocol, without messages or time; `simulation`: with both, and crashes |
//! | `wire` | what processes tell each other |
//! | `service` | the messages, and who is told what |
//! | `listener` | the probe by which a process hears; `alarm`: when it begins |
//!
//! # In good times
//! nothing listens: a request that is never over would be in the way of every message. The engine completes an *alarm* when a
//! peer has failed, or when the first control message is there; then the listener begins. So does a call of
//! [`Session::agree`](crate::Session::agree) or [`Session::revoke`](crate::Session::revoke). From then on a control message is found while the program computes.
//!
//! # What counts as failed
//! A rank whose process has ended; and one that cannot be reached any more (`NMAD_REPAIR_MS`), although it may live. All
//! that take part in an agreement take its failed ranks for failed afterwards. A rank that finds itself among them is told so
//! by an error.

mod agreement;
mod alarm;
mod contract;
mod face;
mod listener;
mod service;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub use contract::{Contribution, Decision, Hook};
pub use face::Agreement;
