//! The words of a place on a board: which of its owner's sheets may be read, and who sleeps until there is another.
//!
//! The owner counts the collectives that the group does, and uses its [`SHEETS`] in turn.
//!
//! ```text
//! owner    show(n):  write sheet n % SHEETS;  shown[n % SHEETS] = n;  fence;  take the marks, and wake who left them
//!          pass(n):  passed = n, if nothing is shown for collective n;  fence;  take the marks likewise
//!          leave(n): passed = n, after its last collective; the marks stay
//!          retract(n): passed = n;  shown[n % SHEETS] = 0, if it is n;  fence
//! reader   shown[n % SHEETS] == n: read sheet n % SHEETS
//!          has_passed(n) and shown[n % SHEETS] != n: the owner does something else than the reader, or has given up
//! sleeper  mark;  fence;  look again: if it is there, withdraw the mark, or else wait for the wake-up;  sleep
//! ```
//! Invariants: the owner writes a sheet for `n` only when each reader has come to `n - SHEETS + 1`, and so is done with
//! `n - SHEETS`, which was the last on that sheet. A sleeper either finds what it waits for when it looks again, or is woken; one
//! whose mark was taken is woken exactly once. A reader that has shown `n` itself and then finds `n` shown, has done what it did
//! before that while it was not retracted: so it knows that memory elsewhere, which the owner lends until it retracts, was whole.

use crate::sync::{AtomicU64, Ordering, fence};

/// Sheets of a place: a member that waits for no other, the root of a broadcast say, may be so many collectives ahead.
#[cfg(not(loom))]
pub(crate) const SHEETS: u64 = 8;
#[cfg(loom)]
pub(crate) const SHEETS: u64 = 2;

/// See the module. Zeroes are a valid state.
pub(crate) struct Words<'a> {
    pub(crate) shown: [&'a AtomicU64; SHEETS as usize],
    pub(crate) passed: &'a AtomicU64,
    pub(crate) marks: &'a AtomicU64,
}

