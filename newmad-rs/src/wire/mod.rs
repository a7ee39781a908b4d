//! The wire format: one fixed little-endian header in front of every packet.
//!
//! ```text
//! 0 kind  1 flags  2 magic(u16)  4 sequence(u32)  8 tag(u64)  16 length(u64)  24 payload(u32)  28 ack(u32)
//! 32 id(u64)  40 address(u64)                                  -- only kinds with Kind::LONG
//! ```
//! Eager kinds carry 32 bytes, so that a slot's state word (8), the header and up to 24 bytes of message
//! share one cache line; the others carry 48. Everything a peer sends is checked here before anything else
//! looks at it: unknown kinds, wrong magic, impossible lengths are [`Malformed`], which ends the gate.
//!
//! A packet that begins a message names its two ranks, by their places within their processes (16 bits each): in the
//! upper half of the length in `Eager` and `First`, whose lengths have 32 bits; in place of the payload's length in `Rts`,
//! which has no payload but a checksum.
//!
//! | kind | tag | length | payload | id | address |
//! |---|---|---|---|---|---|
//! | `Eager` | message's | of message | = length | | |
//! | `First` | message's | of message | first part | | |
//! | `Next` | message's | offset of this part | this part | | |
//! | `Rts` | message's | of message | 0 | sender's | of sender's buffer |
//! | `Cts` | receiver's id | bytes to send | 0 | sender's | of receiver's buffer |
//! | `Fin` | 0 | 0 | 0 | of the side that is told | 0 |
//! | `Data` | 0 | offset | this part | receiver's | 0 |
//! | `Bye`, `Quiet` | 0 | 0 | 0 | 0 | 0 |
//! | `Pack` | 0 | of payload | entries (`wire/entries.rs`) | | |
//! | `Ack`, `Probe` | credit returned | 0 | 0 | route (`gate/route.rs`) | 0 |
//! | `Ask` | 0 | 0 | 0 | receiver's | 0 |
//! | `Have` | 0 | 0 | ranges: from (u64), to (u64) | sender's | 0 |
//! | `Back` | 0 | 0 | 0 | sender's | 0 |
//! | `Leave` | the rank's place | 0 | 0 | 0 | 0 |
//! | `Key` | key (lane above it) | offset of the piece | 0 | receiver's | 0 |
//!
//! A `Cts` with `READ` asks for a piece's key: its length is the piece's offset, its address the piece (`proto/pieces.rs`).

pub(crate) mod entries;

/// Most rails of a session.
pub const MAX_RAILS: usize = 4;

/// Bytes of an eager header.
pub(crate) const SHORT: usize = 32;
/// Bytes of every other header, and the most that any header takes.
pub(crate) const LONG: usize = 48;
const MAGIC: u16 = 0x4d6e;
/// The beginning of a whole message's header without a checksum.
const EAGER: u64 = Kind::Eager as u64 | (MAGIC as u64) << 16;

/// The two ranks of a message, by their places within their processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends(u32);

impl Ends {
    #[inline(always)]
    pub(crate) fn new(from: u16, to: u16) -> Ends {
        Ends(u32::from(from) | u32::from(to) << 16)
    }

    /// The sender's place.
    #[inline(always)]
    pub(crate) fn from(self) -> u16 {
        self.0 as u16
    }

    /// The receiver's.
    #[inline(always)]
    pub(crate) fn to(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u32 {
        self.0
    }

    /// Whether the two have to be named: they are not both the first of their processes.
    #[inline]
    pub(crate) fn are_named(self) -> bool {
        self.word() != 0
    }

    #[inline(always)]
    pub(crate) fn of_word(word: u32) -> Ends {
        Ends(word)
    }
}

/// What a message is matched by: its tag, and between which ranks of two processes it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) tag: u64,
    pub(crate) ends: Ends,
}

