//! Communicators: a group, and a context in which its messages are its own.
//!
//! # Tags on the wire
//! `context (31 bits) << 32 | internal (1 bit) << 31 | tag of the program (31 bits)`. The context of a communicator is given out
//! by one of its processes: `process (14 bits) << 17 | number (17 bits)`, so nobody else gives out the same.

use core::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::abi::*;
use crate::call::mpi;
use crate::errhandler::Errhandler;
use crate::error::{Fault, out};
use crate::group::Group;
use crate::handle::{Held, Table};
use crate::process;

static COMMS: Table<Comm> = Table::new();

/// A communicator.
pub(crate) struct Comm {
    handle: OnceLock<MPI_Comm>,
    pub(crate) session: newmad::Session,
    context: u32,
    pub(crate) group: Arc<Group>,
    /// The other side, of an intercommunicator.
    pub(crate) remote: Option<Arc<Group>>,
    rank: u32,
    errhandler: Mutex<Errhandler>,
}

/// The communicator that a handle stands for.
///
/// # Errors
/// None.
#[inline]
pub(crate) fn get(comm: MPI_Comm) -> Result<Held<Comm>, Fault> {
    if let Some(comm) = process::predefined(comm) {
        return Ok(comm);
    }
    COMMS.get(comm.0).map(Held::Shared).ok_or_else(|| bad(comm))
}

#[cold]
fn bad(comm: MPI_Comm) -> Fault {
    let why = match comm {
        MPI_COMM_NULL => "MPI_COMM_NULL is no communicator",
        MPI_COMM_WORLD | MPI_COMM_SELF => "it exists between MPI_Init and MPI_Finalize only",
        _ => "it is not a communicator, or was freed",
    };
    Fault::argument(MPI_ERR_COMM, "comm", format_args!("{:#x}", comm.0), why)
}

impl Comm {
    pub(crate) fn predefined(
        handle: MPI_Comm,
        session: &newmad::Session,
        group: Arc<Group>,
    ) -> Result<Arc<Comm>, Fault> {
        let rank =
            group.rank(session.rank()).ok_or_else(|| Fault::new(MPI_ERR_INTERN, "not a member"))?;
        // Number 0 and 1 of process 0: nobody gives them out. `MPI_COMM_SELF` meets no other of its kind.
        let context = if handle == MPI_COMM_WORLD { 0 } else { 1 };
        Ok(Arc::new(Comm {
            handle: OnceLock::from(handle),
            session: session.clone(),
            context,
            group,
            remote: None,
            rank,
            errhandler: Mutex::new(Errhandler::Fatal),
        }))
    }

    pub(crate) fn handle(&self) -> MPI_Comm {
        self.handle.get().copied().unwrap_or(MPI_COMM_NULL)
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.errhandler.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        *self.errhandler.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Those whom messages go to and come from: the other side, if there is one.
    #[inline]
    pub(crate) fn peers(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// The process that a message is for, and its tag on the wire. `None`: nobody.
    ///
    /// # Errors
    /// There is no such rank, or the tag is out of range.
    #[inline]
    pub(crate) fn destination(&self, dest: c_int, tag: c_int) -> Result<Option<(u32, u64)>, Fault> {
        if tag < 0 {
            return Err(Fault::argument(
                MPI_ERR_TAG,
                "tag",
                tag,
                "a tag to send with is not negative",
            ));
        }
        if dest == MPI_PROC_NULL {
            return Ok(None);
        }
        let process = u32::try_from(dest).ok().and_then(|rank| self.peers().process(rank));
        let process = process.ok_or_else(|| self.bad_rank("dest", dest))?;
        Ok(Some((process, u64::from(self.context) << 32 | tag as u64)))
    }

    /// Whom to receive from, and which tags on the wire. `None`: nobody.
    ///
    /// # Errors
    /// There is no such rank, or the tag is out of range.
    #[inline]
    pub(crate) fn origin(
        &self,
        source: c_int,
        tag: c_int,
    ) -> Result<Option<(newmad::Origin, newmad::Tag)>, Fault> {
        let context = u64::from(self.context) << 32;
        let tag = match tag {
            MPI_ANY_TAG => newmad::Tag { value: context, mask: !0 << 31 },
            0.. => (context | tag as u64).into(),
            _ => {
                let why = "a tag to receive with is not negative, or MPI_ANY_TAG";
                return Err(Fault::argument(MPI_ERR_TAG, "tag", tag, why));
            }
        };
        let origin = match source {
            MPI_PROC_NULL => return Ok(None),
            MPI_ANY_SOURCE => newmad::ANY,
            _ => {
                let process =
                    u32::try_from(source).ok().and_then(|rank| self.peers().process(rank));
                process.ok_or_else(|| self.bad_rank("source", source))?.into()
            }
        };
        Ok(Some((origin, tag)))
    }

    #[cold]
    pub(crate) fn bad_rank(&self, name: &str, rank: c_int) -> Fault {
        let why = format!("the communicator has ranks 0 to {}", self.peers().size() as i64 - 1);
        Fault::argument(MPI_ERR_RANK, name, rank, &why)
    }

    /// What C is told of a message that came.
    #[inline]
    pub(crate) fn status(&self, status: newmad::Status) -> MPI_Status {
        let source = self.peers().rank(status.source).map_or(MPI_UNDEFINED, |rank| rank as c_int);
        MPI_Status::of(source, (status.tag & 0x7fff_ffff) as c_int, status.len)
    }
}

mpi! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) on comm {
        out(rank, "rank", comm.rank() as c_int)
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) on comm {
        out(size, "size", comm.group.size() as c_int)
    }

    fn MPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) on comm {
        match &comm.remote {
            Some(remote) => out(size, "size", remote.size() as c_int),
            None => Err(Fault::new(MPI_ERR_COMM, "argument comm is not an intercommunicator")),
        }
    }

    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) on comm {
        out(flag, "flag", c_int::from(comm.remote.is_some()))
    }
}
