//! The slotted ring of MyThOS: one direction, one producer, one consumer, fixed slots in shared memory.
//!
//! Three parts: [`Producer`] and [`Consumer`] are private to their sides and hold the logical positions;
//! the shared part is one *state word* per slot, accessed by plain atomic loads and stores only (no
//! read-modify-write), and the slot's bytes. Logical position `p` lives in slot `p % n`, in lap `p / n`:
//!
//! ```text
//! word == 2 * lap        free for the producer's position of that lap
//! word == 2 * lap + 1    occupied by it
//! ```
//! The producer waits for "free" of its lap, writes the bytes, stores "occupied" (release). The consumer waits
//! for "occupied" of its lap (acquire), reads in place, stores "free" of the next lap (release). The lap with
//! the slot's index *is* the logical position; storing only the lap makes fresh zeroed memory a valid ring.
//!
//! Neither side believes the other: a word with any other value reads as "not my turn" for ever, and the bytes
//! are checked by whoever reads them. Modelled with loom (`RUSTFLAGS="--cfg loom" cargo test -p newmad --lib`).
//!
//! Rejected: head and tail counters (each message would touch two more shared cache lines); byte streams
//! (messages that wrap around need copying twice).

use crate::sync::{AtomicU64, Ordering};

/// Where the state words are.
pub(crate) trait Words {
    /// The word of slot `index`, which is below the number of slots.
    fn word(&self, index: usize) -> &AtomicU64;
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
    fn free(self) -> u64 {
        self.lap << 1
    }

    #[inline]
    fn occupied(self) -> u64 {
        (self.lap << 1) | 1
    }
}

/// The side that sends.
pub(crate) struct Producer(Position);

impl Producer {
    pub(crate) fn new(slots: usize) -> Producer {
        Producer(Position::new(slots))
    }

    /// The slot to write next, when it is free. The same until [`Producer::publish`].
    #[inline]
    pub(crate) fn acquire(&self, words: &impl Words) -> Option<usize> {
        let free = words.word(self.0.index).load(Ordering::Acquire) == self.0.free();
        free.then_some(self.0.index)
    }

    /// The slot that `acquire` gave is written: the consumer may have it. Returns the next slot's index.
    #[inline]
    pub(crate) fn publish(&mut self, words: &impl Words) -> usize {
        words.word(self.0.index).store(self.0.occupied(), Ordering::Release);
        self.0.step();
        self.0.index
    }
}

/// The side that receives.
pub(crate) struct Consumer(Position);

impl Consumer {
    pub(crate) fn new(slots: usize) -> Consumer {
        Consumer(Position::new(slots))
    }

    /// The slot to read next, when it is occupied. The same until [`Consumer::finish`].
    #[inline]
    pub(crate) fn ready(&self, words: &impl Words) -> Option<usize> {
        let ready = words.word(self.0.index).load(Ordering::Acquire) == self.0.occupied();
        ready.then_some(self.0.index)
    }

    /// The slot that `ready` gave is read: the producer may have it back. Returns its index.
    #[inline]
    pub(crate) fn finish(&mut self, words: &impl Words) -> usize {
        self.pass().give_back(words)
    }

    /// The slot that `ready` gave is read; the producer gets it back later.
    #[inline]
    pub(crate) fn pass(&mut self) -> Passed {
        let passed = Passed(self.0);
        self.0.step();
        passed
    }
}

/// A slot that was read, and that the producer has not back.
#[derive(Clone, Copy)]
pub(crate) struct Passed(Position);

impl Passed {
    /// The producer may have it back. Returns its index.
    #[inline]
    pub(crate) fn give_back(self, words: &impl Words) -> usize {
        let next = Position { lap: self.0.lap + 1, ..self.0 };
        words.word(self.0.index).store(next.free(), Ordering::Release);
        self.0.index
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Words for Vec<AtomicU64> {
        fn word(&self, index: usize) -> &AtomicU64 {
            &self[index]
        }
    }

    #[test]
    fn fills_empties_and_wraps() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let (mut producer, mut consumer) = (Producer::new(4), Consumer::new(4));
        for lap in 0..3 {
            assert!(consumer.ready(&words).is_none());
            for slot in 0..4 {
                assert_eq!(producer.acquire(&words), Some(slot), "lap {lap}");
                producer.publish(&words);
            }
            assert!(producer.acquire(&words).is_none());
            for slot in 0..4 {
                assert_eq!(consumer.ready(&words), Some(slot));
                consumer.finish(&words);
            }
        }
    }

    #[test]
    fn a_slot_is_given_back_behind_the_next() {
        let words: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
        let (mut producer, mut consumer) = (Producer::new(2), Consumer::new(2));
        for _ in 0..2 {
            producer.publish(&words);
        }
        assert_eq!(consumer.ready(&words), Some(0));
        let first = consumer.pass();
        assert_eq!(consumer.ready(&words), Some(1));
        assert!(producer.acquire(&words).is_none());
        assert_eq!(first.give_back(&words), 0);
        assert_eq!(producer.acquire(&words), Some(0));
    }

    #[test]
    fn a_word_that_makes_no_sense_is_never_our_turn() {
        let words: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(u64::MAX)).collect();
        assert!(Producer::new(2).acquire(&words).is_none());
        assert!(Consumer::new(2).ready(&words).is_none());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Shared {
        words: Vec<AtomicU64>,
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
    }

    /// Two slots, three messages: data written before "occupied" is read after it, slots are reused only
    /// when free, order is kept; loom's cells panic on any access that is not ordered.
    #[test]
    fn data_is_handed_over_in_order() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                words: (0..2).map(|_| AtomicU64::new(0)).collect(),
                data: (0..2).map(|_| UnsafeCell::new(0)).collect(),
            });
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let mut producer = Producer::new(2);
                    for value in 1..=3 {
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
            let mut consumer = Consumer::new(2);
            for value in 1..=3 {
                let slot = loop {
                    match consumer.ready(&*shared) {
                        Some(slot) => break slot,
                        None => loom::thread::yield_now(),
                    }
                };
                // SAFETY: the slot is occupied for us.
                shared.data[slot].with(|data| assert_eq!(unsafe { *data }, value));
                consumer.finish(&*shared);
            }
            sender.join().unwrap();
        });
    }

    /// The bell: a sleeper that armed and saw nothing is rung by a message it did not see.
    #[test]
    fn no_message_is_slept_through() {
        use loom::sync::atomic::{AtomicBool, AtomicU64 as Word, fence};
        loom::model(|| {
            struct World {
                slot: Word,
                bell: Word,
                rung: AtomicBool,
            }
            let world = Arc::new(World {
                slot: Word::new(0),
                bell: Word::new(0),
                rung: AtomicBool::new(false),
            });
            let sender = {
                let world = world.clone();
                loom::thread::spawn(move || {
                    world.slot.store(1, Ordering::Release);
                    fence(Ordering::SeqCst);
                    if world.bell.load(Ordering::Relaxed) == 1
                        && world.bell.swap(0, Ordering::AcqRel) == 1
                    {
                        world.rung.store(true, Ordering::Release);
                    }
                })
            };
            world.bell.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let seen = world.slot.load(Ordering::Acquire) == 1;
            sender.join().unwrap();
            assert!(seen || world.rung.load(Ordering::Acquire));
        });
    }
}
