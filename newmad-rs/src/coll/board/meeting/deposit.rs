//! What members bring to a meeting, and whether it fits together.

use std::mem::{Discriminant, discriminant};

use crate::coll::operator::Operator;
use crate::coll::task::{Blocks, Task};

/// What one member brings: its task and its memory, borrowed until the round is over.
#[derive(Clone, Copy)]
pub(in crate::coll) struct Deposit<'a> {
    pub(in crate::coll) task: &'a Task,
    pub(in crate::coll) operator: Option<&'a Operator>,
    /// The contribution, and where the result goes: one place if `in_place`.
    pub(in crate::coll) from: *const u8,
    pub(in crate::coll) into: *mut u8,
    pub(in crate::coll) in_place: bool,
    /// Where the member's thread runs, in the first round: members at one place wake each other. 0: nowhere.
    pub(in crate::coll) place: usize,
    alike: Alike,
}

impl<'a> Deposit<'a> {
    pub(in crate::coll) fn new(
        task: &'a Task,
        operator: Option<&'a Operator>,
        (from, into): (*const u8, *mut u8),
        in_place: bool,
        place: usize,
    ) -> Deposit<'a> {
        let alike = Alike::of(task, operator);
        Deposit { task, operator, from, into, in_place, place, alike }
    }
}

/// What has to be the same at all members, by value: their tasks and operators are on their stacks, which the last to come
/// would fetch from other cores.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Alike {
    task: Discriminant<Task>,
    root: u32,
    len: usize,
    inclusive: bool,
    element: usize,
}

impl Alike {
    fn of(task: &Task, operator: Option<&Operator>) -> Alike {
        let (root, len, inclusive) = match *task {
            Task::Bcast { root, len } | Task::Reduce { root, len } => (root, len, false),
            Task::Allreduce { len } => (0, len, false),
            Task::Scan { len, inclusive } => (0, len, inclusive),
            Task::Gather { root, .. } | Task::Scatter { root, .. } => (root, 0, false),
            Task::Barrier
            | Task::Allgather { .. }
            | Task::Alltoall { .. }
            | Task::ReduceScatter { .. } => (0, 0, false),
        };
        let element = operator.map_or(0, |operator| operator.element);
        Alike { task: discriminant(task), root, len, inclusive, element }
    }
}

/// Two members that do not fit together: `taker` expects so many bytes of `giver`, and finds others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) taker: usize,
    pub(super) giver: usize,
    pub(super) expected: usize,
    pub(super) found: usize,
}

/// The deposits of all members, in the order of ranks.
pub(super) trait Deposits {
    fn count(&self) -> usize;
    fn get(&self, rank: usize) -> Deposit<'_>;
}

/// The first two members that do not fit together. Without any, each copy between members has one length on both sides.
pub(super) fn misfit(all: &impl Deposits) -> Option<Misfit> {
    let first = all.get(0);
    for rank in 1..all.count() {
        let other = all.get(rank);
        let (mine, theirs) = (first.alike, other.alike);
        if mine == theirs {
            continue;
        }
        let (expected, found) = match (Alike { element: theirs.element, ..mine }) == theirs {
            true => (mine.element, theirs.element),
            false => (length(first.task), length(other.task)),
        };
        return Some(Misfit { taker: 0, giver: rank, expected, found });
    }
    match first.task {
        Task::Gather { root, .. } => with_root(all, *root as usize, false),
        Task::Scatter { root, .. } => with_root(all, *root as usize, true),
        _ => {
            let same = |rank| all.get(rank).task == first.task;
            // Even blocks, and the same lists of blocks at all members, need no look at each pair.
            match first.task {
                Task::Allgather { .. } | Task::ReduceScatter { .. }
                    if !(1..all.count()).all(same) =>
                {
                    pairs(all)
                }
                Task::Alltoall { send, recv } => {
                    let even = send.is_even() && send == recv && (1..all.count()).all(same);
                    if even { None } else { pairs(all) }
                }
                _ => None,
            }
        }
    }
}

/// A length that stands for a task in an error.
fn length(task: &Task) -> usize {
    match task {
        Task::Barrier => 0,
        Task::Bcast { len, .. }
        | Task::Reduce { len, .. }
        | Task::Allreduce { len }
        | Task::Scan { len, .. }
        | Task::Gather { own: len, .. }
        | Task::Scatter { own: len, .. } => *len,
        Task::Allgather { blocks } | Task::ReduceScatter { blocks } => first_len(blocks),
        Task::Alltoall { send, .. } => first_len(send),
    }
}

fn first_len(blocks: &Blocks) -> usize {
    if blocks.count() == Some(0) { 0 } else { blocks.len(0) }
}

/// The root's blocks against each member's own.
fn with_root(all: &impl Deposits, root: usize, gives: bool) -> Option<Misfit> {
    let (Task::Gather { blocks: Some(blocks), .. } | Task::Scatter { blocks: Some(blocks), .. }) =
        all.get(root).task
    else {
        return None; // the root's task was checked: it has blocks
    };
    (0..all.count()).find_map(|rank| {
        let (Task::Gather { own, .. } | Task::Scatter { own, .. }) = all.get(rank).task else {
            return None;
        };
        let of_root = blocks.len(rank as u32);
        let (taker, giver, expected, found) = match gives {
            true => (rank, root, *own, of_root),
            false => (root, rank, of_root, *own),
        };
        (expected != found).then_some(Misfit { taker, giver, expected, found })
    })
}

/// What each gives against what each other takes.
fn pairs(all: &impl Deposits) -> Option<Misfit> {
    let each = 0..all.count();
    each.clone().flat_map(|taker| each.clone().map(move |giver| (taker, giver))).find_map(
        |(taker, giver)| {
            let (expected, found) = match (all.get(taker).task, all.get(giver).task) {
                (Task::Allgather { blocks }, Task::Allgather { blocks: given }) => {
                    (blocks.len(giver as u32), given.len(giver as u32))
                }
                (Task::Alltoall { recv, .. }, Task::Alltoall { send, .. }) => {
                    (recv.len(giver as u32), send.len(taker as u32))
                }
                (Task::ReduceScatter { blocks }, Task::ReduceScatter { blocks: given }) => {
                    (blocks.len(taker as u32), given.len(taker as u32))
                }
                _ => (0, 0),
            };
            (expected != found).then_some(Misfit { taker, giver, expected, found })
        },
    )
}
