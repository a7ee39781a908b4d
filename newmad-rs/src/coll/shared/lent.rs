//! Long collectives: each member shows where its contribution lies, and the others read it there, by the kernel's copy. A
//! short exchange before says where, and one after that all have read.
//!
//! An allreduce has a third one: each member reads and combines one of as many segments as there are members, and once all have
//! done so it reads the other segments of the result. In place its own goes to a block of its own first: what has been given
//! is whole until all have read it.
//!
//! If the kernel refuses a copy (of memory that is mapped from a device, for instance) the second exchange tells all
//! members, which do this one by messages, and those that follow. A member that is gone, or gives up, is found out by
//! the exchanges: what was read of it goes to a result that is none. If it gives up after it has said that it has read, it retracts
//! that (`net::segment::notice`): others may still read its memory, which is the program's again.
//!
//! Measured (AMD EPYC, two cores, medians in µs; in brackets by messages, allreduce by pieces over the sheets): two ranks,
//! alltoall of 32 KiB 5.4 (8.2), of 1 MiB 103 (114), allreduce of 1 MiB 122 (197); four ranks, allgather of 1 MiB 631 (945).
//! Rejected: pieces over the sheets, which copies twice (`exchange`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

use pioman::Point;

use crate::coll::board::{Board, MOST};
use crate::coll::failure::Failure;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::{Operator, as_bytes, as_bytes_mut};
use crate::coll::shared::exchange::{kind, label, labelled, taken_back};
use crate::coll::task::{Blocks, Task};
use crate::error::Error;
use crate::net::segment::board::Place;
use crate::net::shm::cma;

/// Of each member: the label of what it does, where what it gives lies, and where the others read at last.
type Lent = [[u64; 3]; MOST as usize];

/// Part of a member's contribution, and where it belongs in the own result.
struct Part {
    rank: u32,
    from: usize,
    into: usize,
    len: usize,
}

/// Longest block that goes one way only. One side of it has nothing to copy; by messages both copy, where that has been
/// faster.
const ONE_WAY: usize = 128 * 1024;

/// Shortest contribution that is combined so by members with a core each: shorter ones are combined from the sheets. Others
/// combine from the sheets whatever goes over them: each of the three exchanges here is a switch for all.
pub(in crate::coll) const COMBINED: usize = 256 * 1024;
/// Bytes that are read and combined in one go: they stay in the second cache, and a call of the kernel costs little beside.
const CHUNK: usize = 128 * 1024;
/// Bytes that are copied in one go: what the thread's messages and neighbours wait for.
const PIECE: usize = 1 << 20;
/// The kind of the short exchanges, which no operation of the program has.
const LENDING: u64 = 11;

/// Takes back what a member has shown of a number, unless it has heard of all the others, and says why.
struct Retract<'a> {
    group: &'a Group,
    place: Place,
    number: u64,
}

impl Drop for Retract<'_> {
    fn drop(&mut self) {
        let words = self.place.words();
        if words.is_shown(self.number) {
            let why = taken_back(self.group.context.failure.get().copied());
            self.place.label(self.number).store(why, Relaxed);
            words.retract(self.number);
        }
    }
}

/// Whether a task goes so, which fits the sheets or not. The same at all members.
pub(in crate::coll) fn is_lent(
    task: &Task,
    operator: Option<&Operator>,
    in_place: bool,
    (fits, crowded): (bool, bool),
) -> bool {
    match task {
        Task::Allreduce { len } => {
            let sheets_are_better = fits && crowded;
            *len >= COMBINED
                && !sheets_are_better
                && operator.is_some_and(|operator| operator.element <= CHUNK)
        }
        _ if fits => false,
        Task::Scatter { own: len, blocks: Some(Blocks::Even(_)), .. } => *len <= ONE_WAY,
        Task::Allgather { .. } => true,
        // In place the blocks would be written while others read them.
        Task::Alltoall { send: Blocks::Even(_), recv: Blocks::Even(_) } => !in_place,
        _ => false,
    }
}

/// How long what that member gives to each is.
fn given(task: &Task, rank: u32) -> usize {
    match task {
        Task::Allreduce { len } => *len,
        Task::Scatter { own, .. } => *own,
        Task::Allgather { blocks } | Task::Alltoall { send: blocks, .. } => blocks.len(rank),
        _ => 0,
    }
}

/// What a member does: what all must do alike is in it.
fn label_of(task: &Task, operator: Option<&Operator>, rank: u32) -> u64 {
    let more = match task {
        Task::Scatter { root, .. } => u64::from(*root),
        _ => operator.map_or(0, |operator| operator.element as u64),
    };
    label(kind(task), more, given(task, rank))
}

/// What this rank takes from another one, or from itself, if anything.
fn part(task: &Task, me: u32, rank: u32) -> Option<Part> {
    let (mine, theirs) = (me as usize, rank as usize);
    let (from, into, len) = match task {
        Task::Scatter { root, own, .. } if *root == rank => (mine * own, 0, *own),
        Task::Allgather { blocks } => {
            let (start, len) = blocks.get(rank);
            (0, start, len)
        }
        Task::Alltoall { send, .. } => {
            let len = send.len(rank);
            (mine * len, theirs * len, len)
        }
        _ => return None,
    };
    Some(Part { rank, from, into, len })
}

