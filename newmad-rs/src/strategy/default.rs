//! `default`: messages leave one by one, in order, in as few packets as the track allows.
//!
//! For rails on which a packet costs next to nothing: shared memory.

use crate::strategy::contract::Strategy;
use crate::strategy::contract::seal::Seal;
use crate::strategy::packet::{Packet, Waiting};

/// Its name: the core need not ask it.
pub(crate) const NAME: &str = "default";

/// See the module.
pub(crate) struct Default;

impl Strategy for Default {
    fn name(&self) -> &str {
        NAME
    }

    fn fill(&self, _: &Waiting<'_>, packet: &mut Packet<'_>) {
        packet.take(0);
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }
}
