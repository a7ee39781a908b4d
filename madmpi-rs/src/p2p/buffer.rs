//! Buffered sends, and the memory that they are copied to.
//!
//! A communicator, a session and the process have a buffer each, or none; a message goes to the first of them that there is.
//! (Which session a communicator comes from is not kept: the first one that has a buffer is taken.) It takes as many bytes
//! there as it has, and `MPI_BSEND_OVERHEAD` more, until it is sent; one that leaves at once is not copied. An automatic
//! buffer is the heap.
//!
//! Whoever finds the end of a message gives its part back, and tells those who wait for that (a *flush*).

use core::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use newmad::raw::{Awaited, Memory};
use pioman::Completion;

use super::{checked, gather, gathered};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::Data;
use crate::error::{Fault, out};
use crate::handle::Held;
use crate::request::{Operation, Outcome, SENT, new_operation};
use crate::{process, session};

const OVERHEAD: usize = MPI_BSEND_OVERHEAD as usize;

static PROCESS: Buffer = Buffer::new();
/// Every one that was attached, for the end.
static ALL: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());
/// Those that are attached to sessions.
static OF_SESSIONS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// A place that a buffer is attached to.
pub(crate) struct Buffer(Mutex<Option<Arc<Pool>>>);

/// A buffer.
struct Pool {
    /// Its address; `None`: an automatic one.
    at: Option<usize>,
    size: usize,
    parts: Mutex<Parts>,
}

struct Parts {
    /// In the order of their places.
    taken: Vec<Part>,
    next: u64,
    /// Who waits until the parts up to a number are free.
    flushes: Vec<(u64, Arc<Completion>)>,
}

/// What a message takes.
struct Part {
    number: u64,
    at: usize,
    len: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffer {
    pub(crate) const fn new() -> Buffer {
        Buffer(Mutex::new(None))
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        lock(&self.0).clone()
    }

    fn attach(&self, buffer: *mut c_void, size: i64) -> Result<Weak<Pool>, Fault> {
        let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC;
        let Ok(size) = usize::try_from(if automatic { 0 } else { size }) else {
            return Err(Fault::argument(MPI_ERR_ARG, "size", size, "it is not negative"));
        };
        if buffer.is_null() && size > 0 {
            return Err(Fault::argument(MPI_ERR_BUFFER, "buffer", "null", "memory is needed"));
        }
        let mut attached = lock(&self.0);
        if attached.is_some() {
            let why = "a buffer is attached already, and there may be one at a time";
            return Err(Fault::new(MPI_ERR_BUFFER, why));
        }
        let parts = Parts { taken: Vec::new(), next: 0, flushes: Vec::new() };
        let at = (!automatic).then(|| buffer.expose_provenance());
        let pool = Arc::new(Pool { at, size, parts: Mutex::new(parts) });
        let mut all = lock(&ALL);
        all.retain(|pool| pool.strong_count() > 0);
        let weak = Arc::downgrade(&pool);
        all.push(weak.clone());
        *attached = Some(pool);
        Ok(weak)
    }

    /// Waits until everything in it is sent. Its address and size.
    fn detach(&self) -> Result<(*mut c_void, usize), Fault> {
        let pool = lock(&self.0).take();
        let pool = pool.ok_or_else(|| Fault::new(MPI_ERR_BUFFER, "no buffer is attached"))?;
        pool.flush()?;
        let at = pool.at.unwrap_or(MPI_BUFFER_AUTOMATIC);
        Ok((std::ptr::with_exposed_provenance_mut(at), pool.size))
    }

    fn flush(&self) -> Result<(), Fault> {
        self.pool().map_or(Ok(()), |pool| pool.flush())
    }

    /// A request that is over when everything that is in it now is sent.
    fn iflush(&self) -> Result<MPI_Request, Fault> {
        let done = self.pool().and_then(|pool| pool.begin_flush());
        let session = &process::get()?.session;
        match done {
            Some(done) => new_operation(Arc::new(Flush { done, session: session.clone() })),
            None => Ok(SENT),
        }
    }
}

/// Waits until what is in any buffer is sent: for `MPI_Finalize`.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn flush_all() -> Result<(), Fault> {
    let all = std::mem::take(&mut *lock(&ALL));
    for pool in all.iter().filter_map(Weak::upgrade) {
        pool.flush()?;
    }
    Ok(())
}

impl Pool {
    /// Takes a part; its number and place. `None`: there is no room now.
    fn reserve(&self, len: usize) -> Option<(u64, usize)> {
        let mut parts = lock(&self.parts);
        let mut at = 0;
        let mut index = 0;
        if self.at.is_some() {
            // The first gap that is large enough.
            while let Some(part) = parts.taken.get(index)
                && part.at - at < len
            {
                at = part.at + part.len;
                index += 1;
            }
            if self.size - at < len {
                return None;
            }
        }
        let number = parts.next;
        parts.next += 1;
        let len = if self.at.is_some() { len } else { 0 };
        parts.taken.insert(index, Part { number, at, len });
        Some((number, at))
    }

    /// A part is free again.
    fn give_back(&self, number: u64) {
        let mut parts = lock(&self.parts);
        parts.taken.retain(|part| part.number != number);
        let Parts { taken, flushes, .. } = &mut *parts;
        flushes.retain(|(upto, done)| {
            let waits = taken.iter().any(|part| part.number < *upto);
            if !waits {
                done.complete();
            }
            waits
        });
    }

