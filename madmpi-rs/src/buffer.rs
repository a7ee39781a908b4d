//! The buffers of buffered sends.
//!
//! A communicator, a session and the process have one buffer each, or none. A message goes to the buffer of its
//! communicator, else to that of the process, else to the first one of a session: which session a communicator comes
//! from is not recorded. A message takes its length and `MPI_BSEND_OVERHEAD` bytes until it is sent; one that leaves
//! at once is not copied. An automatic buffer is the heap.
//!
//! The end of a message gives its part back and completes the *flushes* that waited for it.

use core::ffi::c_void;
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;
use pioman::Completion;

use crate::abi::*;
use crate::error::Fault;
use crate::job;
use crate::per_rank::per_rank;

pub(crate) const OVERHEAD: usize = MPI_BSEND_OVERHEAD as usize;

per_rank! {
    pub(crate) static PROCESS: Buffer = Buffer::new();
    /// All attached buffers, for `MPI_Finalize`.
    static ALL: KernelMutex<Vec<Weak<Pool>>> = KernelMutex::new(Vec::new());
    /// The buffers attached to sessions.
    static OF_SESSIONS: KernelMutex<Vec<Weak<Pool>>> = KernelMutex::new(Vec::new());
}

/// A place that a buffer is attached to.
pub(crate) struct Buffer(KernelMutex<Option<Arc<Pool>>>);

/// A buffer.
pub(crate) struct Pool {
    /// Its address; `None`: it is an automatic one.
    pub(crate) at: Option<usize>,
    pub(crate) size: usize,
    parts: KernelMutex<Parts>,
}

struct Parts {
    /// In the order of their addresses.
    taken: Vec<Part>,
    next: u64,
    /// What is completed once all parts with smaller numbers are free.
    flushes: Vec<(u64, Arc<Completion>)>,
}

/// The part of a buffer that a message takes.
struct Part {
    number: u64,
    at: usize,
    len: usize,
}

impl Buffer {
    pub(crate) const fn new() -> Buffer {
        Buffer(KernelMutex::new(None))
    }

    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        self.0.lock().clone()
    }

    pub(crate) fn attach(&self, buffer: *mut c_void, size: i64) -> Result<Weak<Pool>, Fault> {
        let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC;
        let Ok(size) = usize::try_from(if automatic { 0 } else { size }) else {
            return Err(Fault::argument(MPI_ERR_ARG, "size", size, "it must not be negative"));
        };
        if buffer.is_null() && size > 0 {
            return Err(Fault::argument(MPI_ERR_BUFFER, "buffer", "null", "memory is needed"));
        }
        if buffer.is_null() {
            // What `detach` returned where none was attached.
            return Ok(Weak::new());
        }
        let mut attached = self.0.lock();
        if attached.is_some() {
            let why = "a buffer is attached already; only one may be attached at a time";
            return Err(Fault::new(MPI_ERR_BUFFER, why));
        }
        let parts = Parts { taken: Vec::new(), next: 0, flushes: Vec::new() };
        let at = (!automatic).then(|| buffer.expose_provenance());
        let pool = Arc::new(Pool { at, size, parts: KernelMutex::new(parts) });
        let mut all = ALL.lock();
        all.retain(|pool| pool.strong_count() > 0);
        let weak = Arc::downgrade(&pool);
        all.push(weak.clone());
        *attached = Some(pool);
        Ok(weak)
    }

    /// Waits until everything in the buffer is sent; returns its address and size. None is as good as an empty one: a library may
    /// take the buffer of its caller away for a while without knowing whether there is one.
    pub(crate) fn detach(&self) -> Result<(*mut c_void, usize), Fault> {
        let Some(pool) = self.0.lock().take() else { return Ok((std::ptr::null_mut(), 0)) };
        pool.flush()?;
        let at = pool.at.unwrap_or(MPI_BUFFER_AUTOMATIC);
        Ok((std::ptr::with_exposed_provenance_mut(at), pool.size))
    }

    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.pool().map_or(Ok(()), |pool| pool.flush())
    }

    /// As [`Pool::begin_flush`], of the buffer that is attached here, if there is one.
    pub(crate) fn begin_flush(&self) -> Option<Arc<Completion>> {
        self.pool()?.begin_flush()
    }
}

/// Waits until everything in buffers that are no session's is sent: the program has them back when `MPI_Finalize` returns.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn flush_of_world() -> Result<(), Fault> {
    let of_sessions = OF_SESSIONS.lock().clone();
    let all = ALL.lock().clone();
    let of_world = |pool: &&Weak<Pool>| !of_sessions.iter().any(|other| other.ptr_eq(pool));
    for pool in all.iter().filter(of_world).filter_map(Weak::upgrade) {
        pool.flush()?;
    }
    Ok(())
}

/// Waits until everything in all buffers is sent, for the end of everything.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn flush_all() -> Result<(), Fault> {
    let all = std::mem::take(&mut *ALL.lock());
    for pool in all.iter().filter_map(Weak::upgrade) {
        pool.flush()?;
    }
    Ok(())
}

impl Pool {
    /// Takes a part; returns its number and its offset. `None`: there is no room now.
    pub(crate) fn reserve(&self, len: usize) -> Option<(u64, usize)> {
        let mut parts = self.parts.lock();
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

    /// Frees a part.
    pub(crate) fn give_back(&self, number: u64) {
        let mut parts = self.parts.lock();
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

    /// A completion for the moment when everything in the buffer now is sent. `None`: the buffer is empty.
    pub(crate) fn begin_flush(&self) -> Option<Arc<Completion>> {
        let mut parts = self.parts.lock();
        if parts.taken.is_empty() {
            return None;
        }
        let done = Arc::new(Completion::new());
        let upto = parts.next;
        parts.flushes.push((upto, done.clone()));
        Some(done)
    }

    pub(crate) fn flush(&self) -> Result<(), Fault> {
        if let Some(done) = self.begin_flush() {
            job::session()?.awaited(&done).wait();
        }
        Ok(())
    }
}

/// Remembers a buffer that was attached to a session.
pub(crate) fn add_of_session(pool: Weak<Pool>) {
    let mut all = OF_SESSIONS.lock();
    all.retain(|pool| pool.strong_count() > 0);
    all.push(pool);
}

/// The buffer for messages of a communicator that has the place `of_comm`.
pub(crate) fn choose(of_comm: &Buffer) -> Option<Arc<Pool>> {
    let pool = of_comm.pool().or_else(|| PROCESS.pool());
    pool.or_else(|| OF_SESSIONS.lock().iter().find_map(Weak::upgrade))
}
