//! The functions of the ABI, by chapter of the standard.

mod abi;
mod attribute;
mod buffer;
mod coll;
mod comm;
mod convert;
mod datatype;
mod entry;
mod env;
mod errcode;
mod errhandler;
mod group;
mod info;
mod op;
mod p2p;
mod partitioned;
mod request;
mod session;
mod status;
mod tool;
mod topology;
mod unsupported;