    /// What is complete when everything that is there now is sent; `None`: nothing is.
    fn begin_flush(&self) -> Option<Arc<Completion>> {
        let mut parts = lock(&self.parts);
        if parts.taken.is_empty() {
            return None;
        }
        let done = Arc::new(Completion::new());
        let upto = parts.next;
        parts.flushes.push((upto, done.clone()));
        Some(done)
    }

    fn flush(&self) -> Result<(), Fault> {
        if let Some(done) = self.begin_flush() {
            process::get()?.session.awaited(&done).wait();
        }
        Ok(())
    }
}

struct Flush {
    done: Arc<Completion>,
    session: newmad::Session,
}

impl Operation for Flush {
    fn awaited(&self) -> Awaited<'_> {
        self.session.awaited(&self.done)
    }

    fn outcome(&self) -> Outcome {
        Outcome::EMPTY
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

/// Sends a message from a buffer.
///
/// # Safety
/// During the call what the data name is readable and unchanged.
///
/// # Errors
/// No buffer is attached, or it has no room.
pub(crate) unsafe fn send(comm: &Held<Comm>, to: u32, tag: u64, data: &Data) -> Result<(), Fault> {
    let pool = comm.buffer.pool().or_else(|| PROCESS.pool());
    let pool = pool.or_else(|| lock(&OF_SESSIONS).iter().find_map(Weak::upgrade));
    let Some(pool) = pool else {
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
    // SAFETY: the caller's promise.
    if unsafe { session.send_at_once(to, tag, data.memory())? } {
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
            // SAFETY: the part is ours, in memory that the program has given up.
            unsafe { gather(data, at) };
            (Memory::Whole(at, len), None)
        }
        None => {
            // SAFETY: the caller's promise.
            let copy = unsafe { gathered(data) };
            (Memory::Whole(copy.as_ptr().cast_mut(), len), Some(copy))
        }
    };
    // SAFETY: the part stays as it is until it is given back, and the copy until it is dropped: at the request's end.
    match unsafe { session.isend_raw(to, tag, memory, false) } {
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

/// Tells the program where a buffer was.
fn tell<N: TryFrom<usize>>(
    (at, size): (*mut c_void, usize),
    buffer_addr: *mut c_void,
    place: *mut N,
) -> Result<(), Fault> {
    out(buffer_addr.cast::<*mut c_void>(), "buffer_addr", at)?;
    let why = "it does not fit: MPI_Buffer_detach_c has more room for it";
    let known = N::try_from(size);
    let known = known.map_err(|_| Fault::argument(MPI_ERR_VALUE_TOO_LARGE, "size", size, why))?;
    out(place, "size", known)
}

mpi! {
    fn MPI_Buffer_attach / MPI_Buffer_attach_c (buffer: *mut c_void, size: N) {
        PROCESS.attach(buffer, size.into()).map(drop)
    }

    fn MPI_Buffer_detach / MPI_Buffer_detach_c (buffer_addr: *mut c_void, size: *mut N) {
        checked(buffer_addr, "buffer_addr")?;
        checked(size, "size")?;
        tell(PROCESS.detach()?, buffer_addr, size)
    }

    fn MPI_Buffer_flush() { PROCESS.flush() }

    fn MPI_Buffer_iflush(request: *mut MPI_Request) {
        checked(request, "request")?;
        out(request, "request", PROCESS.iflush()?)
    }

    fn MPI_Comm_attach_buffer / MPI_Comm_attach_buffer_c (comm: MPI_Comm, buffer: *mut c_void, size: N) on comm {
        comm.buffer.attach(buffer, size.into()).map(drop)
    }

    fn MPI_Comm_detach_buffer / MPI_Comm_detach_buffer_c (
        comm: MPI_Comm, buffer_addr: *mut c_void, size: *mut N,
    ) on comm {
        checked(buffer_addr, "buffer_addr")?;
        checked(size, "size")?;
        tell(comm.buffer.detach()?, buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm { comm.buffer.flush() }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) on comm {
        checked(request, "request")?;
        out(request, "request", comm.buffer.iflush()?)
    }

    fn MPI_Session_attach_buffer / MPI_Session_attach_buffer_c (
        session: MPI_Session, buffer: *mut c_void, size: N,
    ) {
        session::on(session, |session| {
            let pool = session.buffer.attach(buffer, size.into())?;
            let mut all = lock(&OF_SESSIONS);
            all.retain(|pool| pool.strong_count() > 0);
            all.push(pool);
            Ok(())
        })
    }

    fn MPI_Session_detach_buffer / MPI_Session_detach_buffer_c (
        session: MPI_Session, buffer_addr: *mut c_void, size: *mut N,
    ) {
        session::on(session, |session| {
            checked(buffer_addr, "buffer_addr")?;
            checked(size, "size")?;
            tell(session.buffer.detach()?, buffer_addr, size)
        })
    }

    fn MPI_Session_flush_buffer(session: MPI_Session) {
        session::on(session, |session| session.buffer.flush())
    }

    fn MPI_Session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) {
        session::on(session, |session| {
            checked(request, "request")?;
            out(request, "request", session.buffer.iflush()?)
        })
    }
}
