//! The operations: what each member shows, and what it takes from the others.
//!
//! What is combined and has no room on one sheet goes in pieces, each as a collective of its own number: while the others
//! take one, its owner shows the next. An operator combines a piece while it is in the cache of the core that does it.
//!
//! Measured (two ranks, two cores, AMD EPYC): an allreduce of 64 KB takes 22 µs so, and 34 by messages; of 1 MB 340 and 880.
//! Four ranks on two cores: a broadcast, gather and reduction of 64 KB 14, 20 and 24 (by messages 41, 38 and 45), a broadcast
//! of 256 KB 45 (90). So an allreduce in pieces is a reduction to one member and a broadcast there, whose members wait less.
//!
//! Rejected: pieces for what is only copied from all to all: allgather and alltoall of 64 KB took 19 and 30 µs instead of
//! 14 and 15.

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
use crate::coll::task::{Blocks, Task};
use crate::error::Error;
use crate::net::segment::ROOM;
use crate::net::segment::notice::{SHEETS, Words};

/// Bytes that are combined in one go: they stay in the first cache.
const CHUNK: usize = 4096;
/// Bytes of a piece, where one is read while the next is written.
const PIECE: usize = 16 * 1024;
/// The longest that goes in pieces: what all members give, or take.
const LONGEST: usize = 4 << 20;
/// The same, of what one member gives to all, or all to one, where a tree of messages would have no cores to branch to: where
/// a few ranks share cores.
const LONGEST_OF_FEW: usize = 32 << 20;
const FEW: u32 = 8;
/// The longest that goes in pieces to one other member: of what is longer each side copies a part, by messages.
const SHORT: usize = 256 * 1024;

/// How long what each member shows is in all, and how much of it has room on a sheet: of each block, if it shows several.
#[derive(Clone, Copy)]
struct Extent {
    len: usize,
    piece: usize,
}

/// How much of a sheet is used. Where members have a core each, one reads a piece while its owner writes the next.
fn room(crowded: bool) -> usize {
    if crowded { ROOM } else { PIECE }
}

/// How a task goes over the sheets. `None`: it does not. The same at all members: it depends on what all of them give.
fn extent(task: &Task, size: u32, element: usize, room: usize) -> Option<Extent> {
    let of = |len: usize, blocks: usize| {
        let piece = room / blocks / element * element;
        (len == 0 || piece > 0).then_some(Extent { len, piece: piece.max(1) })
    };
    let all = size as usize;
    match task {
        Task::Barrier => of(0, 1),
        Task::Bcast { len, .. }
        | Task::Reduce { len, .. }
        | Task::Allreduce { len }
        | Task::Scan { len, .. }
        | Task::Gather { blocks: Some(Blocks::Even(len)), .. } => of(*len, 1),
        Task::Scatter { blocks: Some(Blocks::Even(len)), .. }
        | Task::Alltoall { send: Blocks::Even(len), recv: Blocks::Even(_) }
        | Task::ReduceScatter { blocks: Blocks::Even(len) } => of(*len, all),
        Task::Allgather { blocks } => {
            of((0..size).map(|rank| blocks.len(rank)).max().unwrap_or(0), 1)
        }
        // Blocks of different lengths: all of them on one sheet, or not at all.
        Task::ReduceScatter { blocks } if blocks.end(size) <= room => {
            Some(Extent { len: blocks.end(size), piece: room })
        }
        _ => None,
    }
}

/// Whether a task goes over the sheets. In pieces goes what is combined: from the sheet, while it is in the cache; and what
/// one member gives to all, or all give to one, since a giver need not wait while it has sheets. The rest would be copied
/// twice. `crowded`: the members have not a core each, so that each piece that one waits for is a switch.
pub(in crate::coll) fn fits(
    task: &Task,
    size: u32,
    operator: Option<&Operator>,
    crowded: bool,
) -> bool {
    let element = operator.map_or(1, |operator| operator.element);
    let pieces = |Extent { len, piece }: Extent| {
        let all = len.saturating_mul(size as usize);
        len <= piece
            || match task {
                Task::Bcast { .. } if size == 2 => len <= SHORT,
                Task::Reduce { .. } if size == 2 => all <= LONGEST_OF_FEW,
                Task::Bcast { .. } | Task::Reduce { .. } | Task::Allreduce { .. } if crowded => {
                    all <= if size <= FEW { LONGEST_OF_FEW } else { LONGEST }
                }
                Task::Bcast { .. } => all <= LONGEST,
                Task::Gather { .. } | Task::Scatter { .. } => len <= SHEETS as usize * piece,
                _ => operator.is_some() && !crowded && all <= LONGEST,
            }
    };
    element <= CHUNK && extent(task, size, element, room(crowded)).is_some_and(pieces)
}

