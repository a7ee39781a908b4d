//! The blocking operations. Lengths are in elements, ranks are those of the group.
//!
//! All members give the same root, lengths of what all have, and operator. `counts` has a length for each rank.

use crate::coll::group::Group;
use crate::coll::operator::{Element, Op, Operator, as_bytes, as_bytes_mut};
use crate::coll::run::Memory;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;

/// Blocks of so many elements.
pub(super) fn blocks_of<T>(counts: &[usize]) -> Blocks {
    Blocks::of_lengths(counts.iter().map(|count| count.saturating_mul(size_of::<T>())))
}

/// Equal blocks of so many elements.
pub(super) fn even<T>(count: usize) -> Blocks {
    Blocks::Even(count.saturating_mul(size_of::<T>()))
}

impl Group {
    /// With a contribution and a result.
    fn two<T: Element>(
        &self,
        task: &Task,
        op: Option<&Operator>,
        from: &[T],
        into: &mut [T],
    ) -> Result<(), Error> {
        let memory = Memory { input: as_bytes(from), output: as_bytes_mut(into) };
        self.check(task, op, memory, false)?;
        // SAFETY: borrowed until this returns or unwinds; any bytes are elements.
        unsafe { self.complete(task, op, memory, false) }
    }

    /// With memory for both.
    fn one<T: Element>(
        &self,
        task: &Task,
        op: Option<&Operator>,
        data: &mut [T],
    ) -> Result<(), Error> {
        let memory = Memory { input: &[], output: as_bytes_mut(data) };
        self.check(task, op, memory, true)?;
        // SAFETY: as above.
        unsafe { self.complete(task, op, memory, true) }
    }

    /// Waits until all members have called it.
    ///
    /// # Context
    /// Of this and the other blocking operations: green threads and kernel threads.
    /// # Blocking
    /// Of all of them: the calling thread, until its part is done and its memory free.
    /// # Errors
    /// Of all of them: [`Error::BadBuffer`], [`Error::BadRank`] before anything is sent; [`Error::PeerDied`],
    /// [`Error::Revoked`], [`Error::Mismatch`], [`Error::Closed`] when the group is over.
    /// # Panics
    /// When an operator does.
    pub fn barrier(&self) -> Result<(), Error> {
        self.one::<u8>(&Task::Barrier, None, &mut [])
    }

    /// `data` of the root goes to all.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn bcast<T: Element>(&self, root: u32, data: &mut [T]) -> Result<(), Error> {
        let task = Task::Bcast { root, len: size_of_val(data) };
        self.one(&task, None, data)
    }

    /// Combines `data` of all; the root's becomes the result, the others' stays as it is.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn reduce<T: Element>(&self, root: u32, data: &mut [T], op: &Op<T>) -> Result<(), Error> {
        let task = Task::Reduce { root, len: size_of_val(data) };
        if self.rank() == root {
            self.one(&task, Some(&op.bytes), data)
        } else {
            self.two(&task, Some(&op.bytes), data, &mut [])
        }
    }

    /// Combines `data` of all; it becomes the result everywhere, bit for bit the same.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn allreduce<T: Element>(&self, data: &mut [T], op: &Op<T>) -> Result<(), Error> {
        self.one(&Task::Allreduce { len: size_of_val(data) }, Some(&op.bytes), data)
    }

    /// The root gets `own` of all, in the order of ranks. `all` counts at the root only.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn gather<T: Element>(&self, root: u32, own: &[T], all: &mut [T]) -> Result<(), Error> {
        let blocks = Some(even::<T>(own.len()));
        self.two(&Task::Gather { root, own: size_of_val(own), blocks }, None, own, all)
    }

    /// As [`Group::gather`], of different lengths. `all` and `counts` count at the root only.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn gatherv<T: Element>(
        &self,
        root: u32,
        own: &[T],
        all: &mut [T],
        counts: &[usize],
    ) -> Result<(), Error> {
        let blocks = (self.rank() == root).then(|| blocks_of::<T>(counts));
        self.two(&Task::Gather { root, own: size_of_val(own), blocks }, None, own, all)
    }

    /// Each rank gets a part of the root's `all`, as long as its `own`. `all` counts at the root only.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn scatter<T: Element>(&self, root: u32, all: &[T], own: &mut [T]) -> Result<(), Error> {
        let blocks = Some(even::<T>(own.len()));
        self.two(&Task::Scatter { root, own: size_of_val(own), blocks }, None, all, own)
    }

    /// As [`Group::scatter`], of different lengths. `all` and `counts` count at the root only.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn scatterv<T: Element>(
        &self,
        root: u32,
        all: &[T],
        counts: &[usize],
        own: &mut [T],
    ) -> Result<(), Error> {
        let blocks = (self.rank() == root).then(|| blocks_of::<T>(counts));
        self.two(&Task::Scatter { root, own: size_of_val(own), blocks }, None, all, own)
    }

    /// All get `own` of all, in the order of ranks.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn allgather<T: Element>(&self, own: &[T], all: &mut [T]) -> Result<(), Error> {
        self.two(&Task::Allgather { blocks: even::<T>(own.len()) }, None, own, all)
    }

    /// As [`Group::allgather`], of different lengths.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn allgatherv<T: Element>(
        &self,
        own: &[T],
        all: &mut [T],
        counts: &[usize],
    ) -> Result<(), Error> {
        self.two(&Task::Allgather { blocks: blocks_of::<T>(counts) }, None, own, all)
    }

    /// Part `i` of `from` goes to rank `i`; part `i` of `into` comes from it. All parts are of one length.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn alltoall<T: Element>(&self, from: &[T], into: &mut [T]) -> Result<(), Error> {
        let each = even::<T>(from.len() / self.size() as usize);
        self.two(&Task::Alltoall { send: each.clone(), recv: each }, None, from, into)
    }

    /// As [`Group::alltoall`], of different lengths: how many elements go to, and come from, each rank.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn alltoallv<T: Element>(
        &self,
        from: &[T],
        sends: &[usize],
        into: &mut [T],
        recvs: &[usize],
    ) -> Result<(), Error> {
        let task = Task::Alltoall { send: blocks_of::<T>(sends), recv: blocks_of::<T>(recvs) };
        self.two(&task, None, from, into)
    }

    /// Combines `data` of all; each rank gets `own.len()` elements of the result.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn reduce_scatter<T: Element>(
        &self,
        data: &[T],
        own: &mut [T],
        op: &Op<T>,
    ) -> Result<(), Error> {
        let task = Task::ReduceScatter { blocks: even::<T>(own.len()) };
        self.two(&task, Some(&op.bytes), data, own)
    }

    /// As [`Group::reduce_scatter`], of different lengths.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn reduce_scatterv<T: Element>(
        &self,
        data: &[T],
        own: &mut [T],
        counts: &[usize],
        op: &Op<T>,
    ) -> Result<(), Error> {
        let task = Task::ReduceScatter { blocks: blocks_of::<T>(counts) };
        self.two(&task, Some(&op.bytes), data, own)
    }

    /// `data` becomes what this rank and all before it have, combined.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn scan<T: Element>(&self, data: &mut [T], op: &Op<T>) -> Result<(), Error> {
        let task = Task::Scan { len: size_of_val(data), inclusive: true };
        self.one(&task, Some(&op.bytes), data)
    }

    /// `data` becomes what all before this rank have, combined; that of the first rank stays as it is.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn exclusive_scan<T: Element>(&self, data: &mut [T], op: &Op<T>) -> Result<(), Error> {
        let task = Task::Scan { len: size_of_val(data), inclusive: false };
        self.one(&task, Some(&op.bytes), data)
    }
}
