//! What calls look like on the wire: two small packets, and messages of their own for what is long.
//!
//! ```text
//! call    0 kind  1 flags  2 length of name  3 zero  4 magic(u32)  8 id  16 length of arguments  24 number
//!         32 name, then the arguments unless they are long
//! answer  0 status  1 flags  2 zero(u16)  4 magic(u32)  8 length of what follows
//!         16 result or text, unless it is long
//! ```
//! Everything is little-endian. Long arguments and results (flag `APART`) are messages of their own, so that they move
//! as any large message does: announced first, received into the memory that the other side has made for them.
//!
//! Tags: an id is the caller's, so a pair of rank and tag belongs to one call.
//!
//! | tag | from | to |
//! |---|---|---|
//! | lane | caller | the target's thread that serves this lane |
//! | answer, id | target | the caller's receive for this call |
//! | arguments, id | caller | the target's receive for this call |
//! | result, id | target | the caller's receive for this call |

use std::borrow::Cow;

use crate::request::tag::CALLS;
use crate::wire::word;

/// Ids are below this.
const IDS: u64 = 1 << 52;
const MAGIC: u32 = 0x6c63_706e;
const CALL_HEADER: usize = 32;
const ANSWER_HEADER: usize = 16;
/// Most bytes of a call's packet, and of the arguments that may travel in it together with the longest name.
pub(super) const CALL: usize = 8192;
/// Longest name of a service.
pub(super) const NAME: usize = 255;
/// Most bytes of an answer's packet: every outstanding call has a buffer of this size.
pub(super) const ANSWER: usize = 512;

const IS_CALL: u8 = 1;
const IS_STOP: u8 = 2;
const APART: u8 = 1;
const ONE_WAY: u8 = 2;

/// The id of call `number` of this process.
pub(super) fn id(number: u64) -> u64 {
    number % IDS
}

/// Tag of the calls that come over a lane.
pub(super) fn lane_tag(lane: usize) -> u64 {
    CALLS | lane as u64
}

/// Tag of the answer to a call.
pub(super) fn answer_tag(id: u64) -> u64 {
    CALLS | IDS | id
}

/// Tag of a call's long arguments.
pub(super) fn arguments_tag(id: u64) -> u64 {
    CALLS | (2 * IDS) | id
}

/// Tag of a call's long result.
pub(super) fn result_tag(id: u64) -> u64 {
    CALLS | (3 * IDS) | id
}

/// Which service is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service<'a> {
    /// By name: up to 255 bytes.
    Name(Cow<'a, str>),
    /// By number.
    Number(u64),
}

impl<'a> From<&'a str> for Service<'a> {
    fn from(name: &'a str) -> Service<'a> {
        Service::Name(Cow::Borrowed(name))
    }
}

impl<'a> From<&'a String> for Service<'a> {
    fn from(name: &'a String) -> Service<'a> {
        Service::Name(Cow::Borrowed(name))
    }
}

impl From<u64> for Service<'_> {
    fn from(number: u64) -> Self {
        Service::Number(number)
    }
}

impl std::fmt::Display for Service<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Service::Name(name) => write!(f, "{name:?}"),
            Service::Number(number) => write!(f, "number {number}"),
        }
    }
}

impl Service<'_> {
    /// The same, of its own.
    pub(super) fn to_owned(&self) -> Service<'static> {
        match self {
            Service::Name(name) => Service::Name(Cow::Owned(name.to_string())),
            Service::Number(number) => Service::Number(*number),
        }
    }
}

/// What a call carries, or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// It is here.
    Here(&'a [u8]),
    /// It comes as a message of its own, of this length.
    Apart(u64),
}

/// A call's packet, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) id: u64,
    pub(super) service: Service<'a>,
    pub(super) one_way: bool,
    pub(super) arguments: Content<'a>,
}

/// What a lane is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Incoming<'a> {
    /// A call.
    Call(Call<'a>),
    /// The services have ended; counts only from one's own rank.
    Stop,
}

/// Whether arguments of this length travel in the call's packet.
pub(super) fn travels_along(service: &Service<'_>, len: usize) -> bool {
    let name = match service {
        Service::Name(name) => name.len(),
        Service::Number(_) => 0,
    };
    CALL_HEADER + name + len <= CALL
}

