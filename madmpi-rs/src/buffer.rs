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

use pioman::Completion;

use crate::abi::*;
use crate::error::Fault;
use crate::job;

pub(crate) const OVERHEAD: usize = MPI_BSEND_OVERHEAD as usize;

pub(crate) static PROCESS: Buffer = Buffer::new();
/// Every one that was attached, for the end.
static ALL: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());
/// Those that are attached to sessions.
static OF_SESSIONS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// A place that a buffer is attached to.
pub(crate) struct Buffer(Mutex<Option<Arc<Pool>>>);

/// A buffer.
pub(crate) struct Pool {
    /// Its address; `None`: an automatic one.
    pub(crate) at: Option<usize>,
    pub(crate) size: usize,
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

    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        lock(&self.0).clone()
    }

    pub(crate) fn attach(&self, buffer: *mut c_void, size: i64) -> Result<Weak<Pool>, Fault> {
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
    pub(crate) fn detach(&self) -> Result<(*mut c_void, usize), Fault> {
        let pool = lock(&self.0).take();
        let pool = pool.ok_or_else(|| Fault::new(MPI_ERR_BUFFER, "no buffer is attached"))?;
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
    pub(crate) fn reserve(&self, len: usize) -> Option<(u64, usize)> {
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
    pub(crate) fn give_back(&self, number: u64) {
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
    pub(crate) fn begin_flush(&self) -> Option<Arc<Completion>> {
        let mut parts = lock(&self.parts);
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
    let mut all = lock(&OF_SESSIONS);
    all.retain(|pool| pool.strong_count() > 0);
    all.push(pool);
}

/// The buffer for messages of a communicator that has the place `of_comm`.
pub(crate) fn choose(of_comm: &Buffer) -> Option<Arc<Pool>> {
    let pool = of_comm.pool().or_else(|| PROCESS.pool());
    pool.or_else(|| lock(&OF_SESSIONS).iter().find_map(Weak::upgrade))
}
