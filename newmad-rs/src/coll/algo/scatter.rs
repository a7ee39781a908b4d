//! From one to all, each another part.

use crate::coll::algo::gather::pieces;
use crate::coll::algo::tree::{children, from_root, subtree, to_rank};
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// The root sends to all, at once.
pub(super) fn linear(rec: &mut Recorder, root: u32, own: usize, blocks: Option<&Blocks>) {
    if rec.rank != root {
        return rec.recv(root, rec.output(0, own));
    }
    let Some(blocks) = blocks else { return };
    // In place means that the root's part stays where it is.
    let all = rec.input(0, blocks.end(rec.size));
    for distance in 1..rec.size {
        let to = rec.after(distance);
        rec.send(to, blocks.of(all, to));
    }
    if !rec.in_place() {
        let own = blocks.of(all, root);
        rec.copy(own, rec.output(0, own.len));
    }
}

/// Down a binomial tree: the root sends few messages, of many blocks. For short, equal blocks.
pub(super) fn binomial(rec: &mut Recorder, root: u32, each: usize) {
    let me = from_root(rec, root);
    if me == 0 {
        let all = rec.input(0, rec.size as usize * each);
        for (child, span) in children(rec, 0) {
            let to = to_rank(rec, root, child);
            match pieces(rec, root, (child, span), each, all) {
                (whole, None) => rec.send(to, whole),
                (end, Some(beginning)) => {
                    let buffer = rec.scratch(end.len + beginning.len);
                    rec.copy(end, buffer.part(0, end.len));
                    rec.copy(beginning, buffer.part(end.len, beginning.len));
                    rec.send(to, buffer);
                }
            }
        }
        if !rec.in_place() {
            rec.copy(all.part(root as usize * each, each), rec.output(0, each));
        }
        return;
    }
    let span = subtree(rec, me).min(rec.size - me);
    let parent = to_rank(rec, root, me - subtree(rec, me));
    if span == 1 {
        return rec.recv(parent, rec.output(0, each));
    }
    let mine = rec.scratch(span as usize * each);
    rec.recv(parent, mine);
    for (child, span) in children(rec, me) {
        let span = span.min(rec.size - child) as usize;
        let at = (child - me) as usize * each;
        rec.send(to_rank(rec, root, child), mine.part(at, span * each));
    }
    rec.copy(mine.part(0, each), rec.output(0, each));
}