impl Call<'_> {
    /// The packet. A name that is too long has been refused before.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (name, number) = match &self.service {
            Service::Name(name) => (name.as_bytes(), 0),
            Service::Number(number) => (&[][..], *number),
        };
        let (here, len, apart) = match self.arguments {
            Content::Here(bytes) => (bytes, bytes.len() as u64, 0),
            Content::Apart(len) => (&[][..], len, APART),
        };
        let flags = apart | if self.one_way { ONE_WAY } else { 0 };
        let mut packet = Vec::with_capacity(CALL_HEADER + name.len() + here.len());
        packet.extend_from_slice(&[IS_CALL, flags, name.len() as u8, 0]);
        packet.extend_from_slice(&MAGIC.to_le_bytes());
        for word in [self.id, len, number] {
            packet.extend_from_slice(&word.to_le_bytes());
        }
        packet.extend_from_slice(name);
        packet.extend_from_slice(here);
        packet
    }
}

/// The packet that ends a lane.
pub(super) fn stop() -> Vec<u8> {
    let mut packet = vec![IS_STOP, 0, 0, 0];
    packet.extend_from_slice(&MAGIC.to_le_bytes());
    packet
}

fn is_ours(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&MAGIC.to_le_bytes())
}

impl Incoming<'_> {
    /// Reads and checks what a lane was sent. `None`: no caller of this library sends that.
    pub(super) fn decode(bytes: &[u8]) -> Option<Incoming<'_>> {
        if !is_ours(bytes) {
            return None;
        }
        if bytes[0] == IS_STOP {
            return (bytes.len() == 8).then_some(Incoming::Stop);
        }
        let (flags, name) = (bytes[1], usize::from(bytes[2]));
        let (id, len, number) = (word(bytes, 8)?, word(bytes, 16)?, word(bytes, 24)?);
        let rest = bytes.get(CALL_HEADER..)?;
        let (name, here) = rest.split_at_checked(name)?;
        let known = bytes[0] == IS_CALL && flags & !(APART | ONE_WAY) == 0 && bytes[3] == 0;
        if !known || id >= IDS || (!name.is_empty() && number != 0) {
            return None;
        }
        let arguments = match flags & APART {
            0 if here.len() as u64 == len => Content::Here(here),
            APART if here.is_empty() && len > 0 => Content::Apart(len),
            _ => return None,
        };
        let service = match std::str::from_utf8(name).ok()? {
            "" => Service::Number(number),
            name => Service::Name(Cow::Borrowed(name)),
        };
        Some(Incoming::Call(Call { id, service, one_way: flags & ONE_WAY != 0, arguments }))
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Done = 0,
    NoService = 1,
    Panicked = 2,
    Failed = 3,
    TooLong = 4,
    BadArguments = 5,
}

impl Status {
    fn from_byte(byte: u8) -> Option<Status> {
        Some(match byte {
            0 => Status::Done,
            1 => Status::NoService,
            2 => Status::Panicked,
            3 => Status::Failed,
            4 => Status::TooLong,
            5 => Status::BadArguments,
            _ => return None,
        })
    }
}

/// An answer's packet, and whether `content` has to follow as a message of its own. What is not a result (a text) is
/// cut instead.
pub(super) fn encode_answer(status: Status, content: &[u8]) -> (Vec<u8>, bool) {
    let room = ANSWER - ANSWER_HEADER;
    let apart = status == Status::Done && content.len() > room;
    let here = if apart { &[][..] } else { &content[..content.len().min(room)] };
    let len = if apart { content.len() } else { here.len() };
    let mut packet = Vec::with_capacity(ANSWER_HEADER + here.len());
    packet.extend_from_slice(&[status as u8, if apart { APART } else { 0 }, 0, 0]);
    packet.extend_from_slice(&MAGIC.to_le_bytes());
    packet.extend_from_slice(&(len as u64).to_le_bytes());
    packet.extend_from_slice(here);
    (packet, apart)
}

