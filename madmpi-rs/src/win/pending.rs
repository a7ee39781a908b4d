//! Accesses under way: what an access by messages awaits, and where what comes goes.
//!
//! Callbacks count the messages of an access, and the last one unpacks. So it ends without a call of the program's, and both the
//! program's request and a flush can wait for it.

use core::ffi::c_int;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::raw::{Awaited, Memory};
use pioman::Completion;

use crate::abi::*;
use crate::datatype::{Data, Elements};
use crate::error::Fault;
use crate::request::{Operation, Outcome};

/// The access that a call has started and not finished. `None`: it is over.
pub(crate) type Pending = Option<Arc<Access>>;

/// Where an access puts what comes.
pub(super) enum Into {
    /// Data of a message, in place or through its copy.
    Data(Data),
    /// Packed elements, in several parts.
    Room(Box<[u8]>, Elements),
    /// Nothing comes.
    Nothing,
}

/// An access under way.
pub(crate) struct Access {
    session: newmad::Session,
    state: KernelMutex<State>,
    /// For the program's request.
    done: Completion,
    /// For a flush.
    flushed: Completion,
}

struct State {
    left: usize,
    fault: Option<Fault>,
    into: Into,
}

impl Access {
    pub(super) fn new(session: &newmad::Session, messages: usize, into: Into) -> Arc<Access> {
        Arc::new(Access {
            session: session.clone(),
            state: KernelMutex::new(State { left: messages, fault: None, into }),
            done: Completion::new(),
            flushed: Completion::new(),
        })
    }

    /// The room of what comes in several parts; the memory of a message.
    pub(super) fn memory(&self) -> Memory {
        match &mut self.state.lock().into {
            Into::Data(data) => data.memory(),
            Into::Room(room, _) => Memory::Whole(room.as_mut_ptr(), room.len()),
            Into::Nothing => Memory::Whole(std::ptr::NonNull::dangling().as_ptr(), 0),
        }
    }

    /// Part of the room has come in an answer with others'.
    pub(super) fn came(&self, begin: usize, part: &[u8]) {
        if let Into::Room(room, _) = &mut self.state.lock().into {
            room[begin..][..part.len()].copy_from_slice(part);
        }
    }

    /// A message is over.
    pub(super) fn over(&self, result: Result<(), Fault>) {
        let last = {
            let mut state = self.state.lock();
            state.left -= 1;
            if state.fault.is_none() {
                state.fault = result.err();
            }
            let last = state.left == 0;
            if last && state.fault.is_none() {
                match &state.into {
                    // SAFETY: the program leaves the elements to the access; all has come.
                    Into::Data(data) => unsafe { data.unpack(data.len()) },
                    Into::Room(room, elements) => elements.unpack_from(room),
                    Into::Nothing => {}
                }
            }
            last
        };
        if last {
            self.done.complete();
            self.flushed.complete();
        }
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.state.lock().fault.clone()
    }

    /// Whether a flush need not wait for it.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.is_done()
    }
}

impl Operation for Access {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        self.fault().map_or(Outcome::EMPTY, Outcome::failed)
    }
}

/// Waits until the accesses are over at this process.
///
/// # Errors
/// One has failed.
pub(super) fn await_all(accesses: Vec<Arc<Access>>) -> Result<(), Fault> {
    let mut fault = None;
    for access in accesses {
        while let Some(awaited) = access.session.awaited(&access.flushed).pending() {
            awaited.wait();
        }
        fault = fault.or(access.fault());
    }
    fault.map_or(Ok(()), Err)
}

/// What a target's answer says.
pub(super) fn outcome(class: c_int) -> Result<(), Fault> {
    let text = match class {
        MPI_SUCCESS => return Ok(()),
        MPI_ERR_PROC_ABORTED => "a process that held the lock has died",
        MPI_ERR_RMA_RANGE => {
            "an access named memory of the target that is not in the window, or not attached"
        }
        _ => "the target could not do what it was asked for",
    };
    Err(Fault::new(class, text))
}