/// In every kind: the packet has a checksum. In `Data` the address is the payload's and the tag the header's (made with
/// tag 0); in the others one for both is behind the payload, and counted by it.
pub(crate) const CHECKED: u8 = 0x80;
/// Bytes of a checksum behind the payload.
pub(crate) const CHECKSUM: usize = 4;
/// Bytes of a range in `Have`.
pub(crate) const RANGE: usize = 16;
/// In `Rts`: a thread of the sender is blocked until the message is gone.
pub(crate) const SENDER_WAITS: u8 = 1;
/// In `Cts`: the sender is asked to write into the receiver's memory itself.
pub(crate) const PUT: u8 = 1;
/// In `Cts`: the receiver reads a piece itself, and asks for its key.
pub(crate) const READ: u8 = 2;
/// In `Key`: there is none, for memory cannot be registered.
pub(crate) const REFUSED: u8 = 1;
/// In `Fin`: the receiver is told (the sender has written everything); otherwise the sender is.
pub(crate) const TO_RECEIVER: u8 = 1;
/// In `Leave`: the rank goes on to receive what functions of it wait for.
pub(crate) const TAKES: u8 = 1;
/// In `Back`: the sender is told that its announcement is taken back; otherwise the receiver is asked for that.
pub(crate) const TO_SENDER: u8 = 1;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Eager = 1,
    First = 2,
    Next = 3,
    Rts = 4,
    Cts = 5,
    Fin = 6,
    Data = 7,
    Bye = 8,
    Pack = 9,
    Ack = 10,
    Probe = 11,
    Ask = 12,
    Have = 13,
    Back = 14,
    Leave = 15,
    Key = 16,
    Quiet = 17,
}

impl Kind {
    #[inline]
    fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Eager,
            2 => Kind::First,
            3 => Kind::Next,
            4 => Kind::Rts,
            5 => Kind::Cts,
            6 => Kind::Fin,
            7 => Kind::Data,
            8 => Kind::Bye,
            9 => Kind::Pack,
            10 => Kind::Ack,
            11 => Kind::Probe,
            12 => Kind::Ask,
            13 => Kind::Have,
            14 => Kind::Back,
            15 => Kind::Leave,
            16 => Kind::Key,
            17 => Kind::Quiet,
            _ => return None,
        })
    }

    /// Bytes of the header of this kind.
    #[inline]
    pub(crate) fn header_len(self) -> usize {
        match self {
            Kind::Eager | Kind::First | Kind::Next | Kind::Pack => SHORT,
            _ => LONG,
        }
    }
}

/// A decoded header; see the module's table for what the fields mean in each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) tag: u64,
    /// In kinds that begin a message.
    pub(crate) ends: Ends,
    pub(crate) len: u64,
    pub(crate) payload: u32,
    /// Number that the sender expects next from the other side.
    pub(crate) ack: u32,
    pub(crate) id: u64,
    pub(crate) addr: u64,
}

