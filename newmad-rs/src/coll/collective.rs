//! The operations. Each describes a [`Collective`], which the caller waits for or starts. Lengths are in elements,
//! ranks are those of the group.
//!
//! All members give the same root, lengths of what all have, and operator. `counts` has a length for each rank.

use std::borrow::Cow;

use crate::coll::buffers::{Buffer, BufferMut, Buffers, Bytes, One, Two};
use crate::coll::check::check;
use crate::coll::group::Group;
use crate::coll::operator::{Op, Operator};
use crate::coll::pending::Pending;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;

/// Blocks of so many elements.
fn blocks_of<T>(counts: &[usize]) -> Blocks {
    Blocks::of_lengths(counts.iter().map(|count| count.saturating_mul(size_of::<T>())))
}

/// Equal blocks of so many elements.
fn even<T>(count: usize) -> Blocks {
    Blocks::Even(count.saturating_mul(size_of::<T>()))
}

fn bytes_of<D: Buffer>(data: &D) -> usize {
    size_of_val(data.items())
}

/// A collective that is described and has not begun: [`wait`](Collective::wait) for it, or [`start`](Collective::start)
/// it.
///
/// Buffers are borrowed (`&data`, `&mut data`) or owned (vectors). To start a collective and go on takes owned ones.
///
/// ```
/// use newmad::coll::Op;
/// newmad::run(|session| {
///     let world = session.world()?;
///     let mut counts = [u64::from(session.rank()), 1];
///     world.allreduce(&mut counts, &Op::sum()).wait()?;
///
///     let pending = world.allreduce(vec![0.5; 1000], &Op::sum()).start()?;
///     let halves: Vec<f64> = pending.wait()?;
///     assert_eq!(halves[0], 0.5 * f64::from(session.size()));
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
#[must_use = "a collective does nothing until it is waited for or started"]
pub struct Collective<'a, B> {
    group: &'a Group,
    task: Cow<'a, Task>,
    operator: Option<&'a Operator>,
    buffers: B,
    in_place: bool,
}

impl<B: Buffers> Collective<'_, B> {
    /// Does it, and returns the buffer with the result when this member's part is done and its memory is free. What one
    /// member waits for with this, all do; others [start](Collective::start) what one starts.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::BadBuffer`], [`Error::BadRank`] before anything is sent; [`Error::BadGroup`] while another thread waits in
    /// this group; [`Error::PeerDied`], [`Error::Revoked`],
    /// [`Error::Mismatch`], [`Error::Closed`] when the group is over.
    /// # Panics
    /// When an operator does.
    #[inline]
    pub fn wait(mut self) -> Result<B::Result, Error> {
        let Collective { group, task, operator, buffers, in_place } = &mut self;
        let memory = buffers.memory();
        check(task, *operator, (group.rank(), group.size()), memory, *in_place)?;
        // SAFETY: checked; the buffers are here until this returns or unwinds, and any bytes are elements. What `Bytes`
        // has was promised.
        unsafe { group.complete(task, *operator, memory, *in_place)? };
        Ok(self.buffers.result())
    }

    /// Begins it, as all members do. It goes on by itself; the result comes from the handle.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadBuffer`], [`Error::BadRank`], and those of a group that is over already; others when it is waited
    /// for.
    pub fn start(self) -> Result<Pending<B::Result>, Error>
    where
        B: Send + 'static,
    {
        self.begin(None)
    }

    /// As [`start`](Collective::start), in a series that all members name with the same number. Members start the
    /// collectives of a series in the same order; those of different series, and others, in any.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    /// # Errors
    /// As [`start`](Collective::start).
    pub fn start_in(self, series: u16) -> Result<Pending<B::Result>, Error>
    where
        B: Send + 'static,
    {
        self.begin(Some(series))
    }

    fn begin(self, series: Option<u16>) -> Result<Pending<B::Result>, Error>
    where
        B: Send + 'static,
    {
        let Collective { group, task, operator, buffers, in_place } = self;
        let mut buffers = Box::new(buffers);
        let memory = buffers.memory();
        check(&task, operator, (group.rank(), group.size()), memory, in_place)?;
        // SAFETY: checked; the elements do not move when their owners do, and the run keeps those until it is over.
        // What `Bytes` has was promised.
        let run =
            unsafe { group.start(&task, operator, memory, in_place, (series, buffers.kept()))? };
        Ok(Pending::new(run, B::take))
    }
}

