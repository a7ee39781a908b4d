//! What a process says of its end of a link when the link is made.

use crate::wire::{half_word, word};

/// Bytes of [`Details`].
pub(crate) const DETAILS: usize = 16 + QUEUE_PAIR;
const QUEUE_PAIR: usize = 32;

/// For the rails that need it; zeros for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// Address of the word for probing cross-memory attach.
    pub(crate) probe: u64,
    /// Slots of its small rings, and their size.
    pub(crate) slots: u32,
    pub(crate) slot_size: u32,
    pub(crate) queue_pair: Option<QueuePairAddress>,
}

/// Where a queue pair of an adapter is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePairAddress {
    /// Up to 24 bits, as `psn`.
    pub(crate) number: u32,
    /// Number of the first packet that it sends.
    pub(crate) psn: u32,
    /// The port's address within a subnet of InfiniBand.
    pub(crate) lid: u16,
    /// Packets of each track that it has buffers for.
    pub(crate) slots: u16,
    /// The longest packet of its network, as a number of verbs: 1 is 256 bytes, 5 is 4096.
    pub(crate) mtu: u8,
    /// The port's address.
    pub(crate) gid: [u8; 16],
}

impl Details {
    /// Writes it to the first [`DETAILS`] bytes.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.probe.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slots.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slot_size.to_le_bytes());
        let bytes = &mut bytes[16..DETAILS];
        bytes.fill(0);
        if let Some(pair) = &self.queue_pair {
            bytes[..4].copy_from_slice(&pair.number.to_le_bytes());
            bytes[4..8].copy_from_slice(&pair.psn.to_le_bytes());
            bytes[8..10].copy_from_slice(&pair.lid.to_le_bytes());
            bytes[10..12].copy_from_slice(&pair.slots.to_le_bytes());
            bytes[12] = pair.mtu;
            bytes[16..].copy_from_slice(&pair.gid);
        }
    }

    /// Reads it from the first [`DETAILS`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Details> {
        Some(Details {
            probe: word(bytes, 0)?,
            slots: half_word(bytes, 8)?,
            slot_size: half_word(bytes, 12)?,
            queue_pair: QueuePairAddress::decode(bytes.get(16..DETAILS)?)?,
        })
    }
}

impl QueuePairAddress {
    /// `None`: no address; `Some(None)`: none is told.
    fn decode(bytes: &[u8]) -> Option<Option<QueuePairAddress>> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(None);
        }
        let counts = half_word(bytes, 8)?;
        let pair = QueuePairAddress {
            number: half_word(bytes, 0)?,
            psn: half_word(bytes, 4)?,
            lid: counts as u16,
            slots: (counts >> 16) as u16,
            mtu: bytes[12],
            gid: bytes.get(16..)?.try_into().ok()?,
        };
        let sound = pair.number >> 24 == 0
            && pair.psn >> 24 == 0
            && (1..=5).contains(&pair.mtu)
            && pair.slots > 0
            && bytes[13..16] == [0; 3];
        sound.then_some(Some(pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_survive_the_wire(numbers in any::<[u32; 2]>(), counts in any::<[u16; 2]>(), mtu in 1u8..6, gid in any::<[u8; 16]>()) {
            let [number, psn] = numbers.map(|number| number >> 8);
            let [lid, slots] = counts;
            let pair = QueuePairAddress { number, psn, lid, slots: slots.max(1), mtu, gid };
            let details = Details { queue_pair: Some(pair), ..Details::default() };
            let mut bytes = [0; DETAILS];
            details.encode(&mut bytes);
            prop_assert_eq!(Details::decode(&bytes), Some(details));
        }

        #[test]
        fn hostile_bytes_are_refused_or_mean_what_they_say(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(details) = Details::decode(&bytes) {
                let mut again = [0; DETAILS];
                details.encode(&mut again);
                prop_assert_eq!(&bytes[..DETAILS], &again[..]);
            }
        }
    }
}
