//! What a process says of its end of a link when the link is made.

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
            probe: u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
            slots: word(bytes, 8)?,
            slot_size: word(bytes, 12)?,
        })
    }
}

/// The number at these four bytes.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
