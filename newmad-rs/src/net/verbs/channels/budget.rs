//! Whether a channel gets memory, and what the others give up for it.
//!
//! Source: [Didelot14] 3.4, which proposes the three ways and measures none of them. A request that does not fit is
//! declined, and others are shrunk for it: its sender asks again after another window of packets.

use super::window::Shape;

/// What other channels give up when memory runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrink {
    /// Those with most memory are ended.
    Emergency,
    /// All that have more than a bound are shrunk to it.
    Normalisation,
    /// Those that were used least recently are ended.
    LeastRecentlyUsed,
}

/// One channel.
#[derive(Clone, Copy, Debug)]
pub(in crate::net::verbs) struct Charge {
    pub(in crate::net::verbs) peer: u32,
    pub(in crate::net::verbs) shape: Shape,
    /// Bytes that count for it.
    pub(in crate::net::verbs) bytes: u64,
    /// When it was used last, by any clock.
    pub(in crate::net::verbs) used: u64,
    /// Whether it can be shrunk now.
    pub(in crate::net::verbs) may_shrink: bool,
}

/// Decides on a request for `wanted` by a channel that has `old` bytes. Returns the shape that it gets, if it gets one,
/// and the shapes that other channels are to have. Callers' context.
pub(in crate::net::verbs) fn decide(
    limit: u64,
    shrink: Shrink,
    (wanted, old): (Shape, u64),
    others: &[Charge],
) -> (Option<Shape>, Vec<(u32, Shape)>) {
    let free = limit.saturating_sub(others.iter().map(|other| other.bytes).sum());
    // The old memory is given back before new memory is taken.
    let needs = |shape: Shape| shape.bytes().max(old);
    if needs(wanted) <= free {
        return (Some(wanted), vec![]);
    }
    let wanted = wanted.within(limit);
    let grows = |shape: Shape| !shape.is_none() && shape.bytes() > old;
    if !grows(wanted) || others.iter().any(|other| other.bytes > 0 && !other.may_shrink) {
        // It would be for nothing, or something is being given back already.
        return (None, vec![]);
    }
    let missing = needs(wanted).saturating_sub(free);
    let mut charged: Vec<&Charge> = others.iter().filter(|other| other.bytes > 0).collect();
    let shrunk = match shrink {
        Shrink::Emergency => {
            charged.sort_by_key(|other| std::cmp::Reverse(other.bytes));
            end(&charged, missing)
        }
        Shrink::LeastRecentlyUsed => {
            charged.sort_by_key(|other| other.used);
            end(&charged, missing)
        }
        Shrink::Normalisation => normalise(&charged, needs(wanted), limit),
    };
    if shrunk.is_empty() {
        // The others have no more than their share: what is left is its own.
        return (Some(wanted.within(free)).filter(|&shape| grows(shape)), shrunk);
    }
    (None, shrunk)
}

/// Ends the first of them until so much is free.
fn end(charged: &[&Charge], mut missing: u64) -> Vec<(u32, Shape)> {
    let mut ended = vec![];
    for other in charged {
        if missing == 0 {
            break;
        }
        missing = missing.saturating_sub(other.bytes);
        ended.push((other.peer, Shape::NONE));
    }
    ended
}

/// Shrinks all that have more than a bound to it: the highest bound under which all fit, the new one too.
fn normalise(charged: &[&Charge], wanted: u64, limit: u64) -> Vec<(u32, Shape)> {
    let mut sizes: Vec<u64> = charged.iter().map(|other| other.bytes).chain([wanted]).collect();
    sizes.sort_unstable();
    let (mut left, mut count) = (limit, sizes.len() as u64);
    let mut bound = u64::MAX;
    for size in sizes {
        if size > left / count {
            bound = left / count;
            break;
        }
        left -= size;
        count -= 1;
    }
    let above = charged.iter().filter(|other| other.bytes > bound);
    above.map(|other| (other.peer, other.shape.within(bound))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WAYS: [Shrink; 3] = [Shrink::Emergency, Shrink::Normalisation, Shrink::LeastRecentlyUsed];

    fn shape(slots: u32) -> Shape {
        Shape { slots, size: 64 }
    }

    fn charge(peer: u32, slots: u32, used: u64) -> Charge {
        let shape = if slots < 2 { Shape::NONE } else { shape(slots) };
        Charge { peer, shape, bytes: shape.bytes(), used, may_shrink: true }
    }

    #[test]
    fn the_three_ways_take_from_different_channels() {
        let others = [charge(1, 10, 5), charge(2, 40, 9), charge(3, 30, 1)];
        let decide = |way| decide(100 * 64, way, (shape(40), 0), &others);
        assert_eq!(decide(Shrink::Emergency), (None, vec![(2, Shape::NONE)]));
        assert_eq!(decide(Shrink::LeastRecentlyUsed), (None, vec![(3, Shape::NONE)]));
        // Ten, and three of thirty.
        assert_eq!(decide(Shrink::Normalisation), (None, vec![(2, shape(30))]));
        let others = [charge(1, 10, 5), charge(2, 30, 9), charge(3, 30, 1)];
        let again = super::decide(100 * 64, Shrink::Normalisation, (shape(40), 0), &others);
        assert_eq!(again, (Some(shape(30)), vec![]), "all have their share");
    }

    #[test]
    fn nothing_is_taken_while_something_is_given_back_already() {
        let mut others = [charge(1, 50, 0), charge(2, 50, 0)];
        others[0].may_shrink = false;
        for way in WAYS {
            assert_eq!(decide(100 * 64, way, (shape(40), 0), &others), (None, vec![]));
        }
    }

    proptest! {
        /// Whatever is asked for, the limit holds, and a sender that asks again and again gets a channel.
        #[test]
        fn the_limit_holds_and_no_request_is_declined_for_ever(
            asked in proptest::collection::vec((0usize..6, 2u32..200), 1..60), way in 0usize..3,
        ) {
            const LIMIT: u64 = 100 * 64;
            let mut channels: Vec<Charge> = (0..6).map(|peer| charge(peer, 0, 0)).collect();
            for (clock, (peer, slots)) in asked.into_iter().enumerate() {
                let old = channels[peer].bytes;
                let mut got = false;
                for _ in 0..3 {
                    let but = |&(place, _): &(usize, &Charge)| place != peer;
                    let others = channels.iter().enumerate().filter(but);
                    let others: Vec<Charge> = others.map(|(_, other)| *other).collect();
                    let (accepted, shrunk) = decide(LIMIT, WAYS[way], (shape(slots), old), &others);
                    for (other, to) in shrunk {
                        prop_assert!(to.bytes() < channels[other as usize].bytes && other as usize != peer);
                        channels[other as usize].shape = to;
                        channels[other as usize].bytes = to.bytes();
                    }
                    if let Some(shape) = accepted {
                        channels[peer] = Charge { shape, bytes: shape.bytes(), used: clock as u64, ..channels[peer] };
                    }
                    prop_assert!(channels.iter().map(|other| other.bytes).sum::<u64>() <= LIMIT);
                    got |= accepted.is_some();
                }
                // One that has its share already may be told to keep it.
                prop_assert!(got || old > 0, "{peer} got nothing");
            }
        }
    }
}
