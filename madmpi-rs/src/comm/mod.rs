//! Communicators: a group, and a context in which its messages are its own.
//!
//! # Tags on the wire
//! `context (31 bits) << 32 | internal (1 bit) << 31 | tag (31 bits)`. Tags of programs have 30 bits. Internal ones are seen by
//! no receive of a program's; of their 31 bits, the highest is set for what has a tag of the program's as its rest.
//!
//! | file | what |
//! |---|---|
//! | `context` | who gives out contexts |
//! | `meeting` | how those who make a communicator agree |
//! | `create`, `inter` | communicators made of others, and of two sides |
//! | `idup` | duplicates while the program goes on |
//! | `kinds` | parts by what processes share |
//! | `calls` | the functions of communicators as such |

mod calls;
pub(crate) mod context;
mod create;
mod idup;
mod inter;
mod kinds;
mod meeting;

use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::*;
use crate::attribute::Attributes;
use crate::errhandler::Errhandler;
use crate::error::Fault;
use crate::group::Group;
use crate::handle::{Held, Table};
use crate::p2p::buffer::Buffer;
use crate::process;
use crate::topology::Topology;

pub(crate) use calls::{give, intra};
pub(crate) use create::Place;

static COMMS: Table<Comm> = Table::new();

/// The largest tag.
pub(crate) const TAG_UB: c_int = (1 << 30) - 1;
const INTERNAL: u64 = 1 << 31;
/// Internal tags, beside those that have a tag of the program's.
const MEETING: u32 = 0;

/// A communicator.
pub(crate) struct Comm {
    handle: OnceLock<MPI_Comm>,
    pub(crate) session: newmad::Session,
    context: u32,
    pub(crate) group: Arc<Group>,
    /// The other side, of an intercommunicator.
    pub(crate) remote: Option<Arc<Group>>,
    rank: u32,
    pub(crate) attributes: Attributes,
    told: Mutex<Told>,
            topology: OnceLock::new(),
