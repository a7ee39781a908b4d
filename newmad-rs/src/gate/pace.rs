//! Which way long messages of a peer take when both sides wait: through the cache in fragments, or by one copy of the
//! kernel's; by what both took of late.
//!
//! Neither is better everywhere. Where the two cores share a cache, two copies at once are faster than one; where they do
//! not, each slot crosses twice, and a 64 KiB message took 30 µs instead of 7. And a virtual machine's cores move. So the
//! receiver measures, for two kinds of messages ([`Kind`]): how long a message took from its match to its end, one message
//! at a time.
//!
//! Only messages that go one way are measured. If messages *cross*, that is, the receiver sends a long one, too, then two
//! copies on each core compete with one: each side makes one of the kernel's (64 KiB each way, three states of
//! one machine: 8 µs, and 6, 9 and 34 by fragments). So that sides choose alike, whoever is first, crossing is a habit of the
//! process ([`Crossing`]), whoever it sends to and receives from (a ring of ranks crosses, too): it is
//! expected until some messages have come that did not cross ([`APART`]). (Each side chose by whether its own message was under
//! way already: now and then one side made both copies, or one message went by fragments, and 4 MiB each way took 690 µs
//! instead of 430.)
//!
//! ```text
//!   first way, FIRST times ──▶ the other, once ──▶ the faster ──(now and then: the other, once)──▶ the faster …
//! ```
//! How often the slower one is tried depends on what that costs: in [`TRIAL`] messages times the square of how many times as
//! long it takes. A way is left for one that is clearly faster ([`CLEARLY`]), so that noise does not decide. One message that
//! takes long, since a core was taken away, counts as [`SPIKE`] times what is known at the most.
//!
//! Rejected: measuring at start (the answer changes within minutes on virtual machines, and differs between pairs of ranks);
//! asking the machine which cores share a cache (virtual ones say what they are told to); measuring messages that go both ways
//! (what one side chooses is in the other's times: both stayed with what is slower for both).

use crate::request::LONG;

/// After so many messages the other way is tried first.
const FIRST: u32 = 8;
/// See the module.
const TRIAL: u32 = 32;
/// Most messages between two trials.
const LATEST: u32 = 4096;
/// So many quarters of the time of the way in use: the other is taken if it needs less.
const CLEARLY: u32 = 3;
const SPIKE: u32 = 4;
/// Times are told for so many bytes.
const BLOCK: usize = 4096;
/// Messages that are longer are of the longer kinds: several of them do not fit a core's own cache.
const LONGER: usize = 128 << 10;
/// A message that is measured for longer, in nanoseconds, has ended otherwise: another one is.
const STALE: u64 = 1_000_000_000;
/// So many beginnings and ends of messages that do not cross end the habit.
const APART: u8 = 8;

/// A kind of messages, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(usize);

impl Kind {
    /// Of messages of so many bytes. `None`: they are not measured.
    pub(crate) fn of(len: usize) -> Option<Kind> {
        (len >= LONG).then(|| Kind(usize::from(len > LONGER)))
    }
}

/// One of the two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Fragments,
    /// The receiver's copy.
    Get,
}

impl Way {
    fn other(self) -> Way {
        if self == Way::Get { Way::Fragments } else { Way::Get }
    }
}

/// What is known of a kind.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Nanoseconds for each [`BLOCK`] by each way; 0: unknown.
    times: [u32; 2],
    /// The way in use.
    in_use: Way,
    /// Messages since the way that is not in use was tried.
    since: u32,
}

impl Known {
    /// After so many messages the way that is not in use is tried.
    fn trial(&self) -> u32 {
        match (self.times[self.in_use as usize], self.times[self.in_use.other() as usize]) {
            (0, _) => u32::MAX,
            (_, 0) => FIRST,
            (used, other) => {
                let times = (u64::from(other) * 16 / u64::from(used)).min(1 << 10);
                (u64::from(TRIAL) * times * times / 256).clamp(TRIAL.into(), LATEST.into()) as u32
            }
        }
    }
}

/// The message that is measured.
#[derive(Clone, Copy)]
struct Measured {
    id: u64,
    kind: Kind,
    way: Way,
    blocks: u32,
    begun_ns: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Pace {
    known: [Known; 2],
    measured: Option<Measured>,
}

/// Whether a process receives long messages while it sends some; see the module.
#[derive(Default)]
pub(crate) struct Crossing {
    /// Beginnings and ends until the habit ends.
    left: u8,
}

impl Crossing {
    /// A long message begins to come, or has come: whether a long one of this side's is under way. Or one of this side's is
    /// announced while one comes.
    pub(crate) fn meets(&mut self, own: bool) {
        self.left = if own { APART } else { self.left.saturating_sub(1) };
    }

