//! Calls that send one message and receive another.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use newmad::raw::{Awaited, RawRequest};

use super::{checked, irecv};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::{self, Data};
use crate::error::{Fault, out};
use crate::handle::Held;
use crate::request::{self, NOBODY, Operation, Outcome, new_operation};
use crate::status;

/// A message out and one in, as one request.
struct Both {
    comm: Held<Comm>,
    /// Until this is dropped, its memory is lent.
    out: Option<RawRequest>,
    inward: Option<RawRequest>,
    /// What is sent, and what is received.
    sent: Data,
    received: Data,
    /// A copy of what is sent.
    _copy: Option<Box<[u8]>>,
    known: Mutex<Option<Outcome>>,
}

impl Operation for Both {
    fn awaited(&self) -> Awaited<'_> {
        let pending = |request: &&RawRequest| !request.is_over();
        let all = [self.inward.as_ref(), self.out.as_ref()];
        let next = all.into_iter().flatten().find(pending);
        next.map_or(Awaited::OVER, RawRequest::awaited)
    }

    fn outcome(&self) -> Outcome {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone();
        }
        let mut outcome = match &self.inward {
            Some(request) => Outcome::of_message(request.wait(), true, &self.received, &self.comm),
            None => Outcome::NO_PROC,
        };
        if let Some(out) = &self.out {
            let sent = Outcome::of_message(out.wait(), false, &self.sent, &self.comm);
            outcome.fault = outcome.fault.or(sent.fault);
        }
        *known = Some(outcome.clone());
        outcome
    }
}

type Elements = (*mut c_void, i64, MPI_Datatype);

/// Begins both.
///
/// # Safety
/// Until the request is over the elements of `received` stay writable and nobody else touches them; those of `sent` stay
/// as they are, unless there is a `copy` that they are in.
unsafe fn begin(
    comm: &Held<Comm>,
    (sent, dest, sendtag): (Data, c_int, c_int),
    (received, source, recvtag): (Elements, c_int, c_int),
    copy: Option<Box<[u8]>>,
) -> Result<Both, Fault> {
    let (buf, count, datatype) = received;
    let received = Data::of(buf, count, &*datatype::get(datatype)?)?;
    let (to, from) = (comm.destination(dest, sendtag)?, comm.origin(source, recvtag)?);
    let mut both = Both {
        comm: comm.clone(),
        out: None,
        inward: None,
        sent,
        received,
        _copy: copy,
        known: Mutex::new(None),
    };
    let session = &comm.session;
    // SAFETY: the caller's promise; lists and copies are kept beside the requests, which are dropped first.
    unsafe {
        if let Some((from, tag)) = from {
            both.inward = Some(session.irecv_raw(from, tag, both.received.memory())?);
        }
        if let Some((to, tag)) = to {
            both.out = Some(session.isend_raw(to, tag, both.sent.memory(), false)?);
        }
    }
    Ok(both)
}

/// The elements, packed, as a message of their own.
///
/// # Safety
/// They are readable.
unsafe fn copied((buf, count, datatype): Elements) -> Result<(Data, Box<[u8]>), Fault> {
    // SAFETY: the caller's promise.
    let data = unsafe { Data::outgoing(buf, count, &*datatype::get(datatype)?)? };
    // SAFETY: as above.
    let copy = unsafe { super::gathered(&data) };
    Ok((Data::Whole(copy.as_ptr().cast_mut(), copy.len()), copy))
}

mpi! {
    fn MPI_Sendrecv / MPI_Sendrecv_c (
        sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, status: *mut MPI_Status,
    ) on comm {
        // SAFETY: the program leaves the buffers alone during the call.
        let outcome = unsafe {
            let sent = Data::outgoing(sendbuf, sendcount.into(), &*datatype::get(sendtype)?)?;
            let to = comm.destination(dest, sendtag)?;
            let mut receive = irecv(&comm, (recvbuf, recvcount.into(), recvtype), source, recvtag)?;
            let result = match to {
                Some((to, tag)) => comm.session.send_raw(to, tag, sent.memory(), false),
                None => Ok(()),
            };
            let mut outcome = request::wait(&mut receive)?;
            if let Err(error) = result {
                outcome.fault.get_or_insert(error.into());
            }
            outcome
        };
        status::write(status, outcome.status);
        outcome.fault.map_or(Ok(()), Err)
    }

    fn MPI_Sendrecv_replace / MPI_Sendrecv_replace_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: *mut MPI_Status,
    ) on comm {
        let elements = (buf, count.into(), datatype);
        // SAFETY: the program leaves the buffer alone during the call.
        let outcome = unsafe {
            let (sent, copy) = copied(elements)?;
            let both = begin(&comm, (sent, dest, sendtag), (elements, source, recvtag), Some(copy))?;
            while !both.is_over() {
                both.awaited().wait();
            }
            both.outcome()
        };
        status::write(status, outcome.status);
        outcome.fault.map_or(Ok(()), Err)
    }

    fn MPI_Isendrecv / MPI_Isendrecv_c (
        sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: the program leaves the buffers alone until the request is over.
        let both = unsafe {
            let sent = Data::outgoing(sendbuf, sendcount.into(), &*datatype::get(sendtype)?)?;
            let received = (recvbuf, recvcount.into(), recvtype);
            begin(&comm, (sent, dest, sendtag), (received, source, recvtag), None)?
        };
        out(request, "request", handle(both)?)
    }

    fn MPI_Isendrecv_replace / MPI_Isendrecv_replace_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        let elements = (buf, count.into(), datatype);
        // SAFETY: the program leaves the buffer alone until the request is over.
        let both = unsafe {
            let (sent, copy) = copied(elements)?;
            begin(&comm, (sent, dest, sendtag), (elements, source, recvtag), Some(copy))?
        };
        out(request, "request", handle(both)?)
    }
}

fn handle(both: Both) -> Result<MPI_Request, Fault> {
    match (&both.out, &both.inward) {
        (None, None) => Ok(NOBODY),
        _ => new_operation(Arc::new(both)),
    }
}