/// A packet that this protocol does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Header {
    /// A header of this kind with everything else zero.
    #[inline]
    pub(crate) fn new(kind: Kind) -> Header {
        let ends = Ends::default();
        Header { kind, flags: 0, seq: 0, tag: 0, ends, len: 0, payload: 0, ack: 0, id: 0, addr: 0 }
    }

    /// Writes the header; the first [`Kind::header_len`] bytes count.
    #[inline]
    pub(crate) fn encode(&self, out: &mut [u8; LONG]) {
        let first = u64::from(self.kind as u8)
            | u64::from(self.flags) << 8
            | u64::from(MAGIC) << 16
            | u64::from(self.seq) << 32;
        out[0..8].copy_from_slice(&first.to_le_bytes());
        out[8..16].copy_from_slice(&self.tag.to_le_bytes());
        let ends = u64::from(self.ends.word());
        let (len, payload) = match self.kind {
            Kind::Eager | Kind::First => (self.len | ends << 32, u64::from(self.payload)),
            Kind::Rts => (self.len, ends),
            _ => (self.len, u64::from(self.payload)),
        };
        out[16..24].copy_from_slice(&len.to_le_bytes());
        let sizes = payload | u64::from(self.ack) << 32;
        out[24..32].copy_from_slice(&sizes.to_le_bytes());
        if self.kind.header_len() == LONG {
            out[32..40].copy_from_slice(&self.id.to_le_bytes());
            out[40..48].copy_from_slice(&self.addr.to_le_bytes());
        }
    }

    /// The words of the header of a whole message of `len` bytes. `numbers`: its own, and the one expected next.
    #[inline(always)]
    pub(crate) fn encode_eager(
        numbers: (u32, u32),
        Envelope { tag, ends }: Envelope,
        len: usize,
    ) -> [u64; SHORT / 8] {
        let (seq, ack) = numbers;
        let first = u64::from(seq) << 32 | EAGER;
        let len = u64::from(len as u32);
        [first, tag, len | u64::from(ends.word()) << 32, len | u64::from(ack) << 32]
    }

    /// The header of a whole message without a checksum; `None`: it is another, or none.
    #[inline(always)]
    pub(crate) fn decode_eager(words: [u64; SHORT / 8]) -> Option<Header> {
        let [first, tag, len, sizes] = words;
        if first as u32 != EAGER as u32 || sizes as u32 != len as u32 {
            return None;
        }
        let (seq, ack) = ((first >> 32) as u32, (sizes >> 32) as u32);
        let (payload, ends) = (sizes as u32, Ends::of_word((len >> 32) as u32));
        let len = u64::from(payload);
        Some(Header { seq, ack, tag, ends, len, payload, ..Header::new(Kind::Eager) })
    }

    /// Number of bytes of the header that starts with `first`, if it can be one.
    #[inline]
    pub(crate) fn len_from_first_byte(first: u8) -> Result<usize, Malformed> {
        Kind::from_byte(first).map(Kind::header_len).ok_or(Malformed)
    }

    /// Reads and checks a header. `bytes` may be longer than the header.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        if bytes.len() < SHORT {
            return Err(Malformed);
        }
        let word = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        let first = word(0);
        let kind = Kind::from_byte(first as u8).ok_or(Malformed)?;
        let sizes = word(24);
        let mut header = Header {
            kind,
            flags: (first >> 8) as u8,
            seq: (first >> 32) as u32,
            tag: word(8),
            ends: Ends::default(),
            len: word(16),
            payload: sizes as u32,
            ack: (sizes >> 32) as u32,
            id: 0,
            addr: 0,
        };
        match kind {
            Kind::Eager | Kind::First => {
                header.ends = Ends::of_word((header.len >> 32) as u32);
                header.len = u64::from(header.len as u32);
            }
            Kind::Rts => {
                header.ends = Ends::of_word(header.payload);
                header.payload = if header.flags & CHECKED != 0 { CHECKSUM as u32 } else { 0 };
            }
            _ => {}
        }
        if (first >> 16) as u16 != MAGIC {
            return Err(Malformed);
        }
        if kind.header_len() == LONG {
            if bytes.len() < LONG {
                return Err(Malformed);
            }
            header.id = word(32);
            header.addr = word(40);
        }
        let mut payload = u64::from(header.payload);
        if header.flags & CHECKED != 0 && kind != Kind::Data {
            payload = payload.checked_sub(CHECKSUM as u64).ok_or(Malformed)?;
        }
        let flags = header.flags & !CHECKED;
        let sound = match kind {
            Kind::Eager => flags == 0 && payload == header.len,
            Kind::First => flags == 0 && payload > 0 && payload < header.len,
            Kind::Next => flags == 0 && payload > 0 && header.len.checked_add(payload).is_some(),
            Kind::Rts => flags & !SENDER_WAITS == 0 && payload == 0,
            Kind::Cts => matches!(flags, 0 | PUT | READ) && payload == 0,
            Kind::Key => flags & !REFUSED == 0 && payload == 0,
            Kind::Fin => flags & !TO_RECEIVER == 0 && payload == 0,
            Kind::Back => flags & !TO_SENDER == 0 && payload == 0,
            Kind::Data => flags == 0 && payload > 0 && header.len.checked_add(payload).is_some(),
            Kind::Pack => flags == 0 && payload > 0 && payload == header.len,
            Kind::Leave => flags & !TAKES == 0 && payload == 0,
            Kind::Bye | Kind::Quiet | Kind::Ack | Kind::Probe | Kind::Ask => {
                flags == 0 && payload == 0
            }
            Kind::Have => flags == 0 && payload.is_multiple_of(RANGE as u64),
        };
        if sound && usize::try_from(header.len).is_ok() { Ok(header) } else { Err(Malformed) }
    }
}

