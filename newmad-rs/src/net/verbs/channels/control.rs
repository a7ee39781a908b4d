//! What the two ends of a channel tell each other, in packets of the link's own.
//!
//! ```text
//! 0 kind(u8), zeros   4 slots, or slots written(u32)   8 bytes of a slot(u32)   12 key(u32)   16 address(u64)
//! ```
//! Little-endian. What a kind does not need is zero.

use super::window::Shape;
use crate::wire::{Malformed, half_word, word};

/// Bytes of a message.
pub(in crate::net::verbs) const CONTROL: usize = 24;

/// Registered memory of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::net::verbs) struct Place {
    pub(in crate::net::verbs) address: u64,
    pub(in crate::net::verbs) key: u32,
}

/// See the module of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) enum Message {
    /// Of a sender: it would like a channel of this shape, and its word is there.
    Request(Shape, Place),
    /// Of a receiver: the channel is to have this shape.
    Accept(Shape),
    Decline,
    /// Of a sender: so many slots were written, and no more are.
    Flushed(u32),
    /// Of a receiver: the channel is there; or there is none.
    Done(Shape, Place),
}

impl Message {
    pub(in crate::net::verbs) fn encode(self) -> [u8; CONTROL] {
        let none = (Shape::NONE, Place::default());
        let (kind, (shape, place)) = match self {
            Message::Request(shape, place) => (1, (shape, place)),
            Message::Accept(shape) => (2, (shape, none.1)),
            Message::Decline => (3, none),
            Message::Flushed(count) => (4, (Shape { slots: count, size: 0 }, none.1)),
            Message::Done(shape, place) => (5, (shape, place)),
        };
        let mut bytes = [0; CONTROL];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&shape.slots.to_le_bytes());
        bytes[8..12].copy_from_slice(&shape.size.to_le_bytes());
        bytes[12..16].copy_from_slice(&place.key.to_le_bytes());
        bytes[16..].copy_from_slice(&place.address.to_le_bytes());
        bytes
    }

    /// # Errors
    /// It is none. `longest`: the longest slot.
    pub(in crate::net::verbs) fn decode(
        bytes: &[u8; CONTROL],
        longest: u32,
    ) -> Result<Message, Malformed> {
        let half = |at| half_word(bytes, at).ok_or(Malformed);
        let said = Shape { slots: half(4)?, size: half(8)? };
        let place = Place { address: word(bytes, 16).ok_or(Malformed)?, key: half(12)? };
        let message = match bytes[0] {
            1 if !said.is_none() => Message::Request(said.checked(longest)?, place),
            2 => Message::Accept(said.checked(longest)?),
            3 => Message::Decline,
            4 => Message::Flushed(said.slots),
            5 => Message::Done(said.checked(longest)?, place),
            _ => return Err(Malformed),
        };
        if message.encode() == *bytes { Ok(message) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: u32 = 8320;

    fn shape() -> impl Strategy<Value = Shape> {
        prop_oneof![
            4 => (2u32..1025, 1u32..131).prop_map(|(slots, lines)| Shape { slots, size: lines * 64 }),
            1 => Just(Shape::NONE),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_the_wire(shape in shape(), address in any::<u64>(), key in any::<u32>(), kind in 0..5) {
            let place = Place { address, key };
            let message = match kind {
                0 if !shape.is_none() => Message::Request(shape, place),
                1 => Message::Accept(shape),
                2 => Message::Flushed(key),
                3 => Message::Done(shape, place),
                _ => Message::Decline,
            };
            prop_assert_eq!(Message::decode(&message.encode(), LONGEST).ok(), Some(message));
        }

    }

    #[test]
    fn impossible_shapes_and_stray_bytes_are_refused() {
        let bytes = |slots: u32, size: u32| {
            let mut bytes = Message::Decline.encode();
            bytes[0] = 2;
            bytes[4..8].copy_from_slice(&slots.to_le_bytes());
            bytes[8..12].copy_from_slice(&size.to_le_bytes());
            bytes
        };
        assert!(Message::decode(&bytes(8, 128), LONGEST).is_ok());
        for (slots, size) in
            [(1, 128), (1025, 128), (8, 0), (8, 100), (8, 8384), (0, 64), (u32::MAX, u32::MAX)]
        {
            assert!(Message::decode(&bytes(slots, size), LONGEST).is_err(), "{slots} of {size}");
        }
        let mut stray = Message::Decline.encode();
        stray[20] = 1;
        assert!(Message::decode(&stray, LONGEST).is_err());
    }
}
