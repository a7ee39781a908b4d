//! The eight kinds of callback, and the reasons for the order in which they are taken (the table is in [`super`]).
//!
//! * One: the cheapest look at exactly what is asked for. Several: the fewest calls, and the fewest pool threads.
//! * A server without polling callbacks is polled by its blocking ones *with time-out*, with a time-out of zero.
//! * Of a blocking kind with and without time-out the one without is taken if there is an interrupt callback, since its
//!   thread wakes up for events only; else the one with, since its thread comes back by itself ([`SLICE`]).
//! * A kind whose callback has panicked over several requests at once is not taken any more.

use std::time::Duration;

/// How long a blocking call with time-out lasts where nothing else gets its thread out. So long does it take at most
/// until it serves another request, or none; it costs 50 wake-ups a second.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// A kind of callback (\[Trahay09\], annex A.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    PollOne,
    PollGroup,
    PollAny,
    BlockOne,
    BlockOneTimeout,
    BlockGroup,
    BlockAny,
    BlockAnyTimeout,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::PollOne => "poll one",
            Kind::PollGroup => "poll group",
            Kind::PollAny => "poll any",
            Kind::BlockOne => "block on one",
            Kind::BlockOneTimeout => "block on one, with time-out",
            Kind::BlockGroup => "block on a group",
            Kind::BlockAny => "block on any",
            Kind::BlockAnyTimeout => "block on any, with time-out",
        }
    }

    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Which requests a call is about.
    pub(super) fn scope(self) -> Scope {
        match self {
            Kind::PollOne | Kind::BlockOne | Kind::BlockOneTimeout => Scope::One,
            Kind::PollGroup | Kind::BlockGroup => Scope::Group,
            Kind::PollAny | Kind::BlockAny | Kind::BlockAnyTimeout => Scope::Any,
        }
    }

    pub(super) fn has_timeout(self) -> bool {
        matches!(self, Kind::BlockOneTimeout | Kind::BlockAnyTimeout)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    One,
    Group,
    Any,
}

/// The kinds that a server can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) mask: u8,
    pub(super) interrupt: bool,
}

impl Kinds {
    fn has(self, kind: Kind) -> bool {
        self.mask & kind.bit() != 0
    }

    fn first(self, kinds: &[Kind]) -> Option<Kind> {
        kinds.iter().copied().find(|&kind| self.has(kind))
    }

    /// How to poll for `n` requests.
    pub(super) fn polling(self, n: usize) -> Option<Kind> {
        use Kind::*;
        match n {
            0 => None,
            1 => self.first(&[PollOne, PollGroup, PollAny, BlockOneTimeout, BlockAnyTimeout]),
            _ => self.first(&[PollAny, PollGroup, PollOne, BlockAnyTimeout, BlockOneTimeout]),
        }
    }

    /// How to block on `n` requests; `wide` kinds, for several requests, only if no job has one already.
    pub(super) fn blocking(self, n: usize, wide: bool) -> Option<Kind> {
        use Kind::*;
        let one =
            if self.interrupt { [BlockOne, BlockOneTimeout] } else { [BlockOneTimeout, BlockOne] };
        let any =
            if self.interrupt { [BlockAny, BlockAnyTimeout] } else { [BlockAnyTimeout, BlockAny] };
        let (one, group, any) = (&one[..], &[BlockGroup][..], &any[..]);
        match (n, wide) {
            (0, _) => None,
            (_, false) => self.first(one),
            (1, true) => self.first(&[one, group, any].concat()),
            (_, true) => self.first(&[any, group, one].concat()),
        }
    }

    /// Whether a thread can be got out of such a blocking call.
    pub(super) fn can_leave(self, kind: Kind) -> bool {
        self.interrupt || kind.has_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind::*, *};

    const ALL: [Kind; 8] = [
        PollOne,
        PollGroup,
        PollAny,
        BlockOne,
        BlockOneTimeout,
        BlockGroup,
        BlockAny,
        BlockAnyTimeout,
    ];

    fn of(kinds: &[Kind], interrupt: bool) -> Kinds {
        Kinds { mask: kinds.iter().fold(0, |mask, kind| mask | kind.bit()), interrupt }
    }

    #[test]
    fn one_request_is_looked_for_alone_and_several_together() {
        let all = of(&ALL, true);
        assert_eq!((all.polling(1), all.polling(2)), (Some(PollOne), Some(PollAny)));
        assert_eq!(all.blocking(1, true), Some(BlockOne));
        assert_eq!(all.blocking(2, true), Some(BlockAny));
        let no_any = of(&[PollOne, PollGroup, BlockGroup, BlockOne], true);
        assert_eq!(
            (no_any.polling(5), no_any.blocking(5, true)),
            (Some(PollGroup), Some(BlockGroup))
        );
        assert_eq!(no_any.blocking(5, false), Some(BlockOne));
    }

    #[test]
    fn without_an_interrupt_calls_with_time_out_are_preferred() {
        let all = of(&ALL, false);
        assert_eq!(all.blocking(1, true), Some(BlockOneTimeout));
        assert_eq!(all.blocking(2, true), Some(BlockAnyTimeout));
        assert!(all.can_leave(BlockAnyTimeout) && !all.can_leave(BlockGroup));
    }

    /// Whatever one kind a server has, some method finds any number of requests with it.
    #[test]
    fn every_kind_alone_will_do() {
        for kind in ALL {
            for n in 1..3 {
                let alone = of(&[kind], false);
                let found = alone.polling(n).or(alone.blocking(n, true));
                assert_eq!(found, Some(kind));
                assert!(alone.polling(0).is_none() && alone.blocking(0, true).is_none());
            }
        }
    }
}
