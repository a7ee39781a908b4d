//! How a message moves, and why: the one place that chooses.
//!
//! Its sender chooses when the message is submitted, its receiver when a receive has matched it, and the side that copies
//! again if the copy is refused, or both sides have come to wait before it is far.
//!
//! | protocol | what moves the bytes | good for |
//! |---|---|---|
//! | `Inline` | the sender's call gives them to the driver at once | short messages with nothing before them |
//! | `Eager` | packets of the small track, without asking | short messages that wait, or are scattered |
//! | `Rendezvous` | nothing yet: the message is announced, and its receiver chooses one of the next three | long messages, synchronous ones, floods |
//! | `Get` | the receiver copies from the sender's memory | the receiver waits, or neither side does |
//! | `Put` | the sender copies into the receiver's memory | the sender alone waits |
//! | `Fragments` | pieces over the large tracks of all open links | both sides wait; no memory can be reached |
//!
//! *The copier is the side that waits*, so that a side that computes is not slowed by the copy. One copy by the kernel
//! takes two to five times as long as two at once through the cache, which both sides make as long as both wait; but it
//! needs one side only. Inside one process one plain copy is the best. One side that stops waiting in the middle makes
//! fragments slow, not wrong.

/// How a message moves; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Inline,
    Eager,
    Rendezvous,
    Get,
    Put,
    Fragments,
}

/// Why it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing is before it, and the driver takes it.
    Free,
    /// It is short, and waits or has several pieces.
    Short,
    /// It is longer than the threshold.
    Long,
    /// Its sender waits for its receive to match.
    Synchronous,
    /// Its receiver has not taken what was sent before.
    Credit,
    /// Both ranks are one.
    SameRank,
    /// Neither side can reach the other's memory.
    Unreachable,
    /// Both sides wait, and copy at the same time.
    BothWait,
    /// The receiver waits, and its sender does not.
    ReceiverWaits,
    /// The sender waits, and its receiver does not.
    SenderWaits,
    /// Neither side waits.
    NeitherWaits,
    /// Its memory lies in short pieces.
    Scattered,
    /// Both sides have come to wait before the copy was far.
    Late,
    /// The copy goes on.
    GoesOn,
    /// The kernel refused the copy.
    Refused,
}

/// What is known of a message when its protocol is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// It is submitted.
    Submitted {
        len: usize,
        threshold: usize,
        synchronous: bool,
        /// Its gate has credit for it.
        credit: bool,
        /// The driver would take it now.
        free: bool,
    },
    /// A receive has matched its announcement.
    Matched {
        same_rank: bool,
        /// One side can reach the other's memory.
        reachable: bool,
        /// The receiver can copy: the sender has said where the memory is, and the runs of the receiver's are long.
        readable: bool,
        /// The receiver's memory lies in pieces.
        scattered: bool,
        /// Its receiver waits for it.
        receiver_waits: bool,
        /// A thread of the receiver's waits for a long message, this one or another.
        receiver_copies: bool,
        sender_waits: bool,
        /// A thread of the sender's would copy its part.
        sender_copies: bool,
    },
    /// Its copy is about to begin, or to go on.
    Copying {
        by: Protocol,
        moved: usize,
        total: usize,
        /// A thread of either side would copy its part.
        both_copy: bool,
    },
    /// Its copy was refused.
    Refused,
}

/// A protocol, and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) protocol: Protocol,
    pub(crate) why: Reason,
}

/// Of a copy that has not moved more than one part in so many is begun again as fragments.
const NOT_FAR: usize = 4;

/// Chooses; see the module.
pub(crate) fn choose(known: Known) -> Choice {
    use Protocol::{Eager, Fragments, Get, Inline, Put, Rendezvous};
    let (protocol, why) = match known {
        Known::Submitted { len, threshold, .. } if len > threshold => (Rendezvous, Reason::Long),
        Known::Submitted { synchronous: true, .. } => (Rendezvous, Reason::Synchronous),
        Known::Submitted { credit: false, .. } => (Rendezvous, Reason::Credit),
        Known::Submitted { free: true, .. } => (Inline, Reason::Free),
        Known::Submitted { .. } => (Eager, Reason::Short),

        Known::Matched { same_rank: true, .. } => (Get, Reason::SameRank),
        Known::Matched { reachable: false, .. } => (Fragments, Reason::Unreachable),
        Known::Matched { receiver_copies: true, sender_copies: true, .. } => {
            (Fragments, Reason::BothWait)
        }
        Known::Matched { receiver_waits, sender_waits, readable, scattered, .. } => {
            match (receiver_waits, sender_waits) {
                (false, true) if !scattered => (Put, Reason::SenderWaits),
                _ if !readable => (Fragments, Reason::Scattered),
                (true, _) => (Get, Reason::ReceiverWaits),
                (false, true) => (Get, Reason::Scattered),
                (false, false) => (Get, Reason::NeitherWaits),
            }
        }

        Known::Copying { moved, total, both_copy: true, .. } if moved <= total / NOT_FAR => {
            (Fragments, Reason::Late)
        }
        Known::Copying { by, .. } => (by, Reason::GoesOn),
        Known::Refused => (Fragments, Reason::Refused),
    };
    Choice { protocol, why }
}

