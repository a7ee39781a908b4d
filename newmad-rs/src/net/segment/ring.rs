//! The slotted ring, after MyThOS's: one direction, one producer, one consumer, fixed slots in shared memory.
//!
//! [`Producer`] and [`Consumer`] are private to their sides and hold the positions, which count all packets from the
//! beginning. The shared part is one *state word* per slot, a count of what was *given back*, both accessed by plain
//! atomic loads and stores only (no read-modify-write), and the slot's bytes. Position `p` lives in slot `p % n`, in
//! lap `p / n`:
//!
//! ```text
//! word == lap + 1     occupied, of that lap (anything else: not yet)
//! given               positions below it are free again
//! ```
//! The producer waits until `given` is less than a lap behind, writes the bytes, stores the word (release). The
//! consumer waits for the word of its lap (acquire), reads in place, and stores `given` (release) for several slots at
//! once, and for the rest when it finds nothing more to read: a window of as many messages as there are slots finds
//! all of them free. Zeroed memory is a valid ring.
//!
//! So each line of a slot goes from the producer to the consumer once a lap, and the consumer never writes to it: the
//! producer has it back as soon as it writes to it, and can ask for it before (`track`). The line with the count
//! moves once for several packets.
//!
//! Neither side believes the other: a word with any other value is "not yet" for ever; a count that goes back, or
//! beyond what was published, is as if nothing had been given back; and the reader checks the bytes.
//! Modelled with loom (`RUSTFLAGS="--cfg loom" cargo test -p newmad --lib`).
//!
//! Rejected: the consumer says "free" in each slot's word, as MyThOS has it (the line moves four times instead of two,
//! and a producer that publishes and then synchronises waits for it: a third of the message rate); a count of what was
//! published (a message would come by two lines, one after the other); byte streams (messages that wrap around need
//! copying twice).

use crate::sync::{AtomicU64, Ordering};

/// Where the shared words are.
pub(crate) trait Words {
    /// The word of slot `index`, which is below the number of slots.
    fn word(&self, index: usize) -> &AtomicU64;
    /// How many slots were given back.
    fn given(&self) -> &AtomicU64;
}

#[derive(Clone, Copy)]
struct Position {
    index: usize,
    lap: u64,
    slots: usize,
}

impl Position {
    fn new(slots: usize) -> Position {
        assert!(slots > 0);
        Position { index: 0, lap: 0, slots }
    }

    #[inline]
    fn step(&mut self) {
        self.index += 1;
        if self.index == self.slots {
            self.index = 0;
            self.lap += 1;
        }
    }

    #[inline]
    fn occupied(self) -> u64 {
        self.lap + 1
    }
}

/// The side that sends.
pub(crate) struct Producer {
    at: Position,
    /// How many slots are free, as far as is known.
    free: usize,
    /// The count of those given back, as it was seen last.
    given: u64,
}

impl Producer {
    pub(crate) fn new(slots: usize) -> Producer {
        Producer { at: Position::new(slots), free: slots, given: 0 }
    }

    /// The slot to write next, when it is free. The same until [`Producer::publish`].
    #[inline]
    pub(crate) fn acquire(&mut self, words: &impl Words) -> Option<usize> {
        if self.free == 0 && !self.look(words) {
            return None;
        }
        Some(self.at.index)
    }

    /// Looks how many were given back.
    #[cold]
    fn look(&mut self, words: &impl Words) -> bool {
        let given = words.given().load(Ordering::Acquire);
        let more = given.wrapping_sub(self.given);
        if more == 0 || more > (self.at.slots - self.free) as u64 {
            return false;
        }
        self.given = given;
        self.free += more as usize;
        true
    }

    /// The slot that `acquire` gave is written: the consumer may have it.
    #[inline]
    pub(crate) fn publish(&mut self, words: &impl Words) {
        words.word(self.at.index).store(self.at.occupied(), Ordering::Release);
        self.at.step();
        self.free -= 1;
    }