    /// Whether messages are expected to cross.
    pub(crate) fn is_expected(&self) -> bool {
        self.left > 0
    }
}

impl Pace {
    /// The way of the next message of a kind, which begins now.
    pub(crate) fn choose(&mut self, kind: Kind, now_ns: u64) -> Way {
        let free = self.is_free(now_ns);
        let known = &mut self.known[kind.0];
        known.since = known.since.saturating_add(1);
        // A trial that is not measured is lost.
        if free && known.since > known.trial() {
            known.since = 0;
            return known.in_use.other();
        }
        known.in_use
    }

    /// The way in use.
    pub(crate) fn usual(&self, kind: Kind) -> Way {
        self.known[kind.0].in_use
    }

    /// Message `id` of `len` bytes begins this way. One is measured at a time.
    pub(crate) fn begins(&mut self, id: u64, kind: Kind, way: Way, len: usize, now_ns: u64) {
        if !self.is_free(now_ns) {
            return;
        }
        let blocks = len.div_ceil(BLOCK) as u32;
        self.measured = Some(Measured { id, kind, way, blocks, begun_ns: now_ns });
    }

    /// Whether no message is measured.
    fn is_free(&self, now_ns: u64) -> bool {
        self.measured.is_none_or(|other| now_ns.saturating_sub(other.begun_ns) >= STALE)
    }

    /// Whether that message is measured.
    pub(crate) fn measures(&self, id: u64) -> bool {
        self.measured.is_some_and(|measured| measured.id == id)
    }

    /// It goes another way than it began, or is over without its bytes.
    pub(crate) fn forget(&mut self, id: u64) {
        if self.measures(id) {
            self.measured = None;
        }
    }

