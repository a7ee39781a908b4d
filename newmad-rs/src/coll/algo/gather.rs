//! From all to one, side by side.

use crate::coll::algo::tree::{children, from_root, subtree, to_rank};
use crate::coll::plan::Place;
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// Each rank sends to the root, which receives from all at once.
pub(super) fn linear(rec: &mut Recorder, root: u32, own: usize, blocks: Option<&Blocks>) {
    if rec.rank != root {
        return rec.send(root, rec.input(0, own));
    }
    let Some(blocks) = blocks else { return };
    let all = rec.output(0, blocks.end(rec.size));
    if !rec.in_place() {
        let own = blocks.of(all, root);
        rec.copy(rec.input(0, own.len), own);
    }
    for distance in 1..rec.size {
        let from = rec.after(distance);
        rec.recv(from, blocks.of(all, from));
    }
}

/// The part of the root's buffer that holds the blocks of `span` ranks from `first` (counted from the root) on: one
/// piece, or two where they go on at the buffer's beginning.
pub(super) fn pieces(
    rec: &Recorder,
    root: u32,
    (first, span): (u32, u32),
    each: usize,
    all: Place,
) -> (Place, Option<Place>) {
    let span = span.min(rec.size - first);
    let at = to_rank(rec, root, first);
    let until_end = (rec.size - at).min(span);
    let first = all.part(at as usize * each, until_end as usize * each);
    let rest = span - until_end;
    (first, (rest > 0).then(|| all.part(0, rest as usize * each)))
}

/// Up a binomial tree: the root receives few messages, of many blocks. For short, equal blocks.
pub(super) fn binomial(rec: &mut Recorder, root: u32, each: usize) {
    let me = from_root(rec, root);
    if me == 0 {
        let all = rec.output(0, rec.size as usize * each);
        if !rec.in_place() {
            rec.copy(rec.input(0, each), all.part(root as usize * each, each));
        }
        let branches: Vec<_> = children(rec, 0).collect();
        for &(child, span) in branches.iter().rev() {
            let from = to_rank(rec, root, child);
            match pieces(rec, root, (child, span), each, all) {
                (whole, None) => rec.recv(from, whole),
                (end, Some(beginning)) => {
                    let buffer = rec.scratch(end.len + beginning.len);
                    rec.recv(from, buffer);
                    rec.copy(buffer.part(0, end.len), end);
                    rec.copy(buffer.part(end.len, beginning.len), beginning);
                }
            }
        }
        return;
    }
    let span = subtree(rec, me).min(rec.size - me);
    let parent = to_rank(rec, root, me - subtree(rec, me));
    if span == 1 {
        return rec.send(parent, rec.input(0, each));
    }
    let mine = rec.scratch(span as usize * each);
    rec.copy(rec.input(0, each), mine.part(0, each));
    let branches: Vec<_> = children(rec, me).collect();
    for &(child, span) in branches.iter().rev() {
        let span = span.min(rec.size - child) as usize;
        let at = (child - me) as usize * each;
        rec.recv(to_rank(rec, root, child), mine.part(at, span * each));
    }
    rec.send(parent, mine);
}
