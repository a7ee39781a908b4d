//! The work of a round: copies and combinations from the members' buffers into the members' buffers.
//!
//! The work is divided among workers: one, the member that came last, or all members. A worker has its *share*:
//!
//! | operation | a share is |
//! |---|---|
//! | allreduce, reduce, scan | a range of elements, for all members: contributions in place are read before results are written there |
//! | bcast, scatter, allgather, alltoall, reduce_scatter | the result of some members |
//! | gather | the contributions of some members |
//!
//! An alltoall or a reduce_scatter in place writes where other members still read. Its result goes to memory of its own
//! ([`Later`]) and is copied when all workers are done.

use std::ops::Range;

use super::deposit::{Deposit, Deposits};
use crate::coll::operator::Operator;
use crate::coll::task::{Blocks, Task};

/// Bytes that are combined at once: two buffers of it are in the nearest cache, and on the stack.
const PIECE: usize = 4096;
/// The same for short vectors: clearing the two buffers would take longer than the work.
const FEW: usize = 128;

/// Result of a member that is copied when all workers are done.
pub(super) struct Later {
    bytes: Vec<u8>,
    /// Offsets in the result, and lengths, of what `bytes` has one after the other.
    parts: Vec<(usize, usize)>,
    into: *mut u8,
}

impl Later {
    /// Copies it.
    ///
    /// # Safety
    /// All workers are done, and the member's memory is still here.
    pub(super) unsafe fn write(&self) {
        let mut at = 0;
        for &(to, len) in &self.parts {
            // SAFETY: inside the result, as it was recorded, and inside `bytes`.
            unsafe { copy(self.bytes.as_ptr().add(at), self.into.add(to), len) };
            at += len;
        }
    }
}

/// Memory of members may be the same by the program's mistake: a move, not a copy.
///
/// # Safety
/// Both are valid for so many bytes.
unsafe fn copy(from: *const u8, into: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy(from, into, len) };
}

/// About how many bytes all workers together move.
pub(super) fn amount(task: &Task, members: usize) -> usize {
    let size = members as u32;
    let each = match task {
        Task::Barrier => 0,
        Task::Bcast { len, .. } | Task::Reduce { len, .. } => *len,
        Task::Allreduce { len } | Task::Scan { len, .. } => len.saturating_mul(2),
        Task::Gather { own, .. } | Task::Scatter { own, .. } => *own,
        Task::Allgather { blocks } => blocks.total(size),
        Task::Alltoall { recv, .. } => recv.total(size),
        Task::ReduceScatter { blocks } => blocks.total(size),
    };
    each.saturating_mul(members)
}

/// A worker of a round.
pub(super) struct Worker<'a, D> {
    pub(super) all: &'a D,
    /// The worker's own operator: it is called in the worker's own call.
    pub(super) operator: Option<&'a Operator>,
    /// This worker, of so many.
    pub(super) number: usize,
    pub(super) workers: usize,
}

