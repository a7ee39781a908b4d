//! The protocol: how messages become packets, and packets messages again.
//!
//! ```text
//!   start_send ──▶ inline ──────────────────────────────┐
//!        │   ──▶ next (the strategy) ──▶ wrap, stage ───┤──▶ gates ──▶ driver
//!        │                  send: flush, control ───────┤
//!   receive: the table of packet kinds ──▶ eager        │
//!            rendezvous ──▶ copies, fragments ──────────┤
//!            reading ◀──▶ exposing: RDMA, in pieces ────┘
//!   bans: messages that are not waited for; events: what tools are told
//!   life: links, peers and the session end; what needs them ends with an error; departures: so do single ranks; quiet: what
//!   still comes for those that close
//! ```
//! Everything works on one [`core::Core`], behind the engine's lock. A request ends in [`pending::Pending::finish`]:
//! nothing here calls the engine. One path turns back: a packet to oneself is received where it is sent
//! (`send.rs::loop_back`).

mod banning;
pub(crate) mod bans;
pub(crate) mod choose;
pub(crate) mod core;
pub(crate) mod departed;
mod departures;
pub(crate) mod events;
mod exposing;
pub(crate) mod exposures;
pub(crate) mod finders;
pub(crate) mod fragments;
pub(crate) mod inline;
pub(crate) mod life;
pub(crate) mod missing;
pub(crate) mod next;
mod noting;
pub(crate) mod pending;
pub(crate) mod pieces;
pub(crate) mod probe;
mod quiet;
mod reading;
pub(crate) mod reads;
pub(crate) mod receive;
pub(crate) mod rendezvous;
pub(crate) mod send;
pub(crate) mod stage;
mod take_back;
pub(crate) mod wrap;