impl<B> std::fmt::Debug for Collective<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collective({:?}, {:?})", self.group, self.task)
    }
}

impl Group {
    /// In one buffer.
    #[inline]
    fn one<'a, D: BufferMut>(
        &'a self,
        task: Task,
        op: Option<&'a Op<D::Item>>,
        data: D,
    ) -> Collective<'a, One<D>> {
        let operator = op.map(|op| &op.bytes);
        let buffers = One { data, reads: false };
        Collective { group: self, task: Cow::Owned(task), operator, buffers, in_place: true }
    }

    /// From one buffer into another.
    #[inline]
    fn two<'a, S: Buffer, R: BufferMut<Item = S::Item>>(
        &'a self,
        task: Task,
        op: Option<&'a Op<S::Item>>,
        from: S,
        into: R,
    ) -> Collective<'a, Two<S, R>> {
        let operator = op.map(|op| &op.bytes);
        let (task, buffers) = (Cow::Owned(task), Two { from, into });
        Collective { group: self, task, operator, buffers, in_place: false }
    }

    /// Over when all members have called it.
    pub fn barrier(&self) -> Collective<'_, Bytes> {
        let buffers = Bytes { input: &[], output: &mut [] };
        let task = Cow::Owned(Task::Barrier);
        Collective { group: self, task, operator: None, buffers, in_place: true }
    }

    /// `data` of the root goes to all.
    pub fn bcast<D: BufferMut>(&self, root: u32, data: D) -> Collective<'_, One<D>> {
        self.one(Task::Bcast { root, len: bytes_of(&data) }, None, data)
    }

    /// Combines `data` of all; the root's becomes the result, the others' stays as it is.
    pub fn reduce<'a, D: BufferMut>(
        &'a self,
        root: u32,
        data: D,
        op: &'a Op<D::Item>,
    ) -> Collective<'a, One<D>> {
        let mut all = self.one(Task::Reduce { root, len: bytes_of(&data) }, Some(op), data);
        all.in_place = self.rank() == root;
        all.buffers.reads = !all.in_place;
        all
    }

    /// Combines `data` of all; it becomes the result everywhere, bit for bit the same.
    pub fn allreduce<'a, D: BufferMut>(
        &'a self,
        data: D,
        op: &'a Op<D::Item>,
    ) -> Collective<'a, One<D>> {
        self.one(Task::Allreduce { len: bytes_of(&data) }, Some(op), data)
    }

    /// The root gets `own` of all, in the order of ranks. `all` counts at the root only.
    pub fn gather<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        root: u32,
        own: S,
        all: R,
    ) -> Collective<'_, Two<S, R>> {
        let blocks = Some(even::<S::Item>(own.items().len()));
        self.two(Task::Gather { root, own: bytes_of(&own), blocks }, None, own, all)
    }

    /// [`Group::gather`] of different lengths. `all` and `counts` count at the root only.
    pub fn gatherv<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        root: u32,
        own: S,
        all: R,
        counts: &[usize],
    ) -> Collective<'_, Two<S, R>> {
        let blocks = (self.rank() == root).then(|| blocks_of::<S::Item>(counts));
        self.two(Task::Gather { root, own: bytes_of(&own), blocks }, None, own, all)
    }

    /// Each rank gets a part of the root's `all`, as long as its `own`. `all` counts at the root only.
    pub fn scatter<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        root: u32,
        all: S,
        own: R,
    ) -> Collective<'_, Two<S, R>> {
        let blocks = Some(even::<S::Item>(own.items().len()));
        self.two(Task::Scatter { root, own: bytes_of(&own), blocks }, None, all, own)
    }

    /// [`Group::scatter`] of different lengths. `all` and `counts` count at the root only.
    pub fn scatterv<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        root: u32,
        all: S,
        counts: &[usize],
        own: R,
    ) -> Collective<'_, Two<S, R>> {
        let blocks = (self.rank() == root).then(|| blocks_of::<S::Item>(counts));
        self.two(Task::Scatter { root, own: bytes_of(&own), blocks }, None, all, own)
    }

    /// All get `own` of all, in the order of ranks.
    pub fn allgather<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        own: S,
        all: R,
    ) -> Collective<'_, Two<S, R>> {
        let blocks = even::<S::Item>(own.items().len());
        self.two(Task::Allgather { blocks }, None, own, all)
    }

    /// [`Group::allgather`] of different lengths.
    pub fn allgatherv<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        own: S,
        all: R,
        counts: &[usize],
    ) -> Collective<'_, Two<S, R>> {
        self.two(Task::Allgather { blocks: blocks_of::<S::Item>(counts) }, None, own, all)
    }

    /// Part `i` of `from` goes to rank `i`; part `i` of `into` comes from it. All parts are of one length.
    pub fn alltoall<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        from: S,
        into: R,
    ) -> Collective<'_, Two<S, R>> {
        let each = even::<S::Item>(from.items().len() / self.size() as usize);
        self.two(Task::Alltoall { send: each.clone(), recv: each }, None, from, into)
    }

    /// [`Group::alltoall`] of different lengths: how many elements go to, and come from, each rank.
    pub fn alltoallv<S: Buffer, R: BufferMut<Item = S::Item>>(
        &self,
        from: S,
        sends: &[usize],
        into: R,
        recvs: &[usize],
    ) -> Collective<'_, Two<S, R>> {
        let (send, recv) = (blocks_of::<S::Item>(sends), blocks_of::<S::Item>(recvs));
        self.two(Task::Alltoall { send, recv }, None, from, into)
    }

    /// Combines `data` of all; each rank gets as many elements of the result as `own` has.
    pub fn reduce_scatter<'a, S: Buffer, R: BufferMut<Item = S::Item>>(
        &'a self,
        data: S,
        own: R,
        op: &'a Op<S::Item>,
    ) -> Collective<'a, Two<S, R>> {
        let blocks = even::<S::Item>(own.items().len());
        self.two(Task::ReduceScatter { blocks }, Some(op), data, own)
    }

    /// [`Group::reduce_scatter`] of different lengths.
    pub fn reduce_scatterv<'a, S: Buffer, R: BufferMut<Item = S::Item>>(
        &'a self,
        data: S,
        own: R,
        counts: &[usize],
        op: &'a Op<S::Item>,
    ) -> Collective<'a, Two<S, R>> {
        self.two(Task::ReduceScatter { blocks: blocks_of::<S::Item>(counts) }, Some(op), data, own)
    }

    /// `data` becomes what this rank and all before it have, combined.
    pub fn scan<'a, D: BufferMut>(
        &'a self,
        data: D,
        op: &'a Op<D::Item>,
    ) -> Collective<'a, One<D>> {
        self.one(Task::Scan { len: bytes_of(&data), inclusive: true }, Some(op), data)
    }

    /// `data` becomes what all before this rank have, combined; that of the first rank stays as it is.
    pub fn exclusive_scan<'a, D: BufferMut>(
        &'a self,
        data: D,
        op: &'a Op<D::Item>,
    ) -> Collective<'a, One<D>> {
        self.one(Task::Scan { len: bytes_of(&data), inclusive: false }, Some(op), data)
    }

    /// Any task on raw memory: for bindings to other languages, which have their own types and operators.
    ///
    /// # Safety
    /// Until the collective is over, `contribution` stays readable and unchanged, and `result` writable and exclusive;
    /// the two do not overlap. It is over when [`Collective::wait`] returns or unwinds; of a started one, when
    /// [`Pending::wait_over`] has returned, whatever that says.
    pub unsafe fn bytes<'a>(
        &'a self,
        task: &'a Task,
        operator: Option<&'a Operator>,
        contribution: *const [u8],
        result: *mut [u8],
        in_place: bool,
    ) -> Collective<'a, Bytes> {
        let buffers = Bytes { input: contribution, output: result };
        Collective { group: self, task: Cow::Borrowed(task), operator, buffers, in_place }
    }
}
