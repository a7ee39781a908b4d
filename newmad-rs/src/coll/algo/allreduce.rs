//! From all to all, combined. In each of these all ranks combine in the same way, so that all have the same bits even
//! where the operator rounds.

use crate::coll::algo::{allgather, bcast, reduce, reduce_scatter};
use crate::coll::plan::{Place, Side};
use crate::coll::recorder::Recorder;
use crate::coll::task::Blocks;

/// A part of the ranks whose number is a power of two. The others have given what they had to a neighbour.
struct Folded {
    /// The own number among them; `None`: this rank is not one of them.
    me: Option<u32>,
    count: u32,
    /// Ranks below this number are pairs, of which the odd one goes on.
    pairs: u32,
}

impl Folded {
    fn rank(&self, number: u32) -> u32 {
        if number < self.pairs / 2 { number * 2 + 1 } else { number + self.pairs / 2 }
    }
}

/// The first ranks combine in pairs until a power of two is left. Neighbours stay neighbours.
fn fold(rec: &mut Recorder, sum: Place, buffer: Place) -> Folded {
    let count = 1 << rec.size.ilog2();
    let pairs = 2 * (rec.size - count);
    let rank = rec.rank;
    if rank >= pairs {
        return Folded { me: Some(rank - pairs / 2), count, pairs };
    }
    if rank.is_multiple_of(2) {
        rec.send(rank + 1, sum);
        return Folded { me: None, count, pairs };
    }
    rec.recv(rank - 1, buffer);
    rec.combine(buffer, sum, Side::Right);
    Folded { me: Some(rank / 2), count, pairs }
}

/// The ranks that were left out are told.
fn unfold(rec: &mut Recorder, folded: &Folded, sum: Place) {
    if rec.rank < folded.pairs {
        if rec.rank.is_multiple_of(2) {
            rec.recv(rec.rank + 1, sum);
        } else {
            rec.send(rec.rank - 1, sum);
        }
    }
}

/// Recursive doubling: in round k one exchanges with the rank whose bit k is the other way. Few rounds: for short
/// vectors. The order of ranks is kept.
pub(super) fn doubling(rec: &mut Recorder, len: usize) {
    let (input, result) = (rec.input(0, len), rec.output(0, len));
    // Where all take part in the first round the contribution leaves from where it is, and is not copied before.
    let direct = rec.size.is_power_of_two() && rec.size > 1 && !rec.in_place();
    if !direct {
        rec.copy(input, result);
    }
    if rec.size == 1 {
        return;
    }
    // The sum moves from one to the next, so that its parts are always combined left to right, with no copy.
    let mut places = [result, rec.scratch(len), rec.scratch(len)];
    let folded = fold(rec, places[0], places[2]);
    if let Some(me) = folded.me {
        if direct {
            let (other, buffer) = (me ^ 1, places[1]);
            rec.send(other, input);
            if other < me {
                rec.recv(other, buffer);
                rec.copy(input, result);
                rec.combine(buffer, result, Side::Right);
            } else {
                rec.recv(other, result);
                rec.combine(input, result, Side::Right);
            }
        }
        for round in u32::from(direct)..folded.count.ilog2() {
            let other = me ^ 1 << round;
            let (peer, sum, buffer) = (folded.rank(other), places[0], places[1]);
            rec.send(peer, sum);
            rec.recv(peer, buffer);
            if other < me {
                rec.combine(buffer, sum, Side::Right);
                places.swap(1, 2);
            } else {
                rec.combine(sum, buffer, Side::Right);
                places = [buffer, places[2], sum];
            }
        }
    }
    rec.copy(places[0], result);
    unfold(rec, &folded, result);
}

/// Reduce-scatter around the ring, then allgather around it. Each rank sends twice the vector at the most, always to
/// its neighbour: for long vectors. The order of ranks is not kept.
pub(super) fn ring(rec: &mut Recorder, len: usize) {
    let sum = rec.output(0, len);
    rec.copy(rec.input(0, len), sum);
    let pieces = Blocks::split(len, rec.element, rec.size);
    reduce_scatter::around(rec, &pieces, sum);
    allgather::ring(rec, &pieces, sum, 0);
}

/// Rabenseifner: one halves the part that one is responsible for at each exchange, and then doubles it again. As few
/// bytes as the ring, in fewer rounds, if the number of ranks is a power of two. The order of ranks is not kept.
pub(super) fn halving_doubling(rec: &mut Recorder, len: usize) {
    let sum = rec.output(0, len);
    rec.copy(rec.input(0, len), sum);
    if rec.size == 1 {
        return;
    }
    let buffer = rec.scratch(len);
    let folded = fold(rec, sum, buffer);
    if let Some(me) = folded.me {
        let pieces = Blocks::split(len, rec.element, folded.count);
        let part = |from: u32, to: u32| {
            let ((at, _), (last, len)) = (pieces.get(from), pieces.get(to - 1));
            (at, last + len - at)
        };
        let rank = |number: u32| folded.rank(number);
        reduce_scatter::halve(rec, (me, folded.count), sum, buffer, &part, &rank);
        let mut span = 1;
        while span < folded.count {
            let (mine, theirs) = (me / span * span, (me ^ span) / span * span);
            let peer = rank(me ^ span);
            let (at, len) = part(mine, mine + span);
            rec.send(peer, sum.part(at, len));
            let (at, len) = part(theirs, theirs + span);
            rec.recv(peer, sum.part(at, len));
            span *= 2;
        }
    }
    unfold(rec, &folded, sum);
}

/// Up a tree and down again. The order of ranks is kept.
pub(super) fn reduce_bcast(rec: &mut Recorder, len: usize) {
    let sum = reduce::up(rec, 0, len, rec.rank == 0);
    debug_assert!(rec.rank != 0 || sum == rec.output(0, len));
    bcast::binomial(rec, 0, rec.output(0, len));
}
