//! The entry points of the ABI, by chapter of the standard.
//!
//! An entry point converts its arguments and calls what lies below. `entry` has the macro that makes the C function
//! and its `PMPI_` twin, and invokes the error handler.

mod abi;
mod attribute;
mod buffer;
mod coll;
mod comm;
mod connect;
mod convert;
mod datatype;
mod entry;
mod env;
mod errcode;
mod errhandler;
mod failures;
mod file;
mod group;
mod info;
mod op;
mod p2p;
mod partitioned;
mod request;
mod session;
mod spawn;
mod status;
mod tool;
mod topology;
mod win;
