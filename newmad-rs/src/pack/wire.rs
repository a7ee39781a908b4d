//! What packed messages look like on the wire.
//!
//! ```text
//! head    0 magic(u32)  4 number of pieces that come apart(u32)  8 id  16 length of the stream  24 its beginning
//! stream  for each piece, in order:  kind(u8)  length(u64)  its bytes, unless it comes apart
//! ```
//! Everything is little-endian. The rest of a stream that does not fit the head is one more message, and each piece
//! that comes apart is one. An id is the sender's, so a pair of rank and id belongs to one packed message: those of
//! several threads never mix. Pieces that come apart share a tag and keep their order.

use std::ops::Range;

use crate::request::tag::PACKS;
use crate::wire::word;

/// Tags of programs, and ids, are below this.
pub(super) const TAGS: u64 = 1 << 54;
const MAGIC: u32 = 0x6b63_706e;
const HEAD_HEADER: usize = 24;
const RECORD: usize = 9;
/// Most bytes of a head.
pub(super) const HEAD: usize = 8192;
/// Longer deferred pieces come apart.
pub(super) const SHORT: usize = 2048;
/// Most bytes of a stream.
pub(super) const STREAM: usize = 64 << 20;

/// Tag of the heads of messages with this tag of the program's.
pub(super) fn head_tag(tag: u64) -> u64 {
    PACKS | tag
}

/// Tag of the rest of a stream.
pub(super) fn rest_tag(id: u64) -> u64 {
    PACKS | TAGS | id
}

/// Tag of pieces that come apart.
pub(super) fn piece_tag(id: u64) -> u64 {
    PACKS | (2 * TAGS) | id
}

/// How a piece travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// In the stream.
    Express = 1,
    /// In the stream, although the receiver needs it at the end only.
    Short = 2,
    /// As a message of its own.
    Apart = 3,
}

/// Adds a piece to a stream. `bytes` are empty when it comes apart.
pub(super) fn add(stream: &mut Vec<u8>, kind: Kind, len: usize, bytes: &[u8]) {
    stream.push(kind as u8);
    stream.extend_from_slice(&(len as u64).to_le_bytes());
    stream.extend_from_slice(bytes);
}

/// The head for a stream, and the rest of it.
pub(super) fn head(id: u64, apart: u32, mut stream: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let len = stream.len() as u64;
    let rest = stream.split_off(stream.len().min(HEAD - HEAD_HEADER));
    let mut head = Vec::with_capacity(HEAD_HEADER + stream.len());
    head.extend_from_slice(&MAGIC.to_le_bytes());
    head.extend_from_slice(&apart.to_le_bytes());
    head.extend_from_slice(&id.to_le_bytes());
    head.extend_from_slice(&len.to_le_bytes());
    head.extend_from_slice(&stream);
    (head, rest)
}

/// A head that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) id: u64,
    pub(super) apart: u32,
    /// Bytes of the stream that are missing.
    pub(super) rest: usize,
}

impl Head {
    /// Reads and checks it, and leaves the beginning of the stream in `bytes`. `None`: no packed message
    /// begins so.
    pub(super) fn decode(bytes: &mut Vec<u8>) -> Option<Head> {
        let (first, id, len) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 16)?);
        let len = usize::try_from(len).ok().filter(|&len| len <= STREAM)?;
        let here = bytes.len() - HEAD_HEADER;
        let whole = len == here || (len > here && bytes.len() == HEAD);
        // Each piece that comes apart has its record.
        let many = (first >> 32) as usize > len / RECORD;
        if first as u32 != MAGIC || id >= TAGS || !whole || many {
            return None;
        }
        bytes.drain(..HEAD_HEADER);
        Some(Head { id, apart: (first >> 32) as u32, rest: len - here })
    }
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) len: usize,
    /// Where its bytes are; the next piece begins at their end.
    pub(super) bytes: Range<usize>,
}

