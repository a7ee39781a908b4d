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

/// What a hostile peer does to both ends of this side by its messages, words and slots, for fuzzing: nothing but refusals.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(input: &[u8]) {
    use super::doze::Word;
    use super::incoming::Tail;
    use super::{Incoming, Outgoing, Route, Rules};
    const LONGEST: u32 = 8320;
    let rules = Rules { after: 3, window: 5, ..Rules::USUAL };
    let mut out = Outgoing::new(Some(Place::default()), rules, LONGEST);
    let mut come = Incoming::new();
    let mut now = 0;
    for bytes in input.chunks_exact(CONTROL + 1) {
        let (step, body) = (bytes[0], &bytes[1..]);
        let mut control = [0; CONTROL];
        control.copy_from_slice(body);
        if step & 0x80 == 0 {
            // Plausible ones, too: else nearly all are refused at once.
            control[0] %= 6;
            control[1..4].fill(0);
            let [slots, low, high] = [control[4] & 7, control[8] & 0xc0, control[9] & 3];
            control[4..12].copy_from_slice(&[slots, 0, 0, 0, low, high, 0, 0]);
            if matches!(control[0], 2..=4) {
                control[12..].fill(0);
            }
            if matches!(control[0], 3 | 4) {
                control[8..12].fill(0);
            }
        }
        let number = u64::from_le_bytes([
            body[0], body[1], body[2], body[3], body[4], body[5], body[6], body[7],
        ]);
        let treated = match step % 8 {
            0 | 1 => Message::decode(&control, LONGEST).and_then(|message| match message {
                Message::Request(..) | Message::Flushed(_) => come.on_message(message),
                _ => out.on_message(message),
            }),
            2 => {
                let plausible = Word {
                    taken: out.written().wrapping_sub(number as u32 & 3),
                    epoch: body[4].into(),
                };
                out.look(if step & 0x80 == 0 { plausible } else { Word::of_bits(number) })
            }
            3 => {
                let len = number as usize % 8257;
                let route = out.route(len);
                if route == Route::Ring {
                    let (target, tail) = out.target(len);
                    let (shape, place) = out.ring().unwrap();
                    let inside = target.address.wrapping_sub(place.address);
                    assert!(
                        inside + (len + TAIL) as u64 <= shape.bytes(),
                        "a write beyond the ring"
                    );
                    assert_eq!((inside + (len + TAIL) as u64) % u64::from(shape.size), 0);
                    assert_eq!(Tail::decode(&tail.encode()), tail);
                }
                out.posted(route, len);
                Ok(())
            }
            4 => {
                let before = u32::from_le_bytes([body[8], body[9], body[10], body[11]]);
                let last = if step & 0x80 == 0 {
                    come.expected() & !0xffff | number & 0xffff
                } else {
                    number
                };
                come.show_slot(last, before).map(|len| {
                    if let Some(len) = len {
                        assert!(
                            len + TAIL <= come.shape().size as usize,
                            "a packet beyond its slot"
                        );
                        come.release_slot();
                    }
                })
            }
            5 => {
                now += number % 1_000_000;
                come.arm(now);
                Ok(())
            }
            6 => {
                if let Some(wish) = come.wish() {
                    let made = if number.is_multiple_of(3) { Shape::NONE } else { wish };
                    come.made(made, Place::default());
                }
                if let Some((shape, _)) = come.request() {
                    if number.is_multiple_of(5) { come.decline() } else { come.accept(shape) }
                } else if number.is_multiple_of(7) {
                    come.shrink(come.shape().within(number % 10_000));
                }
                Ok(())
            }
            _ => {
                out.take_message();
                come.take_message();
                come.take_word();
                out.take_wake();
                come.polled();
                come.release_packet();
                Ok(())
            }
        };
        if treated.is_err() {
            return;
        }
        assert!(out.filled() <= MOST_SLOTS_OF_ANY && come.shape().slots <= MOST_SLOTS_OF_ANY);
    }
}

#[cfg(any(test, fuzzing))]
const MOST_SLOTS_OF_ANY: u32 = super::window::MOST_SLOTS;
#[cfg(any(test, fuzzing))]
use super::TAIL;

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

        #[test]
        fn hostile_messages_never_panic(input in proptest::collection::vec(any::<u8>(), 0..2500)) {
            hostile(&input);
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
