//! What a process says of its end of a link when the link is made.

use crate::wire::{half_word, word};

/// For the rails that need it; zeros for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// Address of the word for probing cross-memory attach.
    pub(crate) probe: u64,
    /// Slots of its small rings, and their size.
    pub(crate) slots: u32,
    pub(crate) slot_size: u32,
}

impl Details {
    /// Writes it to the first bytes.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.probe.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slots.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slot_size.to_le_bytes());
    }

    /// Reads it from the first bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Details> {
        Some(Details {
            probe: word(bytes, 0)?,
            slots: half_word(bytes, 8)?,
            slot_size: half_word(bytes, 12)?,
        })
    }
}