    /// It is over.
    pub(crate) fn ends(&mut self, id: u64, now_ns: impl FnOnce() -> u64) {
        let Some(Measured { kind, way, blocks, begun_ns, .. }) =
            self.measured.take_if(|measured| measured.id == id)
        else {
            return;
        };
        let time = now_ns().saturating_sub(begun_ns) / u64::from(blocks);
        let time = u32::try_from(time).unwrap_or(u32::MAX).max(1);
        let known = &mut self.known[kind.0];
        let in_use = known.in_use;
        let [this, other] = [way as usize, way.other() as usize];
        let (before, other) = (known.times[this], known.times[other]);
        known.times[this] = match before {
            0 if other != 0 => time.min(other.saturating_mul(SPIKE)),
            0 => time,
            // Nothing makes a message faster than its way: what is shorter is true at once where it is tried seldom.
            _ if time < before && way != in_use => time,
            _ if time < before => before - (before - time) / 2,
            _ => before.saturating_add((time.min(before.saturating_mul(SPIKE)) - before) / 8),
        }
        .max(1);
        let [used, other] = [in_use, in_use.other()].map(|way| known.times[way as usize]);
        if other != 0 && u64::from(other) * 4 < u64::from(used) * u64::from(CLEARLY) {
            known.in_use = in_use.other();
            known.since = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 64 << 10;

    #[test]
    fn crossing_is_a_habit_of_a_few_messages() {
        let mut crossing = Crossing::default();
        assert!(!crossing.is_expected());
        crossing.meets(true);
        let apart = (1..).find(|_| {
            crossing.meets(false);
            !crossing.is_expected()
        });
        assert_eq!(apart, Some(APART));
    }

    /// Messages of which each takes what `cost` says for its way; how many went each way.
    fn run(
        pace: &mut Pace,
        kind: Kind,
        messages: u64,
        mut cost: impl FnMut(u64, Way) -> u64,
    ) -> [u32; 2] {
        let mut ways = [0; 2];
        for id in 1..=messages {
            let way = pace.choose(kind, 0);
            ways[usize::from(way == Way::Get)] += 1;
            pace.begins(id, kind, way, LEN, 0);
            pace.ends(id, || cost(id, way));
        }
        ways
    }

    fn kind() -> Kind {
        Kind::of(LEN).unwrap()
    }

    #[test]
    fn it_begins_with_fragments_and_measures_long_messages() {
        assert_eq!(Pace::default().choose(kind(), 0), Way::Fragments);
        assert_eq!(Kind::of(LONG - 1), None);
        assert_ne!(Kind::of(LONGER), Kind::of(LONGER + 1));
    }

    #[test]
    fn a_way_that_is_slower_is_left_and_trials_cost_little() {
        let (mut pace, kind) = (Pace::default(), kind());
        let [fragments, get] =
            run(&mut pace, kind, 10_000, |_, way| if way == Way::Get { 7_000 } else { 30_000 });
        assert!(fragments <= FIRST + 30, "{fragments} of {}", fragments + get);
        assert_eq!(pace.usual(kind), Way::Get);
    }

    #[test]
    fn it_follows_a_machine_that_changes() {
        let (mut pace, kind) = (Pace::default(), kind());
        let shared = |_, way| if way == Way::Get { 9_000 } else { 6_000 };
        let apart = |_, way| if way == Way::Get { 8_000 } else { 30_000 };
        for _ in 0..3 {
            run(&mut pace, kind, 2_000, shared);
            assert_eq!(pace.usual(kind), Way::Fragments);
            let [fragments, _] = run(&mut pace, kind, 2_000, apart);
            assert_eq!(pace.usual(kind), Way::Get);
            assert!(fragments < 30, "{fragments}");
        }
    }

    #[test]
    fn one_message_that_took_long_changes_nothing() {
        let (mut pace, kind) = (Pace::default(), kind());
        let cost = |id, way| match (id, way) {
            (500, _) => 4_000_000,
            (_, Way::Get) => 9_000,
            _ => 7_000,
        };
        run(&mut pace, kind, 501, cost);
        assert_eq!(pace.usual(kind), Way::Fragments);
    }

    #[test]
    fn in_windows_the_message_that_is_tried_is_the_one_that_is_measured() {
        for window in [3, 64] {
            let (mut pace, kind) = (Pace::default(), kind());
            for round in 0..200 {
                let ids = round * window + 1..=(round + 1) * window;
                let ways: Vec<_> = ids
                    .clone()
                    .map(|id| {
                        let way = pace.choose(kind, round);
                        pace.begins(id, kind, way, LEN, round);
                        way
                    })
                    .collect();
                for (id, way) in ids.zip(ways) {
                    pace.ends(id, || round + if way == Way::Get { 7_000 } else { 30_000 });
                }
            }
            assert_eq!(pace.usual(kind), Way::Get, "windows of {window}");
        }
    }

    #[test]
    fn a_first_trial_that_took_long_is_made_again() {
        let (mut pace, kind) = (Pace::default(), kind());
        let mut first = true;
        let cost = |_, way| match way {
            Way::Get if std::mem::take(&mut first) => 4_000_000,
            Way::Get => 8_000,
            _ => 30_000,
        };
        run(&mut pace, kind, 700, cost);
        assert_eq!(pace.usual(kind), Way::Get);
    }

    #[test]
    fn of_a_window_of_messages_one_is_measured_and_a_stale_one_gives_way() {
        let (mut pace, kind) = (Pace::default(), kind());
        pace.begins(1, kind, Way::Fragments, LEN, 0);
        pace.begins(2, kind, Way::Fragments, LEN, 1);
        assert!(pace.measures(1) && !pace.measures(2));
        pace.ends(2, || unreachable!("it is not measured"));
        pace.begins(3, kind, Way::Fragments, LEN, STALE);
        assert!(pace.measures(3));
        pace.forget(1);
        assert!(pace.measures(3));
        pace.forget(3);
        assert!(!pace.measures(3));
    }

    proptest! {
        /// Whatever the ways take, with noise, the time lost to the slower one stays small.
        #[test]
        fn little_is_lost_whatever_the_costs(
            fragments in 1_000..100_000u64,
            get in 1_000..100_000u64,
            noise in proptest::collection::vec(0..100u64, 64),
        ) {
            let (mut pace, kind) = (Pace::default(), kind());
            let mut spent = 0;
            let cost = |id: u64, way| {
                let base = if way == Way::Get { get } else { fragments };
                let time = base + base * noise[id as usize % noise.len()] / 1_000;
                spent += time;
                time
            };
            run(&mut pace, kind, 4_000, cost);
            let least = fragments.min(get) * 4_000;
            // A third: a way that is not clearly slower may stay. The first messages cost at most a hundred times as much.
            prop_assert!(spent <= least * 16 / 10 + u64::from(FIRST) * 4 * 100_000, "{spent} {least}");
        }
    }
}
