//! What is in a `Pack`: several short messages and announcements, one after the other.
//!
//! ```text
//! 0 len(24 bits) | kind(4) | flags(4)   4 tag(u64)   12 ranks(u32), if the flag `RANKS` is set   then
//!   Eager  the message's `len` bytes
//!   Rts    length(u64)  id(u64)  address(u64)       -- `len` is 0
//! ```
//! Without that flag both ranks are the first of their processes.
//!
//! Little-endian, unaligned. A reader copies each entry's head out before it checks it, and checks it as it would a
//! packet's header: the memory may be shared with a peer that writes to it meanwhile.

use crate::memory::span::Span;
use crate::wire::{Ends, Header, Kind, Malformed, SENDER_WAITS};

/// Most bytes of an entry but for its message's.
pub(crate) const ANNOUNCED: usize = PLAIN + RANKED + 24;

/// Bytes before the ranks, and of the ranks.
const PLAIN: usize = 12;
const RANKED: usize = 4;
/// The entry names its ranks.
const RANKS: u8 = 8;

/// Bytes of an entry but for its message's. `named`: it names its ranks.
pub(crate) fn head(named: bool, announced: bool) -> usize {
    let ranked = if named { RANKED } else { 0 };
    PLAIN + ranked + if announced { 24 } else { 0 }
}

/// Longest message that an entry can hold.
pub(crate) const MOST: usize = (1 << 24) - 1;

/// Writes the head of an entry for this header, of kind `Eager` or `Rts`. Returns its length.
#[inline]
pub(crate) fn encode(header: &Header, out: &mut [u8; ANNOUNCED]) -> usize {
    let short = header.kind == Kind::Eager;
    debug_assert!(short && header.len <= MOST as u64 || header.kind == Kind::Rts);
    let len = if short { header.len as u32 } else { 0 };
    let ends = header.ends.word();
    let (flags, at) = match ends {
        0 => (header.flags, PLAIN),
        _ => (header.flags | RANKS, PLAIN + RANKED),
    };
    let first = len | u32::from(header.kind as u8) << 24 | u32::from(flags) << 28;
    out[0..4].copy_from_slice(&first.to_le_bytes());
    out[4..12].copy_from_slice(&header.tag.to_le_bytes());
    out[12..16].copy_from_slice(&ends.to_le_bytes());
    if short {
        return at;
    }
    out[at..at + 8].copy_from_slice(&header.len.to_le_bytes());
    out[at + 8..at + 16].copy_from_slice(&header.id.to_le_bytes());
    out[at + 16..at + 24].copy_from_slice(&header.addr.to_le_bytes());
    at + 24
}

/// The entry at `at`: its header as if it had come alone, its bytes, and where the next one begins. `None`: this was
/// the last one.
#[inline]
pub(crate) fn decode(pack: Span, at: usize) -> Result<Option<(Header, Span, usize)>, Malformed> {
    let rest = pack.part(at, usize::MAX);
    if rest.len() == 0 {
        return Ok(None);
    }
    if rest.len() < PLAIN {
        return Err(Malformed);
    }
    let mut head = [0; ANNOUNCED];
    // SAFETY: at most the array's length; packets never lie on this stack.
    unsafe { rest.part(0, ANNOUNCED).copy_to(head.as_mut_ptr()) };
    let word = |from: usize| {
        let mut raw = [0; 8];
        raw.copy_from_slice(&head[from..from + 8]);
        u64::from_le_bytes(raw)
    };
    let first = word(0) as u32;
    let (len, kind, flags) = (first as usize & MOST, (first >> 24) as u8 & 15, (first >> 28) as u8);
    let tag = word(4);
    let (ends, start) = match flags & RANKS {
        0 => (Ends::default(), PLAIN),
        _ => (Ends::of_word(word(12) as u32), PLAIN + RANKED),
    };
    let flags = flags & !RANKS;
    if kind == Kind::Eager as u8 {
        if flags != 0 || rest.len() < start + len {
            return Err(Malformed);
        }
        let header =
            Header { tag, ends, len: len as u64, payload: len as u32, ..Header::new(Kind::Eager) };
        return Ok(Some((header, rest.part(start, len), at + start + len)));
    }
    let sound = kind == Kind::Rts as u8 && flags & !SENDER_WAITS == 0 && len == 0;
    if !sound || rest.len() < start + 24 || usize::try_from(word(start)).is_err() {
        return Err(Malformed);
    }
    let header = Header {
        flags,
        tag,
        ends,
        len: word(start),
        id: word(start + 8),
        addr: word(start + 16),
        ..Header::new(Kind::Rts)
    };
    Ok(Some((header, Span::EMPTY, at + start + 24)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(bytes: &[u8]) -> Span {
        // SAFETY: the tests keep the bytes while they use the span.
        unsafe { Span::new(bytes.as_ptr(), bytes.len()) }
    }

    fn copied(span: Span) -> Vec<u8> {
        let mut bytes = vec![0; span.len()];
        // SAFETY: the vector has the span's length.
        unsafe { span.copy_to(bytes.as_mut_ptr()) };
        bytes
    }

    fn entry() -> impl Strategy<Value = (Header, Vec<u8>)> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..100);
        let ends = prop_oneof![Just(0), any::<u32>()].prop_map(Ends::of_word);
        (any::<u64>(), ends, any::<bool>(), any::<bool>(), bytes, any::<[u64; 3]>()).prop_map(
            |(tag, ends, announced, waits, bytes, [len, id, addr])| match announced {
                false => {
                    let len = bytes.len();
                    let eager = Header::new(Kind::Eager);
                    (Header { tag, ends, len: len as u64, payload: len as u32, ..eager }, bytes)
                }
                true => {
                    let flags = if waits { SENDER_WAITS } else { 0 };
                    let header =
                        Header { flags, tag, ends, len, id, addr, ..Header::new(Kind::Rts) };
                    (header, Vec::new())
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(entries in proptest::collection::vec(entry(), 0..40)) {
            let mut pack = Vec::new();
            for (header, bytes) in &entries {
                let mut head = [0; ANNOUNCED];
                let len = encode(header, &mut head);
                pack.extend_from_slice(&head[..len]);
                pack.extend_from_slice(bytes);
            }
            let mut at = 0;
            for (header, bytes) in &entries {
                let (found, body, next) = decode(span(&pack), at).unwrap().unwrap();
                prop_assert_eq!(&found, header);
                prop_assert_eq!(&copied(body), bytes);
                at = next;
            }
            prop_assert!(decode(span(&pack), at).unwrap().is_none());
            // Cut anywhere, it is refused or its entries end where it was cut.
            for cut in 0..pack.len() {
                let mut at = 0;
                while let Ok(Some((_, body, next))) = decode(span(&pack[..cut]), at) {
                    prop_assert!(next > at && next <= cut && body.len() < next - at);
                    at = next;
                }
            }
        }

        #[test]
        fn hostile_bytes_end_or_are_refused(
            bytes in proptest::collection::vec(prop_oneof![4 => 0u8..6, 1 => any::<u8>()], 0..200),
            at in 0usize..300,
        ) {
            let mut at = at;
            while let Ok(Some((header, body, next))) = decode(span(&bytes), at) {
                prop_assert!(next > at && next <= bytes.len());
                prop_assert!(matches!(header.kind, Kind::Eager | Kind::Rts));
                prop_assert!(header.kind == Kind::Rts || header.len == body.len() as u64);
                at = next;
            }
        }
    }
}
