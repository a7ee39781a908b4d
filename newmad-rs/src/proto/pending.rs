//! The requests that are not over: how many there are, of which kinds, and for what peers are to ring on their behalf.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pioman::Point;

use crate::gate::ranks::Beside;
use crate::gate::signals::Signals;
use crate::net::Rings;
use crate::proto::finders::Finders;
use crate::request::{Op, Outcome, Ref};
use crate::sys;

/// See the module.
pub(crate) struct Pending {
    signals: Arc<Signals>,
    outstanding: usize,
    /// Of these, short receives of what ranks of this process send: those bring it, and no event does. The other counts are
    /// without them.
    from_beside: usize,
    beside: Beside,
    /// Of the others, those whose owners ask for their ends; of those, the short ones, and the receives that their owners find
    /// soon enough.
    attended: usize,
    short: usize,
    ignorable: usize,
    /// The longest message that leaves without being asked for.
    unasked: usize,
    /// Whether the peers of a rail tell apart for what they ring.
    tells_apart: bool,
    spell: u64,
    /// For what peers ring, or will once the watcher of this spell sleeps.
    watched_for: Rings,
    /// Where events are looked for now; a call of a rank, if nothing else is said.
    point: Point,
    /// The place of the rank that gives the message of the receive that ends next; none if a look finds it.
    giver: Option<u16>,
    /// Who finds whose messages, where the process has several ranks.
    pub(crate) finders: Option<Arc<Finders>>,
}

impl Pending {
    /// Messages up to `unasked` bytes leave without being asked for.
    pub(crate) fn new(
        signals: Arc<Signals>,
        unasked: usize,
        tells_apart: bool,
        beside: Beside,
    ) -> Pending {
        Pending {
            signals,
            outstanding: 0,
            from_beside: 0,
            beside,
            attended: 0,
            short: 0,
            ignorable: 0,
            unasked,
            tells_apart,
            spell: 0,
            watched_for: Rings::NONE,
            point: Point::Library,
            giver: None,
            finders: None,
        }
    }

