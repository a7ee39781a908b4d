//! The operations: what each member shows, and what it takes from the others.

use std::any::Any;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

use crate::coll::board::{Board, Member};
use crate::coll::failure::Failure;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::Operator;
use crate::coll::plan::Side;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;
use crate::net::segment::ROOM;
use crate::net::segment::notice::{SHEETS, Words};

/// Whether what each member shows has room on a sheet. The same at all members: it depends on what all of them give.
pub(in crate::coll) fn fits(task: &Task, size: u32) -> bool {
    let all = |len: usize| len.saturating_mul(size as usize) <= ROOM;
    match task {
        Task::Barrier => true,
        Task::Bcast { len, .. }
        | Task::Reduce { len, .. }
        | Task::Allreduce { len }
        | Task::Scan { len, .. }
        | Task::Gather { blocks: Some(Blocks::Even(len)), .. } => *len <= ROOM,
        Task::Scatter { blocks: Some(Blocks::Even(len)), .. } => all(*len),
        Task::Alltoall { send: Blocks::Even(len), recv: Blocks::Even(_) } => all(*len),
        Task::Allgather { blocks } => (0..size).all(|rank| blocks.len(rank) <= ROOM),
        Task::ReduceScatter { blocks } => blocks.end(size) <= ROOM,
        _ => false,
    }
}

/// Which operation, for the label of a sheet.
fn kind(task: &Task) -> u64 {
    match task {
        Task::Barrier => 1,
        Task::Bcast { .. } => 2,
        Task::Reduce { .. } => 3,
        Task::Allreduce { .. } => 4,
        Task::Gather { .. } => 5,
        Task::Scatter { .. } => 6,
        Task::Allgather { .. } => 7,
        Task::Alltoall { .. } => 8,
        Task::ReduceScatter { .. } => 9,
        Task::Scan { .. } => 10,
    }
}

/// Why one ends early.
enum Ended {
    /// The group is over already.
    Error(Error),
    Failed(Failure),
    /// The operator panicked with this.
    Panicked(Box<dyn Any + Send>),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Error(error)
    }
}

/// A part of what a member shows.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    len: usize,
}

/// One collective, as one member does it.
struct Exchange<'a> {
    group: &'a Group,
    board: &'a mut Board,
    /// Its number in the group.
    number: u64,
    kind: u64,
    operator: Option<&'a Operator>,
    /// The contribution, where the result goes, and whether that is the same.
    from: *const u8,
    into: *mut u8,
    in_place: bool,
}

impl Group {
    /// Does one; it [`fits`].
    ///
    /// # Safety
    /// The memory is as long as the task takes it to be, readable, and the output is the caller's alone.
    pub(in crate::coll) unsafe fn exchange(
        &self,
        board: &mut Board,
        task: &Task,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<(), Error> {
        board.number += 1;
        let into: *mut u8 = memory.output.cast();
        let from = if in_place { into.cast_const() } else { memory.input.cast() };
        let (number, kind) = (board.number, kind(task));
        let mut exchange =
            Exchange { group: self, board, number, kind, operator, from, into, in_place };
        // SAFETY: the caller's promise.
        let ended = match unsafe { exchange.run(task) } {
            Ok(all_came) => {
                if all_came {
                    board.all_came = number;
                }
                return Ok(());
            }
            Err(ended) => ended,
        };
        match ended {
            Ended::Error(error) => Err(error),
            Ended::Failed(failure) => {
                self.context.revoke(failure);
                Err(failure.error())
            }
            Ended::Panicked(panic) => {
                self.context.revoke(Failure::Panicked);
                resume_unwind(panic)
            }
        }
    }

    /// This member does the next collective in another way.
    pub(in crate::coll) fn pass(&self, board: &mut Board) {
        board.number += 1;
        self.come(board);
    }

    /// This member has come to the board's number, and shows nothing for it.
    fn come(&self, board: &Board) {
        let own = &board.members[self.rank() as usize];
        self.wake(own.place.words().pass(own.base + board.number));
    }
}

impl Exchange<'_> {
    fn me(&self) -> usize {
        self.group.rank() as usize
    }

    fn size(&self) -> usize {
        self.board.members.len()
    }

