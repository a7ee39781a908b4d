//! Recording a plan: an algorithm says what it does as if each line were over before the next one begins, and the
//! recorder finds out which lines have to wait for which.
//!
//! - A step waits for the end of earlier ones that write what it reads or writes, or read what it writes. This is found
//!   by the bytes that each step names ([`Track`]), so two steps that are under way at once never touch the same byte
//!   in a way that matters, whatever an algorithm does: the memory safety of `run.rs` rests on this file only.
//! - Messages between two ranks have one tag, and are told apart by their order. So a send waits until the earlier send
//!   to that rank has *started*, and a receive likewise.
//! - Sends do not wait for receives of the same pair: two ranks that both send first do not block each other.
//!
//! Pipelines come out by themselves: a chain that receives and passes on piece after piece is written as a loop.
//!
//! Rejected: rounds with a barrier between them (a slow peer of one round holds up all of the next); dependencies by
//! hand (each forgotten one is a race).

use crate::coll::plan::{Action, Buf, Place, Plan, Side, Step};

/// Longer copies and combinations are several steps, so that each takes some tens of microseconds at the most.
pub(crate) const SLICE: usize = 64 * 1024;

/// Places of scratch memory begin at a multiple of this.
const ALIGN: usize = 64;

/// See the module.
pub(crate) struct Recorder {
    /// The own rank in the group, and the number of ranks.
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Bytes of an element: no element is cut.
    pub(crate) element: usize,
    /// Where the own contribution is: the buffer of results, if that holds it.
    input: Buf,
    steps: Vec<Step>,
    scratch: usize,
    tracks: [Track; 3],
    /// The last send to, and the last receive from, a rank.
    last_send: Vec<(u32, u32)>,
    last_recv: Vec<(u32, u32)>,
    fence: Option<u32>,
    /// Whether messages of no byte are sent: where all members have the same length, one that has another one is told.
    sends_nothing: bool,
}

impl Recorder {
    /// `in_place`: the contribution is in the buffer of results.
    pub(crate) fn new(rank: u32, size: u32, element: usize, in_place: bool) -> Recorder {
        Recorder {
            rank,
            size,
            element: element.max(1),
            input: if in_place { Buf::Out } else { Buf::In },
            steps: Vec::with_capacity(16),
            scratch: 0,
            tracks: Default::default(),
            last_send: Vec::new(),
            last_recv: Vec::new(),
            fence: None,
            sends_nothing: false,
        }
    }

    /// The rank that comes `distance` after this one, all in a circle.
    pub(crate) fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank that comes `distance` (at most the number of ranks) before this one.
    pub(crate) fn before(&self, distance: u32) -> u32 {
        self.after(self.size - distance)
    }

    /// `len` bytes of the own contribution.
    pub(crate) fn input(&self, at: usize, len: usize) -> Place {
        Place::new(self.input, at, len)
    }

    /// `len` bytes of the own result.
    pub(crate) fn output(&self, at: usize, len: usize) -> Place {
        Place::new(Buf::Out, at, len)
    }

    /// Whether the contribution lies where the result goes.
    pub(crate) fn in_place(&self) -> bool {
        self.input == Buf::Out
    }

    /// New memory.
    pub(crate) fn scratch(&mut self, len: usize) -> Place {
        let place = Place::new(Buf::Tmp, self.scratch, len);
        self.scratch += len.next_multiple_of(ALIGN);
        place
    }

    /// Sends messages of no byte, too, from now on.
    pub(crate) fn send_nothing(&mut self) {
        self.sends_nothing = true;
    }

    /// Sends. Nothing at all if that is no byte, unless [`Recorder::send_nothing`] was called.
    pub(crate) fn send(&mut self, to: u32, from: Place) {
        if from.len > 0 || self.sends_nothing {
            self.send_even_nothing(to, from);
        }
    }

    /// Receives. As [`Recorder::send`].
    pub(crate) fn recv(&mut self, from: u32, into: Place) {
        if into.len > 0 || self.sends_nothing {
            self.recv_even_nothing(from, into);
        }
    }

