//! MPI 5.0 for C, with the standard ABI, over `newmad`: `libmpi_abi.so.1`.
//!
//! Programs in C see `include/mpi.h`; the tables behind it, every function and every constant of the ABI, are in `abi/`. A
//! program in Rust that has green threads of its own links this crate and declares the C functions that it calls: a blocking
//! call on a green thread blocks that thread only.
//!
//! # Where to look
//! | file | what |
//! |---|---|
//! | `call` | how a function of the ABI is written: checks, error handlers, its `PMPI_` twin |
//! | `abi` | types and constants as C has them |
//! | `handle`, `convert` | what a handle stands for; stale ones are noticed; handles as numbers |
//! | `error`, `errhandler`, `errcode` | what went wrong, who is told, in which words |
//! | `process` | this process in the job: the session, initialising and finalising |
//! | `env`, `session` | initialising, and what a process may ask about itself |
//! | `comm`, `group` | communicators and groups |
//! | `topology` | who is whose neighbour |
//! | `attribute`, `info` | what programs attach to objects, and what they hint |
//! | `datatype` | types: their layout in memory |
//! | `op` | operators of reductions |
//! | `p2p` | messages |
//! | `request`, `status` | what goes on, waiting for it, what came of it |
//! | `coll` | collectives |
//! | `tool` | control and performance variables |
//! | `unsupported` | what comes later: it says so |

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
mod group;
mod handle;
mod info;
mod job;
mod message;
mod op;
mod p2p;
mod process;
mod request;
mod session;
mod topology;
