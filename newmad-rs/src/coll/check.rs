//! Whether a task makes sense in its group, and its memory is long enough.

use crate::coll::memory::Memory;
use crate::coll::operator::Operator;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;

const WHOLE: &str = "bytes of a whole number of elements";

/// Bytes of contribution and result that a task needs at one rank. In place there is no contribution, and the result's
/// memory holds both.
pub(super) fn needs(task: &Task, rank: u32, size: u32, in_place: bool) -> (usize, usize) {
    let at_root = |blocks: &Option<Blocks>| blocks.as_ref().map_or(0, |blocks| blocks.end(size));
    let (input, output) = match task {
        Task::Barrier => (0, 0),
        Task::Bcast { len, .. } => return (0, *len),
        Task::Reduce { root, len } => (*len, if rank == *root { *len } else { 0 }),
        Task::Allreduce { len } | Task::Scan { len, .. } => (*len, *len),
        Task::Gather { root, own, blocks } if rank == *root => (*own, at_root(blocks)),
        Task::Gather { own, .. } => (*own, 0),
        Task::Scatter { root, own, blocks } if rank == *root => (at_root(blocks), *own),
        Task::Scatter { own, .. } => (0, *own),
        Task::Allgather { blocks } => (blocks.len(rank), blocks.end(size)),
        Task::Alltoall { send, recv } => (send.end(size), recv.end(size)),
        Task::ReduceScatter { blocks } => (blocks.end(size), blocks.len(rank)),
    };
    if in_place { (0, input.max(output)) } else { (input, output) }
}

/// Whether the task makes sense in a group of that size, and the memory has the length that it needs.
pub(super) fn check(
    task: &Task,
    operator: Option<&Operator>,
    (rank, size): (u32, u32),
    memory: Memory,
    in_place: bool,
) -> Result<(), Error> {
    match task {
        // The most frequent, in short.
        Task::Barrier => return Ok(()),
        Task::Allreduce { len } => {
            check_elements(operator, *len)?;
            return check_memory(needs(task, rank, size, in_place), memory);
        }
        Task::Bcast { root, .. }
        | Task::Reduce { root, .. }
        | Task::Gather { root, .. }
        | Task::Scatter { root, .. }
            if *root >= size =>
        {
            return Err(Error::BadRank { rank: *root, size });
        }
        _ => {}
    }
    check_rest(task, operator, (rank, size), memory, in_place)
}

/// Whether there is an operator, and that many bytes are a whole number of its elements.
#[inline]
fn check_elements(operator: Option<&Operator>, len: usize) -> Result<&Operator, Error> {
    let Some(operator) = operator else { return Err(bad("operators", 1, 0)) };
    match len % operator.element {
        0 => Ok(operator),
        rest => Err(bad(WHOLE, len - rest, len)),
    }
}

/// Whether the memory has the lengths that the task needs.
#[inline]
fn check_memory((input, output): (usize, usize), memory: Memory) -> Result<(), Error> {
    if memory.input.len() < input {
        return Err(bad("bytes of the contribution", input, memory.input.len()));
    }
    if memory.output.len() < output {
        return Err(bad("bytes of the result", output, memory.output.len()));
    }
    Ok(())
}

/// As [`check`], of a task that is none of those in short, and whose root is a rank.
fn check_rest(
    task: &Task,
    operator: Option<&Operator>,
    (rank, size): (u32, u32),
    memory: Memory,
    in_place: bool,
) -> Result<(), Error> {
    let blocks: [Option<&Blocks>; 2] = match task {
        Task::Gather { root, own, blocks } | Task::Scatter { root, own, blocks } => {
            let blocks = blocks.as_ref();
            if rank == *root {
                let Some(blocks) = blocks else { return Err(bad("blocks of the root", 1, 0)) };
                if blocks.count().is_some_and(|count| count != size as usize) {
                    return Err(bad("blocks", size as usize, blocks.count().unwrap_or(0)));
                }
                if blocks.len(rank) != *own {
                    return Err(bad("bytes of the root's own block", *own, blocks.len(rank)));
                }
            }
            [blocks.filter(|_| rank == *root), None]
        }
        Task::Allgather { blocks } | Task::ReduceScatter { blocks } => [Some(blocks), None],
        Task::Alltoall { send, recv } => [Some(send), Some(recv)],
        _ => [None, None],
    };
    for blocks in blocks.into_iter().flatten() {
        if let Some(count) = blocks.count().filter(|&count| count != size as usize) {
            return Err(bad("blocks", size as usize, count));
        }
    }
    if let Task::ReduceScatter { blocks } = task
        && !blocks.is_in_order()
    {
        return Err(bad("blocks in order", size as usize, 0));
    }
    if let Task::Alltoall { send, recv } = task {
        if send.len(rank) != recv.len(rank) {
            return Err(bad(
                "bytes that a rank receives from itself",
                send.len(rank),
                recv.len(rank),
            ));
        }
        if in_place && send != recv {
            return Err(bad("bytes of an exchange in place", send.total(size), recv.total(size)));
        }
    }
    if let Task::Reduce { .. } | Task::ReduceScatter { .. } | Task::Scan { .. } = task {
        let (len, _) = needs(task, rank, size, false);
        let operator = check_elements(operator, len)?;
        for (at, len) in blocks[0].iter().flat_map(|all| (0..size).map(|rank| all.get(rank))) {
            check_elements(Some(operator), at)?;
            check_elements(Some(operator), len)?;
        }
    }
    check_memory(needs(task, rank, size, in_place), memory)
}

#[cold]
fn bad(what: &'static str, expected: usize, found: usize) -> Error {
    Error::BadBuffer { what, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_cuts_an_element_is_named_by_what_it_has() {
        let operator = Operator::plain(4, true, |_, _| {});
        let (input, mut output) = ([0; 8], [0; 8]);
        let memory = Memory { input: &raw const input[..], output: &raw mut output[..] };
        let scatter = |lengths: [usize; 2]| {
            let task = Task::ReduceScatter { blocks: Blocks::of_lengths(lengths) };
            check(&task, Some(&operator), (0, 2), memory, false)
        };
        assert!(scatter([4, 4]).is_ok() && scatter([8, 0]).is_ok());
        for (lengths, told) in [([3, 5], (0, 3)), ([5, 3], (4, 5)), ([4, 2], (4, 6))] {
            match scatter(lengths) {
                Err(Error::BadBuffer { what: WHOLE, expected, found }) => {
                    assert_eq!((expected, found), told, "{lengths:?}");
                }
                other => panic!("{lengths:?}: {other:?}"),
            }
        }
    }
}
