//! The non-blocking operations: as those of `calls.rs`, on vectors that are given up; the result comes from the handle.

use std::any::Any;

use crate::coll::calls::{blocks_of, even};
use crate::coll::group::Group;
use crate::coll::operator::{Element, Op, Operator, as_bytes, as_bytes_mut};
use crate::coll::pending::{Pending, Take};
use crate::coll::run::Memory;
use crate::coll::task::Task;
use crate::error::Error;

/// What a collective keeps until it is over.
struct Kept<T> {
    from: Option<Vec<T>>,
    into: Vec<T>,
}

fn result<T: Element>(kept: Option<Box<dyn Any + Send>>) -> Option<Vec<T>> {
    Some(kept?.downcast::<Kept<T>>().ok()?.into)
}

/// What was given, where it has not become the result.
fn given<T: Element>(kept: Option<Box<dyn Any + Send>>) -> Option<Vec<T>> {
    kept?.downcast::<Kept<T>>().ok()?.from
}

/// Zeros, where a result will be.
fn room<T: Element>(count: usize) -> Vec<T> {
    vec![T::ZERO; count]
}

impl Group {
    /// From one vector into another.
    fn start_two<T: Element>(
        &self,
        task: &Task,
        op: Option<&Operator>,
        from: Vec<T>,
        into: Vec<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        self.start_kept(task, op, Kept { from: Some(from), into }, result)
    }

    /// In one vector.
    fn start_one<T: Element>(
        &self,
        task: &Task,
        op: Option<&Operator>,
        data: Vec<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        self.start_kept(task, op, Kept { from: None, into: data }, result)
    }

    fn start_kept<T: Element>(
        &self,
        task: &Task,
        op: Option<&Operator>,
        mut kept: Kept<T>,
        take: Take<Vec<T>>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let in_place = kept.from.is_none();
        let input: *const [u8] = as_bytes(kept.from.as_deref().unwrap_or_default());
        let memory = Memory { input, output: as_bytes_mut(&mut kept.into) };
        self.check(task, op, memory, in_place)?;
        // SAFETY: the elements do not move when the vectors do, and the run keeps those until it is over.
        let run = unsafe { self.start(task, op, memory, in_place, Some(Box::new(kept)))? };
        Ok(Pending::new(run, take))
    }

    /// As [`Group::barrier`]: over when all members have called it.
    ///
    /// # Blocking
    /// Of this and the other non-blocking operations: no.
    /// # Errors
    /// Of all of them: [`Error::BadBuffer`], [`Error::BadRank`], and those of a group that is over already; others when
    /// it is waited for.
    pub fn ibarrier(&self) -> Result<Pending<()>, Error> {
        let memory = Memory { input: &[], output: &mut [] };
        // SAFETY: no memory.
        let run = unsafe { self.start(&Task::Barrier, None, memory, true, None)? };
        Ok(Pending::new(run, |_| Some(())))
    }

