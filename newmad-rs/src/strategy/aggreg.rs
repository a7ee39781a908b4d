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
//! sender makes messages faster than the track could send them one by one. A lone message finds its track quiet and
//! leaves at once.

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