    /// The slot that is so many ahead of the next one, if it is known to be free.
    #[inline]
    pub(crate) fn ahead(&self, by: usize) -> Option<usize> {
        let index = self.at.index + by;
        let index = if index < self.at.slots { index } else { index - self.at.slots };
        (by < self.free).then_some(index)
    }
}

/// The side that receives.
pub(crate) struct Consumer {
    at: Position,
    /// How many were read, and of these given back.
    read: u64,
    given: u64,
    /// Given back are so many at once; a power of two.
    batch: u64,
}

impl Consumer {
    /// `batch`: how many slots are given back at once; a power of two, not more than there are.
    pub(crate) fn new(slots: usize, batch: usize) -> Consumer {
        assert!(batch.is_power_of_two() && batch <= slots);
        Consumer { at: Position::new(slots), read: 0, given: 0, batch: batch as u64 }
    }

    /// The slot to read next, when it is occupied. The same until [`Consumer::finish`].
    #[inline]
    pub(crate) fn ready(&self, words: &impl Words) -> Option<usize> {
        let ready = words.word(self.at.index).load(Ordering::Acquire) == self.at.occupied();
        ready.then_some(self.at.index)
    }

    /// The slot that `ready` gave is read. Returns how many were, so far.
    #[inline]
    pub(crate) fn finish(&mut self, words: &impl Words) -> u64 {
        self.at.step();
        self.read += 1;
        if self.read & (self.batch - 1) == 0 {
            self.give_back(words);
        }
        self.read
    }

