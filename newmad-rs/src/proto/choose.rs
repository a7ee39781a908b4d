//! How a message moves, and why: the one place that chooses.
//!
//! Its sender chooses when the message is submitted, its receiver when a receive has matched it, and the side that
//! copies again if the copy is refused, or both sides have come to wait before it is far.
//!
//! | protocol | what moves the bytes | good for |
//! |---|---|---|
//! | `Inline` | the sender's call gives them to the driver at once | short messages with nothing before them |
//! | `Eager` | packets of the small track, without asking | short messages that wait, or are scattered |
//! | `Rendezvous` | nothing yet: the message is announced, and its receiver chooses one of the next four | long messages, synchronous ones, floods |
//! | `Get` | the receiver copies from the sender's memory | the receiver waits, or neither side does; both wait, and it is faster, or messages cross |
//! | `Read` | the receiver's adapter reads from the sender's memory | long messages over adapters that can |
//! | `Put` | the sender copies into the receiver's memory | the sender alone waits; both wait, and messages cross |
//! | `Fragments` | pieces over the large tracks of all open links | both sides wait, and it is faster; no memory can be reached |
//!
//! *The copier is the side that waits*, so that a side that computes is not slowed by the copy. If both wait, one copy by the
//! kernel takes from a quarter to five times as long as two at once through the cache, as the machine has it: that is
//! measured, for each peer ([`pace`](crate::gate::pace)). Inside one process one plain copy is the best. One side that stops waiting in the middle makes
//! fragments slow, not wrong.

use crate::gate::pace::Way;

/// How a message moves; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Inline,
    Eager,
    Rendezvous,
    Get,
    Read,
    Put,
    Fragments,
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
        same_process: bool,
        /// One side can reach the other's memory.
        reachable: bool,
        /// The adapter of a link with the sender can read messages of this length.
        adapter_reads: bool,
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
        /// What is faster if both copy, by what was measured.
        faster: Way,
        /// Messages go both ways. Each side copies one of two, as both announced: what it sends, if senders said that they
        /// wait, or what it receives, since they had computed.
        crosses: bool,
    },
    /// Its copy is about to begin, or to go on.
    Copying {
        by: Protocol,
        moved: usize,
        total: usize,
        /// A thread of either side would copy its part, which would be faster.
        both_copy: bool,
    },
}

