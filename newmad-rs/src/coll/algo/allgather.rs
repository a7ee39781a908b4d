//! From all to all, side by side. Each rank knows the lengths of all blocks, which need not be equal.

use crate::coll::algo::tree::from_root;
use crate::coll::plan::Place;
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// Puts the own contribution where it belongs.
pub(super) fn contribute(rec: &mut Recorder, blocks: &Blocks, all: Place) {
    if !rec.in_place() {
        let own = blocks.of(all, rec.rank);
        rec.copy(rec.input(0, own.len), own);
    }
}

/// Each rank sends to each other at once. One round: for a few ranks.
pub(super) fn linear(rec: &mut Recorder, blocks: &Blocks) {
    let all = rec.output(0, blocks.end(rec.size));
    let place = blocks.of(all, rec.rank);
    let own = if rec.in_place() { place } else { rec.input(0, place.len) };
    for distance in 1..rec.size {
        rec.send(rec.after(distance), own);
    }
    for distance in 1..rec.size {
        let from = rec.before(distance);
        rec.recv(from, blocks.of(all, from));
    }
    // The messages are on their way meanwhile.
    contribute(rec, blocks, all);
}

/// Blocks go around in a ring: one always sends to the same neighbour, and each byte once. For long blocks.
///
/// Each rank has the block of its number, which is its rank counted from `root`.
pub(super) fn ring(rec: &mut Recorder, blocks: &Blocks, all: Place, root: u32) {
    let me = from_root(rec, root);
    let (next, previous) = (rec.after(1), rec.before(1));
    for round in 0..rec.size - 1 {
        let gives = (me + rec.size - round) % rec.size;
        let takes = (me + rec.size - round - 1) % rec.size;
        rec.send(next, blocks.of(all, gives));
        rec.recv(previous, blocks.of(all, takes));
    }
}

/// Bruck: in round k one gets, from the rank 2^k further on, as many blocks as one has. log2(size) rounds for any
/// number of ranks: for short blocks.
pub(super) fn bruck(rec: &mut Recorder, blocks: &Blocks) {
    // The blocks in circular order from the own one on.
    let ranks: Vec<u32> = (0..rec.size).map(|distance| rec.after(distance)).collect();
    let in_order = Blocks::of_lengths(ranks.iter().map(|&rank| blocks.len(rank)));
    let total = blocks.total(rec.size);
    let mine = rec.scratch(total);
    let own = rec.output(0, blocks.end(rec.size));
    let own =
        if rec.in_place() { blocks.of(own, rec.rank) } else { rec.input(0, blocks.len(rec.rank)) };
    rec.copy(own, in_order.of(mine, 0));
    let start = |index: u32| if index == rec.size { total } else { in_order.get(index).0 };
    let mut have = 1;
    let mut moves = Vec::new();
    while have < rec.size {
        let more = have.min(rec.size - have);
        moves.push((have, start(more), start(have), start(have + more)));
        have += more;
    }
    for (distance, gives, at, until) in moves {
        rec.send(rec.before(distance), mine.part(0, gives));
        rec.recv(rec.after(distance), mine.part(at, until - at));
    }
    let all = rec.output(0, blocks.end(rec.size));
    let skip = u32::from(rec.in_place());
    for index in skip..rec.size {
        rec.copy(in_order.of(mine, index), blocks.of(all, ranks[index as usize]));
    }
}
