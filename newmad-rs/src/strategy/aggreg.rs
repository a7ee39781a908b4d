//! `aggreg`: whatever waits leaves in one packet, as far as it fits.
//!
//! Where a packet has a price of its own (over TCP a system call, and an interrupt at the other end), ten messages in
//! one packet cost little more than one message. Messages are taken in order; those that do not fit any more are passed
//! by smaller ones behind them, as far as the session allows, so that packets leave full.
//!
//! *What makes messages wait?* Often nothing does: the kernel takes packets faster than a program makes messages,
//! and sends them one by one, at full price. So a message that follows another one closely, and for which no thread
//! waits yet, is held until the next poll: the sender's own wait a moment later, or an idle virtual
//! processor's, or the I/O manager's, which is called. Closely means within the time that a packet costs: then the
//! sender makes messages faster than the track could send them one by one; and without a look for events since the other
//! one, by whose answer the sender may have waited. A lone message leaves at once, as does the first one of a burst, unless the
//! burst before had more than one.
//!
//! (What is held has the watcher called, which then stays armed and is woken by what arrives. A program that posted a
//! receive and a send of 8 bytes and waited for both took 22 µs an exchange, with every send held for nothing; now 7.5.)

use crate::strategy::contract::Strategy;
use crate::strategy::contract::seal::Seal;
use crate::strategy::message::Lone;
use crate::strategy::packet::{Packet, Waiting};

/// See the module.
pub(crate) struct Aggreg;

/// What a packet has to cost for it to be worth while: about a system call.
const COSTLY_NS: u64 = 700;
/// Two messages within so many times the price of a packet are a burst.
const CLOSE: u64 = 2;
/// Messages longer than this are worth a packet of their own.
const SHORT: usize = 4096;

/// Whether a message is one of a burst.
pub(super) fn burst(lone: &Lone) -> bool {
    lone.packet_ns >= COSTLY_NS
        && lone.quiet_ns < CLOSE * lone.packet_ns
        && (lone.before > 0 || lone.last_burst > 1)
        && (lone.message.announced || lone.message.len <= SHORT)
}

impl Strategy for Aggreg {
    fn name(&self) -> &str {
        "aggreg"
    }

    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        for index in 0..waiting.len() {
            packet.take(index);
        }
    }

    fn may_hold(&self) -> bool {
        true
    }

    fn hold(&self, lone: &Lone) -> bool {
        burst(lone)
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::strategy::Message;

    #[test]
    fn a_message_before_which_its_sender_has_looked_leaves_at_once_unless_others_followed_the_last_one()
     {
        let message = Message { tag: 1, len: 8, priority: 0, announced: false, named: false };
        let lone = |before, last_burst| Lone {
            message,
            quiet_ns: 0,
            packet_ns: 5_000,
            before,
            last_burst,
        };
        assert!(!burst(&lone(0, 0)) && !burst(&lone(0, 1)));
        assert!(burst(&lone(0, 2)) && burst(&lone(1, 0)));
        assert!(!burst(&Lone { quiet_ns: 10_000, ..lone(1, 9) }), "not closely");
        assert!(!burst(&Lone { packet_ns: 100, ..lone(1, 9) }), "a packet costs nothing");
    }
}
