//! From one to all. Ranks are counted from the root here (`me`), so that the root is 0.

use crate::coll::algo::allgather;
use crate::coll::algo::tree::{children, from_root, subtree, to_rank};
use crate::coll::plan::Place;
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// Each rank that has it passes it on, to the ranks with large subtrees first. Few rounds: for short messages.
pub(super) fn binomial(rec: &mut Recorder, root: u32, data: Place) {
    let me = from_root(rec, root);
    if me != 0 {
        rec.recv(to_rank(rec, root, me - subtree(rec, me)), data);
    }
    for (child, _) in children(rec, me) {
        rec.send(to_rank(rec, root, child), data);
    }
}

/// A chain of ranks; each passes on piece after piece while it receives the next ones. All links are busy at once, and
/// each rank sends everything once only: for long messages.
pub(super) fn chain(rec: &mut Recorder, root: u32, len: usize, segment: usize) {
    let me = from_root(rec, root);
    let segment = segment.max(1);
    for at in (0..len).step_by(segment) {
        let piece = rec.output(at, segment.min(len - at));
        if me != 0 {
            rec.recv(to_rank(rec, root, me - 1), piece);
        }
        if me + 1 < rec.size {
            rec.send(to_rank(rec, root, me + 1), piece);
        }
    }
}

/// Down a binomial tree each rank gets a piece; in a ring all get the other pieces (van de Geijn).
pub(super) fn scatter_allgather(rec: &mut Recorder, root: u32, len: usize) {
    let me = from_root(rec, root);
    let pieces = Blocks::split(len, 1, rec.size);
    let data = rec.output(0, len);
    // The pieces of a subtree lie one after the other.
    let of = |rec: &Recorder, first: u32, span: u32| {
        let (at, _) = pieces.get(first);
        let (last, len) = pieces.get((first + span).min(rec.size) - 1);
        data.part(at, last + len - at)
    };
    if me != 0 {
        let span = subtree(rec, me);
        rec.recv(to_rank(rec, root, me - span), of(rec, me, span));
    }
    for (child, span) in children(rec, me) {
        rec.send(to_rank(rec, root, child), of(rec, child, span));
    }
    allgather::ring(rec, &pieces, data, root);
}