    /// Does it; whether all members are known to have come.
    ///
    /// # Safety
    /// As [`Group::exchange`].
    unsafe fn run(&mut self, task: &Task) -> Result<bool, Ended> {
        let (me, size) = (self.me(), self.size());
        let others = (0..size).filter(|&rank| rank != me);
        let whole = |len: usize| Part { at: 0, len };
        // SAFETY: of all calls below: parts of the contribution and of the result, as the task has them.
        unsafe {
            match task {
                Task::Barrier => {
                    self.show(0, 0)?;
                    for rank in others {
                        self.take(rank, 0)?;
                    }
                    Ok(true)
                }
                Task::Bcast { root, len } if *root as usize == me => {
                    self.from = self.into;
                    self.show(0, *len)?;
                    Ok(false)
                }
                Task::Bcast { root, len } => {
                    self.group.come(self.board);
                    self.copy(*root as usize, *len, whole(*len), 0)?;
                    Ok(false)
                }
                Task::Reduce { root, len } if *root as usize == me => {
                    self.group.come(self.board);
                    self.combine(0..size, *len, whole(*len))?;
                    Ok(true)
                }
                Task::Reduce { len, .. } => {
                    self.show(0, *len)?;
                    Ok(false)
                }
                Task::Allreduce { len } => {
                    self.show(0, *len)?;
                    self.combine(0..size, *len, whole(*len))?;
                    Ok(true)
                }
                Task::Scan { len, inclusive } => {
                    self.show(0, *len)?;
                    self.combine(0..me + usize::from(*inclusive), *len, whole(*len))?;
                    Ok(false)
                }
                Task::Gather { root, own: len, .. } if *root as usize == me => {
                    self.group.come(self.board);
                    self.keep(0, me * len, *len);
                    for rank in others {
                        self.copy(rank, *len, whole(*len), rank * len)?;
                    }
                    Ok(true)
                }
                Task::Gather { own, .. } => {
                    self.show(0, *own)?;
                    Ok(false)
                }
                Task::Scatter { root, own: len, .. } if *root as usize == me => {
                    self.show(0, size * len)?;
                    self.keep(me * len, 0, *len);
                    Ok(false)
                }
                Task::Scatter { root, own: len, .. } => {
                    self.group.come(self.board);
                    let part = Part { at: me * len, len: *len };
                    self.copy(*root as usize, size * len, part, 0)?;
                    Ok(false)
                }
                Task::Allgather { blocks } => {
                    let (at, len) = blocks.get(me as u32);
                    self.show(if self.in_place { at } else { 0 }, len)?;
                    self.keep(0, at, len);
                    for rank in others {
                        let (at, len) = blocks.get(rank as u32);
                        self.copy(rank, len, whole(len), at)?;
                    }
                    Ok(true)
                }
                Task::Alltoall { send, .. } => {
                    let len = send.len(me as u32);
                    self.show(0, size * len)?;
                    self.keep(me * len, me * len, len);
                    for rank in others {
                        self.copy(rank, size * len, Part { at: me * len, len }, rank * len)?;
                    }
                    Ok(true)
                }
                Task::ReduceScatter { blocks } => {
                    let (all, (at, len)) = (blocks.end(size as u32), blocks.get(me as u32));
                    self.show(0, all)?;
                    self.combine(0..size, all, Part { at, len })?;
                    Ok(true)
                }
            }
        }
    }

    fn label(&self, len: usize) -> u64 {
        self.kind << 32 | len as u64
    }

    /// Shows `len` bytes of the contribution to the others.
    ///
    /// # Safety
    /// They are inside it, and as many as a sheet has room for at the most.
    unsafe fn show(&mut self, at: usize, len: usize) -> Result<(), Ended> {
        self.wait_for_room()?;
        let own = &self.board.members[self.me()];
        let number = own.base + self.number;
        own.place.label(number).store(self.label(len), Relaxed);
        debug_assert!(len <= ROOM);
        // SAFETY: the caller's promise; all others are done with the sheet.
        unsafe {
            let sheet = own.place.bytes(number).cast::<u8>().as_ptr();
            std::ptr::copy_nonoverlapping(self.from.wrapping_add(at), sheet, len.min(ROOM));
        }
        self.group.wake(own.place.words().show(number));
        Ok(())
    }