    /// Requests that are not over.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.outstanding
    }

    /// A request begins.
    #[inline]
    pub(crate) fn begin(&mut self, request: Ref) {
        if self.outstanding == self.from_beside && !self.is_from_beside(request) {
            self.spell += 1;
            self.watched_for = Rings::NONE;
        }
        request.is_ignorable.set(self.is_ignorable(request));
        self.tally(request, true);
    }

    /// Whether the request's owner finds its end soon enough, so that no thread has to watch for it: a short receive; or one of a
    /// message that its sender does not announce, whose owner, as it has done before, will wait at once.
    #[inline]
    fn is_ignorable(&self, request: Ref) -> bool {
        request.is_short_receive()
            || request.op == Op::Recv
                && !self.tells_apart
                && request.capacity <= self.unasked
                && self.signals.absence.is_expected_to_be_short()
    }

    /// The lock holder looks for events at this point.
    #[inline(always)]
    pub(crate) fn looks_at(&mut self, point: Point) {
        self.point = point;
    }

    /// The next receive that ends gets its message from the rank at this place, which the lock holder acts for.
    #[inline(always)]
    pub(crate) fn is_given_by(&mut self, from: u16) {
        self.giver = Some(from);
    }

    /// Ends a request: the last touch.
    #[inline]
    pub(crate) fn finish(&mut self, request: Ref, outcome: Outcome) {
        if let Some(finders) = &self.finders
            && request.op == Op::Recv
            && matches!(outcome, Outcome::Done | Outcome::Truncated)
        {
            match self.giver.take() {
                Some(from) => finders.count_given(from, request.mine.get()),
                None => finders.count(self.point, request.mine.get()),
            }
        }
        if !request.is_short() && !request.is_waiting() {
            self.signals.absence.ended(sys::now_ns);
        }
        self.tally(request, false);
        request.finish(outcome);
    }

    /// Its owner does not ask for the end of this request any more, which is not over: the owner is to be woken.
    pub(crate) fn unattend(&mut self, request: Ref) {
        if request.attended.replace(false) && !self.is_from_beside(request) {
            self.attended -= 1;
            self.short -= usize::from(request.is_short());
            self.ignorable -= usize::from(request.is_ignorable.get());
            self.publish();
        }
    }

    /// The number of this spell (`engine/cover.rs`): a new one begins with a request while no other is outstanding, and
    /// when peers are to ring for more than before.
    pub(crate) fn spell(&mut self, backlog: bool) -> u64 {
        let rings = self.rings(backlog);
        if !self.watched_for.has(rings) {
            self.spell += 1;
            self.watched_for = self.watched_for.and(rings);
        }
        self.spell
    }

    /// For what peers are to ring from now on.
    pub(crate) fn watch(&mut self, backlog: bool) -> Rings {
        self.watched_for = self.rings(backlog);
        self.watched_for
    }

    /// For what peers are to ring while no thread polls. Where all owners ask for the ends of their requests, that is
    /// only what its sender needs an answer to: to be woken for a message, and to wake for one, costs more than to find
    /// it later.
    fn rings(&self, backlog: bool) -> Rings {
        let outstanding = self.outstanding - self.from_beside;
        if outstanding > self.attended {
            return Rings::ALL;
        }
        let ignores = outstanding == self.ignorable && !self.tells_apart;
        match (outstanding == 0 || ignores, backlog) {
            (true, _) => Rings::NONE,
            (_, false) => Rings::CONTROL,
            (_, true) if outstanding == self.short => Rings::CONTROL.and(Rings::ROOM_LATER),
            (_, true) => Rings::CONTROL.and(Rings::ROOM),
        }
    }

    #[inline]
    fn tally(&mut self, request: Ref, begins: bool) {
        let by = |number: usize, counts: bool| match begins {
            true => number + usize::from(counts),
            false => number - usize::from(counts),
        };
        self.outstanding = by(self.outstanding, true);
        if self.is_from_beside(request) {
            // What is published is without these: the line stays with the cores that read it.
            self.from_beside = by(self.from_beside, true);
            return;
        }
        let attended = request.attended.get();
        self.attended = by(self.attended, attended);
        self.short = by(self.short, attended && request.is_short());
        self.ignorable = by(self.ignorable, attended && request.is_ignorable.get());
        self.publish();
    }

    #[inline(always)]
    fn is_from_beside(&self, request: Ref) -> bool {
        !self.beside.is_none() && request.is_short_receive() && self.beside.has(request.peer)
    }

    #[inline]
    fn publish(&self) {
        let outstanding = self.outstanding - self.from_beside;
        self.signals.outstanding.store(outstanding, Ordering::Relaxed);
        let ignorable = if self.tells_apart { 0 } else { self.ignorable };
        self.signals.unattended.store(outstanding > ignorable, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::request::Request;

    /// Whether a thread has to watch for a receive of so many bytes whose owner asks for its end.
    fn is_watched(bytes: usize, comes_at_once: bool, tells_apart: bool) -> bool {
        let signals = Signals::new(2, 1).unwrap();
        for _ in 0..if comes_at_once { 2 } else { 0 } {
            signals.absence.posts(1, true);
            signals.absence.leaves(2);
            signals.absence.waits(|| 3);
        }
        let mut pending = Pending::new(signals.clone(), 64 * 1024, tells_apart, Beside::NONE);
        let mut buffer = vec![0; bytes];
        // SAFETY: the buffer outlives the request.
        let request = unsafe { Request::recv(1, 1, &raw mut buffer[..], false) }.attended();
        // SAFETY: it stays here.
        let request = unsafe { Ref::new(NonNull::from(&request)) };
        pending.begin(request);
        let is_watched = signals.is_unattended();
        assert_eq!(is_watched || tells_apart, pending.rings(false) != Rings::NONE);
        pending.finish(request, Outcome::Cancelled);
        assert!(pending.count() == 0 && !signals.is_unattended());
        is_watched
    }

    #[test]
    fn no_thread_watches_for_short_messages_and_unasked_ones_that_are_waited_for_at_once() {
        for comes_at_once in [false, true] {
            assert!(!is_watched(8 * 1024, comes_at_once, false));
            assert!(is_watched(100_000, comes_at_once, false), "it is announced");
            assert!(is_watched(20_000, comes_at_once, true), "the peer asks what it rings for");
        }
        assert!(is_watched(20_000, false, false));
        assert!(!is_watched(20_000, true, false));
    }
}
