//! A channel's shape, and the statistics that it follows from.

use crate::wire::{Malformed, SHORT};

/// The longest message of a packet: as much as the rings of shared memory take.
pub(in crate::net::verbs) const MESSAGE: usize = 8208;
/// Bytes at a slot's end that are not the packet's: see [`Tail`](super::Tail).
pub(in crate::net::verbs) const TAIL: usize = 16;
/// Most slots of a channel, and fewest.
pub(in crate::net::verbs) const MOST_SLOTS: u32 = 1024;
const FEWEST_SLOTS: u32 = 2;
/// Slots are multiples of a cache line.
const LINE: u32 = 64;

/// Slots, and bytes of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slots: u32,
    pub(crate) size: u32,
}

impl Shape {
    /// No channel.
    pub(in crate::net::verbs) const NONE: Shape = Shape { slots: 0, size: 0 };

    /// Slots for packets of `len` bytes; the nearest shape that there is.
    pub(crate) fn of(slots: u64, len: u64, longest: u32) -> Shape {
        let size = (len + TAIL as u64).next_multiple_of(LINE.into()).max(LINE.into());
        let slots = slots.clamp(FEWEST_SLOTS.into(), MOST_SLOTS.into());
        Shape { slots: slots as u32, size: size.min(longest.into()) as u32 }
    }

    /// Slots and the longest message of each, as in `128x1024`.
    pub(crate) fn parse(text: &str) -> Option<Shape> {
        let (slots, bytes) = text.split_once('x')?;
        let (slots, bytes): (u64, usize) = (slots.parse().ok()?, bytes.parse().ok()?);
        let shape = Shape::of(slots, (bytes + SHORT) as u64, u32::MAX);
        let possible = u64::from(shape.slots) == slots && (1..=MESSAGE).contains(&bytes);
        possible.then_some(shape)
    }

    /// What a peer has said, checked.
    ///
    /// # Errors
    /// There is no such shape.
    pub(in crate::net::verbs) fn checked(self, longest: u32) -> Result<Shape, Malformed> {
        let sound = (FEWEST_SLOTS..=MOST_SLOTS).contains(&self.slots)
            && self.size.is_multiple_of(LINE)
            && (LINE..=longest).contains(&self.size);
        if sound || self == Shape::NONE { Ok(self) } else { Err(Malformed) }
    }

    pub(in crate::net::verbs) fn is_none(self) -> bool {
        self == Shape::NONE
    }

    /// Bytes of the ring.
    pub(in crate::net::verbs) fn bytes(self) -> u64 {
        u64::from(self.slots) * u64::from(self.size)
    }

    /// The same slots, as many as `bytes` have room for.
    pub(in crate::net::verbs) fn within(self, bytes: u64) -> Shape {
        let slots = bytes / u64::from(self.size.max(1));
        if slots >= u64::from(self.slots) {
            return self;
        }
        if slots < FEWEST_SLOTS.into() {
            return Shape::NONE;
        }
        Shape { slots: slots as u32, ..self }
    }
}

/// Of so many packets of a window one may find no slot, or be longer than one, before that counts.
const TOLERATED: u32 = 20;

/// Packets of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    count: u32,
    bytes: u64,
}

impl Kind {
    fn add(&mut self, bytes: usize) {
        self.count = self.count.saturating_add(1);
        self.bytes += bytes as u64;
    }

    fn mean(self) -> u64 {
        self.bytes.div_ceil(u64::from(self.count).max(1))
    }
}

/// Statistics of the packets to one peer. Source: [Didelot14] 3.4, formulas 3.1 and 3.2. The highest value of the
/// pending data is taken when a packet is sent; the source's text takes it when one is over, and misses the last one.
///
/// The source does not say what becomes of packets that are longer than the mean. Here they go by send and receive; and
/// where they are more than a few, slots are as long as *their* mean: else no message of a program would fit that also
/// synchronises by empty ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    all: Kind,
    /// Those longer than the mean until then, and those longer than a slot.
    above: Kind,
    longer: Kind,
    /// Those that found no slot free.
    misses: u32,
    /// Bytes that are under way or fill slots, and the most since the window began.
    pending: u64,
    most: u64,
}

impl Window {
    pub(super) fn sent(&mut self, bytes: usize) {
        self.all.add(bytes);
        if bytes as u64 > self.all.mean() {
            self.above.add(bytes);
        }
        self.pending += bytes as u64;
        self.most = self.most.max(self.pending);
    }

    /// A packet was longer than a slot.
    pub(super) fn was_longer(&mut self, bytes: usize) {
        self.longer.add(bytes);
    }

    /// A packet found no slot free.
    pub(super) fn missed(&mut self) {
        self.misses += 1;
    }

