//! A message out and one in, as one call or one request.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::SendOptions;

use super::irecv;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Choice, Data};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{self, Messages, Outcome, PROC_NULL, StatusOf, complete, new_operation};

/// What is sent: the elements, the rank and the tag.
pub(crate) type Outward = (Choice, c_int, c_int);
/// What is received: the elements, the rank and the tag.
pub(crate) type Inward = (Choice, c_int, c_int);

/// Begins both messages.
fn begin(
    comm: &Ref<Comm>,
    (sent, dest, sendtag): (Data, c_int, c_int),
    (received, source, recvtag): Inward,
) -> Result<Messages, Fault> {
    let received = received.elements()?.data()?;
    let (to, from) = (comm.destination(dest, sendtag)?, comm.origin(source, recvtag)?);
    let mut both = Messages::new(comm, StatusOf::Received);
    if let Some((from, tag)) = from {
        both.receive(from, tag, received)?;
    }
    if let Some((to, tag)) = to {
        both.send(to, tag, sent)?;
    }
    Ok(both)
}

/// The blocking form.
pub(crate) fn sendrecv(
    comm: &Ref<Comm>,
    (sent, dest, sendtag): Outward,
    (received, source, recvtag): Inward,
) -> Result<Outcome, Fault> {
    let sent = sent.elements()?.outgoing()?;
    let to = comm.destination(dest, sendtag)?;
    let mut receive = irecv(comm, received, source, recvtag)?;
    let result = match to {
        Some((to, tag)) => {
            // SAFETY: the program leaves the elements alone during the call.
            let sent = unsafe { sent.memory().trusted() };
            comm.session.send_with(to, tag, sent, SendOptions::new())
        }
        None => Ok(()),
    };
    let mut outcome = request::wait(&mut receive)?;
    if let Err(error) = result {
        outcome.fault.get_or_insert(error.into());
    }
    Ok(outcome)
}

/// The blocking form with one buffer.
pub(crate) fn sendrecv_replace(
    comm: &Ref<Comm>,
    buffer: Choice,
    (dest, sendtag): (c_int, c_int),
    (source, recvtag): (c_int, c_int),
) -> Result<Outcome, Fault> {
    let sent = (buffer.elements()?.copied()?, dest, sendtag);
    complete(&begin(comm, sent, (buffer, source, recvtag))?)
}

/// The form with a request.
pub(crate) fn isendrecv(
    comm: &Ref<Comm>,
    (sent, dest, sendtag): Outward,
    inward: Inward,
) -> Result<MPI_Request, Fault> {
    let sent = sent.elements()?.outgoing()?;
    request(begin(comm, (sent, dest, sendtag), inward)?)
}

/// The form with a request and one buffer.
pub(crate) fn isendrecv_replace(
    comm: &Ref<Comm>,
    buffer: Choice,
    (dest, sendtag): (c_int, c_int),
    (source, recvtag): (c_int, c_int),
) -> Result<MPI_Request, Fault> {
    let sent = (buffer.elements()?.copied()?, dest, sendtag);
    request(begin(comm, sent, (buffer, source, recvtag))?)
}

fn request(both: Messages) -> Result<MPI_Request, Fault> {
    if both.is_empty() { Ok(PROC_NULL) } else { new_operation(Arc::new(both)) }
}
