//! Requests: what goes on, what it waits for, and what came of it.
//!
//! ```text
//!            ┌───────────── start ──────────────┐
//!            ▼                                  │
//!   new ─▶ under way ──over──▶ taken ─▶ idle (a persistent one)
//!                                   └─▶ free
//! ```
//! A request is a message of newmad's, whose memory stays with the slot ([`table`]), or an [`Operation`] of another chapter:
//! a collective, several messages, the program's own. A message that left at once has no request: [`SENT`] stands for
//! all of them.
//!
//! What takes long, or calls the program, is done without the slot's lock. One thread waits for a request at a time, as
//! the standard has it; a second one is told so.

mod cancel;
pub(crate) mod collective;
mod create;
pub(crate) mod generalized;
mod operation;
mod orphans;
mod outcome;
mod persistent;
pub(crate) mod several;
mod state;
mod table;
mod take;
mod wait;

pub(crate) use cancel::{cancel, free};
pub(crate) use create::{new_message, new_operation, new_persistent};
pub(crate) use operation::{Operation, complete};
pub(crate) use outcome::Outcome;
pub(crate) use persistent::start;
pub(crate) use state::{Restart, Template};
pub(crate) use table::{PROC_NULL, SENT};
pub(crate) use take::{operation, peek};
pub(crate) use wait::{poll, test, wait};
