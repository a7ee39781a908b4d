//! What processes tell each other of failures, as words of 64 bits.

use crate::tolerance::agreement::{Contribution, Message, Progress, Proposal};

const REVOKE: u64 = 1;
const JOIN: u64 = 2;
const PROPOSE: u64 = 3;
const ACK: u64 = 4;
const DECIDE: u64 = 5;

const NOTHING: u64 = 0;
const ACCEPTED: u64 = 1;
const DECIDED: u64 = 2;

/// Most ranks of a list.
const MOST: usize = 1 << 20;

/// A message, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The messages of this key are revoked; the ranks that are to know.
    Revoke { key: u64, members: Vec<u32> },
    /// Of the agreement with this number among those of the key.
    Agreement { key: u64, number: u64, message: Message },
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|&word| self.word(word));
    }

    fn ranks(&mut self, ranks: &[u32]) {
        self.word(ranks.len() as u64);
        ranks.iter().for_each(|&rank| self.word(rank.into()));
    }

    fn contribution(&mut self, said: &Contribution) {
        self.words(&[said.flags, said.offer, said.settled]);
        self.ranks(&said.failed);
        self.ranks(&said.acknowledged);
    }

    fn proposal(&mut self, proposal: &Proposal) {
        let acknowledged = u64::from(proposal.acknowledged);
        self.words(&[proposal.flags, proposal.offer, proposal.settled, acknowledged]);
        self.ranks(&proposal.failed);
    }
}

/// That the messages of the key are revoked.
pub(crate) fn revoke(key: u64, members: &[u32]) -> Vec<u8> {
    let mut writer = Writer(Vec::new());
    writer.words(&[REVOKE, key]);
    writer.ranks(members);
    writer.0
}

/// A message of an agreement.
pub(crate) fn agreement((key, number): (u64, u64), message: &Message) -> Vec<u8> {
    let mut writer = Writer(Vec::new());
    let kind = match message {
        Message::Join(..) => JOIN,
        Message::Propose(_) => PROPOSE,
        Message::Ack => ACK,
        Message::Decide(_) => DECIDE,
    };
    writer.words(&[kind, key, number]);
    match message {
        Message::Ack => {}
        Message::Propose(proposal) | Message::Decide(proposal) => writer.proposal(proposal),
        Message::Join(said, progress) => {
            writer.contribution(said);
            match progress {
                Progress::Nothing => writer.word(NOTHING),
                Progress::Accepted(coordinator, proposal) => {
                    writer.words(&[ACCEPTED, u64::from(*coordinator)]);
                    writer.proposal(proposal);
                }
                Progress::Decided(proposal) => {
                    writer.word(DECIDED);
                    writer.proposal(proposal);
                }
            }
        }
    }
    writer.0
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn rank(&mut self) -> Option<u32> {
        self.word()?.try_into().ok()
    }

    fn ranks(&mut self) -> Option<Vec<u32>> {
        let len = usize::try_from(self.word()?).ok()?;
        // Each takes a word: what is not there is not allocated.
        if len > MOST || len > self.0.len() / 8 {
            return None;
        }
        (0..len).map(|_| self.rank()).collect()
    }

    fn contribution(&mut self) -> Option<Contribution> {
        Some(Contribution {
            flags: self.word()?,
            offer: self.word()?,
            settled: self.word()?,
            failed: self.ranks()?,
            acknowledged: self.ranks()?,
        })
    }

    fn proposal(&mut self) -> Option<Proposal> {
        Some(Proposal {
            flags: self.word()?,
            offer: self.word()?,
            settled: self.word()?,
            acknowledged: match self.word()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            failed: self.ranks()?,
        })
    }

    fn progress(&mut self) -> Option<Progress> {
        Some(match self.word()? {
            NOTHING => Progress::Nothing,
            ACCEPTED => Progress::Accepted(self.rank()?, self.proposal()?),
            DECIDED => Progress::Decided(self.proposal()?),
            _ => return None,
        })
    }
}

/// What the bytes say; `None`: nothing that makes sense.
pub(crate) fn decode(bytes: &[u8]) -> Option<Word> {
    let mut reader = Reader(bytes);
    let (kind, key) = (reader.word()?, reader.word()?);
    let word = if kind == REVOKE {
        Word::Revoke { key, members: reader.ranks()? }
    } else {
        let number = reader.word()?;
        let message = match kind {
            JOIN => Message::Join(reader.contribution()?, reader.progress()?),
            PROPOSE => Message::Propose(reader.proposal()?),
            ACK => Message::Ack,
            DECIDE => Message::Decide(reader.proposal()?),
            _ => return None,
        };
        Word::Agreement { key, number, message }
    };
    reader.0.is_empty().then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_bytes_come_are_refused_or_mean_what_they_say(
            words in proptest::collection::vec(
                prop_oneof![0u64..8, any::<u64>(), any::<u32>().prop_map(u64::from)], 0..24),
            odd in 0..8usize,
        ) {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.truncate(bytes.len().saturating_sub(odd % 8));
            match decode(&bytes) {
                None => {}
                Some(Word::Revoke { key, members }) => prop_assert_eq!(revoke(key, &members), bytes),
                Some(Word::Agreement { key, number, message }) => {
                    prop_assert_eq!(agreement((key, number), &message), bytes);
                }
            }
        }
    }

    #[test]
    fn a_list_that_claims_to_be_longer_than_its_message_is_refused() {
        let mut bytes = revoke(1, &[2, 3]);
        bytes[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes());
        assert_eq!(decode(&bytes), None);
    }
}
