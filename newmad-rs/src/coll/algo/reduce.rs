//! From all to one, combined.

use crate::coll::algo::reduce_scatter;
use crate::coll::algo::tree::{children, from_root, subtree, to_rank};
use crate::coll::plan::{Place, Side};
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// Up a binomial tree. `ordered`: the tree's root is rank 0, so that neighbours are combined and the order of ranks
/// is kept; the rank that is to have the result gets it from there.
pub(super) fn binomial(rec: &mut Recorder, root: u32, len: usize, ordered: bool) {
    let head = if ordered { 0 } else { root };
    let at_end = rec.rank == head && rec.rank == root;
    let sum = up(rec, head, len, at_end);
    if head != root {
        if rec.rank == head {
            rec.send(root, sum);
        } else if rec.rank == root {
            rec.recv(head, rec.output(0, len));
        }
    }
}

/// The head of the tree gets what all have; the place where it has it. `at_end`: in the result's buffer.
pub(super) fn up(rec: &mut Recorder, head: u32, len: usize, at_end: bool) -> Place {
    let me = from_root(rec, head);
    let input = rec.input(0, len);
    let branches: Vec<(u32, u32)> = children(rec, me).collect();
    let sum = match (at_end, branches.is_empty()) {
        (true, _) => rec.output(0, len),
        (false, true) => input, // a leaf sends what it has
        (false, false) => rec.scratch(len),
    };
    rec.copy(input, sum);
    // Two, so that one can be received into while the other is combined.
    let buffers = match branches.len() {
        0 => Vec::new(),
        1 => vec![rec.scratch(len)],
        _ => vec![rec.scratch(len), rec.scratch(len)],
    };
    // The smallest subtrees, which are next to this rank, are done first.
    for (turn, &(child, _)) in branches.iter().rev().enumerate() {
        let buffer = buffers[turn % 2];
        rec.recv(to_rank(rec, head, child), buffer);
        rec.combine(sum, buffer, Side::Left);
    }
    if me != 0 {
        rec.send(to_rank(rec, head, me - subtree(rec, me)), sum);
    }
    sum
}

/// In a ring each rank comes to have a combined piece; the root collects the pieces. Each byte is combined once on its
/// way: for long vectors. The order of ranks is not kept.
pub(super) fn scatter_gather(rec: &mut Recorder, root: u32, len: usize) {
    let pieces = Blocks::split(len, rec.element, rec.size);
    let all = if rec.rank == root { rec.output(0, len) } else { rec.scratch(len) };
    rec.copy(rec.input(0, len), all);
    reduce_scatter::around(rec, &pieces, all);
    if rec.rank == root {
        for rank in (0..rec.size).filter(|&rank| rank != root) {
            rec.recv(rank, pieces.of(all, rank));
        }
    } else {
        rec.send(root, pieces.of(all, rec.rank));
    }
}