impl<D: Deposits> Worker<'_, D> {
    /// Does its share. What is returned is to be written when all workers are done.
    ///
    /// # Safety
    /// All deposits fit together; their memory is as long as their tasks say and is used by the workers alone.
    pub(super) unsafe fn work(&self) -> Vec<Later> {
        let task = self.all.get(0).task;
        let mut later = Vec::new();
        // SAFETY: the caller's promise, which the functions below have as well.
        unsafe {
            match task {
                Task::Barrier => {}
                Task::Bcast { root, len } => {
                    let from = self.all.get(*root as usize).into;
                    for rank in self.ranks().filter(|&rank| rank != *root as usize) {
                        copy(from, self.all.get(rank).into, *len);
                    }
                }
                Task::Reduce { root, len } => {
                    let into = self.all.get(*root as usize).into;
                    self.reduce(*len, |at, sum| copy(sum.as_ptr(), into.add(at), sum.len()));
                }
                Task::Allreduce { len } => self.reduce(*len, |at, sum| {
                    for rank in 0..self.all.count() {
                        copy(sum.as_ptr(), self.all.get(rank).into.add(at), sum.len());
                    }
                }),
                Task::Scan { len, inclusive } => self.scan(*len, *inclusive),
                Task::Gather { root, .. } => self.gather(*root as usize),
                Task::Scatter { root, .. } => self.scatter(*root as usize),
                Task::Allgather { .. } => self.ranks().for_each(|rank| self.allgather(rank)),
                Task::Alltoall { .. } => {
                    later.extend(self.ranks().filter_map(|rank| self.alltoall(rank)));
                }
                Task::ReduceScatter { .. } => {
                    later.extend(self.ranks().filter_map(|rank| self.reduce_scatter(rank)));
                }
            }
        }
        later
    }

    /// The members whose results are this worker's.
    fn ranks(&self) -> Range<usize> {
        let all = self.all.count();
        self.number * all / self.workers..(self.number + 1) * all / self.workers
    }

    /// This worker's range of so many bytes; no element is cut.
    fn range(&self, len: usize) -> Range<usize> {
        let element = self.operator.map_or(1, |operator| operator.element);
        let elements = len / element;
        let at = |number: usize| elements * number / self.workers * element;
        at(self.number)..at(self.number + 1)
    }

    /// Where the contribution of a member is.
    fn given(&self, rank: usize) -> *const u8 {
        self.all.get(rank).from
    }

    /// Calls `each` for pieces of a range with two buffers as long as the piece.
    fn pieces(&self, range: Range<usize>, mut each: impl for<'a> FnMut(usize, [&'a mut [u8]; 2])) {
        let element = self.operator.map_or(1, |operator| operator.element);
        let piece = (PIECE / element).max(1) * element;
        let (mut few, mut near, mut far);
        let room: &mut [u128] = match piece.min(range.len()) {
            ..=FEW => {
                few = [0; 2 * FEW / 16];
                &mut few
            }
            len if len <= PIECE => {
                near = [0; 2 * PIECE / 16];
                &mut near
            }
            more => {
                far = vec![0; 2 * more.div_ceil(16)];
                &mut far
            }
        };
        let (one, other) = room.split_at_mut(room.len() / 2);
        let (one, other) = (bytes(one), bytes(other));
        for at in range.clone().step_by(piece) {
            let len = piece.min(range.end - at);
            each(at, [&mut one[..len], &mut other[..len]]);
        }
    }

    /// Makes one of the contributions of all members, in the order of ranks, piece by piece of this worker's range.
    ///
    /// # Safety
    /// As [`Worker::work`].
    unsafe fn reduce(&self, len: usize, result: impl Fn(usize, &[u8])) {
        self.pieces(self.range(len), |at, room| {
            // SAFETY: the range is inside all contributions.
            let sum = unsafe { self.combine(|_| at, room) };
            result(at, sum);
        });
    }

    /// Combines what all members have at these offsets; the one of the two buffers that has the result.
    ///
    /// # Safety
    /// As [`Worker::work`]; as many bytes as the buffers have are inside each contribution.
    unsafe fn combine<'a>(
        &self,
        at: impl Fn(usize) -> usize,
        [mut sum, mut next]: [&'a mut [u8]; 2],
    ) -> &'a [u8] {
        for rank in 0..self.all.count() {
            let to = if rank == 0 { &mut *sum } else { &mut *next };
            // SAFETY: the caller's promise.
            unsafe { copy(self.given(rank).add(at(rank)), to.as_mut_ptr(), to.len()) };
            if let (true, Some(operator)) = (rank > 0, self.operator) {
                operator.apply(sum, next);
                std::mem::swap(&mut sum, &mut next);
            }
        }
        sum
    }

    /// # Safety
    /// As [`Worker::work`].
    unsafe fn scan(&self, len: usize, inclusive: bool) {
        let Some(operator) = self.operator else { return };
        self.pieces(self.range(len), |at, [mut sum, mut next]| {
            for rank in 0..self.all.count() {
                let to = if rank == 0 { &mut *sum } else { &mut *next };
                let into = self.all.get(rank).into.wrapping_add(at);
                // SAFETY: the range is inside all contributions and results; a contribution in place is read first.
                unsafe { copy(self.given(rank).add(at), to.as_mut_ptr(), to.len()) };
                if !inclusive && rank > 0 {
                    // SAFETY: as above.
                    unsafe { copy(sum.as_ptr(), into, sum.len()) };
                }
                if rank > 0 {
                    operator.apply(sum, next);
                    std::mem::swap(&mut sum, &mut next);
                }
                if inclusive {
                    // SAFETY: as above.
                    unsafe { copy(sum.as_ptr(), into, sum.len()) };
                }
            }
        });
    }

    /// # Safety
    /// As [`Worker::work`].
    unsafe fn gather(&self, root: usize) {
        let to = self.all.get(root);
        let Task::Gather { blocks: Some(blocks), .. } = to.task else { return };
        for rank in self.ranks().filter(|&rank| rank != root || !to.in_place) {
            let (at, len) = blocks.get(rank as u32);
            // SAFETY: the member gives so many bytes, and the root's block is inside its result.
            unsafe { copy(self.given(rank), to.into.add(at), len) };
        }
    }

    /// # Safety
    /// As [`Worker::work`].
    unsafe fn scatter(&self, root: usize) {
        let from = self.all.get(root);
        let Task::Scatter { blocks: Some(blocks), .. } = from.task else { return };
        for rank in self.ranks().filter(|&rank| rank != root || !from.in_place) {
            let (at, len) = blocks.get(rank as u32);
            // SAFETY: the member takes so many bytes, and the root's block is inside its contribution.
            unsafe { copy(from.from.add(at), self.all.get(rank).into, len) };
        }
    }

    /// The result of one member.
    ///
    /// # Safety
    /// As [`Worker::work`].
    unsafe fn allgather(&self, taker: usize) {
        let own = self.all.get(taker);
        let Task::Allgather { blocks } = own.task else { return };
        for giver in 0..self.all.count() {
            let (other, (at, len)) = (self.all.get(giver), blocks.get(giver as u32));
            let from = match other.task {
                Task::Allgather { blocks } if other.in_place => blocks.get(giver as u32).0,
                _ => 0,
            };
            if giver != taker || !own.in_place {
                // SAFETY: the giver has so many bytes there, which no worker writes to.
                unsafe { copy(other.from.add(from), own.into.add(at), len) };
            }
        }
    }

    /// The result of one member.
    ///
    /// # Safety
    /// As [`Worker::work`].
    unsafe fn alltoall(&self, taker: usize) -> Option<Later> {
        let own = self.all.get(taker);
        let Task::Alltoall { recv, .. } = own.task else { return None };
        let mut later = own.in_place.then(|| self.later(&own, recv));
        let mut behind = 0;
        for giver in 0..self.all.count() {
            let (other, (to, len)) = (self.all.get(giver), recv.get(giver as u32));
            let Task::Alltoall { send, .. } = other.task else { continue };
            let from = other.from.wrapping_add(send.get(taker as u32).0);
            let into = match &mut later {
                Some(later) => later.bytes.as_mut_ptr().wrapping_add(behind),
                None => own.into.wrapping_add(to),
            };
            // SAFETY: the giver has so many bytes there, and the taker, or what is behind, has room for them.
            unsafe { copy(from, into, len) };
            behind += len;
        }
        later
    }

    /// Memory for the blocks of a result.
    fn later(&self, own: &Deposit<'_>, blocks: &Blocks) -> Later {
        let size = self.all.count() as u32;
        let parts = (0..size).map(|rank| blocks.get(rank)).collect();
        Later { bytes: vec![0; blocks.total(size)], parts, into: own.into }
    }

    /// The result of one member.
    ///
    /// # Safety
    /// As [`Worker::work`].
    unsafe fn reduce_scatter(&self, taker: usize) -> Option<Later> {
        let own = self.all.get(taker);
        let Task::ReduceScatter { blocks } = own.task else { return None };
        let len = blocks.len(taker as u32);
        let mut later = own.in_place.then(|| Later {
            bytes: vec![0; len],
            parts: vec![(0, len)],
            into: own.into,
        });
        let into = match &mut later {
            Some(later) => later.bytes.as_mut_ptr(),
            None => own.into,
        };
        let starts = |rank: usize| match self.all.get(rank).task {
            Task::ReduceScatter { blocks } => blocks.get(taker as u32).0,
            _ => 0,
        };
        self.pieces(0..len, |at, room| {
            // SAFETY: the block is inside all contributions, and the result is as long.
            unsafe {
                let sum = self.combine(|rank| starts(rank) + at, room);
                copy(sum.as_ptr(), into.add(at), sum.len());
            }
        });
        later
    }
}

/// The bytes of a buffer.
fn bytes(words: &mut [u128]) -> &mut [u8] {
    // SAFETY: all bytes of numbers are initialised, and any bytes are numbers.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}
