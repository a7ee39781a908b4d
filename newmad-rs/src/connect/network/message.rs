//! What travels over a link of the control network: notices of the ring, and messages from one process to another.
//!
//! ```text
//!   notice    kind 1..4, count, rank                                                            8 bytes
//!   message   5, kind, length of the body (2), to (4) │ from (4), number (8) │ body             20 bytes and the body
//! ```
//! All numbers are little-endian. The peer is authenticated, and yet not believed: whatever is not of this form ends the
//! link.

use super::super::ring::{NOTICE, Notice};

/// Bytes of a message between its first eight and its body.
const REST: usize = 12;
/// Bytes of the longest body: a card with the addresses of all rails fits.
pub(crate) const MOST_BYTES: usize = 4096;
/// Bytes of the longest frame.
pub(crate) const LONGEST: usize = NOTICE + REST + MOST_BYTES;
const MESSAGE: u8 = 5;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The receiver has every message below this number.
    Ack = 1,
    /// Of the program.
    User = 2,
    /// The sender wants a link, and says how it is reached: the receiver is to say the same.
    Ask = 3,
    /// How the sender is reached.
    Card = 4,
}

/// A message from one process to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Counts the messages of this pair, from 0; of an acknowledgement: those that have come.
    pub(crate) number: u64,
    pub(crate) body: Vec<u8>,
}

/// One thing on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Notice(Notice),
    Message(Message),
}

impl Message {
    pub(crate) fn encode(&self, into: &mut impl Extend<u8>) {
        debug_assert!(self.body.len() <= MOST_BYTES);
        into.extend([MESSAGE, self.kind as u8]);
        into.extend((self.body.len() as u16).to_le_bytes());
        into.extend(self.to.to_le_bytes());
        into.extend(self.from.to_le_bytes());
        into.extend(self.number.to_le_bytes());
        into.extend(self.body.iter().copied());
    }
}

impl Frame {
    /// Reads the first frame. `Ok(Err(bytes))`: so many bytes make more of it, or all. An error: it is not of this protocol.
    pub(crate) fn decode(bytes: &[u8], size: u32) -> Result<Result<(Frame, usize), usize>, ()> {
        let Some((head, rest)) = bytes.split_first_chunk::<NOTICE>() else {
            return Ok(Err(NOTICE));
        };
        if head[0] != MESSAGE {
            return Notice::decode(*head, size).map(|it| Ok((Frame::Notice(it), NOTICE))).ok_or(());
        }
        let kind = [Kind::Ack, Kind::User, Kind::Ask, Kind::Card];
        let kind = kind.into_iter().find(|&kind| kind as u8 == head[1]).ok_or(())?;
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let to = word(&head[4..])?;
        if len > MOST_BYTES || to >= size || (kind == Kind::Ack && len > 0) {
            return Err(());
        }
        let whole = NOTICE + REST + len;
        let Some(rest) = rest.get(..REST + len) else { return Ok(Err(whole)) };
        let (rest, body) = rest.split_at(REST);
        let (from, number) = (word(rest)?, u64::from_le_bytes(rest[4..].try_into().map_err(drop)?));
        if from >= size || from == to {
            return Err(());
        }
        let message = Message { kind, from, to, number, body: body.to_vec() };
        Ok(Ok((Frame::Message(message), whole)))
    }
}

fn word(bytes: &[u8]) -> Result<u32, ()> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_survive_the_wire_in_pieces_too() {
        for (kind, len) in
            [(Kind::Ack, 0), (Kind::User, 0), (Kind::Ask, 9), (Kind::Card, MOST_BYTES)]
        {
            let body = vec![7; len];
            let message = Message { kind, from: 3, to: 65_535, number: 1 << 40, body };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() <= LONGEST);
            let read = Frame::decode(&bytes, 65_536);
            assert_eq!(read, Ok(Ok((Frame::Message(message), bytes.len()))));
            // What is asked for in between is there, and leads to the whole.
            let mut want = 0;
            while let Ok(Err(more)) = Frame::decode(&bytes[..want], 65_536) {
                assert!(more > want && more <= bytes.len());
                want = more;
            }
            assert_eq!(want, bytes.len());
            assert_eq!(Frame::decode(&bytes, 65_535), Err(()), "there is no such rank");
        }
    }

    proptest! {
        #[test]
        fn hostile_frames_are_refused_or_are_what_they_say(
            head in prop_oneof![Just(5u8), any::<u8>()], kind in 0u8..6, len in 0u8..30,
            bytes in proptest::collection::vec(0u8..8, 0..60),
        ) {
            let mut input = vec![head, kind, len, 0];
            input.extend(bytes);
            match Frame::decode(&input, 6) {
                Ok(Ok((frame, len))) => {
                    let mut again = Vec::new();
                    match frame {
                        Frame::Notice(notice) => again.extend(notice.encode()),
                        Frame::Message(message) => message.encode(&mut again),
                    }
                    prop_assert_eq!(&again[..], &input[..len]);
                }
                Ok(Err(more)) => prop_assert!(more > input.len()),
                Err(()) => {}
            }
        }
    }
}
