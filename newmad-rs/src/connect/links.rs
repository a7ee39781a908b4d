//! The links of a process: which are open, which are being made, and whose call counts.
//!
//! ```text
//!  Closed ── wanted ──▶ Calling ── answered ──▶ Open         Open ── broke (core, or the peer calls again) ──▶ Closed
//!     │                    │ the peer's call counts           any  ── the peer died ──▶ Closed
//!     └──── called ────▶ Called ── all its sockets ──▶ Open
//! ```
//! *Exactly one link*: when both call, the call of the lower rank counts. The lower one refuses the other's
//! ([`Verdict::Crossing`]); the higher one gives its own up when it is called. *No call from the past*: both sides
//! count the links that they have had over a rail; a call that knows of fewer than there were is refused with the
//! number ([`Verdict::Stale`]). So a call that was given up, and is read late, opens nothing, and a caller whose
//! verdict got lost (there was a link, and it does not know) gets a new one.
//!
//! *Links that do not last*: a link may open each time and carry nothing, say between two networks, of which handshakes over
//! TCP know nothing. While another link carries the messages, one that broke before anything came over it is called for after
//! a pause that grows each time: it would take the messages each time that it opens, and hold them until it breaks.
//!
//! *No way to a peer*: what cannot be made in time over one rail does not end what is being made over another.
//!
//! Rejected: only the lower rank calls (the higher one would have to ask for a call over the ring, hop by hop).

use std::time::{Duration, Instant};

use super::greeting::Verdict;
use super::order::Timeouts;

/// After so long a rail is tried again while another one carries the messages: at least, and at most.
pub(super) const REST: Duration = Duration::from_millis(500);
const REST_MOST: Duration = Duration::from_secs(32);
/// A link has lasted when something has come over it, or after so long: it may be that only the peer receives over it.
const LASTED: Duration = Duration::from_secs(64);

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Calling,
    Called,
    Open,
}

/// What is known of a link over one rail with one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) state: State,
    /// Links that there have been before, this one included when it is open.
    pub(super) generation: u32,
    pub(super) wanted: bool,
    /// Since when it is wanted and not there.
    pub(super) since: Option<Instant>,
    /// Calls in vain since then.
    pub(super) tries: u32,
    /// When it is called for next: earlier times that were set do not count.
    next: Option<Instant>,
    /// No other call will do better.
    pub(super) hopeless: bool,
    /// When it was opened on this side last, if ever: what is made then is a repair.
    opened: Option<Instant>,
    /// Links in a row that did not last.
    brief: u32,
}

impl Link {
    /// Whether it is wanted, and neither there nor being made.
    pub(super) fn is_callable(&self) -> bool {
        self.wanted && self.state == State::Closed
    }

    /// How long to wait before it is called for while another one carries the messages; zero after one that has lasted.
    pub(super) fn rest(&self) -> Duration {
        match self.brief {
            0 => Duration::ZERO,
            brief => REST_MOST.min(REST * (1 << (brief - 1).min(16))),
        }
    }
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It counts: give up one's own, and close the link that there was.
    Take,
    /// Say this, and no more.
    Say(Verdict),
}

/// See the module.
pub(super) struct Links {
    rank: u32,
    size: usize,
    links: Box<[Link]>,
}

impl Links {
    pub(super) fn new(rank: u32, size: u32, rails: usize) -> Links {
        let closed = Link {
            state: State::Closed,
            generation: 0,
            wanted: false,
            since: None,
            tries: 0,
            next: None,
            hopeless: false,
            opened: None,
            brief: 0,
        };
        let size = size as usize;
        Links { rank, size, links: vec![closed; size * rails].into_boxed_slice() }
    }

    pub(super) fn get(&self, rail: usize, peer: u32) -> &Link {
        &self.links[rail * self.size + peer as usize]
    }

    pub(super) fn get_mut(&mut self, rail: usize, peer: u32) -> &mut Link {
        &mut self.links[rail * self.size + peer as usize]
    }