/// The number in these eight bytes.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The number in these four bytes.
pub(crate) fn half_word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(header: Header) {
        let mut bytes = [0; LONG];
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes[..header.kind.header_len()]), Ok(header));
    }

    #[test]
    fn every_kind_survives_the_wire() {
        let ends = Ends::new(0xfffe, 0x8001);
        round_trip(Header {
            seq: 9,
            tag: 77,
            ends,
            len: 5,
            payload: 5,
            ..Header::new(Kind::Eager)
        });
        round_trip(Header { tag: 1, ends, len: 50, payload: 5, ..Header::new(Kind::First) });
        round_trip(Header { tag: 1, len: 5, payload: 5, ..Header::new(Kind::Next) });
        round_trip(Header {
            flags: SENDER_WAITS,
            ends,
            len: 1 << 40,
            id: 3,
            addr: !0,
            ..Header::new(Kind::Rts)
        });
        round_trip(Header { flags: CHECKED, ends, payload: 4, ..Header::new(Kind::Rts) });
        round_trip(Header { flags: PUT, tag: 4, len: 8, id: 3, addr: 1, ..Header::new(Kind::Cts) });
        round_trip(Header { flags: READ, len: 1 << 30, addr: !0, ..Header::new(Kind::Cts) });
        round_trip(Header { tag: !0, len: 1 << 30, id: 3, ..Header::new(Kind::Key) });
        round_trip(Header { flags: REFUSED, id: 3, ..Header::new(Kind::Key) });
        round_trip(Header { flags: TO_RECEIVER, id: 3, ..Header::new(Kind::Fin) });
        round_trip(Header { flags: TO_SENDER, id: 3, ..Header::new(Kind::Back) });
        round_trip(Header { tag: 7, ..Header::new(Kind::Leave) });
        round_trip(Header { tag: 7, flags: TAKES, ..Header::new(Kind::Leave) });
        round_trip(Header { len: 4096, payload: 4096, id: 3, ..Header::new(Kind::Data) });
        round_trip(Header { seq: u32::MAX, ..Header::new(Kind::Bye) });
        round_trip(Header::new(Kind::Quiet));
        round_trip(Header { seq: 1, len: 60, payload: 60, ..Header::new(Kind::Pack) });
        round_trip(Header { ack: u32::MAX, ..Header::new(Kind::Ack) });
        round_trip(Header { flags: CHECKED, ack: 1, payload: 4, ..Header::new(Kind::Probe) });
        round_trip(Header { flags: CHECKED, len: 1, payload: 5, ..Header::new(Kind::Eager) });
    }

    #[test]
    fn the_short_way_writes_and_reads_the_same() {
        for (len, tag, seq, ack) in [(0, 0, 0, 0), (5, 77, 9, u32::MAX), (4096, u64::MAX, 1, 2)] {
            let kind = Header::new(Kind::Eager);
            let ends = Ends::new(seq as u16, 7);
            let header = Header { seq, ack, tag, ends, len, payload: len as u32, ..kind };
            let mut bytes = [0; LONG];
            header.encode(&mut bytes);
            let words = Header::encode_eager((seq, ack), Envelope { tag, ends }, len as usize);
            assert_eq!(words.map(u64::to_le_bytes).as_flattened(), &bytes[..SHORT]);
            assert_eq!(Header::decode_eager(words), Some(header));
            let [first, _, len, sizes] = words;
            assert_eq!(Header::decode_eager([first | 1 << 15, tag, len, sizes]), None);
            assert_eq!(Header::decode_eager([first ^ 3, tag, len, sizes]), None);
            assert_eq!(Header::decode_eager([first, tag, len + 1, sizes]), None);
        }
    }

    #[test]
    fn a_small_message_fits_one_cache_line() {
        for kind in [Kind::Eager, Kind::Rts, Kind::Cts, Kind::Fin] {
            assert!(8 + kind.header_len() < 64);
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Header::decode(&bytes);
        }

        #[test]
        fn a_flipped_bit_is_refused_or_decodes_to_a_sound_header(
            at in 0usize..48, bit in 0u8..8, len in 0u64..100_000, id: u64,
        ) {
            let mut bytes = [0; LONG];
            Header { len, id, ..Header::new(Kind::Rts) }.encode(&mut bytes);
            bytes[at] ^= 1 << bit;
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert!(usize::try_from(header.len).is_ok());
                let eager = matches!(header.kind, Kind::Eager);
                prop_assert!(!eager || u64::from(header.payload) == header.len);
            }
        }
    }
}