impl Choice {
    /// For the trace.
    pub(crate) fn text(self) -> &'static str {
        match (self.protocol, self.why) {
            (Protocol::Inline, _) => "inline: nothing is before it",
            (Protocol::Eager, _) => "eager: it is short",
            (Protocol::Rendezvous, Reason::Synchronous) => {
                "rendezvous: its sender waits for a receive"
            }
            (Protocol::Rendezvous, Reason::Credit) => "rendezvous: its receiver is behind",
            (Protocol::Rendezvous, _) => "rendezvous: it is long",
            (Protocol::Get, Reason::SameRank) => "get: both ranks are one",
            (Protocol::Get, Reason::ReceiverWaits) => "get: the receiver waits",
            (Protocol::Get, Reason::NeitherWaits) => "get: neither side waits",
            (Protocol::Get, _) => "get: the receiver's memory lies in pieces",
            (Protocol::Put, _) => "put: the sender waits",
            (Protocol::Fragments, Reason::BothWait) => "fragments: both sides wait",
            (Protocol::Fragments, Reason::Late) => "fragments: both sides have come to wait",
            (Protocol::Fragments, Reason::Refused) => "fragments: the kernel refused a copy",
            (Protocol::Fragments, Reason::Unreachable) => "fragments: no memory can be reached",
            (Protocol::Fragments, _) => "fragments: memory lies in short pieces",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Protocol::{Eager, Fragments, Get, Inline, Put, Rendezvous};
    use super::*;

    fn chosen(known: Known) -> (Protocol, Reason) {
        let Choice { protocol, why } = choose(known);
        (protocol, why)
    }

    #[test]
    fn a_sender_chooses_by_length_credit_and_what_it_waits_for() {
        let table = [
            // length, synchronous, credit, free
            ((100, false, true, true), (Inline, Reason::Free)),
            ((100, false, true, false), (Eager, Reason::Short)),
            ((100, false, false, true), (Rendezvous, Reason::Credit)),
            ((100, true, true, true), (Rendezvous, Reason::Synchronous)),
            ((101, false, true, true), (Rendezvous, Reason::Long)),
            ((101, true, false, false), (Rendezvous, Reason::Long)),
        ];
        for ((len, synchronous, credit, free), expected) in table {
            let known = Known::Submitted { len, threshold: 100, synchronous, credit, free };
            assert_eq!(chosen(known), expected, "{known:?}");
        }
    }

    #[test]
    fn a_receiver_chooses_by_reach_and_by_the_sides_that_wait() {
        let (yes, no) = (true, false);
        let table = [
            // receiver waits, sender waits, receiver copies, sender copies
            ((no, no, no, no), (Get, Reason::NeitherWaits)),
            ((yes, no, yes, no), (Get, Reason::ReceiverWaits)),
            ((no, yes, no, yes), (Put, Reason::SenderWaits)),
            ((yes, yes, yes, yes), (Fragments, Reason::BothWait)),
            // The sender said that it waits, and has stopped.
            ((yes, yes, yes, no), (Get, Reason::ReceiverWaits)),
            // Another thread of either side waits for another long message.
            ((no, no, yes, yes), (Fragments, Reason::BothWait)),
            ((no, no, yes, no), (Get, Reason::NeitherWaits)),
        ];
        for ((receiver_waits, sender_waits, receiver_copies, sender_copies), expected) in table {
            let known = |same_rank, reachable, readable, scattered| Known::Matched {
                same_rank,
                reachable,
                readable,
                scattered,
                receiver_waits,
                receiver_copies,
                sender_waits,
                sender_copies,
            };
            assert_eq!(chosen(known(no, yes, yes, no)), expected);
            assert_eq!(chosen(known(yes, no, no, yes)), (Get, Reason::SameRank));
            assert_eq!(chosen(known(no, no, yes, no)), (Fragments, Reason::Unreachable));
            // The sender's memory lies in pieces: it can put, and cannot be got from.
            let without = match expected {
                (Get, _) => (Fragments, Reason::Scattered),
                other => other,
            };
            assert_eq!(chosen(known(no, yes, no, no)), without);
            // The receiver's does: it can get long pieces, and gives no address.
            let pieces = match expected {
                (Put, _) => (Get, Reason::Scattered),
                other => other,
            };
            assert_eq!(chosen(known(no, yes, yes, yes)), pieces);
        }
    }

    #[test]
    fn a_copy_that_is_not_far_becomes_fragments_once_both_sides_wait() {
        let copying =
            |by, moved, both_copy| chosen(Known::Copying { by, moved, total: 8, both_copy });
        assert_eq!(copying(Get, 2, true), (Fragments, Reason::Late));
        assert_eq!(copying(Get, 3, true), (Get, Reason::GoesOn));
        assert_eq!(copying(Put, 0, false), (Put, Reason::GoesOn));
        assert_eq!(chosen(Known::Refused), (Fragments, Reason::Refused));
    }
}
