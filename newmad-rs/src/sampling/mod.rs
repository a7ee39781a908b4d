//! Sampling: how long messages take, by size, over each rail and by each protocol, as measured on this machine.
//!
//! Where it comes from: `mad sample` measures between two processes and writes a cache file, which every session reads
//! when it opens; or the session measures for itself (`NMAD_SAMPLING=now`, see `session/sample.rs`); without either,
//! the built-in figures serve. What it is for:
//! - *the rendezvous threshold* of a rail: the size from which asking first costs no more than sending at once
//!   ([`Sampling::threshold`]);
//! - *predictions* for strategies: when would so many bytes be through over this rail? A date, not a share:
//!   from it follow shares, and whether to share at all (`strategy/split_balance.rs`).
//!
//! ```text
//!  time   eager: a copy more, but no question        rendezvous: a question first, then fast
//!   │        ╱
//!   │       ╱   ___---  rendezvous
//!   │  ___-╳---
//!   │-- ╱  │
//!   │  ╱   └ threshold
//!   └────────────── size
//! ```
//!
//! Rejected: fitting one latency and one bandwidth to everything (protocols change with the size, and the fit is worst
//! around the threshold, where it matters); shares in the cache file (they depend on what else is on its way).

pub(crate) mod cache;
pub(crate) mod curve;
mod source;
mod table;

pub use cache::default_path;
pub use curve::Curve;
pub(crate) use curve::{FED_NS, Pace, built_in};
pub(crate) use source::Source;
pub use table::{Protocol, Sampling};
pub(crate) use table::{rail_names, thresholds};

pub use crate::error::BadCache;