/// A protocol, and why it was chosen, for the trace.
pub(crate) type Choice = (Protocol, &'static str);

/// The choice when the kernel has refused a copy.
pub(crate) const REFUSED: Choice = (Protocol::Fragments, "fragments: the kernel refused a copy");

/// Of a copy that has not moved more than one part in so many is begun again as fragments.
const NOT_FAR: usize = 4;

/// Chooses; see the module.
pub(crate) fn choose(known: Known) -> Choice {
    use Protocol::{Eager, Fragments, Get, Inline, Put, Read, Rendezvous};
    match known {
        Known::Submitted { len, threshold, .. } if len > threshold => {
            (Rendezvous, "rendezvous: it is long")
        }
        Known::Submitted { synchronous: true, .. } => {
            (Rendezvous, "rendezvous: its sender waits for a receive")
        }
        Known::Submitted { credit: false, .. } => {
            (Rendezvous, "rendezvous: its receiver is behind")
        }
        Known::Submitted { free: true, .. } => (Inline, "inline: nothing is before it"),
        Known::Submitted { .. } => (Eager, "eager: it is short"),

        Known::Matched { same_process: true, .. } => (Get, "get: both ranks are in one process"),
        Known::Matched {
            reachable: false,
            adapter_reads: true,
            readable: true,
            scattered: false,
            ..
        } => (Read, "read: the adapter takes it from the sender's memory"),
        Known::Matched { reachable: false, .. } => {
            (Fragments, "fragments: no memory can be reached")
        }
        Known::Matched {
            receiver_copies: true,
            sender_copies: true,
            sender_waits: true,
            readable: true,
            scattered: false,
            crosses: true,
            ..
        } => (Put, "put: messages cross, and each side copies what it sends"),
        Known::Matched {
            receiver_copies: true,
            sender_copies: true,
            readable: true,
            crosses: true,
            ..
        } => (Get, "get: messages cross, and each side copies what it receives"),
        Known::Matched {
            receiver_copies: true,
            sender_copies: true,
            readable: true,
            faster: Way::Get,
            ..
        } => (Get, "get: both sides wait, and it has been faster"),
        Known::Matched { receiver_copies: true, sender_copies: true, .. } => {
            (Fragments, "fragments: both sides wait")
        }
        Known::Matched { receiver_waits, sender_waits, readable, scattered, .. } => {
            match (receiver_waits, sender_waits) {
                (false, true) if !scattered => (Put, "put: the sender waits"),
                _ if !readable => (Fragments, "fragments: memory lies in short pieces"),
                (true, _) => (Get, "get: the receiver waits"),
                (false, true) => (Get, "get: the receiver's memory lies in pieces"),
                (false, false) => (Get, "get: neither side waits"),
            }
        }

        Known::Copying { moved, total, both_copy: true, .. } if moved <= total / NOT_FAR => {
            (Fragments, "fragments: both sides have come to wait")
        }
        Known::Copying { by, .. } => (by, "the copy goes on"),
    }
}

#[cfg(test)]
mod tests {
    use super::Protocol::{Eager, Fragments, Get, Inline, Put, Read, Rendezvous};
    use super::*;

    #[test]
    fn a_sender_chooses_by_length_credit_and_what_it_waits_for() {
        let table = [
            // length, synchronous, credit, free
            ((100, false, true, true), (Inline, "inline: nothing is before it")),
            ((100, false, true, false), (Eager, "eager: it is short")),
            ((100, false, false, true), (Rendezvous, "rendezvous: its receiver is behind")),
            ((100, true, true, true), (Rendezvous, "rendezvous: its sender waits for a receive")),
            ((101, false, true, true), (Rendezvous, "rendezvous: it is long")),
            ((101, true, false, false), (Rendezvous, "rendezvous: it is long")),
        ];
        for ((len, synchronous, credit, free), expected) in table {
            let known = Known::Submitted { len, threshold: 100, synchronous, credit, free };
            assert_eq!(choose(known), expected, "{known:?}");
        }
    }

    #[test]
    fn a_receiver_chooses_by_reach_and_by_the_sides_that_wait() {
        let (yes, no) = (true, false);
        let table = [
            // receiver waits, sender waits, receiver copies, sender copies
            ((no, no, no, no), (Get, "get: neither side waits")),
            ((yes, no, yes, no), (Get, "get: the receiver waits")),
            ((no, yes, no, yes), (Put, "put: the sender waits")),
            ((yes, yes, yes, yes), (Fragments, "fragments: both sides wait")),
            // The sender said that it waits, and has stopped.
            ((yes, yes, yes, no), (Get, "get: the receiver waits")),
            // Another thread of either side waits for another long message.
            ((no, no, yes, yes), (Fragments, "fragments: both sides wait")),
            ((no, no, yes, no), (Get, "get: neither side waits")),
        ];
        for ((receiver_waits, sender_waits, receiver_copies, sender_copies), expected) in table {
            let matched =
                |same_process, reachable, adapter_reads, readable, scattered| Known::Matched {
                    same_process,
                    reachable,
                    adapter_reads,
                    readable,
                    scattered,
                    receiver_waits,
                    receiver_copies,
                    sender_waits,
                    sender_copies,
                    faster: Way::Fragments,
                    crosses: false,
                };
            let known = |same_process, reachable, readable, scattered| {
                matched(same_process, reachable, no, readable, scattered)
            };
            assert_eq!(choose(known(no, yes, yes, no)), expected);
            // An adapter reads what nothing better reaches, between two pieces of memory.
            let read = (Read, "read: the adapter takes it from the sender's memory");
            assert_eq!(choose(matched(no, no, yes, yes, no)), read);
            assert_eq!(choose(matched(no, yes, yes, yes, no)), expected);
            assert_eq!(choose(matched(no, no, yes, no, no)).0, Fragments);
            assert_eq!(choose(matched(no, no, yes, yes, yes)).0, Fragments);
            assert_eq!(
                choose(known(yes, no, no, yes)),
                (Get, "get: both ranks are in one process")
            );
            assert_eq!(
                choose(known(no, no, yes, no)),
                (Fragments, "fragments: no memory can be reached")
            );
            // The sender's memory lies in pieces: it can put, and cannot be got from.
            let without = match expected {
                (Get, _) => (Fragments, "fragments: memory lies in short pieces"),
                other => other,
            };
            assert_eq!(choose(known(no, yes, no, no)), without);
            // The receiver's does: it can get long pieces, and gives no address.
            let pieces = match expected {
                (Put, _) => (Get, "get: the receiver's memory lies in pieces"),
                other => other,
            };
            assert_eq!(choose(known(no, yes, yes, yes)), pieces);
        }
    }

    #[test]
    fn where_both_sides_wait_each_copies_its_own_if_messages_cross_and_otherwise_what_was_faster_is_taken()
     {
        let matched = |faster, readable, sender_copies, crosses, scattered| {
            choose(Known::Matched {
                same_process: false,
                reachable: true,
                adapter_reads: false,
                readable,
                scattered,
                receiver_waits: true,
                receiver_copies: true,
                sender_waits: sender_copies,
                sender_copies,
                faster,
                crosses,
            })
        };
        let get = (Get, "get: both sides wait, and it has been faster");
        let fragments = (Fragments, "fragments: both sides wait");
        assert_eq!(matched(Way::Get, true, true, false, false), get);
        assert_eq!(matched(Way::Fragments, true, true, false, false), fragments);
        assert_eq!(matched(Way::Get, false, true, false, false), fragments);
        assert_eq!(matched(Way::Fragments, true, false, false, false).0, Get);
        let put = (Put, "put: messages cross, and each side copies what it sends");
        for faster in [Way::Get, Way::Fragments] {
            assert_eq!(matched(faster, true, true, true, false), put);
            assert_eq!(matched(faster, false, true, true, false), fragments);
            assert_eq!(matched(faster, true, false, true, false).0, Get, "the sender is away");
        }
        let get = (Get, "get: messages cross, and each side copies what it receives");
        assert_eq!(matched(Way::Fragments, true, true, true, true), get, "no one address");
    }

    #[test]
    fn a_copy_that_is_not_far_becomes_fragments_once_both_sides_wait() {
        let copying =
            |by, moved, both_copy| choose(Known::Copying { by, moved, total: 8, both_copy });
        assert_eq!(copying(Get, 2, true), (Fragments, "fragments: both sides have come to wait"));
        assert_eq!(copying(Get, 3, true), (Get, "the copy goes on"));
        assert_eq!(copying(Put, 0, false), (Put, "the copy goes on"));
    }
}