/// Reads and checks an answer. `None`: no target of this library answers that.
pub(super) fn decode_answer(bytes: &[u8]) -> Option<(Status, Content<'_>)> {
    let (len, here) = (word(bytes, 8)?, bytes.get(ANSWER_HEADER..)?);
    let status = Status::from_byte(bytes[0])?;
    if !is_ours(bytes) || bytes[2..4] != [0, 0] {
        return None;
    }
    match bytes[1] {
        0 if here.len() as u64 == len => Some((status, Content::Here(here))),
        APART if here.is_empty() && len > 0 && status == Status::Done => {
            Some((status, Content::Apart(len)))
        }
        _ => None,
    }
}

/// Any bytes, as a call and as an answer (`testing/fuzzing/`): what is taken stays inside, and is the same when it is
/// sent on.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(bytes: &[u8]) {
    // As they come, and where the beginning is right.
    let mut right =
        vec![IS_CALL, bytes.len() as u8 & 3, bytes.first().map_or(0, |byte| byte & 15), 0];
    right.extend_from_slice(&MAGIC.to_le_bytes());
    right.extend_from_slice(bytes);
    for bytes in [bytes, &right] {
        if let Some(Incoming::Call(call)) = Incoming::decode(bytes) {
            assert_eq!(Incoming::decode(&call.encode()), Some(Incoming::Call(call)));
        }
        if let Some((status, Content::Here(here))) = decode_answer(bytes) {
            let (again, _) = encode_answer(status, here);
            assert!(here.len() > ANSWER - ANSWER_HEADER || again == bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Service<'_> {
        text.into()
    }

    proptest! {
        #[test]
        fn calls_survive_the_wire(
            id in 0..IDS, text in "[a-zé]{0,40}", number: u64, one_way: bool,
            bytes in proptest::collection::vec(any::<u8>(), 0..100), apart in proptest::option::of(1..u64::MAX),
        ) {
            let service = if text.is_empty() { Service::Number(number) } else { name(&text) };
            let arguments = apart.map_or(Content::Here(&bytes), Content::Apart);
            let call = Call { id, service, one_way, arguments };
            let packet = call.encode();
            prop_assert_eq!(Incoming::decode(&packet), Some(Incoming::Call(call)));
        }

        #[test]
        fn hostile_packets_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Incoming::decode(&bytes);
            let _ = decode_answer(&bytes);
        }

        #[test]
        fn what_is_changed_or_cut_is_refused_or_still_in_bounds(
            at in 0usize..50, to: u8, cut in 0usize..50, len in 0usize..20,
        ) {
            let bytes = vec![7; len];
            let call = Call { id: 5, service: name("sum"), one_way: false, arguments: Content::Here(&bytes) };
            let mut packet = call.encode();
            if let Some(byte) = packet.get_mut(at) {
                *byte = to;
            }
            packet.truncate(packet.len().saturating_sub(cut));
            if let Some(Incoming::Call(Call { arguments: Content::Here(here), id, .. })) = Incoming::decode(&packet) {
                prop_assert!(here.len() <= packet.len() && id < IDS);
            }
        }

        #[test]
        fn answers_survive_the_wire(bytes in proptest::collection::vec(any::<u8>(), 0..700), status in 0u8..6) {
            let status = Status::from_byte(status).unwrap();
            let (packet, apart) = encode_answer(status, &bytes);
            prop_assert!(packet.len() <= ANSWER);
            let (same, content) = decode_answer(&packet).unwrap();
            prop_assert_eq!(same, status);
            match content {
                Content::Apart(len) => prop_assert!(apart && len == bytes.len() as u64),
                Content::Here(here) => {
                    prop_assert!(!apart && bytes.starts_with(here));
                    prop_assert!(here.len() == bytes.len() || status != Status::Done);
                }
            }
        }
    }

    #[test]
    fn tags_of_different_things_differ() {
        let tags = [lane_tag(3), answer_tag(3), arguments_tag(3), result_tag(3)];
        for (at, tag) in tags.iter().enumerate() {
            assert!(tag >> 56 == 0x82 && !tags[..at].contains(tag));
        }
        assert!(travels_along(&name("x"), CALL - CALL_HEADER - 1));
        assert!(!travels_along(&name("x"), CALL - CALL_HEADER));
    }
}
