//! Messages on their way out: the modes of sending, and the sends that need no request.

use std::sync::Arc;

use newmad::SendOptions;
use newmad::raw::{Memory, RawRequest, Trusted};

use crate::abi::*;
use crate::buffer::{self, OVERHEAD, Pool};
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::Fault;
use crate::handle::Ref;

/// The mode of a send. A ready send is a standard one: newmad gains nothing from knowing that its receive is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard,
    Synchronous,
    Buffered,
}

impl Mode {
    /// The options of newmad for the mode.
    #[inline]
    pub(crate) const fn options(self) -> SendOptions {
        match self {
            Mode::Synchronous => SendOptions::new().sync(),
            Mode::Standard | Mode::Buffered => SendOptions::new(),
        }
    }
}

/// Where a message goes to, or comes from.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// The process, the tag on the wire, the mode.
    To(u32, u64, Mode),
    From(newmad::Origin, newmad::Tag),
}

impl Route {
    /// Submits the message to newmad.
    ///
    /// # Errors
    /// The peer is gone.
    pub(crate) fn submit(
        self,
        session: &newmad::Session,
        request: &mut RawRequest,
        memory: Trusted,
    ) -> Result<(), newmad::Error> {
        match self {
            Route::To(to, tag, mode) => {
                request.start_send(session, to, tag, memory, mode.options())
            }
            Route::From(from, tag) => request.start_recv(session, from, tag, memory),
        }
    }
}

/// Sends a message without a request, if its mode and newmad allow that; whether it did.
///
/// # Errors
/// The peer is gone; no buffer is attached, or it has no room.
#[inline]
pub(crate) fn send_at_once(
    comm: &Ref<Comm>,
    to: u32,
    tag: u64,
    mode: Mode,
    data: &Data,
) -> Result<bool, Fault> {
    match mode {
        Mode::Standard => {
            // SAFETY: the program leaves the elements alone during the call.
            let data = unsafe { data.memory().trusted() };
            Ok(comm.session.send_at_once(to, tag, &data)?)
        }
        Mode::Synchronous => Ok(false),
        Mode::Buffered => {
            send_buffered(comm, to, tag, data)?;
            Ok(true)
        }
    }
}

#[cold]
fn full(needed: usize, pool: &Pool) -> Fault {
    let size = pool.size;
    let text = format!(
        "the buffer of {size} bytes has no room for {needed} more ({OVERHEAD} of them MPI_BSEND_OVERHEAD)"
    );
    Fault::new(MPI_ERR_BUFFER, text)
}

/// The buffer for messages of a communicator: its own, else that of the session that it comes from, else the process's.
fn buffer_for(comm: &Comm) -> Option<Arc<Pool>> {
    let of_session = || comm.group.session()?.buffer.pool();
    comm.buffer.pool().or_else(of_session).or_else(|| buffer::PROCESS.pool())
}

/// Sends a message from an attached buffer.
///
/// # Errors
/// No buffer is attached, or it has no room.
fn send_buffered(comm: &Ref<Comm>, to: u32, tag: u64, data: &Data) -> Result<(), Fault> {
    let Some(pool) = buffer_for(comm) else {
        return Err(Fault::new(
            MPI_ERR_BUFFER,
            "no buffer is attached: see MPI_Buffer_attach, and MPI_BUFFER_AUTOMATIC",
        ));
    };
    let len = data.len();
    let needed = len.saturating_add(OVERHEAD);
    if pool.at.is_some() && needed > pool.size {
        return Err(full(needed, &pool));
    }
    let session = &comm.session;
    // SAFETY: the program leaves the elements alone during the call.
    let elements = unsafe { data.memory().trusted() };
    if session.send_at_once(to, tag, &elements)? {
        return Ok(());
    }
    let reserved = pool.reserve(needed).or_else(|| {
        session.look();
        pool.reserve(needed)
    });
    let (number, at) = reserved.ok_or_else(|| full(needed, &pool))?;
    let (memory, copy) = match pool.at {
        Some(base) => {
            let at = std::ptr::with_exposed_provenance_mut::<u8>(base + at);
            // SAFETY: the part is this message's, in memory that the program has given up.
            unsafe { gather(data, at) };
            (Memory::Whole(at, len), None)
        }
        None => {
            let copy = gathered(data);
            (Memory::Whole(copy.as_ptr().cast_mut(), len), Some(copy))
        }
    };
    // SAFETY: the part stays as it is until it is given back, and the copy until it is dropped: both at the request's
    // end.
    let memory = unsafe { memory.trusted() };
    match session.isend_with(to, tag, memory, SendOptions::new()) {
        Ok(request) => {
            request.on_done(move |_| {
                drop(copy);
                pool.give_back(number);
            });
            Ok(())
        }
        Err(error) => {
            pool.give_back(number);
            Err(error.into())
        }
    }
}

/// Copies the bytes of a message together.
///
/// # Safety
/// So many bytes at `to` are writable, and apart from it.
unsafe fn gather(data: &Data, mut to: *mut u8) {
    let mut add = |at: *const u8, len: usize| {
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(at, len);
            to = to.add(len);
        }
    };
    match data.memory() {
        Memory::Whole(_, 0) => {}
        Memory::Whole(at, len) => add(at, len),
        Memory::Pieces { list, count, .. } => {
            // SAFETY: the data's own list.
            for piece in unsafe { std::slice::from_raw_parts(list, count) } {
                add(piece.iov_base.cast(), piece.iov_len);
            }
        }
    }
}

/// The bytes of a message, copied together.
fn gathered(data: &Data) -> Box<[u8]> {
    let mut copy = vec![0; data.len()];
    // SAFETY: the copy has the length.
    unsafe { gather(data, copy.as_mut_ptr()) };
    copy.into()
}
