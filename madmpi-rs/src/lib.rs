//! MPI 5.0 for C and Fortran, with the standard ABI, over `newmad`: `libmpi_abi.so.1`.
//!
//! Programs in C use `include/mpi.h`; those in Fortran a layer that `tools/install` makes of `fortran/`. The tables behind
//! both, with every function and every constant of the ABI, are in `abi/`. A program in Rust with green threads of its own
//! links this crate and declares the C functions that it calls: a blocking call on a green thread blocks that thread only.
//!
//! # Layers, from the top
//! | layer | what |
//! |---|---|
//! | `calls` | the entry points of the ABI, by chapter: they convert arguments, and invoke error handlers |
//! | `process` | initialising and finalising |
//! | `file` | files: MPI-IO |
//! | `win` | windows: one-sided communication |
//! | `coll`, `p2p` | collectives; messages between two processes |
//! | `port` | connections with processes of other jobs |
//! | `request` | operations under way, waiting for them, their outcomes |
//! | `message` | modes of sending, and sends that need no request |
//! | `comm`, `session` | communicators; sessions of the sessions model |
//! | `op` | operators of reductions |
//! | `datatype` | datatypes, and the elements that calls name |
//! | `buffer`, `errhandler`, `info` | buffers of buffered sends; error handlers; info objects |
//! | `attribute`, `errcode`, `group`, `topology` | attributes, error codes, groups, neighbourhoods |
//! | `events` | what tools are told of newmad's events |
//! | `args`, `job` | arguments as C passes them; the session of newmad and the phases of MPI |
//! | `error`, `handle`, `slots`, `abi` | faults; handles and their objects; their slots; types and constants |

#![allow(non_camel_case_types, non_snake_case)] // names are the standard's

mod abi;
mod args;
mod attribute;
mod buffer;
mod calls;
mod coll;
mod comm;
mod datatype;
mod errcode;
mod errhandler;
mod error;
mod events;
mod failure;
mod file;
mod group;
mod handle;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod hostile;
mod info;
mod job;
mod message;
mod op;
mod p2p;
mod per_rank;
mod port;
mod process;
mod ranks;
mod request;
mod room;
mod session;
mod slots;
mod topology;
mod under_way;
mod win;