impl Group {
    /// Does one that [`is_lent`]. False: the kernel has refused a copy to one of the members, and all do it in another way.
    ///
    /// # Safety
    /// As [`Group::exchange`].
    ///
    /// # Errors
    /// As of a collective.
    pub(in crate::coll) unsafe fn read_lent(
        &self,
        board: &mut Board,
        task: &Task,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<bool, Error> {
        let (me, into) = (self.rank(), memory.output.cast::<u8>());
        let contribution = match task {
            // In place it is at its place in the result.
            Task::Allgather { blocks } if in_place => into.wrapping_add(blocks.get(me).0),
            _ if in_place => into,
            _ => memory.input.cast::<u8>().cast_mut(),
        };
        if let (Task::Allreduce { len }, Some(operator)) = (task, operator) {
            let memory = (contribution.cast_const(), into, *len);
            // SAFETY: the caller's promise.
            return unsafe { self.combine_lent(board, task, operator, memory, in_place) };
        }
        let lent = self.lend(board, task, None, [contribution, into])?;
        // Each begins with another one.
        let others = (1..self.size()).map(|distance| (me + distance) % self.size());
        let mut is_read = true;
        for part in others.filter_map(|rank| part(task, me, rank)) {
            let [_, address, _] = lent[part.rank as usize];
            let process = board.members[part.rank as usize].process;
            // SAFETY: the part is inside the result, which is the caller's alone.
            is_read &= unsafe { self.read(process, address, &part, into) };
        }
        if !in_place && let Some(own) = part(task, me, me) {
            // SAFETY: both are inside, and the two buffers do not overlap.
            unsafe {
                let from = contribution.cast_const().wrapping_add(own.from);
                std::ptr::copy_nonoverlapping(from, into.wrapping_add(own.into), own.len);
            }
        }
        self.all_have_read(board, is_read)
    }

    /// Whether the kernel has copied everything for all members.
    fn all_have_read(&self, board: &mut Board, is_read: bool) -> Result<bool, Error> {
        let own = &board.members[self.rank() as usize];
        let (place, number) = (own.place.clone(), own.base + board.number + 1);
        let retract = Retract { group: self, place, number };
        let all = self.show_all(board, [u64::from(is_read)])?;
        std::mem::forget(retract);
        Ok(all[..self.size() as usize].iter().all(|&[is_read]| is_read == 1))
    }

    /// Shows the others what this member lends: what it gives, and what they read at last.
    fn lend(
        &self,
        board: &mut Board,
        task: &Task,
        operator: Option<&Operator>,
        own: [*mut u8; 2],
    ) -> Result<Lent, Error> {
        let label = |rank: u32| label_of(task, operator, rank);
        let [given_at, result_at] = own.map(|place| place.expose_provenance() as u64);
        let lent = self.show_all(board, [label(self.rank()), given_at, result_at])?;
        for rank in 0..self.size() {
            let [shown, ..] = lent[rank as usize];
            if shown != label(rank) {
                let (from, expected) = (self.members()[rank as usize], given(task, rank));
                let failure = Failure::Mismatch { from, expected, found: labelled(shown) };
                self.context.revoke(failure);
                return Err(failure.error());
            }
        }
        Ok(lent)
    }

    /// Combines a segment of what all members give, then reads the others.
    ///
    /// # Safety
    /// What is given has `len` bytes, and so has the result, which is the caller's alone.
    unsafe fn combine_lent(
        &self,
        board: &mut Board,
        task: &Task,
        operator: &Operator,
        (given, result, len): (*const u8, *mut u8, usize),
        in_place: bool,
    ) -> Result<bool, Error> {
        let (me, size) = (self.rank() as usize, self.size() as usize);
        let segment = |rank: usize| {
            let end = |rank: usize| len / operator.element * rank / size * operator.element;
            (end(rank), end(rank + 1) - end(rank))
        };
        let (start, own) = segment(me);
        // Room for two steps, and for the segment if it is to stay apart.
        let mut room = self.context.spare.take(2 * CHUNK + if in_place { own } else { 0 });
        let room: *mut u8 = room.as_mut_ptr().cast();
        let into = if in_place { room.wrapping_add(2 * CHUNK) } else { result.wrapping_add(start) };
        let lent = self.lend(board, task, Some(operator), [given.cast_mut(), into])?;
        // SAFETY: the segment is inside what all give; the result is the caller's alone, or memory of its own.
        let combined = unsafe {
            self.combine_segment(board, operator, (start, own), (given, &lent), (into, room))
        };
        // A member in place could not go back after the second copies.
        let combined =
            combined.map(|is_read| is_read && (in_place || own == 0 || can_be_read(into)));
        let is_read = combined.unwrap_or_else(|panic| {
            self.context.revoke(Failure::Panicked);
            resume_unwind(panic)
        });
        if !self.all_have_read(board, is_read)? {
            return Ok(false);
        }
        if in_place {
            // SAFETY: a segment of the result; all have read what was given there.
            unsafe { std::ptr::copy_nonoverlapping(into, result.wrapping_add(start), own) };
        }
        let mut is_read = true;
        for rank in (1..size).map(|distance| (me + distance) % size) {
            let (at, len) = segment(rank);
            let part = Part { rank: rank as u32, from: 0, into: at, len };
            // SAFETY: a segment of the result.
            is_read &=
                unsafe { self.read(board.members[rank].process, lent[rank][2], &part, result) };
        }
        let is_read = self.all_have_read(board, is_read)?;
        if !is_read && in_place {
            // What was given is gone. (The kernel has copied a part of a buffer, and not another.)
            self.context.revoke(Failure::Abandoned);
            return Err(Failure::Abandoned.error());
        }
        Ok(is_read)
    }

    /// Combines a segment of what all members have lent, in the order of ranks; whether the kernel has copied it.
    ///
    /// # Errors
    /// What the operator panicked with.
    ///
    /// # Safety
    /// The segment, a place and a length, is inside what all give; `into` has room for it, and `room` for two steps, all apart.
    unsafe fn combine_segment(
        &self,
        board: &Board,
        operator: &Operator,
        (start, own): (usize, usize),
        (given, lent): (*const u8, &Lent),
        (into, room): (*mut u8, *mut u8),
    ) -> Result<bool, Box<dyn Any + Send>> {
        let (me, size) = (self.rank() as usize, self.size() as usize);
        let (mut free, mut other) = (room, room.wrapping_add(CHUNK));
        let step = CHUNK / operator.element * operator.element;
        for at in (0..own).step_by(step) {
            if at % PIECE < step && at > 0 {
                self.breathe();
            }
            let len = step.min(own - at);
            let mut sum: Option<*const u8> = None;
            for (rank, &[_, address, _]) in lent[..size].iter().enumerate() {
                let is_last = rank + 1 == size;
                let to = if is_last { into.wrapping_add(at) } else { free };
                if rank == me {
                    let given = given.wrapping_add(start + at);
                    if sum.is_none() && !is_last {
                        // It is only read.
                        sum = Some(given);
                        continue;
                    }
                    // SAFETY: the caller's promise; half of the room is as long as a step.
                    unsafe { std::ptr::copy_nonoverlapping(given, to, len) };
                } else {
                    let part = Part { rank: rank as u32, from: start + at, into: 0, len };
                    // SAFETY: as above.
                    if !unsafe { self.read(board.members[rank].process, address, &part, to) } {
                        return Ok(false);
                    }
                }
                if let Some(sum) = sum {
                    // SAFETY: written just now, or by a turn before, or given; and apart.
                    let (left, right) = unsafe {
                        (
                            std::slice::from_raw_parts(sum, len),
                            std::slice::from_raw_parts_mut(to, len),
                        )
                    };
                    catch_unwind(AssertUnwindSafe(|| operator.apply(left, right)))?;
                }
                sum = Some(to);
                if !is_last {
                    std::mem::swap(&mut free, &mut other);
                }
            }
        }
        Ok(true)
    }

    /// Each shows some numbers to each.
    fn show_all<const N: usize>(
        &self,
        board: &mut Board,
        own: [u64; N],
    ) -> Result<[[u64; N]; MOST as usize], Error> {
        let mut all = [[0; N]; MOST as usize];
        all[self.rank() as usize] = own;
        let task = Task::Allgather { blocks: Blocks::Even(size_of_val(&own)) };
        let output = as_bytes_mut(&mut all) as *mut [u8];
        let memory = Memory { input: as_bytes::<u64>(&[]), output };
        // SAFETY: the memory is here until this returns, and has room for the numbers of all members.
        unsafe { self.exchange_as(LENDING, board, &task, None, &memory, true)? };
        Ok(all)
    }

    /// Reads a part from where a member has lent it; whether the kernel has copied all of it.
    ///
    /// # Safety
    /// The part is inside the result `into`, which is the caller's alone.
    unsafe fn read(&self, process: Option<i32>, lent: u64, part: &Part, into: *mut u8) -> bool {
        let Some(process) = process else { return false };
        let mut done = 0;
        while done < part.len {
            if done > 0 {
                self.breathe();
            }
            let remote = lent.wrapping_add((part.from + done) as u64);
            let to = into.wrapping_add(part.into + done);
            // SAFETY: the caller's promise.
            match unsafe { cma::read(process, remote, to, PIECE.min(part.len - done)) } {
                Ok(copied) => done += copied,
                Err(_) => return false,
            }
        }
        true
    }

    /// Between two pieces of a long copy: messages go on, and others that want the virtual processor have it.
    fn breathe(&self) {
        self.context.session.manager.poll(Point::Library);
        if marcel::plumbing::others_runnable() {
            marcel::yield_now();
        }
    }
}

/// Whether the kernel lets others read this memory of the process: its first byte.
fn can_be_read(memory: *mut u8) -> bool {
    let (mut byte, own) = (0u8, std::process::id() as i32);
    // SAFETY: a local variable.
    unsafe { cma::read(own, memory.expose_provenance() as u64, &raw mut byte, 1) }.is_ok()
}