    /// As [`Group::bcast`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ibcast<T: Element>(&self, root: u32, data: Vec<T>) -> Result<Pending<Vec<T>>, Error> {
        self.start_one(&Task::Bcast { root, len: size_of_val(&data[..]) }, None, data)
    }

    /// As [`Group::reduce`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ireduce<T: Element>(
        &self,
        root: u32,
        data: Vec<T>,
        op: &Op<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let (task, op) = (Task::Reduce { root, len: size_of_val(&data[..]) }, Some(&op.bytes));
        if self.rank() == root {
            return self.start_one(&task, op, data);
        }
        self.start_kept(&task, op, Kept { from: Some(data), into: Vec::new() }, given)
    }

    /// As [`Group::allreduce`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iallreduce<T: Element>(
        &self,
        data: Vec<T>,
        op: &Op<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let task = Task::Allreduce { len: size_of_val(&data[..]) };
        self.start_one(&task, Some(&op.bytes), data)
    }

    /// As [`Group::gather`]; the result is empty but at the root.
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn igather<T: Element>(&self, root: u32, own: Vec<T>) -> Result<Pending<Vec<T>>, Error> {
        let all = if self.rank() == root { own.len() * self.size() as usize } else { 0 };
        let blocks = Some(even::<T>(own.len()));
        let task = Task::Gather { root, own: size_of_val(&own[..]), blocks };
        self.start_two(&task, None, own, room(all))
    }

    /// As [`Group::gatherv`]; the result is empty but at the root.
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn igatherv<T: Element>(
        &self,
        root: u32,
        own: Vec<T>,
        counts: &[usize],
    ) -> Result<Pending<Vec<T>>, Error> {
        let is_root = self.rank() == root;
        let all = if is_root { counts.iter().sum() } else { 0 };
        let blocks = is_root.then(|| blocks_of::<T>(counts));
        let task = Task::Gather { root, own: size_of_val(&own[..]), blocks };
        self.start_two(&task, None, own, room(all))
    }

    /// As [`Group::scatter`]: `count` elements for each. `all` counts at the root only.
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iscatter<T: Element>(
        &self,
        root: u32,
        all: Vec<T>,
        count: usize,
    ) -> Result<Pending<Vec<T>>, Error> {
        let blocks = Some(even::<T>(count));
        let task = Task::Scatter { root, own: count.saturating_mul(size_of::<T>()), blocks };
        self.start_two(&task, None, all, room(count))
    }

    /// As [`Group::scatterv`]: `count` elements for this rank. `all` and `counts` count at the root only.
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iscatterv<T: Element>(
        &self,
        root: u32,
        all: Vec<T>,
        counts: &[usize],
        count: usize,
    ) -> Result<Pending<Vec<T>>, Error> {
        let blocks = (self.rank() == root).then(|| blocks_of::<T>(counts));
        let task = Task::Scatter { root, own: count.saturating_mul(size_of::<T>()), blocks };
        self.start_two(&task, None, all, room(count))
    }

    /// As [`Group::allgather`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iallgather<T: Element>(&self, own: Vec<T>) -> Result<Pending<Vec<T>>, Error> {
        let all = own.len() * self.size() as usize;
        let task = Task::Allgather { blocks: even::<T>(own.len()) };
        self.start_two(&task, None, own, room(all))
    }

    /// As [`Group::allgatherv`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iallgatherv<T: Element>(
        &self,
        own: Vec<T>,
        counts: &[usize],
    ) -> Result<Pending<Vec<T>>, Error> {
        let task = Task::Allgather { blocks: blocks_of::<T>(counts) };
        self.start_two(&task, None, own, room(counts.iter().sum()))
    }

    /// As [`Group::alltoall`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ialltoall<T: Element>(&self, from: Vec<T>) -> Result<Pending<Vec<T>>, Error> {
        let each = even::<T>(from.len() / self.size() as usize);
        let into = room(from.len());
        self.start_two(&Task::Alltoall { send: each.clone(), recv: each }, None, from, into)
    }

    /// As [`Group::alltoallv`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ialltoallv<T: Element>(
        &self,
        from: Vec<T>,
        sends: &[usize],
        recvs: &[usize],
    ) -> Result<Pending<Vec<T>>, Error> {
        let task = Task::Alltoall { send: blocks_of::<T>(sends), recv: blocks_of::<T>(recvs) };
        self.start_two(&task, None, from, room(recvs.iter().sum()))
    }

    /// As [`Group::reduce_scatter`]: equal parts for all.
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ireduce_scatter<T: Element>(
        &self,
        data: Vec<T>,
        op: &Op<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let own = data.len() / self.size() as usize;
        let task = Task::ReduceScatter { blocks: even::<T>(own) };
        self.start_two(&task, Some(&op.bytes), data, room(own))
    }

    /// As [`Group::reduce_scatterv`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn ireduce_scatterv<T: Element>(
        &self,
        data: Vec<T>,
        counts: &[usize],
        op: &Op<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let own = counts.get(self.rank() as usize).copied().unwrap_or(0);
        let task = Task::ReduceScatter { blocks: blocks_of::<T>(counts) };
        self.start_two(&task, Some(&op.bytes), data, room(own))
    }

    /// As [`Group::scan`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iscan<T: Element>(&self, data: Vec<T>, op: &Op<T>) -> Result<Pending<Vec<T>>, Error> {
        let task = Task::Scan { len: size_of_val(&data[..]), inclusive: true };
        self.start_one(&task, Some(&op.bytes), data)
    }

    /// As [`Group::exclusive_scan`].
    ///
    /// # Errors
    /// As [`Group::ibarrier`].
    pub fn iexclusive_scan<T: Element>(
        &self,
        data: Vec<T>,
        op: &Op<T>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let task = Task::Scan { len: size_of_val(&data[..]), inclusive: false };
        self.start_one(&task, Some(&op.bytes), data)
    }
}
