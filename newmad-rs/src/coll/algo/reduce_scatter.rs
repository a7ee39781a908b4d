//! Every rank gets its block of what all have, combined. The blocks need not be of one length.

use crate::coll::plan::{Place, Side};
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// The contribution in memory that may be written to.
fn working_copy(rec: &mut Recorder, blocks: &Blocks) -> Place {
    let len = blocks.end(rec.size);
    let all = rec.scratch(len);
    rec.copy(rec.input(0, len), all);
    all
}

fn finish(rec: &mut Recorder, blocks: &Blocks, all: Place) {
    let own = blocks.of(all, rec.rank);
    rec.copy(own, rec.output(0, own.len));
}

/// Each rank sends each block to its owner, which combines them in the order of ranks. One round, and the order is
/// kept; each rank combines all that it gets.
pub(super) fn pairwise(rec: &mut Recorder, blocks: &Blocks) {
    let input = rec.input(0, blocks.end(rec.size));
    let mine = blocks.len(rec.rank);
    let sum = rec.scratch(mine);
    let buffers: Vec<Place> = (1..rec.size).map(|_| rec.scratch(mine)).collect();
    for distance in 1..rec.size {
        let to = rec.after(distance);
        rec.send(to, blocks.of(input, to));
    }
    for distance in 1..rec.size {
        rec.recv(rec.before(distance), buffers[distance as usize - 1]);
    }
    rec.copy(blocks.of(input, rec.rank), sum);
    // Those before this rank come from near to far, those behind it, too.
    for distance in 1..=rec.rank {
        rec.combine(buffers[distance as usize - 1], sum, Side::Right);
    }
    for distance in (rec.rank + 1..rec.size).rev() {
        rec.combine(sum, buffers[distance as usize - 1], Side::Left);
    }
    rec.copy(sum, rec.output(0, mine));
}

/// Each block goes once around, and takes up what each rank has. The order of ranks is not kept.
pub(super) fn ring(rec: &mut Recorder, blocks: &Blocks) {
    let all = working_copy(rec, blocks);
    around(rec, blocks, all);
    finish(rec, blocks, all);
}

/// As [`ring`]; the own block, combined, is at its place in `all` afterwards. The others are lost.
pub(super) fn around(rec: &mut Recorder, blocks: &Blocks, all: Place) {
    if rec.size == 1 {
        return;
    }
    let most = (0..rec.size).map(|rank| blocks.len(rank)).max().unwrap_or(0);
    let buffers = [rec.scratch(most), rec.scratch(most)];
    let (next, previous) = (rec.after(1), rec.before(1));
    for round in 0..rec.size - 1 {
        let (gives, takes) = (rec.before(round + 1), rec.before(round + 2));
        rec.send(next, blocks.of(all, gives));
        let block = blocks.of(all, takes);
        let buffer = buffers[round as usize % 2].part(0, block.len);
        rec.recv(previous, buffer);
        rec.combine(buffer, block, Side::Right);
    }
}

/// One exchanges half of what one is responsible for with a rank in the other half, and so on. For a power of two of
/// ranks, and blocks that lie in order. The order of ranks is not kept.
pub(super) fn halving(rec: &mut Recorder, blocks: &Blocks) {
    let all = working_copy(rec, blocks);
    let buffer = rec.scratch(all.len);
    let part = |from: u32, to: u32| {
        let ((at, _), (last, len)) = (blocks.get(from), blocks.get(to - 1));
        (at, last + len - at)
    };
    halve(rec, (rec.rank, rec.size), all, buffer, &part, &|rank| rank);
    finish(rec, blocks, all);
}

/// Recursive halving: the ranks that take part, `(me, count)`, keep a smaller and smaller range of the pieces, at last
/// their own. `part` tells where a range of pieces lies, `rank` which rank has a number.
pub(super) fn halve(
    rec: &mut Recorder,
    (me, count): (u32, u32),
    sum: Place,
    buffer: Place,
    part: &dyn Fn(u32, u32) -> (usize, usize),
    rank: &dyn Fn(u32) -> u32,
) {
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let half = (high - low) / 2;
        let middle = low + half;
        let peer = rank(me ^ half);
        let (kept, given) = if me < middle {
            ((low, middle), (middle, high))
        } else {
            ((middle, high), (low, middle))
        };
        let (at, len) = part(given.0, given.1);
        rec.send(peer, sum.part(at, len));
        let (at, len) = part(kept.0, kept.1);
        rec.recv(peer, buffer.part(at, len));
        rec.combine(sum.part(at, len), buffer.part(at, len), Side::Left);
        (low, high) = kept;
    }
}
