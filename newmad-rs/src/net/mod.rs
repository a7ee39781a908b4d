//! The networks: drivers that carry packets between ranks, and the links that they use.
//!
//! | file | what |
//! |---|---|
//! | `driver` | the trait that the engine calls |
//! | `any` | the driver of a rail: one of the built-in ones without a virtual call, or one of the program's |
//! | `shm/`, `local`, `tcp/`, `verbs/` | the built-in drivers |
//! | `custom` | a driver of the program's ([`crate::driver`]) |
//! | `segment/` | memory that peers share: rings of packets, and the doorbell |
//! | `reliable/` | what makes links that break reliable: retransmission, acknowledgements, checksums |
//! | `rdma` | pieces of memory that adapters read from and to: what drivers and the engine tell each other |
//! | `virtual_rails` | rails that share an adapter's port, and their NUMA nodes |
//! | `packet`, `rings`, `lease`, `ready`, `details` | what drivers, the engine and peers tell each other |

pub(crate) mod any;
pub(crate) mod custom;
pub(crate) mod details;
pub(crate) mod driver;
pub(crate) mod lease;
pub(crate) mod local;
pub(crate) mod packet;
pub(crate) mod rdma;
pub(crate) mod ready;
pub(crate) mod reliable;
pub(crate) mod rings;
pub(crate) mod segment;
pub(crate) mod shm;
pub(crate) mod tcp;
pub(crate) mod verbs;
pub(crate) mod virtual_rails;

pub(crate) use any::{AnyDriver, Link};
pub(crate) use driver::Driver;
pub(crate) use lease::SendLease;
pub(crate) use packet::{GATHER_MAX, GATHER_MAX_CHECKED, Peek, Refused};
pub(crate) use ready::Ready;
pub(crate) use rings::Rings;
pub(crate) use segment::bell::Bell;
