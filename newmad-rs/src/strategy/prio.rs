//! `prio`: the most urgent messages leave first; what else waits fills the packet.
//!
//! Senders hint at urgency ([`crate::Session::isend_with_priority`]). Among messages of one priority the order is kept,
//! and with one tag always, so an urgent message waits for older ones of its tag. As StarPU wants it: what many tasks
//! wait for overtakes what is only prefetched.

use crate::strategy::aggreg;
use crate::strategy::contract::Strategy;
use crate::strategy::contract::seal::Seal;
use crate::strategy::message::Lone;
use crate::strategy::packet::{Packet, Waiting};

/// See the module.
pub(crate) struct Prio;

impl Strategy for Prio {
    fn name(&self) -> &str {
        "prio"
    }

    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        // One pass for each priority that occurs, the highest first.
        let mut level = waiting.iter().map(|message| message.priority).max();
        while let Some(now) = level {
            level = None;
            for (index, message) in waiting.iter().enumerate() {
                if message.priority == now {
                    packet.take(index);
                } else if message.priority < now {
                    level = level.max(Some(message.priority));
                }
            }
        }
    }

    fn may_hold(&self) -> bool {
        true
    }

    fn hold(&self, lone: &Lone) -> bool {
        // Urgent: not a moment later than it could.
        lone.message.priority <= 0 && aggreg::burst(lone)
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }
}
