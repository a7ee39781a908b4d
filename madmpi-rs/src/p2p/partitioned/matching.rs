//! Matching of partitioned sends and receives: the first send with a tag belongs to the first receive with it.

use std::collections::{BTreeMap, HashMap, VecDeque};

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
    /// Bytes of the whole message; 0 if there are no partitions.
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
        (partitions > 0 || bytes == 0).then_some(Announcement { tag, channel, partitions, bytes })
    }
}

/// Called with the sender's announcement, or with the fault that means that there will be none.
type OnMatch = Box<dyn FnOnce(Result<Announcement, Fault>) + Send>;

/// Receivers and announcements of one peer in one communicator. Invariant: no tag is in both lists.
///
/// Announcements are treated in their order, which is that of the receives that were posted for them. The ends of these may
/// be seen in another one, by several threads at once.
#[derive(Default)]
struct Pairing {
    receivers: VecDeque<(u32, OnMatch)>,
    announced: VecDeque<Announcement>,
    /// Receives so far, and how many of these have been treated.
    posted: u64,
    treated: u64,
    /// What has come of receives that are not next.
    early: BTreeMap<u64, Came>,
}

/// What comes of a receive; `None`: nothing that has a meaning.
type Came = Option<Result<Announcement, Fault>>;

type Matched = (OnMatch, Result<Announcement, Fault>);

impl Pairing {
    /// A receive has ended. Returns what is to be called.
    fn came(&mut self, number: u64, what: Came) -> Vec<Matched> {
        self.early.insert(number, what);
        let mut matched = Vec::new();
        while let Some(what) = self.early.remove(&self.treated) {
            self.treated += 1;
            match what {
                None => {}
                Some(Ok(announced)) => {
                    let at = self.receivers.iter().position(|(tag, _)| *tag == announced.tag);
                    match at.and_then(|at| self.receivers.remove(at)) {
                        Some((_, on_match)) => matched.push((on_match, Ok(announced))),
                        None => self.announced.push_back(announced),
                    }
                }
                Some(Err(fault)) => {
                    let lost = self.receivers.drain(..);
                    matched.extend(lost.map(|(_, on_match)| (on_match, Err(fault.clone()))));
                }
            }
        }
        matched
    }

    fn is_over(&self) -> bool {
        self.receivers.is_empty() && self.announced.is_empty() && self.posted == self.treated
    }
}

/// The number of the communicator's circle; the tag of announcements, which contains its context; the peer; the rank of
/// this process.
type Key = (u64, u64, u32, u32);

static PAIRINGS: KernelMutex<Option<HashMap<Key, Pairing>>> = KernelMutex::new(None);
/// Held while a receive is numbered and posted: both in one order. Functions that run at the ends of receives do not take it.
static POSTING: KernelMutex<()> = KernelMutex::new(());

fn with<T>(key: Key, f: impl FnOnce(&mut Pairing) -> T) -> T {
    let mut all = PAIRINGS.lock();
    let all = all.get_or_insert_default();
    let result = f(all.entry(key).or_default());
    all.retain(|_, one| !one.is_over());
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
///
/// # Errors
/// The receive of an announcement cannot be posted; `on_match` is not called.
pub(super) fn expect(
    comm: &Ref<Comm>,
    from: u32,
    tag: u32,
    on_match: OnMatch,
) -> Result<(), Fault> {
    let key = (comm.circle.number, comm.internal_tag(PARTITIONED), from, comm.session.rank());
    // Each receiver receives one announcement, perhaps one for another receiver.
    let (number, receive) = {
        let _posting = POSTING.lock();
        let number = with(key, |pairing| {
            pairing.posted += 1;
            pairing.posted - 1
        });
        (number, comm.session.irecv(from, key.1, vec![0; LEN]))
    };
    let receive = match receive {
        Ok(receive) => receive,
        Err(error) => {
            call(with(key, |pairing| pairing.came(number, None)));
            return Err(error.into());
        }
    };
    let found = with(key, |pairing| {
        let at = pairing.announced.iter().position(|announced| announced.tag == tag);
        match at.and_then(|at| pairing.announced.remove(at)) {
            Some(announced) => Some((on_match, Ok(announced))),
            None => {
                pairing.receivers.push_back((tag, on_match));
                None
            }
        }
    });
    call(found);
    receive.on_done(move |result| {
        let what = match result {
            Ok((bytes, status)) => Announcement::decode(&bytes[..status.len.min(LEN)]).map(Ok),
            Err(error) => Some(Err(Fault::from(error))),
        };
        call(with(key, |pairing| pairing.came(number, what)));
    });
    Ok(())
}

/// Without the lock: what is called may start messages.
fn call(matched: impl IntoIterator<Item = Matched>) {
    matched.into_iter().for_each(|(on_match, announced)| on_match(announced));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two receives whose ends are seen in the other order.
    #[test]
    fn announcements_are_treated_in_the_order_of_their_receives() {
        use std::sync::{Arc, Mutex};
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut pairing = Pairing { posted: 2, ..Pairing::default() };
        for receiver in 0..2 {
            let told = told.clone();
            let on_match = move |announced: Result<Announcement, Fault>| {
                told.lock().unwrap().push((receiver, announced.ok().map(|one| one.channel)));
            };
            pairing.receivers.push_back((5, Box::new(on_match)));
        }
        let announced =
            |channel| Some(Ok(Announcement { tag: 5, channel, partitions: 1, bytes: 8 }));
        call(pairing.came(1, announced(11)));
        assert!(told.lock().unwrap().is_empty());
        call(pairing.came(0, announced(10)));
        assert_eq!(*told.lock().unwrap(), [(0, Some(10)), (1, Some(11))]);
        assert!(pairing.is_over());
    }

    #[test]
    fn bytes_in_no_partitions_are_not_understood() {
        let none = Announcement { tag: 5, channel: 1, partitions: 0, bytes: 0 };
        assert_eq!(Announcement::decode(&none.encode()), Some(none));
        for bytes in [1, 1 << 32, u64::MAX] {
            assert_eq!(Announcement::decode(&Announcement { bytes, ..none }.encode()), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_announced_is_understood(tag: u32, channel: u32, partitions in 0u32.., bytes: u64) {
            let bytes = if partitions == 0 { 0 } else { bytes };
            let announced = Announcement { tag, channel, partitions, bytes };
            let encoded = announced.encode();
            prop_assert_eq!(encoded.len(), LEN);
            prop_assert_eq!(Announcement::decode(&encoded), Some(announced));
            prop_assert_eq!(Announcement::decode(&encoded[..LEN - 1]), None);
        }
    }
}