/// Which operation, for the label of a sheet.
pub(super) fn kind(task: &Task) -> u64 {
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

/// Where the length is in a label.
const LENGTH: u64 = (1 << 54) - 1;

/// What a member does, in a word: the operation, something more of it (0 to 63), and the length of what the member gives.
pub(super) fn label(kind: u64, more: u64, len: usize) -> u64 {
    kind << 60 | (more & 63) << 54 | len as u64 & LENGTH
}

/// The kind of a sheet that its owner has taken back.
const TAKEN_BACK: u64 = 15;

/// What the label of such a sheet says: why its owner has given up.
pub(super) fn taken_back(why: Option<Failure>) -> u64 {
    let more = match why {
        Some(Failure::Context) => 2,
        why => u64::from(why.is_some_and(Failure::is_of_gone)),
    };
    label(TAKEN_BACK, more, 0)
}

/// Why that member has given up, if it has taken a sheet back with this label.
fn given_up(shown: u64, by: u32) -> Option<Failure> {
    match (shown >> 60, shown >> 54 & 63) {
        (TAKEN_BACK, 2) => Some(Failure::Context),
        (TAKEN_BACK, more) => Some(Failure::Revoked { by, gone: more == 1 }),
        _ => None,
    }
}

/// The length in a label.
pub(super) fn labelled(label: u64) -> usize {
    (label & LENGTH) as usize
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
    /// Its number in the group: of the piece.
    number: u64,
    kind: u64,
    /// How long it is with all pieces, for the label.
    all: usize,
    /// Where members give different lengths.
    blocks: Option<&'a Blocks>,
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
        let crowded = board.crowded;
        let mut one = |task: &Task| {
            // SAFETY: the caller's promise.
            unsafe { self.exchange_as(kind(task), board, task, operator, memory, in_place) }
        };
        match *task {
            Task::Allreduce { len } if crowded && len > PIECE => {
                one(&Task::Reduce { root: 0, len })?;
                one(&Task::Bcast { root: 0, len })
            }
            _ => one(task),
        }
    }

    /// As [`Group::exchange`], as an operation of another kind.
    ///
    /// # Safety
    /// As [`Group::exchange`].
    pub(super) unsafe fn exchange_as(
        &self,
        kind: u64,
        board: &mut Board,
        task: &Task,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<(), Error> {
        let into: *mut u8 = memory.output.cast();
        let from = if in_place { into.cast_const() } else { memory.input.cast() };
        let element = operator.map_or(1, |operator| operator.element);
        let Some(Extent { len, piece }) = extent(task, self.size(), element, room(board.crowded))
        else {
            // What does not fit comes here by no call.
            return Ok(());
        };
        let number = board.number;
        let blocks = match task {
            Task::Allgather { blocks } => Some(blocks),
            _ => None,
        };
        let mut exchange = Exchange {
            group: self,
            board,
            number,
            kind,
            all: len,
            blocks,
            operator,
            from,
            into,
            in_place,
        };
        let ended = loop {
            exchange.number += 1;
            exchange.board.number = exchange.number;
            let at = piece * (exchange.number - number - 1) as usize;
            let part = Part { at, len: piece.min(len - at) };
            // SAFETY: the caller's promise.
            match unsafe { exchange.run(task, part) } {
                Ok(all_came) if all_came => exchange.board.all_came = exchange.number,
                Ok(_) => {}
                Err(ended) => break ended,
            }
            if at + part.len >= len {
                return Ok(());
            }
        };
        match ended {
            Ended::Error(error) => Err(error),
            Ended::Failed(failure) => {
                let before = self.context.failure.get().map(|failure| failure.of_another());
                self.context.revoke(failure);
                Err(before.unwrap_or(failure).error())
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

    /// Does a piece: this part of what each member gives, or of each block; whether all members are known to have come.
    ///
    /// # Safety
    /// As [`Group::exchange`].
    unsafe fn run(&mut self, task: &Task, part: Part) -> Result<bool, Ended> {
        let (me, size) = (self.me(), self.size());
        let others = (0..size).filter(|&rank| rank != me);
        let Part { at, len } = part;
        // SAFETY: of all calls below: parts of the contribution and of the result, as the task has them.
        unsafe {
            match task {
                Task::Barrier => {
                    self.show([])?;
                    for rank in others {
                        self.take(rank)?;
                    }
                    Ok(true)
                }
                Task::Bcast { root, .. } if *root as usize == me => {
                    self.from = self.into;
                    self.show([part])?;
                    Ok(false)
                }
                Task::Bcast { root, .. } => {
                    self.group.come(self.board);
                    self.copy(*root as usize, 0, part)?;
                    Ok(false)
                }
                Task::Reduce { root, .. } if *root as usize == me => {
                    self.group.come(self.board);
                    self.combine(0..size, at, 0, part)?;
                    Ok(true)
                }
                Task::Reduce { .. } => {
                    self.show([part])?;
                    Ok(false)
                }
                Task::Allreduce { .. } => {
                    self.show([part])?;
                    self.combine(0..size, at, 0, part)?;
                    Ok(true)
                }
                Task::Scan { inclusive, .. } => {
                    self.show([part])?;
                    self.combine(0..me + usize::from(*inclusive), at, 0, part)?;
                    Ok(false)
                }
                Task::Gather { root, own, .. } if *root as usize == me => {
                    self.group.come(self.board);
                    self.keep(at, me * own + at, len);
                    for rank in others {
                        self.copy(rank, 0, Part { at: rank * own + at, len })?;
                    }
                    Ok(true)
                }
                Task::Gather { .. } => {
                    self.show([part])?;
                    Ok(false)
                }
                Task::Scatter { root, own, .. } if *root as usize == me => {
                    self.show((0..size).map(|rank| Part { at: rank * own + at, len }))?;
                    self.keep(me * own + at, at, len);
                    Ok(false)
                }
                Task::Scatter { root, .. } => {
                    self.group.come(self.board);
                    self.copy(*root as usize, me * len, part)?;
                    Ok(false)
                }
                Task::Allgather { blocks } => {
                    // Shorter blocks end before the longest one does.
                    let of = |rank: usize| {
                        let (start, whole) = blocks.get(rank as u32);
                        (start, len.min(whole.saturating_sub(at)))
                    };
                    let (start, own) = of(me);
                    let first = if self.in_place { start + at } else { at };
                    self.show([Part { at: first, len: own }])?;
                    self.keep(at, start + at, own);
                    for rank in others {
                        let (start, len) = of(rank);
                        self.copy(rank, 0, Part { at: start + at, len })?;
                    }
                    Ok(true)
                }
                Task::Alltoall { send, .. } => {
                    let whole = send.len(me as u32);
                    self.show((0..size).map(|rank| Part { at: rank * whole + at, len }))?;
                    self.keep(me * whole + at, me * whole + at, len);
                    for rank in others {
                        self.copy(rank, me * len, Part { at: rank * whole + at, len })?;
                    }
                    Ok(true)
                }
                Task::ReduceScatter { blocks: Blocks::Even(whole) } => {
                    self.show((0..size).map(|rank| Part { at: rank * whole + at, len }))?;
                    self.combine(0..size, me * whole + at, me * len, part)?;
                    Ok(true)
                }
                Task::ReduceScatter { blocks } => {
                    self.show([part])?;
                    let (start, len) = blocks.get(me as u32);
                    self.combine(0..size, start, start, Part { at: 0, len })?;
                    Ok(true)
                }
            }
        }
    }

    /// How long what a member gives is, with all pieces.
    fn whole(&self, rank: usize) -> usize {
        self.blocks.map_or(self.all, |blocks| blocks.len(rank as u32))
    }

    fn label(&self, rank: usize) -> u64 {
        let element = self.operator.map_or(0, |operator| operator.element as u64);
        label(self.kind, element, self.whole(rank))
    }

    /// Shows parts of the contribution to the others, one behind the other.
    ///
    /// # Safety
    /// They are inside it, and as many bytes as a sheet has room for at the most.
    unsafe fn show(&mut self, parts: impl IntoIterator<Item = Part>) -> Result<(), Ended> {
        self.wait_for_room()?;
        let own = &self.board.members[self.me()];
        let number = own.base + self.number;
        own.place.label(number).store(self.label(self.me()), Relaxed);
        let sheet = own.place.bytes(number).cast::<u8>().as_ptr();
        let mut filled = 0;
        for Part { at, len } in parts {
            debug_assert!(filled + len <= ROOM);
            // SAFETY: the caller's promise; all others are done with the sheet.
            unsafe {
                let from = self.from.wrapping_add(at);
                std::ptr::copy_nonoverlapping(from, sheet.add(filled), len.min(ROOM - filled));
            }
            filled += len;
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
            let words = member.place.words();
            let mut come = words.come();
            if come < member.base + after {
                self.group
                    .wait_for(self.board, rank, |words| words.has_come_to(member.base + after))?;
                come = words.come();
            }
            all_came = all_came.min(come - member.base);
        }
        self.board.all_came = all_came;
        Ok(())
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.board.members.iter().enumerate().filter(|(_, member)| !member.own)
    }

    /// Waits for what a member shows.
    fn take(&self, rank: usize) -> Result<*const u8, Ended> {
        let member = &self.board.members[rank];
        let number = member.base + self.number;
        let there = |words: &Words<'_>| words.is_shown(number) || words.has_passed(number);
        self.group.wait_for(self.board, rank, there)?;
        let is_shown = member.place.words().is_shown(number);
        let label = member.place.label(number).load(Relaxed);
        if !is_shown || label != self.label(rank) {
            let from = self.group.members()[rank];
            let failure = given_up(label, from).unwrap_or_else(|| {
                // It does something else.
                let found = if is_shown { labelled(label) } else { 0 };
                Failure::Mismatch { from, expected: self.whole(rank), found }
            });
            return Err(Ended::Failed(failure));
        }
        Ok(member.place.bytes(number).cast::<u8>().as_ptr())
    }

    /// Copies as much as the part has of what a member shows, beginning at `skip`, to that part of the result.
    ///
    /// # Safety
    /// The bytes are on the sheet, and the part is inside the result.
    unsafe fn copy(&self, rank: usize, skip: usize, part: Part) -> Result<(), Ended> {
        let shown = self.take(rank)?;
        debug_assert!(skip + part.len <= ROOM);
        // SAFETY: the caller's promise; the member does not write there before this one has come further.
        unsafe {
            let into = self.into.wrapping_add(part.at);
            std::ptr::copy_nonoverlapping(shown.add(skip), into, part.len)
        };
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

    /// Combines what these members give, in the order of ranks, into that part of the result. The own bytes are at `own` of
    /// the contribution, those of the others at `skip` of their sheets.
    ///
    /// # Safety
    /// The part is inside the result, and as many bytes are in each of the other places.
    unsafe fn combine(
        &self,
        ranks: Range<usize>,
        own: usize,
        skip: usize,
        part: Part,
    ) -> Result<(), Ended> {
        let Some(operator) = self.operator else { return Ok(()) };
        // So that nothing is written before all have shown theirs: the others' sheets stay until this one goes on.
        for rank in ranks.clone().filter(|&rank| rank != self.me()) {
            self.take(rank)?;
        }
        let step = (CHUNK / operator.element).max(1) * operator.element;
        for at in (0..part.len).step_by(step) {
            let chunk = Part { at: part.at + at, len: step.min(part.len - at) };
            // SAFETY: the caller's promise.
            unsafe { self.combine_chunk(operator, ranks.clone(), own + at, skip + at, chunk)? };
        }
        Ok(())
    }

    /// As [`Exchange::combine`], of a part of [`CHUNK`] bytes at the most (or of one element), which all show.
    ///
    /// # Safety
    /// As [`Exchange::combine`].
    unsafe fn combine_chunk(
        &self,
        operator: &Operator,
        ranks: Range<usize>,
        own: usize,
        skip: usize,
        part: Part,
    ) -> Result<(), Ended> {
        let mut room = [const { MaybeUninit::<u128>::uninit() }; 2 * CHUNK / 16];
        let room: *mut u8 = room.as_mut_ptr().cast();
        // SAFETY: the second half.
        let (mut free, mut other) = (room, unsafe { room.add(CHUNK) });
        let into = self.into.wrapping_add(part.at);
        let mut sum: Option<*const u8> = None;
        for rank in ranks.clone() {
            let is_own = rank == self.me();
            let given = match is_own {
                true => self.from.wrapping_add(own),
                false => self.take(rank)?.wrapping_add(skip),
            };
            let is_last = rank + 1 == ranks.end;
            // The operator has what it reads in memory of this process. The first is not written to, and may stay where it
            // is, unless the result goes there.
            if sum.is_none() && is_own && !is_last && !self.in_place {
                sum = Some(given);
                continue;
            }
            let to = if is_last { into } else { free };
            if given != to.cast_const() {
                // SAFETY: the caller's promise; half of the room is as long as a chunk. In place the own bytes are in the
                // result, and the last ones are written there when those are combined.
                unsafe { std::ptr::copy(given, to, part.len) };
            }
            if let Some(sum) = sum {
                // SAFETY: written just now, or by a turn before, and apart.
                let (left, right) = unsafe {
                    (
                        std::slice::from_raw_parts(sum, part.len),
                        std::slice::from_raw_parts_mut(to, part.len),
                    )
                };
                let combined = catch_unwind(AssertUnwindSafe(|| operator.apply(left, right)));
                combined.map_err(Ended::Panicked)?;
            }
            sum = Some(to);
            if !is_last {
                std::mem::swap(&mut free, &mut other);
            }
        }
        Ok(())
    }
}
