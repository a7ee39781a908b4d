//! A peer that says anything: for `crate::testing::fuzzing`.

use super::control::{CONTROL, Message, Place};
use super::doze::Word;
use super::incoming::{Incoming, Tail};
use super::outgoing::{Outgoing, Route, Rules};
use super::window::{MOST_SLOTS, Shape, TAIL};

/// What a hostile peer does to both ends of this side by its messages, words and slots, for fuzzing: nothing but
/// refusals.
pub(crate) fn hostile(input: &[u8]) {
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
        assert!(out.filled() <= MOST_SLOTS && come.shape().slots <= MOST_SLOTS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hostile_messages_never_panic(input in proptest::collection::vec(any::<u8>(), 0..2500)) {
            super::hostile(&input);
        }
    }
}
