//! Collectives.
//!
//! What a call asks for becomes a [`Plan`], which is carried out in one of three forms: at once and waited for, as a request,
//! or as a persistent request. Plans are made of three things:
//!
//! | file | what | for |
//! |---|---|---|
//! | `recipe` | a collective of newmad's, with its data in place or packed | one group |
//! | `exchange` | messages to and from several ranks, all at once | neighbours; intercommunicators |
//! | `stages` | one after the other | intercommunicators: here, between leaders, there |
//!
//! `side`: the data of a collective in memory. `barrier`, `rooted`, `all`, `reduce`, `neighbours`: the functions.
//! `check`: whether all members call the same (`NMAD_CHECK=1`).

mod all;
mod buffers;
mod check;
pub(crate) mod dup;
mod exchange;
mod inter;
mod neighbours;
mod plan;
mod recipe;
mod reduce;
mod rooted;

pub(crate) use all::{allgather, allgatherv, alltoall, alltoall_of, barrier};
pub(crate) use buffers::{Displacement, described, described_apart};
pub(crate) use check::Call;
pub(crate) use neighbours::{even, neighbours, repeated};
pub(crate) use plan::{begin, prepare, run};
pub(crate) use reduce::{allreduce, reduce, reduce_scatter, scan};
pub(crate) use rooted::{bcast, gather, gatherv, scatter, scatterv};