    fn all_with(&self, peer: u32) -> impl Iterator<Item = &Link> {
        self.links.iter().skip(peer as usize).step_by(self.size)
    }

    /// Whether a link with that peer is open.
    pub(super) fn any_open(&self, peer: u32) -> bool {
        self.all_with(peer).any(|link| link.state == State::Open)
    }

    /// Whether a link with that peer is there, is being made, or is wanted.
    pub(super) fn any_to_come(&self, peer: u32) -> bool {
        self.all_with(peer).any(|link| link.state != State::Closed || link.wanted)
    }

    /// No link with that peer is wanted any more.
    pub(super) fn want_none(&mut self, peer: u32) {
        for link in self.links.iter_mut().skip(peer as usize).step_by(self.size) {
            link.wanted = false;
        }
    }

    /// The engine has no link and wants one. `carried`: something has come over the last one. True: it is to be called.
    pub(super) fn want(&mut self, rail: usize, peer: u32, carried: bool, now: Instant) -> bool {
        let link = self.get_mut(rail, peer);
        link.wanted = true;
        if link.state == State::Open {
            link.state = State::Closed;
            link.since = None;
            let long = link.opened.is_some_and(|opened| now.duration_since(opened) >= LASTED);
            link.brief = if carried || long { 0 } else { link.brief + 1 };
        }
        link.since.get_or_insert(now);
        link.state == State::Closed
    }

    /// `peer` calls for the socket `track` of a link over this rail; it knows of `generation` links before.
    pub(super) fn called(
        &self,
        rail: usize,
        peer: u32,
        track: u8,
        generation: u32,
        breakable: bool,
    ) -> Ruling {
        let link = self.get(rail, peer);
        if generation < link.generation {
            return Ruling::Say(Verdict::Stale(link.generation));
        }
        let counts = generation == link.generation
            && match link.state {
                State::Called => true,
                // Further sockets belong to a call that counted.
                _ if track > 0 => false,
                State::Closed => true,
                State::Calling if peer > self.rank => {
                    return Ruling::Say(Verdict::Crossing);
                }
                State::Calling => true,
                State::Open => breakable,
            };
        if counts { Ruling::Take } else { Ruling::Say(Verdict::Refused) }
    }

    /// `peer` says that there were so many links. True: call again at once. A peer that says it time and again is
    /// called as one that does not answer.
    pub(super) fn stale(&mut self, rail: usize, peer: u32, generation: u32) -> bool {
        let link = self.get_mut(rail, peer);
        let news = generation > link.generation;
        link.generation = generation.max(link.generation);
        let at_once = news && link.tries == 0;
        link.tries += u32::from(at_once);
        at_once
    }

    /// The link is there.
    pub(super) fn opened(&mut self, rail: usize, peer: u32, now: Instant) {
        let link = self.get_mut(rail, peer);
        let generation = link.generation.wrapping_add(1);
        *link = Link {
            state: State::Open,
            generation,
            wanted: false,
            since: None,
            tries: 0,
            next: None,
            hopeless: false,
            opened: Some(now),
            brief: link.brief,
        };
    }

    /// How long a link may be wanted in vain. A link that was open on the peer's side alone, because this side gave
    /// its call up too early, was never there: it has the time of a first one.
    fn patience(&self, rail: usize, peer: u32, timeouts: Timeouts) -> Duration {
        match self.get(rail, peer).opened {
            Some(_) => timeouts.repair,
            None => timeouts.connect,
        }
    }

    /// Whether that time is over.
    fn is_late(&self, rail: usize, peer: u32, timeouts: Timeouts, now: Instant) -> bool {
        let patience = self.patience(rail, peer, timeouts);
        self.get(rail, peer).since.is_some_and(|since| now.duration_since(since) >= patience)
    }