impl Words<'_> {
    /// The sheet for `number` is written: it may be read from now on. The marks of those to be woken.
    #[inline]
    pub(crate) fn show(&self, number: u64) -> u64 {
        self.shown[(number % SHEETS) as usize].store(number, Ordering::Release);
        self.take_marks()
    }

    /// The owner has come to `number`, and shows nothing for it. The marks of those to be woken.
    #[inline]
    pub(crate) fn pass(&self, number: u64) -> u64 {
        self.passed.store(number, Ordering::Release);
        self.take_marks()
    }

    /// The owner leaves the group at `number`, and wakes nobody. A reader that is late found what it waits for when it
    /// looked again, and withdraws its mark itself.
    pub(crate) fn leave(&self, number: u64) {
        self.passed.store(number, Ordering::Release);
    }

    /// The owner gives up `number`: a reader that has not looked at its sheet for it finds the sheet gone. What the owner does
    /// next happens after all that a reader did before it found the sheet.
    pub(crate) fn retract(&self, number: u64) {
        self.passed.store(number, Ordering::Release);
        // Not one before it, which may still be read.
        let word = self.shown[(number % SHEETS) as usize];
        let _ = word.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn take_marks(&self) -> u64 {
        fence(Ordering::SeqCst);
        if self.marks.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.marks.swap(0, Ordering::AcqRel)
    }

    /// Whether the sheet for `number` may be read.
    #[inline]
    pub(crate) fn is_shown(&self, number: u64) -> bool {
        self.shown[(number % SHEETS) as usize].load(Ordering::Acquire) == number
    }

    /// Whether the owner has passed the number, or a later one. (One that has shown a later sheet has shown this one, too.)
    #[inline]
    pub(crate) fn has_passed(&self, number: u64) -> bool {
        self.passed.load(Ordering::Acquire) >= number
    }

    /// How far the owner has come: it is done with everything before.
    pub(crate) fn come(&self) -> u64 {
        let words = self.shown.iter().chain([&self.passed]);
        words.map(|word| word.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// Whether the owner has come so far.
    #[inline]
    pub(crate) fn has_come_to(&self, number: u64) -> bool {
        self.come() >= number
    }

    /// This reader is about to sleep, and looks again after this.
    pub(crate) fn mark(&self, reader: u32) {
        self.marks.fetch_or(1 << reader, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Nobody sleeps: the owner begins to use the place for others.
    pub(crate) fn clear_marks(&self) {
        self.marks.store(0, Ordering::Relaxed);
    }

    /// The reader does not sleep. False: its mark was taken, and it will be woken.
    pub(crate) fn withdraw(&self, reader: u32) -> bool {
        self.marks.fetch_and(!(1 << reader), Ordering::AcqRel) & 1 << reader != 0
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};
    use loom::sync::Notify;
    use loom::thread;

    struct Place {
        shown: [AtomicU64; 2],
        passed: AtomicU64,
        marks: AtomicU64,
        sheets: [UnsafeCell<u64>; 2],
        woken: [Notify; 2],
    }

    impl Place {
        fn new() -> Place {
            let zero = || AtomicU64::new(0);
            Place {
                shown: [zero(), zero()],
                passed: zero(),
                marks: zero(),
                sheets: [UnsafeCell::new(0), UnsafeCell::new(0)],
                woken: [Notify::new(), Notify::new()],
            }
        }

        fn words(&self) -> Words<'_> {
            let Place { shown: [even, odd], passed, marks, .. } = self;
            Words { shown: [even, odd], passed, marks }
        }

        fn wake(&self, marks: u64) {
            (0..2).filter(|reader| marks & 1 << reader != 0).for_each(|i| self.woken[i].notify());
        }

        fn show(&self, number: u64) {
            // SAFETY: the protocol, which loom checks here.
            self.sheets[number as usize % 2].with_mut(|sheet| unsafe { *sheet = number });
            self.wake(self.words().show(number));
        }

        fn read(&self, number: u64) -> u64 {
            // SAFETY: as above.
            self.sheets[number as usize % 2].with(|sheet| unsafe { *sheet })
        }

        /// As a member of a group waits, but for the looks before it sleeps.
        fn wait(&self, reader: u32, there: impl Fn(&Words<'_>) -> bool) {
            let words = self.words();
            while !there(&words) {
                words.mark(reader);
                if there(&words) && words.withdraw(reader) {
                    return;
                }
                self.woken[reader as usize].wait();
            }
        }
    }

    /// Two members show each other something three times, each on its own place, and use both sheets again.
    #[test]
    fn what_is_shown_is_read_before_the_sheet_is_used_again() {
        loom::model(|| {
            let places = Arc::new([Place::new(), Place::new()]);
            let member = |me: usize| {
                let places = places.clone();
                move || {
                    let (own, other) = (&places[me], &places[1 - me]);
                    for number in 1..=3 {
                        own.show(number);
                        other.wait(me as u32, |words| words.is_shown(number));
                        assert_eq!(other.read(number), number);
                    }
                }
            };
            let there = thread::spawn(member(1));
            member(0)();
            there.join().unwrap();
        });
    }

    /// One shows and does not wait for the other, but for the sheet.
    #[test]
    fn one_that_only_shows_waits_for_its_reader_before_it_writes_again() {
        loom::model(|| {
            let places = Arc::new([Place::new(), Place::new()]);
            let root = {
                let places = places.clone();
                thread::spawn(move || {
                    for number in 1..=3 {
                        if number > 2 {
                            places[1].wait(0, |words| words.has_come_to(number - 1));
                        }
                        places[0].show(number);
                    }
                })
            };
            for number in 1..=3 {
                places[1].wake(places[1].words().pass(number));
                places[0].wait(1, |words| words.is_shown(number));
                assert_eq!(places[0].read(number), number);
            }
            root.join().unwrap();
        });
    }

    /// The owner shows something and leaves; a late reader is woken, or has seen it.
    #[test]
    fn an_owner_that_leaves_takes_no_mark_with_it() {
        let mut model = loom::model::Builder::new();
        // The reader before its first look, the owner after it has shown, the reader before it withdraws.
        model.preemption_bound = Some(3);
        model.check(|| {
            let place = Arc::new(Place::new());
            let owner = {
                let place = place.clone();
                thread::spawn(move || {
                    place.show(1);
                    place.words().leave(2);
                })
            };
            place.wait(0, |words| words.is_shown(1));
            owner.join().unwrap();
        });
    }

    /// One reads what the other has lent, says so, and looks whether it is still lent; the other gives up after it has said so
    /// itself, and writes there. The reader has what was lent, or an error.
    #[test]
    fn what_is_read_before_it_is_retracted_is_whole() {
        loom::model(|| {
            let places = Arc::new([Place::new(), Place::new()]);
            let lent = Arc::new(AtomicU64::new(1));
            let owner = {
                let (places, lent) = (places.clone(), lent.clone());
                thread::spawn(move || {
                    places[0].show(1);
                    places[0].words().retract(1);
                    lent.store(2, Ordering::Relaxed);
                })
            };
            let read = lent.load(Ordering::Relaxed);
            places[1].show(1);
            let there = |words: &Words<'_>| words.is_shown(1) || words.has_passed(1);
            places[0].wait(1, there);
            if places[0].words().is_shown(1) {
                assert_eq!((read, places[0].read(1)), (1, 1));
            }
            owner.join().unwrap();
        });
    }

    /// Two sleep until the third shows something.
    #[test]
    fn each_of_several_sleepers_is_woken() {
        loom::model(|| {
            let place = Arc::new(Place::new());
            let sleep = |reader: u32| {
                let place = place.clone();
                move || place.wait(reader, |words| words.is_shown(1))
            };
            let sleeper = thread::spawn(sleep(1));
            let owner = {
                let place = place.clone();
                thread::spawn(move || place.show(1))
            };
            sleep(0)();
            sleeper.join().unwrap();
            owner.join().unwrap();
        });
    }
}
