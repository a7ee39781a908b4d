//! Events for tools: what happens to messages and peers behind a program's calls.
//!
//! The lock holder notes them, so they are in the order in which they happened. A program takes them with a call. Room for
//! them is made when recording begins; what finds none is counted. While nothing is recorded, unexpected messages, announced
//! ones and ends of peers cost one look each, and others nothing.

use std::collections::VecDeque;

/// Most events of a process that wait to be taken.
const ROOM: usize = 8192;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A message came, or was announced, and no receive was there for it.
    Unexpected,
    /// A receive has matched a message that was announced: its data begin to move.
    Rendezvous,
    /// A process has failed.
    Failed,
}

impl EventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [EventKind; 3] =
        [EventKind::Unexpected, EventKind::Rendezvous, EventKind::Failed];
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The sender; the first rank of a process that has failed.
    pub rank: u32,
    /// The message's tag.
    pub tag: u64,
    /// The message's length in bytes.
    pub len: u64,
    /// When, in nanoseconds of the monotonic clock.
    pub when: u64,
    /// The place of the rank that it concerns; `None`: all of this process.
    pub(super) mine: Option<u16>,
}

/// What has happened since it was taken last.
pub(crate) struct Events {
    all: VecDeque<Event>,
    /// By place of the rank, and kind.
    lost: Box<[[u64; EventKind::ALL.len()]]>,
    /// Who has begun to record, by place.
    wanted: Box<[bool]>,
}

impl Events {
    /// Of so many ranks, none of which records.
    pub(super) fn new(ranks: usize) -> Events {
        Events {
            all: VecDeque::with_capacity(ROOM),
            lost: vec![[0; _]; ranks].into_boxed_slice(),
            wanted: vec![false; ranks].into_boxed_slice(),
        }
    }

    /// A rank records from now on, or not any more; whether any does.
    pub(super) fn record(&mut self, mine: u16, on: bool) -> bool {
        self.wanted[usize::from(mine)] = on;
        if !on {
            self.all.retain(|event| event.mine != Some(mine));
            self.lost[usize::from(mine)] = [0; _];
        }
        self.wanted.contains(&true)
    }

    /// Takes a rank's; how many of each kind were lost.
    pub(super) fn take(&mut self, mine: u16, into: &mut Vec<Event>) -> [u64; EventKind::ALL.len()] {
        self.all.retain(|event| {
            let own = event.mine == Some(mine);
            if own {
                into.push(*event);
            }
            !own
        });
        std::mem::take(&mut self.lost[usize::from(mine)])
    }

    pub(super) fn note(&mut self, event: Event) {
        for mine in 0..self.wanted.len() as u16 {
            let at = usize::from(mine);
            if !self.wanted[at] || event.mine.is_some_and(|other| other != mine) {
                continue;
            }
            if self.all.len() < ROOM {
                self.all.push_back(Event { mine: Some(mine), ..event });
            } else {
                self.lost[at][event.kind as usize] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_what_is_not_wanted_is_not() {
        let mut events = Events::new(2);
        assert!(events.record(1, true));
        let event =
            |mine| Event { kind: EventKind::Rendezvous, rank: 3, tag: 4, len: 5, when: 6, mine };
        for _ in 0..ROOM {
            events.note(event(Some(1)));
            events.note(event(Some(0)));
        }
        assert_eq!((events.all.len(), &events.lost[..]), (ROOM, &[[0; 3]; 2][..]));
        events.note(event(None));
        assert_eq!(&events.lost[..], [[0; 3], [0, 1, 0]]);
    }
}
