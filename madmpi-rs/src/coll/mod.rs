//! Collectives.
//!
//! A call becomes a [`plan::Plan`], which is carried out in one of three forms: blocking, with a request, or with a
//! persistent request. A plan is made of three things:
//!
//! | file | what | for |
//! |---|---|---|
//! | `group_plan` | a collective of newmad, with its data in place or packed | one group |
//! | `exchange` | messages to and from several ranks, all at once | neighbours; intercommunicators |
//! | `plan` | stages: plans one after the other | intercommunicators: here, between leaders, there |
//! | `driver` | a thread that begins the next stages | those with a request |
//!
//! `buffers`: the data in memory. `all`, `rooted`, `reduce`, `neighbours`, `inter`: the plans of the functions.
//! `check`: whether all members call the same collective (`NMAD_CHECK=1`). `dup`: duplicating a communicator in the
//! background.

mod all;
mod buffers;
mod check;
mod driver;
pub(crate) mod dup;
mod exchange;
mod group_plan;
mod inter;
mod neighbours;
mod plan;
mod reduce;
mod rooted;

pub(crate) use all::{allgather, alltoall, barrier};
pub(crate) use buffers::{Layout, described, described_apart};
pub(crate) use check::Call;
pub(crate) use neighbours::neighbours;
pub(crate) use plan::{begin, prepare, run};
pub(crate) use reduce::{allreduce, reduce, reduce_scatter, scan};
pub(crate) use rooted::{bcast, checked as check_root, gather, scatter};
