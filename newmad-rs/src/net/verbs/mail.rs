//! Places at which an asker leaves work for a worker, on another thread, and finds later what has become of it. Neither
//! ever waits for the other, and nothing is allocated.
//!
//! ```text
//!   asker                                       worker
//!   writes the work, turn := worker's ─bell─▶   does it, writes the result, turn := asker's
//!   finds its turn, takes the result  ◀─wake──  counts an answer
//! ```
//! Invariant: only the side that has the turn of a place touches what is in it. There is one asker and one worker.

use crate::sync::{Arc, AtomicBool, AtomicU32, Ordering, UnsafeCell};

struct Place<T> {
    /// It is the worker's turn.
    asked: AtomicBool,
    content: UnsafeCell<Option<T>>,
}

struct Shared<T> {
    places: Box<[Place<T>]>,
    answers: AtomicU32,
}

// SAFETY: what is in a place is touched by the one whose turn it is, and turns change hands by release and acquire.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The side that leaves work.
pub(super) struct Asker<T> {
    shared: Arc<Shared<T>>,
    /// Answers that it has looked for.
    seen: u32,
}

/// The side that does it.
pub(super) struct Worker<T>(Arc<Shared<T>>);

/// Both sides of so many places.
pub(super) fn places<T: Send>(count: usize) -> (Asker<T>, Worker<T>) {
    let place = || Place { asked: AtomicBool::new(false), content: UnsafeCell::new(None) };
    let places = (0..count).map(|_| place()).collect();
    let shared = Arc::new(Shared { places, answers: AtomicU32::new(0) });
    (Asker { shared: shared.clone(), seen: 0 }, Worker(shared))
}

impl<T> Place<T> {
    /// Replaces what is in it.
    ///
    /// # Safety
    /// It is the caller's turn.
    unsafe fn replace(&self, content: Option<T>) -> Option<T> {
        #[cfg(loom)]
        // SAFETY: the caller's promise.
        let before = self.content.with_mut(|it| unsafe { std::mem::replace(&mut *it, content) });
        #[cfg(not(loom))]
        // SAFETY: as above.
        let before = unsafe { std::mem::replace(&mut *self.content.get(), content) };
        before
    }
}

impl<T> Asker<T> {
    /// Leaves work at a place, if the last one is done there. The caller rings for the worker afterwards.
    pub(super) fn give(&mut self, place: usize, work: T) {
        let place = &self.shared.places[place];
        debug_assert!(!place.asked.load(Ordering::Relaxed), "one thing at a time");
        if place.asked.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: it is the asker's turn, and there is one.
        drop(unsafe { place.replace(Some(work)) });
        // Pairs with the load in `serve`: the worker sees the work.
        place.asked.store(true, Ordering::Release);
    }

    /// Whether the worker has not done yet what was left there.
    pub(super) fn is_at_work(&self, place: usize) -> bool {
        self.shared.places[place].asked.load(Ordering::Acquire)
    }

    /// The result of what was left there. `None`: it is not done, or has none.
    pub(super) fn take(&mut self, place: usize) -> Option<T> {
        let place = &self.shared.places[place];
        // Pairs with the store in `serve`: the asker sees the result.
        if place.asked.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: as in `give`.
        unsafe { place.replace(None) }
    }

    /// Whether something was done since the last call.
    #[inline]
    pub(super) fn has_answers(&mut self) -> bool {
        // Pairs with the addition in `serve`: turns that have changed before are seen.
        let answers = self.shared.answers.load(Ordering::Acquire);
        std::mem::replace(&mut self.seen, answers) != answers
    }
}

impl<T> Worker<T> {
    /// Does what was left at each place. `answered` is called after each, and wakes the asker.
    pub(super) fn serve(
        &mut self,
        mut work: impl FnMut(T) -> Option<T>,
        mut answered: impl FnMut(),
    ) {
        for place in &self.0.places {
            if !place.asked.load(Ordering::Acquire) {
                continue;
            }
            // SAFETY: it is the worker's turn, and there is one.
            let result = unsafe { place.replace(None) }.and_then(&mut work);
            // SAFETY: as above.
            drop(unsafe { place.replace(result) });
            place.asked.store(false, Ordering::Release);
            self.0.answers.fetch_add(1, Ordering::Release);
            answered();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Notify;
    use loom::thread;

    /// Work that is left while the worker serves, or sleeps, is done once; and an asker that is woken finds what woke it.
    #[test]
    fn no_work_and_no_answer_is_slept_through() {
        loom::model(|| {
            let (mut asker, mut worker) = places::<u32>(2);
            let (bell, wake) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (to_worker, to_asker) = (bell.clone(), wake.clone());
            let thread = thread::spawn(move || {
                let mut served = 0;
                while served < 2 {
                    to_worker.wait();
                    let work = |work| {
                        served += 1;
                        Some(work * 10)
                    };
                    worker.serve(work, || to_asker.notify());
                }
            });
            let mut results = Vec::new();
            for (place, work) in [(1, 7), (0, 5)] {
                asker.give(place, work);
                bell.notify();
            }
            while results.len() < 2 {
                wake.wait();
                while asker.has_answers() {
                    results.extend((0..2).filter_map(|place| asker.take(place)));
                }
            }
            results.sort_unstable();
            assert_eq!(results, [50, 70]);
            assert!(!asker.is_at_work(0) && !asker.is_at_work(1));
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_holds_one_piece_of_work_and_its_result() {
        let (mut asker, mut worker) = places::<String>(3);
        asker.give(1, "work".into());
        assert!(asker.is_at_work(1) && !asker.has_answers());
        assert_eq!(asker.take(1), None);
        let mut answers = 0;
        worker.serve(|work| Some(work + " done"), || answers += 1);
        worker.serve(|_| unreachable!("it is done"), || ());
        assert_eq!(answers, 1);
        assert!(asker.has_answers() && !asker.has_answers());
        assert_eq!(
            [0, 1, 2].map(|place| asker.take(place)),
            [None, Some("work done".into()), None]
        );
        // Work without a result.
        asker.give(1, "work".into());
        worker.serve(|_| None, || ());
        assert!(asker.has_answers() && !asker.is_at_work(1));
        assert_eq!(asker.take(1), None);
    }
}