    /// A packet is over: its request, and its slot if it had one.
    pub(super) fn over(&mut self, bytes: usize) {
        self.pending = self.pending.saturating_sub(bytes as u64);
    }

    /// Packets by now.
    pub(super) fn packets(&self) -> u32 {
        self.all.count
    }

    /// Begins again.
    pub(super) fn restart(&mut self) {
        *self = Window { pending: self.pending, most: self.pending, ..Window::default() };
    }

    fn are_many(&self, count: u32) -> bool {
        u64::from(count) * u64::from(TOLERATED) > self.all.count.into()
    }

    /// Whether many found no slot free.
    pub(super) fn misses_many(&self) -> bool {
        self.are_many(self.misses)
    }

    /// Whether many were longer than a slot.
    pub(super) fn has_many_longer(&self) -> bool {
        self.are_many(self.longer.count)
    }

    /// The shape that these packets ask for: their mean length, and as many slots as the pending data fills, and a tenth
    /// more. `longest`: the longest slot.
    pub(super) fn shape(&self, longest: u32) -> Shape {
        let mean = self.all.mean().max(1);
        let number = self.most.div_ceil(mean);
        let of = |kind: Kind| if self.are_many(kind.count) { kind.mean() } else { 0 };
        let size = mean.max(of(self.above)).max(of(self.longer));
        Shape::of(number + number.div_ceil(10), size, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shapes_are_read_as_people_write_them() {
        assert_eq!(Shape::parse("128x16"), Some(Shape { slots: 128, size: 64 }));
        assert_eq!(Shape::parse("2x17"), Some(Shape { slots: 2, size: 128 }));
        assert_eq!(Shape::parse("1024x8208").map(|shape| shape.size), Some(8256));
        for wrong in
            ["", "x", "128", "1x16", "1025x16", "8x0", "8x8209", "8x16x2", "-8x16", "a x b"]
        {
            assert_eq!(Shape::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        /// Beside the formulas as they stand in the source, over the same packets.
        #[test]
        fn shapes_follow_the_formulas(
            steps in proptest::collection::vec((1usize..9000, any::<bool>()), 1..300), same in any::<bool>(),
        ) {
            let mut window = Window::default();
            let mut under_way = std::collections::VecDeque::new();
            let (mut size, mut number, mut most) = (0.0, 0.0, 0usize);
            let mut above: Vec<f64> = vec![];
            let first = steps[0].0;
            for (bytes, ends) in steps {
                let bytes = if same { first } else { bytes };
                window.sent(bytes);
                under_way.push_back(bytes);
                size += bytes as f64;
                number += 1.0;
                most = most.max(under_way.iter().sum());
                if bytes as f64 > f64::ceil(size / number) {
                    above.push(bytes as f64);
                }
                if ends {
                    window.over(under_way.pop_front().unwrap());
                }
            }
            let shape = window.shape(1 << 20);
            let buffer = f64::ceil(size / number);
            let slots = f64::ceil(most as f64 / buffer);
            prop_assert_eq!(shape.slots, ((slots + f64::ceil(slots / 10.0)) as u32).clamp(2, MOST_SLOTS));
            let longer = f64::ceil(above.iter().sum::<f64>() / above.len().max(1) as f64);
            let fits = if above.len() as f64 * 20.0 > number { longer.max(buffer) } else { buffer };
            prop_assert!(!same || fits == first as f64, "where all are as long the formula alone counts");
            prop_assert!(f64::from(shape.size) >= fits + TAIL as f64);
            prop_assert!(f64::from(shape.size) < fits + TAIL as f64 + 64.0);
            prop_assert_eq!(shape.checked(1 << 20).unwrap(), shape);
            // What is pending goes into the next window.
            window.restart();
            prop_assert_eq!(window.pending, under_way.iter().sum::<usize>() as u64);
        }

        /// Many messages of one length among empty ones that synchronise: slots are as long as the messages.
        #[test]
        fn messages_among_empty_ones_fit(len in 100usize..8000, empty in 1usize..38) {
            let mut window = Window::default();
            for number in 0..400 {
                let bytes = if number % 41 < empty { 32 } else { len };
                window.sent(bytes);
                window.over(bytes);
            }
            prop_assert!(window.shape(8320).size as usize >= len + TAIL);
        }

        #[test]
        fn a_smaller_shape_keeps_to_its_bytes(slots in 2u32..1025, lines in 1u32..130, bytes in 0u64..10_000_000) {
            let shape = Shape { slots, size: lines * 64 };
            let less = shape.within(bytes);
            prop_assert!(less.bytes() <= bytes && less.slots <= slots);
            prop_assert!(less.is_none() || less.checked(130 * 64).is_ok());
            prop_assert!(!less.is_none() || bytes < 2 * u64::from(shape.size));
        }
    }
}
