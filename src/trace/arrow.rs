//! Arrows: which record of one process belongs to which of another.
//!
//! Two ranks and a number name a message. A number may come again, in a later session or after 2^32 packets, so an
//! arrow begins at the last message with its number that left before.

use std::collections::HashMap;

use marcel::trace::Kind;

use super::walk::{Step, Track};

/// A step of a track of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) process: usize,
    pub(crate) track: usize,
    pub(crate) step: usize,
}

/// A message that was seen to leave and to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) left: (i64, Place),
    /// It, or its announcement, came before it was received.
    pub(crate) arrived: Option<(i64, Place)>,
    pub(crate) received: (i64, Place),
}

/// The messages of which both ends are known, in the order of their receipt.
pub(crate) fn arrows<'a>(processes: impl Iterator<Item = &'a [Track]>) -> Vec<Arrow> {
    let mut all = Vec::new();
    for (process, tracks) in processes.enumerate() {
        for (track, Track { steps, .. }) in tracks.iter().enumerate() {
            for (step, told) in steps.iter().enumerate() {
                if let Step::Message { at, message } = told
                    && let Some(key) = message.key()
                {
                    // At one moment it leaves first.
                    let turn = message.kind as u16;
                    all.push((*at, turn, key, Place { process, track, step }));
                }
            }
        }
    }
    all.sort_by_key(|(at, turn, ..)| (*at, *turn));
    let mut under_way = HashMap::new();
    let mut arrows = Vec::new();
    for (at, turn, key, place) in all {
        if turn == Kind::MessageLeft as u16 {
            under_way.insert(key, ((at, place), None));
        } else if turn == Kind::MessageArrived as u16 {
            if let Some((_, arrived)) = under_way.get_mut(&key) {
                *arrived = Some((at, place));
            }
        } else if let Some((left, arrived)) = under_way.remove(&key) {
            arrows.push(Arrow { left, arrived, received: (at, place) });
        }
    }
    arrows
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::super::read::Owner;
    use super::*;

    fn track(told: &[(i64, Kind, u64, (u32, u32))]) -> Vec<Track> {
        let step = |&(at, kind, number, ranks): &(i64, Kind, u64, (u32, u32))| {
            let message = Message { kind, number, ranks, about: None };
            Step::Message { at, message }
        };
        let owner = Owner { tid: 1, vp: None, name: String::new() };
        vec![Track { owner, steps: told.iter().map(step).collect() }]
    }

    #[test]
    fn ends_meet_by_ranks_and_number() {
        let one = track(&[
            (10, Kind::MessageLeft, 5, (0, 1)),
            (11, Kind::MessageLeft, 6, (0, 1)),
            (50, Kind::MessageReceived, 5, (0, 1)), // 1's fifth, not its own
            (60, Kind::MessageLeft, 5, (0, 1)),     // a later session
            (90, Kind::MessageLeft, 7, (0, 1)),     // never received
        ]);
        let other = track(&[
            (20, Kind::MessageReceived, 6, (1, 0)),
            (30, Kind::MessageArrived, 5, (1, 0)),
            (35, Kind::MessageReceived, 5, (1, 0)),
            (40, Kind::MessageLeft, 5, (1, 0)),
            (60, Kind::MessageReceived, 5, (1, 0)),
            (70, Kind::MessageReceived, 8, (1, 0)), // its departure was overwritten
        ]);
        let times = |arrow: &Arrow| (arrow.left.0, arrow.arrived.map(|at| at.0), arrow.received.0);
        let arrows = arrows([&one[..], &other[..]].into_iter());
        let expected = [(11, None, 20), (10, Some(30), 35), (40, None, 50), (60, None, 60)];
        assert_eq!(arrows.iter().map(times).collect::<Vec<_>>(), expected);
        assert_eq!(arrows[2].left.1, Place { process: 1, track: 0, step: 3 });
    }
}
