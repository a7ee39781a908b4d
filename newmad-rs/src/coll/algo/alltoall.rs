//! From each to each, always another part.

use crate::coll::plan::Place;
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// What one sends, and where its blocks lie: in a copy if the result goes to the same place. Not of what is between the
/// blocks: that need not be memory.
fn contribution(rec: &mut Recorder, send: &Blocks) -> (Place, Blocks) {
    let input = rec.input(0, send.end(rec.size));
    if !rec.in_place() {
        return (input, send.clone());
    }
    let packed = Blocks::of_lengths((0..rec.size).map(|rank| send.len(rank)));
    let copy = rec.scratch(send.total(rec.size));
    for rank in 0..rec.size {
        rec.copy(send.of(input, rank), packed.of(copy, rank));
    }
    (copy, packed)
}

/// All messages at once; each rank begins with another peer.
pub(super) fn linear(rec: &mut Recorder, send: &Blocks, recv: &Blocks) {
    exchange(rec, send, recv, false);
}

/// One message to one rank and from one rank in each round, which ends before the next begins: no rank is flooded.
pub(super) fn pairwise(rec: &mut Recorder, send: &Blocks, recv: &Blocks) {
    exchange(rec, send, recv, true);
}

fn exchange(rec: &mut Recorder, send: &Blocks, recv: &Blocks, rounds: bool) {
    let (from, sent) = contribution(rec, send);
    let into = rec.output(0, recv.end(rec.size));
    let send_to = |rec: &mut Recorder, distance| {
        let to = rec.after(distance);
        rec.send(to, sent.of(from, to));
    };
    let recv_from = |rec: &mut Recorder, distance| {
        let source = rec.before(distance);
        rec.recv(source, recv.of(into, source));
    };
    if rounds {
        for distance in 1..rec.size {
            send_to(rec, distance);
            recv_from(rec, distance);
            rec.fence();
        }
    } else {
        // All sends first: a caller that walks through the plan waits at a receive.
        (1..rec.size).for_each(|distance| send_to(rec, distance));
        (1..rec.size).for_each(|distance| recv_from(rec, distance));
    }
    // The messages are on their way meanwhile.
    rec.copy(sent.of(from, rec.rank), recv.of(into, rec.rank));
}

/// Bruck: the block for the rank at a distance travels along the bits of that distance, together with all others that
/// have the bit. log2(size) messages instead of size, but each block is sent several times: for short blocks.
pub(super) fn bruck(rec: &mut Recorder, len: usize) {
    let size = rec.size as usize;
    let from = rec.input(0, size * len);
    // Block i is the one for the rank i ranks further on.
    let blocks = rec.scratch(size * len);
    let until_end = size - rec.rank as usize;
    rec.copy(from.part((size - until_end) * len, until_end * len), blocks.part(0, until_end * len));
    let rest = (size - until_end) * len;
    rec.copy(from.part(0, rest), blocks.part(until_end * len, rest));
    let mut bit = 1;
    while bit < size {
        // Blocks whose number has the bit lie in runs of `bit`.
        let runs: Vec<(usize, usize)> =
            (bit..size).step_by(2 * bit).map(|at| (at, bit.min(size - at))).collect();
        let count: usize = runs.iter().map(|run| run.1).sum();
        let (packed, received) = (rec.scratch(count * len), rec.scratch(count * len));
        let mut at = 0;
        for &(first, run) in &runs {
            rec.copy(blocks.part(first * len, run * len), packed.part(at, run * len));
            at += run * len;
        }
        rec.send(rec.after(bit as u32), packed);
        rec.recv(rec.before(bit as u32), received);
        at = 0;
        for &(first, run) in &runs {
            rec.copy(received.part(at, run * len), blocks.part(first * len, run * len));
            at += run * len;
        }
        bit *= 2;
    }
    // Block i has come from the rank i ranks before.
    let into = rec.output(0, size * len);
    for distance in 0..rec.size {
        let source = rec.before(distance) as usize;
        rec.copy(blocks.part(distance as usize * len, len), into.part(source * len, len));
    }
}