    /// Gives back what is read. The producer's line is written to, but only once for all slots since the last time.
    #[inline]
    pub(crate) fn give_back(&mut self, words: &impl Words) {
        if self.given != self.read {
            self.given = self.read;
            words.given().store(self.read, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Words of slots, and a count behind them.
    struct Plain(Vec<AtomicU64>, AtomicU64);

    impl Plain {
        fn new(slots: usize) -> Plain {
            Plain((0..slots).map(|_| AtomicU64::new(0)).collect(), AtomicU64::new(0))
        }
    }

    impl Words for Plain {
        fn word(&self, index: usize) -> &AtomicU64 {
            &self.0[index]
        }
        fn given(&self) -> &AtomicU64 {
            &self.1
        }
    }

    #[test]
    fn fills_empties_and_wraps() {
        for batch in [1, 2, 4] {
            let words = Plain::new(4);
            let (mut producer, mut consumer) = (Producer::new(4), Consumer::new(4, batch));
            for lap in 0..3 {
                assert!(consumer.ready(&words).is_none());
                for slot in 0..4 {
                    assert_eq!(producer.acquire(&words), Some(slot), "lap {lap}");
                    producer.publish(&words);
                }
                assert!(producer.acquire(&words).is_none());
                for slot in 0..4 {
                    assert_eq!(consumer.ready(&words), Some(slot));
                    assert_eq!(consumer.finish(&words), 4 * lap + slot as u64 + 1);
                }
            }
        }
    }

    #[test]
    fn slots_are_given_back_by_the_batch() {
        let words = Plain::new(4);
        let (mut producer, mut consumer) = (Producer::new(4), Consumer::new(4, 2));
        (0..4).for_each(|_| producer.publish(&words));
        consumer.finish(&words);
        assert!(producer.acquire(&words).is_none());
        consumer.finish(&words);
        for slot in 0..2 {
            assert_eq!(producer.acquire(&words), Some(slot));
            producer.publish(&words);
        }
        assert!(producer.acquire(&words).is_none());
    }

    #[test]
    fn a_consumer_that_finds_nothing_gives_the_rest_back() {
        let words = Plain::new(4);
        let (mut producer, mut consumer) = (Producer::new(4), Consumer::new(4, 4));
        (0..3).for_each(|_| producer.publish(&words));
        assert_eq!((0..3).map(|_| consumer.finish(&words)).last(), Some(3));
        assert!(consumer.ready(&words).is_none());
        consumer.give_back(&words);
        for _ in 0..4 {
            assert!(producer.acquire(&words).is_some());
            producer.publish(&words);
        }
        assert!(producer.acquire(&words).is_none());
    }

    #[test]
    fn a_slot_ahead_is_a_free_one() {
        let words = Plain::new(4);
        let mut producer = Producer::new(4);
        assert_eq!(producer.ahead(1), Some(1));
        (0..2).for_each(|_| producer.publish(&words));
        assert_eq!(producer.ahead(1), Some(3));
        assert_eq!(producer.ahead(2), None);
    }

    #[test]
    fn a_word_that_makes_no_sense_is_never_our_turn() {
        for word in [2, 1 << 32, u64::MAX] {
            let words = Plain::new(2);
            words.0[0].store(word, Ordering::Relaxed);
            assert!(Consumer::new(2, 1).ready(&words).is_none());
        }
    }

    #[test]
    fn a_count_that_makes_no_sense_gives_nothing_back() {
        let words = Plain::new(2);
        let mut producer = Producer::new(2);
        (0..2).for_each(|_| producer.publish(&words));
        for given in [3, 1 << 40, u64::MAX] {
            words.1.store(given, Ordering::Relaxed);
            assert!(producer.acquire(&words).is_none(), "{given}");
        }
        words.1.store(2, Ordering::Relaxed);
        (0..2).for_each(|_| {
            assert!(producer.acquire(&words).is_some());
            producer.publish(&words);
        });
        words.1.store(1, Ordering::Relaxed);
        assert!(producer.acquire(&words).is_none(), "it went back");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Shared {
        words: Vec<AtomicU64>,
        given: AtomicU64,
        data: Vec<UnsafeCell<u64>>,
    }
    // SAFETY: the ring's protocol, which loom checks here.
    unsafe impl Sync for Shared {}
    // SAFETY: plain data.
    unsafe impl Send for Shared {}
    impl Words for Shared {
        fn word(&self, index: usize) -> &AtomicU64 {
            &self.words[index]
        }
        fn given(&self) -> &AtomicU64 {
            &self.given
        }
    }

    /// Two slots, so many messages: data written before "occupied" is read after it, slots are reused only when given
    /// back, order is kept; loom's cells panic on any access that is not ordered.
    fn hands_over_in_order(messages: u64, batch: usize) {
        loom::model(move || {
            let shared = Arc::new(Shared {
                words: (0..2).map(|_| AtomicU64::new(0)).collect(),
                given: AtomicU64::new(0),
                data: (0..2).map(|_| UnsafeCell::new(0)).collect(),
            });
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let mut producer = Producer::new(2);
                    for value in 1..=messages {
                        let slot = loop {
                            match producer.acquire(&*shared) {
                                Some(slot) => break slot,
                                None => loom::thread::yield_now(),
                            }
                        };
                        // SAFETY: the slot is free for us.
                        shared.data[slot].with_mut(|data| unsafe { *data = value });
                        producer.publish(&*shared);
                    }
                })
            };
            let mut consumer = Consumer::new(2, batch);
            for value in 1..=messages {
                let slot = loop {
                    match consumer.ready(&*shared) {
                        Some(slot) => break slot,
                        None => {
                            consumer.give_back(&*shared);
                            loom::thread::yield_now();
                        }
                    }
                };
                // SAFETY: the slot is occupied for us.
                shared.data[slot].with(|data| assert_eq!(unsafe { *data }, value));
                consumer.finish(&*shared);
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn data_is_handed_over_in_order() {
        hands_over_in_order(3, 1);
    }

    #[test]
    fn data_is_handed_over_in_order_when_slots_are_given_back_by_the_batch() {
        hands_over_in_order(3, 2);
    }
}
