//! Noting events, and giving them to a program.

use crate::net::Driver;
use crate::proto::core::Core;
use crate::proto::events::{Event, EventKind, Events};
use crate::sys::now_ns;

impl<D: Driver> Core<D> {
    /// Notes an event of the rank at this place. Progress path.
    #[inline]
    pub(crate) fn note(&mut self, kind: EventKind, mine: u16, rank: u32, message: (u64, usize)) {
        if self.events.is_some() {
            self.note_slowly(kind, Some(mine), rank, message);
        }
    }

    /// Notes that a process has failed. Progress path.
    pub(crate) fn note_failure(&mut self, process: u32) {
        if self.events.is_some() {
            let rank = self.gates.ranks.of(process).start;
            self.note_slowly(EventKind::Failed, None, rank, (0, 0));
        }
    }

    #[cold]
    fn note_slowly(
        &mut self,
        kind: EventKind,
        mine: Option<u16>,
        rank: u32,
        (tag, len): (u64, usize),
    ) {
        if let Some(events) = &mut self.events {
            events.note(Event { kind, rank, tag, len: len as u64, when: now_ns(), mine });
        }
    }

    /// Events are recorded for the rank at this place from now on, or not any more. Callers' context: allocates.
    pub(crate) fn record_events(&mut self, mine: u16, on: bool) {
        let ranks = self.gates.ranks.of(self.process).len();
        let events = self.events.get_or_insert_with(|| Box::new(Events::new(ranks)));
        if !events.record(mine, on) {
            self.events = None;
        }
    }

    /// Takes the events of the rank at this place, in their order; how many of each kind were lost. Callers' context.
    pub(crate) fn take_events(
        &mut self,
        mine: u16,
        into: &mut Vec<Event>,
    ) -> [u64; EventKind::ALL.len()] {
        self.events.as_mut().map_or([0; _], |events| events.take(mine, into))
    }
}
