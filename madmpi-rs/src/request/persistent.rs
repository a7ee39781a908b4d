//! Persistent requests: made once, started many times.

use std::sync::Arc;

use super::table;
use super::wait::find;
use super::{NOBODY, Operation, Outcome, SENT, Work};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Data, Datatype};
use crate::error::Fault;
use crate::handle::Held;
use crate::p2p::{Mode, buffer};

/// What is started again and again.
pub(crate) enum Again {
    /// A message.
    Message(Arc<Letter>),
    /// A message to or from nobody.
    Nobody,
    /// Something else.
    Other(Box<dyn FnMut() -> Result<Arc<dyn Operation>, Fault> + Send>),
}

/// A message that is sent, or received, again and again.
pub(crate) struct Letter {
    pub(crate) comm: Held<Comm>,
    pub(crate) buf: usize,
    pub(crate) count: i64,
    pub(crate) datatype: Held<Datatype>,
    pub(crate) way: Way,
}

/// From or to where.
pub(crate) enum Way {
    To(u32, u64, Mode),
    From(newmad::Origin, newmad::Tag),
}

/// A new request that is started later.
///
/// # Errors
/// There are too many.
pub(crate) fn new_persistent(again: Again) -> Result<MPI_Request, Fault> {
    let mut locked = table::new()?;
    locked.work = Work::Idle;
    locked.again = Some(again);
    Ok(locked.handle())
}

/// Starts one.
///
/// # Errors
/// The handle is none, or not a persistent request's; it is active.
pub(super) fn start(request: MPI_Request) -> Result<(), Fault> {
    let wrong =
        |why| Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why);
    if matches!(request, SENT | NOBODY) {
        return Err(wrong("it is not a persistent request"));
    }
    let mut locked = find(request)?;
    if locked.is_active() {
        return Err(wrong(match locked.again {
            Some(_) => "it was started, and is not over, or was not waited for",
            None => "it is not a persistent request",
        }));
    }
    let other = match &locked.again {
        Some(Again::Other(_)) => locked.again.take(),
        Some(Again::Message(letter)) => {
            let letter = letter.clone();
            return letter.send(&mut locked).map_err(|fault| fault.on_comm(&letter.comm));
        }
        Some(Again::Nobody) => {
            locked.work = Work::Over(Outcome::NO_PROC);
            return Ok(());
        }
        None => return Err(wrong("another thread is starting it")),
    };
    drop(locked);
    let Some(Again::Other(mut begin)) = other else { return Ok(()) };
    let begun = begin();
    let mut locked = find(request)?;
    locked.again = Some(Again::Other(begin));
    locked.work = Work::Other(begun?);
    Ok(())
}

impl Letter {
    fn send(&self, state: &mut super::State) -> Result<(), Fault> {
        let Letter { comm, count, datatype, .. } = self;
        let buf = std::ptr::with_exposed_provenance(self.buf);
        let session = &comm.session;
        match self.way {
            Way::From(from, tag) => {
                let data = Data::of(buf, *count, datatype)?;
                // SAFETY: the program leaves the buffer to the request until it is over; the state keeps the list.
                state.begin(comm, data, true, |place, into| unsafe {
                    place.recv(session, from, tag, into)
                })
            }
            Way::To(to, tag, mode) => {
                // SAFETY: the program's promise that the elements are there.
                let data = unsafe { Data::outgoing(buf, *count, datatype)? };
                let sent = match mode {
                    Mode::Buffered => {
                        // SAFETY: as above.
                        unsafe { buffer::send(comm, to, tag, &data)? };
                        true
                    }
                    // SAFETY: as above.
                    Mode::Standard => unsafe { session.send_at_once(to, tag, data.memory())? },
                    Mode::Synchronous => false,
                };
                if sent {
                    state.work = Work::Over(Outcome::SENT);
                    return Ok(());
                }
                let synchronous = matches!(mode, Mode::Synchronous);
                // SAFETY: as for a receive.
                state.begin(comm, data, false, |place, data| unsafe {
                    place.send(session, to, tag, data, synchronous)
                })
            }
        }
    }
}