    /// Waits until the others are done with the sheet: with the collective that used it before.
    fn wait_for_room(&mut self) -> Result<(), Ended> {
        let after = (self.number + 1).saturating_sub(SHEETS);
        if after <= 1 || self.board.all_came >= after {
            return Ok(());
        }
        let mut all_came = u64::MAX;
        for (rank, member) in self.others() {
            self.group
                .wait_for(self.board, rank, |words| words.has_come_to(member.base + after))?;
            all_came = all_came.min(member.place.words().come() - member.base);
        }
        self.board.all_came = all_came;
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.board.members.iter().enumerate().filter(|(_, member)| !member.own)
    }

    /// Waits for what a member shows, which has `len` bytes.
    fn take(&self, rank: usize, len: usize) -> Result<*const u8, Ended> {
        let member = &self.board.members[rank];
        let number = member.base + self.number;
        let there = |words: &Words<'_>| words.is_shown(number) || words.has_come_to(number);
        self.group.wait_for(self.board, rank, there)?;
        let from = self.group.members()[rank];
        if !member.place.words().is_shown(number) {
            // It has come, and does something else.
            return Err(Ended::Failed(Failure::Mismatch { from, expected: len, found: 0 }));
        }
        let label = member.place.label(number).load(Relaxed);
        if label != self.label(len) {
            let found = label as u32 as usize;
            return Err(Ended::Failed(Failure::Mismatch { from, expected: len, found }));
        }
        Ok(member.place.bytes(number).cast::<u8>().as_ptr())
    }

    /// Copies a part of the `all` bytes that a member shows to that place of the result.
    ///
    /// # Safety
    /// The part is inside what it shows, and the place inside the result.
    unsafe fn copy(&self, rank: usize, all: usize, part: Part, to: usize) -> Result<(), Ended> {
        let shown = self.take(rank, all)?;
        debug_assert!(part.at + part.len <= ROOM);
        // SAFETY: the caller's promise; the member does not write there before this one has come further.
        unsafe { std::ptr::copy_nonoverlapping(shown.add(part.at), self.into.add(to), part.len) };
        Ok(())
    }

    /// Copies a part of the own contribution to where it belongs in the result, unless it is there.
    ///
    /// # Safety
    /// Both are inside.
    unsafe fn keep(&self, from: usize, to: usize, len: usize) {
        if !self.in_place {
            // SAFETY: the caller's promise; the two buffers do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.from.wrapping_add(from),
                    self.into.wrapping_add(to),
                    len,
                )
            };
        }
    }

    /// Combines a part of what these members give, in the order of ranks, into the beginning of the result. Each gives
    /// `all` bytes.
    ///
    /// # Safety
    /// The part is inside what each gives, and as long as the result.
    unsafe fn combine(&self, ranks: Range<usize>, all: usize, part: Part) -> Result<(), Ended> {
        let Some(operator) = self.operator else { return Ok(()) };
        let mut room = [const { MaybeUninit::<u128>::uninit() }; 2 * ROOM / 16];
        let room: *mut u8 = room.as_mut_ptr().cast();
        // SAFETY: the second half.
        let (mut sum, mut next) = (room, unsafe { room.add(ROOM) });
        let mut is_first = true;
        for rank in ranks {
            let given = if rank == self.me() { self.from } else { self.take(rank, all)? };
            let to = if is_first { sum } else { next };
            // SAFETY: the caller's promise; half of the room is as long as a sheet.
            unsafe { std::ptr::copy_nonoverlapping(given.wrapping_add(part.at), to, part.len) };
            if !std::mem::take(&mut is_first) {
                // SAFETY: written just now, or by a turn before, and apart.
                let (left, right) = unsafe {
                    (
                        std::slice::from_raw_parts_mut(sum, part.len),
                        std::slice::from_raw_parts_mut(next, part.len),
                    )
                };
                let combined =
                    catch_unwind(AssertUnwindSafe(|| operator.combine(left, right, Side::Right)));
                combined.map_err(Ended::Panicked)?;
                std::mem::swap(&mut sum, &mut next);
            }
        }
        if !is_first {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(sum, self.into, part.len) };
        }
        Ok(())
    }
}