    /// Sends a message without content.
    pub(crate) fn signal(&mut self, to: u32) {
        self.send_even_nothing(to, Place::new(Buf::Tmp, 0, 0));
    }

    /// Receives one.
    pub(crate) fn await_signal(&mut self, from: u32) {
        self.recv_even_nothing(from, Place::new(Buf::Tmp, 0, 0));
    }

    fn send_even_nothing(&mut self, to: u32, from: Place) {
        let step = self.step(Action::Send { to, from }, &[from], &[]);
        let before = replace(&mut self.last_send, to, step);
        self.follow(before, step);
    }

    fn recv_even_nothing(&mut self, from: u32, into: Place) {
        let step = self.step(Action::Recv { from, into }, &[], &[into]);
        let before = replace(&mut self.last_recv, from, step);
        self.follow(before, step);
    }

    /// Combines two places of the same length. With [`Side::Right`] the result is in `right` and `left` stays as it is;
    /// with [`Side::Left`] the result is in `left` and `right` is lost.
    pub(crate) fn combine(&mut self, left: Place, right: Place, keep: Side) {
        debug_assert_eq!(left.len, right.len);
        for (at, len) in slices(left.len, self.element) {
            let (left, right) = (left.part(at, len), right.part(at, len));
            let combine = Action::Combine { left, right, keep };
            match keep {
                Side::Left => self.step(combine, &[], &[left, right]),
                Side::Right => self.step(combine, &[left], &[right]),
            };
        }
    }

    /// Copies between two places of the same length that do not overlap; nothing if they are one.
    pub(crate) fn copy(&mut self, from: Place, into: Place) {
        debug_assert_eq!(from.len, into.len);
        if from == into {
            return;
        }
        for (at, len) in slices(from.len, self.element) {
            let (from, into) = (from.part(at, len), into.part(at, len));
            self.step(Action::Copy { from, into }, &[from], &[into]);
        }
    }

    /// What comes after waits for all that came before.
    pub(crate) fn fence(&mut self) {
        let new = self.steps.len() as u32;
        let since = self.fence.map_or(0, |fence| fence as usize);
        let mut before: Vec<u32> = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(since) {
            if step.at_end.is_empty() {
                before.push(index as u32);
            }
        }
        self.push(Action::Nothing, before);
        self.fence = Some(new);
    }

    /// The finished plan.
    pub(crate) fn plan(self) -> Plan {
        let extents = self.tracks.map(|track| track.0.last().map_or(0, |range| range.end));
        Plan { steps: self.steps.into_boxed_slice(), scratch: self.scratch, extents }
    }

    fn step(&mut self, action: Action, reads: &[Place], writes: &[Place]) -> u32 {
        let step = self.steps.len() as u32;
        let mut before: Vec<u32> = self.fence.into_iter().collect();
        for place in reads {
            self.tracks[place.buf as usize].access(*place, step, false, &mut before);
        }
        for place in writes {
            self.tracks[place.buf as usize].access(*place, step, true, &mut before);
        }
        self.push(action, before)
    }

    fn push(&mut self, action: Action, mut before: Vec<u32>) -> u32 {
        let step = self.steps.len() as u32;
        before.sort_unstable();
        before.dedup();
        before.retain(|&other| other != step);
        for &other in &before {
            self.steps[other as usize].at_end.push(step);
        }
        let waits = before.len() as u32;
        self.steps.push(Step { action, waits, at_end: Vec::new(), at_start: None });
        step
    }

    /// `step` is not started before `before` has been.
    fn follow(&mut self, before: Option<u32>, step: u32) {
        if let Some(before) = before {
            self.steps[before as usize].at_start = Some(step);
            self.steps[step as usize].waits += 1;
        }
    }
}

