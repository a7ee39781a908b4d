//! The buffers of buffered sends.
//!
//! A communicator, a session and the process have one buffer each, or none. A message goes to the buffer of its
//! communicator, else to that of the session that the communicator comes from, else to that of the process. A message takes
//! its length and `MPI_BSEND_OVERHEAD` bytes until it is sent; one that leaves at once is not copied. An automatic buffer
//! is the heap.
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
    /// The end of the last part that was given out; 0 when nothing is taken.
    tail: usize,
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
        let at = (!automatic).then(|| buffer.expose_provenance());
        let pool = Arc::new(Pool::new(at, size));
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
    fn new(at: Option<usize>, size: usize) -> Pool {
        let parts = Parts { taken: Vec::new(), tail: 0, next: 0, flushes: Vec::new() };
        Pool { at, size, parts: KernelMutex::new(parts) }
    }

    /// Takes a part; returns its number and its offset. `None`: there is no room now.
    ///
    /// Next fit, then first fit. While the standard's circular policy has room (MPI 4.1, §3.6), the first gap from the last
    /// part on, or else from the beginning, is the one that it takes: a message that it has room for has room here.
    pub(crate) fn reserve(&self, len: usize) -> Option<(u64, usize)> {
        let mut parts = self.parts.lock();
        let ((index, at), len) = match self.at {
            Some(_) => {
                let gap = |from| gap(&parts.taken, self.size, from, len);
                (gap(parts.tail).or_else(|| gap(0))?, len)
            }
            None => ((0, 0), 0),
        };
        let number = parts.next;
        parts.next += 1;
        parts.tail = at + len;
        parts.taken.insert(index, Part { number, at, len });
        Some((number, at))
    }

    /// Frees a part.
    pub(crate) fn give_back(&self, number: u64) {
        let mut parts = self.parts.lock();
        parts.taken.retain(|part| part.number != number);
        let Parts { taken, tail, flushes, .. } = &mut *parts;
        if taken.is_empty() {
            *tail = 0;
        }
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

/// The first gap of that length from `from` on, which is not inside a part: where its part is to be in the list, and its
/// offset.
fn gap(taken: &[Part], size: usize, from: usize, len: usize) -> Option<(usize, usize)> {
    let mut at = from;
    let mut index = taken.partition_point(|part| part.at < from);
    while let Some(part) = taken.get(index)
        && part.at - at < len
    {
        at = part.at + part.len;
        index += 1;
    }
    (index < taken.len() || size - at >= len).then_some((index, at))
}

/// Remembers a buffer that was attached to a session.
pub(crate) fn add_of_session(pool: Weak<Pool>) {
    let mut all = OF_SESSIONS.lock();
    all.retain(|pool| pool.strong_count() > 0);
    all.push(pool);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn pool(size: usize) -> Pool {
        Pool::new(Some(4096), size)
    }

    /// Where a part of that length is.
    fn place(pool: &Pool, len: usize) -> (u64, usize) {
        pool.reserve(len).expect("there is room")
    }

    #[test]
    fn a_part_goes_behind_the_last_one_though_there_is_a_gap_in_front() {
        let pool = pool(10);
        let (first, at) = place(&pool, 4);
        assert_eq!(at, 0);
        assert_eq!(place(&pool, 4).1, 4);
        pool.give_back(first);
        assert_eq!(place(&pool, 2).1, 8);
        assert_eq!(place(&pool, 4).1, 0);
        assert!(pool.reserve(1).is_none());
    }

    #[test]
    fn an_empty_buffer_has_room_for_all_of_it() {
        let pool = pool(10);
        let (only, _) = place(&pool, 7);
        pool.give_back(only);
        assert_eq!(place(&pool, 10).1, 0);
    }

    #[test]
    fn an_automatic_buffer_has_room_always() {
        let pool = Pool::new(None, 0);
        let (first, _) = place(&pool, usize::MAX);
        place(&pool, usize::MAX);
        pool.give_back(first);
        place(&pool, 1);
    }

    /// The policy of the standard's model: a queue of parts, whose space becomes free at its head only.
    struct Circular {
        size: usize,
        /// Begin, end and whether it was given back.
        queue: VecDeque<(usize, usize, bool)>,
        /// The number of the part at the head.
        first: usize,
    }

    impl Circular {
        fn give_back(&mut self, number: usize) {
            self.queue[number - self.first].2 = true;
        }

        /// Where a part goes; `None`: there is no room.
        fn reserve(&mut self, len: usize) -> Option<usize> {
            while self.queue.front().is_some_and(|part| part.2) {
                self.queue.pop_front();
                self.first += 1;
            }
            let at = match (self.queue.front(), self.queue.back()) {
                (Some(&(head, ..)), Some(&(_, tail, _))) if tail > head => {
                    let at = if self.size - tail >= len { Some(tail) } else { None };
                    at.or((head >= len).then_some(0))?
                }
                (Some(&(head, ..)), Some(&(_, tail, _))) => (head - tail >= len).then_some(tail)?,
                _ => (self.size >= len).then_some(0)?,
            };
            self.queue.push_back((at, at + len, false));
            Some(at)
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Reserve(usize),
        /// The part at this place of those that are there.
        GiveBack(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let reserve = (1usize..40).prop_map(Step::Reserve);
        let give_back = any::<prop::sample::Index>().prop_map(Step::GiveBack);
        proptest::collection::vec(prop_oneof![reserve, give_back], 0..200)
    }

    proptest! {
        /// A program is right if the circular policy has room for all that it sends.
        #[test]
        fn there_is_room_wherever_the_circular_policy_has_room(size in 10usize..100, steps in steps()) {
            let pool = pool(size);
            let mut model = Circular { size, queue: VecDeque::new(), first: 0 };
            let (mut taken, mut next) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Reserve(len) => {
                        let Some(at) = model.reserve(len) else { continue };
                        let found = pool.reserve(len);
                        prop_assert_eq!(found.map(|(_, at)| at), Some(at));
                        taken.extend(found.map(|(number, _)| (number, next)));
                        next += 1;
                    }
                    Step::GiveBack(which) if !taken.is_empty() => {
                        let (number, of_model) = taken.swap_remove(which.index(taken.len()));
                        pool.give_back(number);
                        model.give_back(of_model);
                    }
                    Step::GiveBack(_) => {}
                }
            }
        }

        /// And beyond that policy: parts never overlap, and any gap that is long enough is found.
        #[test]
        fn every_gap_is_found(size in 10usize..100, steps in steps()) {
            let pool = pool(size);
            let mut used = vec![false; size];
            let mut taken = Vec::new();
            for step in steps {
                match step {
                    Step::Reserve(len) => match pool.reserve(len) {
                        Some((number, at)) => {
                            prop_assert!(used[at..at + len].iter().all(|used| !used));
                            used[at..at + len].fill(true);
                            taken.push((number, at..at + len));
                        }
                        None => prop_assert!(used.split(|used| *used).all(|gap| gap.len() < len)),
                    },
                    Step::GiveBack(which) if !taken.is_empty() => {
                        let (number, range) = taken.swap_remove(which.index(taken.len()));
                        pool.give_back(number);
                        used[range].fill(false);
                    }
                    Step::GiveBack(_) => {}
                }
            }
        }
    }
}