/// What is at a place of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A piece.
    Piece(Record),
    /// The end of what has come of the stream; the piece may be in the rest.
    Cut,
    /// No piece: the stream is not of a packed message.
    Nonsense,
}

/// Looks for the piece at `at`.
pub(super) fn find(stream: &[u8], at: usize) -> Found {
    let Some(len) = word(stream, at.saturating_add(1)) else { return Found::Cut };
    let kind = match stream[at] {
        1 => Kind::Express,
        2 => Kind::Short,
        3 => Kind::Apart,
        _ => return Found::Nonsense,
    };
    let Ok(len) = usize::try_from(len) else { return Found::Nonsense };
    let start = at + RECORD;
    let end = if kind == Kind::Apart { Some(start) } else { start.checked_add(len) };
    match end {
        Some(end) if end <= stream.len() => Found::Piece(Record { kind, len, bytes: start..end }),
        Some(_) => Found::Cut,
        None => Found::Nonsense,
    }
}

/// Any bytes, as a packed message (`testing/fuzzing/`): its pieces are inside it, and there is an end to them.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(bytes: &[u8]) {
    let mut right = MAGIC.to_le_bytes().to_vec();
    right.extend_from_slice(bytes);
    let (sound, _) = head(1, 0, bytes.to_vec());
    for mut message in [bytes.to_vec(), right, sound] {
        let Some(head) = Head::decode(&mut message) else { continue };
        assert!(head.rest <= STREAM && head.apart as usize <= STREAM / RECORD);
        let mut at = 0;
        while let Found::Piece(piece) = find(&message, at) {
            assert!(piece.bytes.start == at + RECORD && piece.bytes.end <= message.len());
            at = piece.bytes.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..most)
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic_and_never_lead_outside(mut bytes in bytes(200), at in 0usize..300) {
            if let Found::Piece(piece) = find(&bytes, at) {
                prop_assert!(piece.bytes.end <= bytes.len() && piece.bytes.start > at);
            }
            let _ = Head::decode(&mut bytes);
        }

        #[test]
        fn a_changed_head_is_refused_or_sound(
            at in 0usize..40, to: u8, cut in 0usize..40, len in 0usize..9000,
        ) {
            let (mut head, rest) = head(7, u32::from(len >= 9), vec![1; len]);
            prop_assert_eq!(head.len() + rest.len(), HEAD_HEADER + len);
            if let Some(byte) = head.get_mut(at) {
                *byte = to;
            }
            head.truncate(head.len() - cut.min(head.len()));
            if let Some(decoded) = Head::decode(&mut head) {
                prop_assert!(decoded.rest <= STREAM && decoded.id < TAGS);
            }
        }

        #[test]
        fn pieces_survive(pieces in proptest::collection::vec((1u8..4, bytes(300)), 0..50)) {
            let mut stream = Vec::new();
            for (kind, bytes) in &pieces {
                match kind {
                    1 => add(&mut stream, Kind::Express, bytes.len(), bytes),
                    2 => add(&mut stream, Kind::Short, bytes.len(), bytes),
                    _ => add(&mut stream, Kind::Apart, bytes.len(), &[]),
                }
            }
            let (mut all, rest) = head(3, 0, stream);
            let decoded = Head::decode(&mut all).unwrap();
            prop_assert_eq!(decoded.rest, rest.len());
            all.extend_from_slice(&rest);
            let mut at = 0;
            for (kind, bytes) in &pieces {
                let Found::Piece(piece) = find(&all, at) else { panic!("no piece at {at}") };
                prop_assert_eq!((piece.kind as u8, piece.len), (*kind, bytes.len()));
                prop_assert!(*kind == 3 || all[piece.bytes.clone()] == bytes[..]);
                at = piece.bytes.end;
            }
            prop_assert_eq!((find(&all, at), at), (Found::Cut, all.len()));
        }
    }
}