/// Puts the value of `key`; the one before.
fn replace(list: &mut Vec<(u32, u32)>, key: u32, value: u32) -> Option<u32> {
    match list.iter_mut().find(|(other, _)| *other == key) {
        Some((_, old)) => Some(std::mem::replace(old, value)),
        None => {
            list.push((key, value));
            None
        }
    }
}

/// Pieces of `len` bytes that cut no element.
pub(crate) fn slices(len: usize, element: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = (SLICE / element).max(1) * element;
    (0..len.div_ceil(most)).map(move |index| (index * most, most.min(len - index * most)))
}

/// Which steps have read and written which bytes of a buffer: disjoint ranges in order.
#[derive(Default)]
struct Track(Vec<Range>);

#[derive(Clone)]
struct Range {
    start: usize,
    end: usize,
    writer: Option<u32>,
    /// Since it was written.
    readers: Vec<u32>,
}

impl Track {
    /// `step` reads, or writes, a place: adds to `before` the steps that it has to wait for.
    fn access(&mut self, place: Place, step: u32, writes: bool, before: &mut Vec<u32>) {
        let (start, end) = (place.at, place.at + place.len);
        if start == end {
            return;
        }
        let first = self.cut(start);
        let mut index = first;
        let mut covered = start;
        while covered < end {
            match self.0.get(index).map(|range| range.start) {
                Some(at) if at == covered => {}
                next => {
                    // A gap: no step was here.
                    let end = next.map_or(end, |next| next.min(end));
                    let fresh = Range { start: covered, end, writer: None, readers: Vec::new() };
                    self.0.insert(index, fresh);
                }
            }
            self.split(index, end);
            let range = &mut self.0[index];
            before.extend(range.writer.filter(|&writer| writer != step));
            if writes {
                before.append(&mut range.readers);
            } else {
                range.readers.push(step);
            }
            covered = range.end;
            index += 1;
        }
        if writes {
            // One range again.
            let whole = Range { start, end, writer: Some(step), readers: Vec::new() };
            self.0.splice(first..index, [whole]);
        }
    }

    /// The index of the first range that begins at or after `at`; one that crosses `at` is cut in two.
    fn cut(&mut self, at: usize) -> usize {
        let index = self.0.partition_point(|range| range.end <= at);
        match self.0.get(index) {
            Some(range) if range.start < at => {
                self.split(index, at);
                index + 1
            }
            _ => index,
        }
    }

    /// The range ends at `at` if it went beyond.
    fn split(&mut self, index: usize, at: usize) {
        let range = &mut self.0[index];
        if range.end > at {
            let mut rest = range.clone();
            rest.start = at;
            range.end = at;
            self.0.insert(index + 1, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a table of single bytes.
        #[test]
        fn steps_wait_for_whom_they_conflict_with(
            accesses in proptest::collection::vec((0usize..40, 0usize..20, any::<bool>()), 1..60),
        ) {
            let mut track = Track::default();
            let mut bytes: Vec<(Option<u32>, Vec<u32>)> = vec![(None, Vec::new()); 64];
            for (step, (at, len, writes)) in accesses.into_iter().enumerate() {
                let step = step as u32;
                let mut got = Vec::new();
                track.access(Place::new(Buf::Out, at, len), step, writes, &mut got);
                let mut expected = Vec::new();
                for (writer, readers) in &mut bytes[at..at + len] {
                    expected.extend(*writer);
                    if writes {
                        expected.append(readers);
                        *writer = Some(step);
                    } else {
                        readers.push(step);
                    }
                }
                for list in [&mut got, &mut expected] {
                    list.sort_unstable();
                    list.dedup();
                }
                prop_assert_eq!(got, expected);
                prop_assert!(track.0.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }

    #[test]
    fn no_element_is_cut() {
        let all: Vec<_> = slices(200_000, 24).collect();
        assert!(all.iter().all(|(at, len)| at % 24 == 0 && *len > 0));
        assert_eq!(all.iter().map(|(_, len)| len).sum::<usize>(), 200_000);
        assert_eq!(slices(0, 8).count(), 0);
    }
}
