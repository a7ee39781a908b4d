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

/// After so many announcements where none was expected, receives of unasked messages are watched: the peers' sends are
/// synchronous, or find no credit.
const OFTEN: u8 = 4;

/// See the module.
pub(crate) struct Pending {
    signals: Arc<Signals>,
    /// Short receives of what ranks of this process send: those bring it, and no event does.
    from_beside: usize,
    beside: Beside,
    /// All others.
    outstanding: usize,
    /// Of these, short receives whose owners ask for their ends. They are attended, short and ignorable; the next counts are
    /// without them.
    short_receives: usize,
    /// Of the rest, those whose owners ask for their ends; of those, the short ones, and the receives that their owners find
    /// soon enough.
    attended: usize,
    short: usize,
    ignorable: usize,
    /// Bytes of the receives that began as ignorable and are not short: what may be left in the kernel's buffers.
    left: usize,
    /// The longest message that leaves without being asked for, whatever its sender does.
    unasked: usize,
    /// How often a message was announced although its receive was taken to be ignorable, up to [`OFTEN`].
    refuted: u8,
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
            from_beside: 0,
            beside,
            outstanding: 0,
            short_receives: 0,
            attended: 0,
            short: 0,
            ignorable: 0,
            unasked,
            left: 0,
            refuted: 0,
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
        self.outstanding + self.from_beside
    }

    /// A request begins.
    #[inline]
    pub(crate) fn begin(&mut self, request: Ref) {
        if request.is_short_receive() {
            return self.begin_short_receive(request);
        }
        let is_ignorable = self.is_ignorable(request);
        request.is_ignorable.set(is_ignorable);
        // While only ignored requests are outstanding no thread keeps the watch. A short one does not need it: that it
        // can go on is found by its owner, and each arming for one would be a wake-up in vain.
        let lost = self.outstanding == self.ignored() && !request.is_short() && !is_ignorable;
        if self.outstanding == 0 || lost {
            self.begin_spell();
        }
        self.outstanding += 1;
        self.tally(request, true);
        self.publish();
    }

    /// As [`Pending::begin`], of a short receive.
    #[inline(always)]
    pub(crate) fn begin_short_receive(&mut self, request: Ref) {
        debug_assert!(request.is_short_receive());
        if self.beside.has(request.peer) {
            // What is published is without these: the line stays with the cores that read it.
            self.from_beside += 1;
            return;
        }
        let is_first = self.outstanding == 0;
        if is_first {
            self.begin_spell();
        }
        self.outstanding += 1;
        self.publish_short_receive(request.attended.get(), is_first, |count| count + 1);
    }

    fn begin_spell(&mut self) {
        self.spell += 1;
        self.watched_for = Rings::NONE;
    }

    /// A short receive has begun, or ends. `alone`: nothing else is outstanding. One that is attended changes nothing else
    /// in whether a thread has to watch: it counts on both sides of that comparison, or, where peers tell apart for what
    /// they ring, on one side which is not 0 already.
    #[inline(always)]
    fn publish_short_receive(
        &mut self,
        attended: bool,
        alone: bool,
        by_one: impl FnOnce(usize) -> usize,
    ) {
        if attended {
            self.short_receives = by_one(self.short_receives);
        }
        if alone || !attended {
            self.publish();
        } else {
            self.signals.outstanding.store(self.outstanding, Ordering::Relaxed);
        }
    }

    /// Requests that no thread watches while their owners ask for their ends.
    #[inline]
    fn ignored(&self) -> usize {
        if self.tells_apart { 0 } else { self.ignorable + self.short_receives }
    }

    /// Whether the owner of a request other than a short receive, which is ignorable, finds its end soon enough, so that no
    /// thread has to watch for it: over sockets, a receive of a message that its sender does not announce: if the kernel keeps
    /// that and those before it until the owner waits, or the owner, as it has done before, will wait at once.
    #[inline]
    fn is_ignorable(&self, request: Ref) -> bool {
        request.op == Op::Recv
            && request.attended.get()
            && !self.tells_apart
            && request.capacity <= self.unasked
            && self.refuted < OFTEN
            && (self.left + request.capacity <= self.unasked
                || self.signals.absence.is_expected_to_be_short())
    }

    /// The message of this receive was announced: its sender waits for an answer, and those of later ones may.
    pub(crate) fn is_announced(&mut self, request: Ref) {
        if !request.is_ignorable.replace(false) {
            return;
        }
        self.left -= request.capacity;
        self.refuted = (self.refuted + 1).min(OFTEN);
        if request.attended.get() {
            self.ignorable -= 1;
            self.publish();
        }
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
    #[inline(always)]
    pub(crate) fn finish(&mut self, request: Ref, outcome: Outcome) {
        if self.finders.is_some() {
            self.count_finder(request, outcome);
        }
        if request.is_short_receive() {
            self.end_short_receive(request);
        } else {
            if !request.is_short() && !request.is_waiting() {
                self.signals.absence.ended(sys::now_ns);
            }
            self.outstanding -= 1;
            self.tally(request, false);
            self.publish();
        }
        request.finish(outcome);
    }

    /// Counts the thread that has found the message of a receive.
    #[inline(never)]
    fn count_finder(&mut self, request: Ref, outcome: Outcome) {
        if let Some(finders) = &self.finders
            && request.op == Op::Recv
            && matches!(outcome, Outcome::Done | Outcome::Truncated)
        {
            match self.giver.take() {
                Some(from) => finders.count_given(from, request.mine.get()),
                None => finders.count(self.point, request.mine.get()),
            }
        }
    }

    #[inline(always)]
    fn end_short_receive(&mut self, request: Ref) {
        if self.beside.has(request.peer) {
            self.from_beside -= 1;
            return;
        }
        self.outstanding -= 1;
        let was_last = self.outstanding == 0;
        self.publish_short_receive(request.attended.get(), was_last, |count| count - 1);
    }

    /// Its owner does not ask for the end of this request any more, which is not over: the owner is to be woken.
    pub(crate) fn unattend(&mut self, request: Ref) {
        if !request.attended.replace(false) || self.is_from_beside(request) {
            return;
        }
        if request.is_short_receive() {
            self.short_receives -= 1;
        } else {
            self.attended -= 1;
            self.short -= usize::from(request.is_short());
            self.ignorable -= usize::from(request.is_ignorable.get());
        }
        self.publish();
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
    /// it later. And that not at once, if they are expected to look in a moment.
    #[inline]
    fn rings(&self, backlog: bool) -> Rings {
        // Of those that are not short receives.
        let rest = self.outstanding - self.short_receives;
        if rest > self.attended {
            return Rings::ALL;
        }
        match (self.outstanding == self.ignored(), backlog) {
            (true, _) => Rings::NONE,
            (_, false) if self.signals.absence.is_expected_to_be_short() => Rings::CONTROL_LATER,
            (_, false) => Rings::CONTROL_NOW,
            (_, true) if rest == self.short => Rings::CONTROL_NOW.and(Rings::ROOM_LATER),
            (_, true) => Rings::CONTROL_NOW.and(Rings::ROOM),
        }
    }

    /// Counts a request other than a short receive among those of its kinds, or no more.
    #[inline]
    fn tally(&mut self, request: Ref, begins: bool) {
        let by = |number: usize, amount: usize| match begins {
            true => number + amount,
            false => number - amount,
        };
        let (attended, short) = (request.attended.get(), request.is_short());
        let ignorable = request.is_ignorable.get();
        self.attended = by(self.attended, usize::from(attended));
        self.short = by(self.short, usize::from(attended && short));
        self.ignorable = by(self.ignorable, usize::from(attended && ignorable));
        self.left = by(self.left, if ignorable { request.capacity } else { 0 });
    }

    fn is_from_beside(&self, request: Ref) -> bool {
        request.is_short_receive() && self.beside.has(request.peer)
    }

    #[inline]
    fn publish(&self) {
        self.signals.outstanding.store(self.outstanding, Ordering::Relaxed);
        let unattended = self.outstanding > self.ignored();
        self.signals.unattended.store(unattended, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::request::Request;

    /// Of a program that waits at once for what it has posted, or has not done so yet.
    fn pending(comes_at_once: bool, tells_apart: bool) -> (Pending, Arc<Signals>) {
        let signals = Signals::new(2, 1).unwrap();
        if comes_at_once {
            signals.absence.comes_at_once();
        }
        (Pending::new(signals.clone(), 64 * 1024, tells_apart, Beside::NONE), signals)
    }

    fn attended(buffer: &mut [u8]) -> Request {
        // SAFETY: the tests keep the buffer for as long.
        unsafe { Request::recv(1, 1, &raw mut *buffer, false) }.attended()
    }

    /// The test keeps the request where it is.
    fn named(request: &Request) -> Ref {
        // SAFETY: as the caller does.
        unsafe { Ref::new(NonNull::from(request)) }
    }

    /// Whether a thread has to watch for a receive of so many bytes whose owner asks for its end.
    fn is_watched(bytes: usize, comes_at_once: bool, tells_apart: bool) -> bool {
        let (mut pending, signals) = pending(comes_at_once, tells_apart);
        let mut buffer = vec![0; bytes];
        let request = attended(&mut buffer);
        pending.begin(named(&request));
        let is_watched = signals.is_unattended();
        assert_eq!(is_watched || tells_apart, pending.rings(false) != Rings::NONE);
        pending.finish(named(&request), Outcome::Cancelled);
        assert!(pending.count() == 0 && !signals.is_unattended());
        is_watched
    }

    #[test]
    fn a_watch_ends_with_the_last_request_that_is_not_ignored() {
        let (mut pending, _) = pending(false, false);
        let mut buffers = [vec![0; 8], vec![0; 8], vec![0; 100_000], vec![0; 100_000]];
        let [control, second, first_long, next_long] = buffers.each_mut().map(|b| attended(b));
        pending.begin(named(&control));
        pending.begin(named(&first_long));
        let covered = pending.spell(false);
        pending.begin(named(&second));
        assert_eq!(pending.spell(false), covered, "the long one is watched");
        pending.finish(named(&first_long), Outcome::Cancelled);
        pending.begin(named(&next_long));
        assert_ne!(pending.spell(false), covered, "only ignored ones were left");
        for request in [control, second, next_long] {
            pending.finish(named(&request), Outcome::Cancelled);
        }
    }

    #[test]
    fn peers_ring_one_that_is_expected_at_once_after_a_while_and_one_that_sleeps_at_once() {
        for comes_at_once in [false, true] {
            let (mut pending, _) = pending(comes_at_once, true);
            let mut buffer = vec![0; 100_000];
            let request = attended(&mut buffer);
            pending.begin(named(&request));
            let rings = if comes_at_once { Rings::CONTROL_LATER } else { Rings::CONTROL_NOW };
            assert_eq!(pending.watch(false), rings);
            pending.unattend(named(&request));
            assert_eq!(pending.watch(false), Rings::ALL);
            pending.finish(named(&request), Outcome::Cancelled);
        }
    }

    #[test]
    fn a_receive_whose_message_is_announced_is_watched_and_in_the_end_others_are_too() {
        let (mut pending, signals) = pending(true, false);
        let mut buffer = vec![0; 20_000];
        for _ in 0..OFTEN {
            let request = attended(&mut buffer);
            pending.begin(named(&request));
            assert!(!signals.is_unattended());
            pending.is_announced(named(&request));
            assert!(signals.is_unattended());
            pending.finish(named(&request), Outcome::Cancelled);
            assert!(!signals.is_unattended());
        }
        let request = attended(&mut buffer);
        pending.begin(named(&request));
        assert!(signals.is_unattended());
        pending.finish(named(&request), Outcome::Cancelled);
    }

    #[test]
    fn no_thread_watches_for_short_and_unasked_messages() {
        for comes_at_once in [false, true] {
            assert!(!is_watched(8 * 1024, comes_at_once, false));
            assert!(!is_watched(20_000, comes_at_once, false));
            assert!(is_watched(100_000, comes_at_once, false), "it is announced");
            assert!(is_watched(20_000, comes_at_once, true), "the peer asks what it rings for");
        }
    }

    #[test]
    fn a_thread_watches_for_more_than_the_kernel_keeps_unless_the_owner_comes_at_once() {
        for comes_at_once in [false, true] {
            let (mut pending, signals) = pending(comes_at_once, false);
            let mut buffers = [vec![0; 30_000], vec![0; 30_000], vec![0; 30_000]];
            let [first, second, third] = buffers.each_mut().map(|b| attended(b));
            pending.begin(named(&first));
            pending.begin(named(&second));
            assert!(!signals.is_unattended());
            pending.begin(named(&third));
            assert_eq!(signals.is_unattended(), !comes_at_once);
            for request in [third, first, second] {
                pending.finish(named(&request), Outcome::Cancelled);
            }
            assert_eq!((pending.count(), pending.left), (0, 0));
        }
    }
}
