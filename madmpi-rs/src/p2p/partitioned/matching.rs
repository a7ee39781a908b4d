//! Matching of partitioned sends and receives: the first send with a tag belongs to the first receive with it.

use std::collections::{HashMap, VecDeque};

use crate::comm::{Comm, PARTITIONED};
use crate::error::Fault;
use crate::handle::Ref;
use marcel::plumbing::KernelMutex;

/// What a sender tells its receiver of a message, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) tag: u32,
    pub(super) channel: u32,
    pub(super) partitions: u32,
    /// Bytes of the whole message.
    pub(super) bytes: u64,
}

const LEN: usize = 20;

impl Announcement {
    fn encode(self) -> Vec<u8> {
        let words = [self.tag, self.channel, self.partitions, self.bytes as u32];
        let last = (self.bytes >> 32) as u32;
        words.iter().chain(&[last]).flat_map(|word| word.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Announcement> {
        let mut words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut next = || words.next();
        let (tag, channel, partitions) = (next()?, next()?, next()?);
        let bytes = u64::from(next()?) | u64::from(next()?) << 32;
        (partitions > 0).then_some(Announcement { tag, channel, partitions, bytes })
    }
}

/// Called with the sender's announcement, or with the fault that means that there will be none.
type OnMatch = Box<dyn FnOnce(Result<Announcement, Fault>) + Send>;

/// Receivers and announcements of one peer in one communicator. Invariant: no tag is in both lists.
#[derive(Default)]
struct Pairing {
    receivers: VecDeque<(u32, OnMatch)>,
    announced: VecDeque<Announcement>,
}

/// The number of the communicator's circle; the tag of announcements, which contains its context; the peer; the rank of
/// this process.
type Key = (u64, u64, u32, u32);

static PAIRINGS: KernelMutex<Option<HashMap<Key, Pairing>>> = KernelMutex::new(None);

fn with<T>(key: Key, f: impl FnOnce(&mut Pairing) -> T) -> T {
    let mut all = PAIRINGS.lock();
    let all = all.get_or_insert_default();
    let result = f(all.entry(key).or_default());
    all.retain(|_, one| !one.receivers.is_empty() || !one.announced.is_empty());
    result
}

/// Sends a sender's announcement.
pub(super) fn announce(comm: &Ref<Comm>, to: u32, announced: Announcement) -> Result<(), Fault> {
    let tag = comm.internal_tag(PARTITIONED);
    // No caller waits for the end of this message.
    comm.session.isend(to, tag, announced.encode())?.on_done(drop);
    Ok(())
}

/// Calls `on_match` when the sender with that tag has announced its message.
pub(super) fn expect(
    comm: &Ref<Comm>,
    from: u32,
    tag: u32,
    on_match: OnMatch,
) -> Result<(), Fault> {
    let key = (comm.circle.number, comm.internal_tag(PARTITIONED), from, comm.session.rank());
    let found = with(key, |pairing| {
        let at = pairing.announced.iter().position(|announced| announced.tag == tag);
        match at.and_then(|at| pairing.announced.remove(at)) {
            Some(announced) => Some((announced, on_match)),
            None => {
                pairing.receivers.push_back((tag, on_match));
                None
            }
        }
    });
    if let Some((announced, on_match)) = found {
        on_match(Ok(announced));
    }
    // Each receiver receives one announcement, perhaps one for another receiver.
    comm.session.irecv(from, key.1, vec![0; LEN])?.on_done(move |result| {
        let announced = match result {
            Ok((bytes, status)) => Announcement::decode(&bytes[..status.len.min(LEN)]),
            Err(error) => {
                let lost = with(key, |pairing| std::mem::take(&mut pairing.receivers));
                let fault = Fault::from(error);
                lost.into_iter().for_each(|(_, on_match)| on_match(Err(fault.clone())));
                return;
            }
        };
        let Some(announced) = announced else { return };
        let found = with(key, |pairing| {
            let at = pairing.receivers.iter().position(|(tag, _)| *tag == announced.tag);
            let found = at.and_then(|at| pairing.receivers.remove(at));
            if found.is_none() {
                pairing.announced.push_back(announced);
            }
            found
        });
        if let Some((_, on_match)) = found {
            on_match(Ok(announced));
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_announced_is_understood(tag: u32, channel: u32, partitions in 1u32.., bytes: u64) {
            let announced = Announcement { tag, channel, partitions, bytes };
            let encoded = announced.encode();
            prop_assert_eq!(encoded.len(), LEN);
            prop_assert_eq!(Announcement::decode(&encoded), Some(announced));
            prop_assert_eq!(Announcement::decode(&encoded[..LEN - 1]), None);
        }
    }
}
