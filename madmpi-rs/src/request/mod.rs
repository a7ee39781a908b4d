//! Requests: operations under way, waiting for them, and their outcomes.
//!
//! ```text
//!            ┌───────────── start ──────────────┐
//!            ▼                                  │
//!   new ─▶ under way ──over──▶ taken ─▶ idle (a persistent one)
//!            │                      └─▶ free
//!            └── freed ─▶ orphan ──over──▶ free
//! ```
//! Polls end the orphans that are over, and so does each new orphan that doubles their number.
//!
//! A request is a message of newmad, whose memory stays with the slot ([`table`]), or an [`Operation`] of another
//! chapter: a collective, several messages, the program's own work. A message that left at once has no slot: [`SENT`]
//! stands for all of them.
//!
//! Work that takes long, or calls the program, is done without the slot's lock. One thread waits for a request at a
//! time, as the standard requires; a second one gets an error.
//!
//! | file | what |
//! |---|---|
//! | `table`, `state` | slots, and what they hold |
//! | `operation`, `outcome` | what a request stands for, and what came of it |
//! | `create`, `persistent` | making requests, starting them again |
//! | `take`, `wait`, `several` | taking outcomes, waiting and testing |
//! | `cancel`, `orphans` | cancelling and freeing |
//! | `messages`, `collective`, `generalized` | operations: several messages, collectives, the program's own work |

mod cancel;
pub(crate) mod collective;
mod create;
pub(crate) mod generalized;
mod messages;
mod operation;
mod orphans;
mod outcome;
mod persistent;
pub(crate) mod several;
mod state;
mod table;
mod take;
mod wait;

pub(crate) use cancel::{cancel, finish_freed, free};
pub(crate) use create::{new_message, new_operation, new_persistent, new_persistent_operation};
pub(crate) use messages::{Messages, StatusOf};
pub(crate) use operation::{Operation, complete};
pub(crate) use outcome::Outcome;
pub(crate) use persistent::start;
pub(crate) use state::{Restart, Template};
pub(crate) use table::{PROC_NULL, SENT};
pub(crate) use take::{operation, peek};
pub(crate) use wait::{poll, test, wait};
