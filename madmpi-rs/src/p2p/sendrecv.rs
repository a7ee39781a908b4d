//! A message out and one in, as one call or one request.

use core::ffi::c_int;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::SendOptions;
use newmad::raw::{Awaited, RawRequest};

use super::irecv;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Choice, Data};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::{self, Operation, Outcome, PROC_NULL, new_operation};

/// What is sent: the elements, the rank and the tag.
pub(crate) type Outward = (Choice, c_int, c_int);
/// What is received: the elements, the rank and the tag.
pub(crate) type Inward = (Choice, c_int, c_int);

/// A message out and one in, under way.
struct SendRecv {
    comm: Ref<Comm>,
    /// Dropped before the data, whose memory it uses.
    out: Option<RawRequest>,
    inward: Option<RawRequest>,
    sent: Data,
    received: Data,
    /// A copy of what is sent.
    _copy: Option<Box<[u8]>>,
    known: KernelMutex<Option<Outcome>>,
}

impl Operation for SendRecv {
    fn awaited(&self) -> Option<Awaited<'_>> {
        let pending = |request: &&RawRequest| !request.is_over();
        let all = [self.inward.as_ref(), self.out.as_ref()];
        let next = all.into_iter().flatten().find(pending);
        // SAFETY: one thread at a time waits for an operation.
        next.map(|request| unsafe { request.awaited() })
    }

    fn outcome(&self) -> Outcome {
        let mut known = self.known.lock();
        if let Some(known) = &*known {
            return known.clone();
        }
        let mut outcome = match &self.inward {
            Some(request) => Outcome::of_message(ended(request), true, &self.received, &self.comm),
            None => Outcome::NO_PROC,
        };
        if let Some(out) = &self.out {
            let sent = Outcome::of_message(ended(out), false, &self.sent, &self.comm);
            outcome.fault = outcome.fault.or(sent.fault);
        }
        *known = Some(outcome.clone());
        outcome
    }
}

/// What came of a message that is over.
fn ended(request: &RawRequest) -> Result<newmad::Status, newmad::Error> {
    request.result().unwrap_or(Err(newmad::Error::Active))
}

/// Begins both messages. With a `copy`, that has the elements to be sent.
fn begin(
    comm: &Ref<Comm>,
    (sent, dest, sendtag): (Data, c_int, c_int),
    (received, source, recvtag): Inward,
    copy: Option<Box<[u8]>>,
) -> Result<SendRecv, Fault> {
    let received = received.elements()?.data()?;
    let (to, from) = (comm.destination(dest, sendtag)?, comm.origin(source, recvtag)?);
    let mut both = SendRecv {
        comm: comm.clone(),
        out: None,
        inward: None,
        sent,
        received,
        _copy: copy,
        known: KernelMutex::new(None),
    };
    let session = &comm.session;
    // SAFETY: the program leaves the elements to the operation; lists and copies are beside the requests, which are dropped
    // first.
    let (received, sent) =
        unsafe { (both.received.memory().trusted(), both.sent.memory().trusted()) };
    if let Some((from, tag)) = from {
        both.inward.insert(RawRequest::idle()).start_recv(session, from, tag, received)?;
    }
    if let Some((to, tag)) = to {
        both.out = Some(session.isend_with(to, tag, sent, SendOptions::new())?);
    }
    Ok(both)
}

/// A packed copy of a buffer that is sent from and received into, as a message.
fn copied(buffer: Choice) -> Result<(Data, Box<[u8]>), Fault> {
    let copy = buffer.elements()?.packed()?;
    Ok((Data::Whole(copy.as_ptr().cast_mut(), copy.len()), copy))
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
    let (sent, copy) = copied(buffer)?;
    let both = begin(comm, (sent, dest, sendtag), (buffer, source, recvtag), Some(copy))?;
    while let Some(awaited) = both.awaited() {
        awaited.wait();
    }
    Ok(both.outcome())
}

/// The form with a request.
pub(crate) fn isendrecv(
    comm: &Ref<Comm>,
    (sent, dest, sendtag): Outward,
    inward: Inward,
) -> Result<MPI_Request, Fault> {
    let sent = sent.elements()?.outgoing()?;
    request(begin(comm, (sent, dest, sendtag), inward, None)?)
}

/// The form with a request and one buffer.
pub(crate) fn isendrecv_replace(
    comm: &Ref<Comm>,
    buffer: Choice,
    (dest, sendtag): (c_int, c_int),
    (source, recvtag): (c_int, c_int),
) -> Result<MPI_Request, Fault> {
    let (sent, copy) = copied(buffer)?;
    request(begin(comm, (sent, dest, sendtag), (buffer, source, recvtag), Some(copy))?)
}

fn request(both: SendRecv) -> Result<MPI_Request, Fault> {
    match (&both.out, &both.inward) {
        (None, None) => Ok(PROC_NULL),
        _ => new_operation(Arc::new(both)),
    }
}