    /// Whether there is no way to a peer over any rail that is wanted. Whether one is being called does not count: two could
    /// keep each other up for ever.
    pub(super) fn is_out_of_reach(&self, peer: u32, timeouts: Timeouts, now: Instant) -> bool {
        let rails = 0..self.links.len() / self.size;
        let mut wanted = rails.filter(|&rail| self.get(rail, peer).wanted).peekable();
        let is_over =
            |rail| self.get(rail, peer).hopeless || self.is_late(rail, peer, timeouts, now);
        wanted.peek().is_some() && wanted.all(is_over)
    }

    /// Is called for at that time, if it is wanted then.
    pub(super) fn call_at(&mut self, rail: usize, peer: u32, at: Instant) {
        self.get_mut(rail, peer).next = Some(at);
    }

    /// Whether the time of a call has come, which is wanted.
    pub(super) fn is_due(&mut self, rail: usize, peer: u32, now: Instant) -> bool {
        let link = self.get_mut(rail, peer);
        let due = link.next.take_if(|at| *at <= now).is_some();
        due && link.is_callable()
    }

    /// When a call that begins now is given up. Each has twice the time of the one before: a called that makes links
    /// for many callers needs long, and a call that is given up costs it one link more.
    pub(super) fn attempt(
        &self,
        rail: usize,
        peer: u32,
        timeouts: Timeouts,
        now: Instant,
    ) -> Instant {
        let link = self.get(rail, peer);
        let first = timeouts.first_call();
        let until = now + first * (1 << link.tries.min(6));
        let last = link.since.map(|since| since + self.patience(rail, peer, timeouts));
        // Later calls are those of a rail that another one stands in for.
        last.map_or(until, |last| until.min(last)).max(now + first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::details::Details;
    use proptest::prelude::*;

    /// Two processes that call each other at random over a network that loses calls and verdicts, and delays both: when
    /// it is quiet, both have the same link, or none.
    struct Pair {
        sides: [Links; 2],
        /// The link that a side holds to be open, by number.
        open: [Option<u64>; 2],
        /// Calls on their way: from which side, with which generation, which number.
        calls: Vec<(usize, u32, u64)>,
        /// Verdicts on their way to the caller.
        verdicts: Vec<(usize, Verdict, u64)>,
        /// The call that a side waits for.
        own: [Option<u64>; 2],
        next: u64,
    }

    impl Pair {
        fn call(&mut self, side: usize) {
            let link = self.sides[side].get_mut(0, 1 - side as u32);
            link.state = State::Calling;
            self.next += 1;
            self.own[side] = Some(self.next);
            self.calls.push((side, link.generation, self.next));
        }

        fn give_up(&mut self, side: usize) {
            self.own[side] = None;
        }

        fn arrives(&mut self, index: usize) {
            let (from, generation, number) = self.calls.remove(index);
            let to = 1 - from;
            // The socket of a call that was given up is closed; its hello may still be read.
            match self.sides[to].called(0, from as u32, 0, generation, true) {
                Ruling::Say(verdict) => self.verdicts.push((from, verdict, number)),
                Ruling::Take => {
                    self.give_up(to);
                    self.sides[to].opened(0, from as u32, Instant::now());
                    self.open[to] = Some(number);
                    self.verdicts.push((from, Verdict::Accepted(Details::default()), number));
                }
            }
        }

        fn answered(&mut self, index: usize) {
            let (side, verdict, number) = self.verdicts.remove(index);
            if self.own[side] != Some(number) {
                return;
            }
            self.give_up(side);
            let peer = 1 - side as u32;
            match verdict {
                Verdict::Accepted(_) => {
                    self.sides[side].opened(0, peer, Instant::now());
                    self.open[side] = Some(number);
                }
                Verdict::Stale(generation) => {
                    let link = self.sides[side].get_mut(0, peer);
                    link.generation = generation;
                    link.state = State::Closed;
                }
                _ => self.sides[side].get_mut(0, peer).state = State::Closed,
            }
        }

        fn lost(&mut self, index: usize) {
            let (side, _, number) = self.verdicts.remove(index);
            if self.own[side] == Some(number) {
                self.give_up(side);
                self.sides[side].get_mut(0, 1 - side as u32).state = State::Closed;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        #[test]
        fn both_sides_end_with_the_same_link(steps in proptest::collection::vec(any::<(u8, u8)>(), 0..60)) {
            let mut pair = Pair {
                sides: [Links::new(0, 2, 1), Links::new(1, 2, 1)],
                open: [None; 2], calls: Vec::new(), verdicts: Vec::new(), own: [None; 2], next: 0,
            };
            let now = Instant::now();
            for (what, which) in steps {
                let side = usize::from(which % 2);
                match what % 5 {
                    0 | 1 => {
                        let broken = pair.open[side].is_none();
                        if broken && pair.sides[side].want(0, 1 - side as u32, true, now) {
                            pair.call(side);
                        }
                    }
                    2 if !pair.calls.is_empty() => {
                        let index = usize::from(which) % pair.calls.len();
                        pair.arrives(index);
                    }
                    3 if !pair.verdicts.is_empty() => {
                        let index = usize::from(which) % pair.verdicts.len();
                        pair.answered(index);
                    }
                    4 if !pair.verdicts.is_empty() => {
                        let index = usize::from(which) % pair.verdicts.len();
                        pair.lost(index);
                    }
                    _ => {}
                }
            }
            for _ in 0..100 {
                while !pair.calls.is_empty() {
                    pair.arrives(0);
                }
                while !pair.verdicts.is_empty() {
                    pair.answered(0);
                }
                if pair.open[0] == pair.open[1] && pair.open[0].is_some() {
                    return Ok(());
                }
                for side in 0..2 {
                    // The socket of a link that the other side does not have has ended.
                    if pair.open[side].is_none() || pair.open[side] != pair.open[1 - side] {
                        pair.open[side] = None;
                        if pair.sides[side].want(0, 1 - side as u32, true, now) {
                            pair.call(side);
                        }
                    }
                }
            }
            prop_assert!(false, "no common link");
        }
    }

    #[test]
    fn a_peer_that_takes_every_call_for_an_old_one_is_not_called_at_once_for_ever() {
        let mut links = Links::new(0, 2, 1);
        assert!(links.want(0, 1, true, Instant::now()));
        let at_once = (1..100).filter(|&generation| links.stale(0, 1, generation)).count();
        assert_eq!((at_once, links.get(0, 1).generation), (1, 99));
        links.opened(0, 1, Instant::now());
        assert!(!links.stale(0, 1, 7), "no news");
        assert!(links.stale(0, 1, 200));
    }

    const TIMEOUTS: Timeouts =
        Timeouts { connect: Duration::from_secs(60), repair: Duration::from_secs(2) };

    /// The called needs longer than a call may take: it opens the link when the caller has given up.
    #[test]
    fn a_caller_that_gave_up_too_early_has_the_time_of_a_first_link() {
        let mut links = Links::new(3, 4, 1);
        let start = Instant::now();
        assert!(links.want(0, 0, true, start));
        links.get_mut(0, 0).tries = 1;
        assert!(!links.stale(0, 0, 1), "the called has had a link, and says so");
        let late = |links: &Links, after| {
            links.is_late(0, 0, TIMEOUTS, start + Duration::from_secs(after))
        };
        assert!(!late(&links, 59) && late(&links, 60));
        // A link that was there has the time of a repair.
        links.opened(0, 0, start);
        assert!(links.want(0, 0, true, start));
        assert!(!late(&links, 1) && late(&links, 2));
    }

    #[test]
    fn a_link_that_does_not_last_rests_ever_longer_until_one_has_lasted() {
        let mut links = Links::new(0, 2, 2);
        let mut now = Instant::now();
        let mut lives = |seconds: u64, carried: bool| {
            links.opened(1, 1, now);
            now += Duration::from_secs(seconds);
            assert!(links.want(1, 1, carried, now));
            assert!(links.want(1, 1, carried, now), "asked for twice, it has broken once");
            links.get(1, 1).rest().as_millis()
        };
        assert_eq!(lives(1, true), 0);
        let rests: Vec<_> = (0..9).map(|_| lives(60, false)).collect();
        assert_eq!(rests, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000]);
        assert_eq!(lives(1, true), 0, "its network is there again");
        assert_eq!((lives(1, false), lives(64, false)), (500, 0));
    }

    #[test]
    fn a_peer_is_out_of_reach_when_no_wanted_rail_has_time_left() {
        let (start, repair) = (Instant::now(), TIMEOUTS.repair);
        let mut links = Links::new(0, 2, 3);
        for rail in [0, 1] {
            links.opened(rail, 1, start);
        }
        assert!(links.want(0, 1, true, start));
        let later = start + repair * 2;
        assert!(links.want(1, 1, true, later), "it breaks when the other one has had its time");
        assert!(!links.is_out_of_reach(1, TIMEOUTS, later));
        assert!(links.is_out_of_reach(1, TIMEOUTS, later + repair));
        links.get_mut(1, 1).hopeless = true;
        assert!(links.is_out_of_reach(1, TIMEOUTS, later));
        links.want_none(1);
        assert!(!links.is_out_of_reach(1, TIMEOUTS, later), "nothing is looked for");
    }

    #[test]
    fn of_several_times_for_a_call_the_last_one_set_counts() {
        let (mut links, start) = (Links::new(0, 2, 1), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(links.want(0, 1, true, start));
        links.call_at(0, 1, at(1));
        links.call_at(0, 1, at(5));
        assert!(!links.is_due(0, 1, at(1)));
        assert!(links.is_due(0, 1, at(5)) && !links.is_due(0, 1, at(5)));
        links.call_at(0, 1, at(6));
        links.get_mut(0, 1).state = State::Calling;
        assert!(!links.is_due(0, 1, at(6)));
    }

    #[test]
    fn each_call_has_twice_the_time_of_the_one_before() {
        let mut links = Links::new(3, 4, 1);
        let start = Instant::now();
        assert!(links.want(0, 0, true, start));
        let has = |links: &Links, after| {
            let now = start + Duration::from_secs(after);
            links.attempt(0, 0, TIMEOUTS, now) - now
        };
        for seconds in [1, 2, 4, 8, 16] {
            assert_eq!(has(&links, 0), Duration::from_secs(seconds));
            links.get_mut(0, 0).tries += 1;
        }
        assert_eq!(has(&links, 45), Duration::from_secs(15), "no longer than it is waited for");
        assert_eq!(has(&links, 90), Duration::from_secs(1), "another rail carries the messages");
    }

    #[test]
    fn a_crossing_call_and_a_call_from_the_past_open_nothing() {
        let mut low = Links::new(0, 2, 1);
        let mut high = Links::new(1, 2, 1);
        let now = Instant::now();
        assert!(low.want(0, 1, true, now) && high.want(0, 0, true, now));
        low.get_mut(0, 1).state = State::Calling;
        high.get_mut(0, 0).state = State::Calling;
        assert_eq!(low.called(0, 1, 0, 0, true), Ruling::Say(Verdict::Crossing));
        assert_eq!(high.called(0, 0, 0, 0, true), Ruling::Take);
        low.opened(0, 1, now);
        // The given-up call of the higher one is read only now.
        assert_eq!(low.called(0, 1, 0, 0, true), Ruling::Say(Verdict::Stale(1)));
        // What cannot break is not made a second time; what can is, when the peer asks.
        assert_eq!(low.called(0, 1, 0, 1, false), Ruling::Say(Verdict::Refused));
        assert_eq!(low.called(0, 1, 0, 1, true), Ruling::Take);
        // A second socket without a first is nothing.
        assert_eq!(low.called(0, 1, 1, 1, true), Ruling::Say(Verdict::Refused));
        assert!(
            low.want(0, 1, true, now),
            "a link that the engine wants although it is open has broken"
        );
    }
}
