//! The protocol of [`super`], every interleaving of it.

use std::cell::Cell;

use super::*;
use loom::sync::Arc;
use loom::thread;

loom::thread_local! {
    static OWN: Cell<Option<usize>> = Cell::new(None);
    static REFUSED: Cell<bool> = Cell::new(false);
}

/// Whether the kernel refuses this thread the heavy fence.
pub(super) fn is_refused() -> bool {
    REFUSED.with(Cell::get)
}

pub(super) fn own_slot() -> Option<usize> {
    OWN.with(Cell::get)
}

fn be(slot: Option<usize>) {
    OWN.with(|own| own.set(slot));
}

/// Counts what it is told; loom reports a race if two are here.
struct Tally {
    left: u64,
    here: u64,
}

impl Delegated for Tally {
    fn run_delegated(&mut self, bits: u64) {
        self.left |= bits;
    }
}

fn tally() -> BiasedLock<Tally> {
    let lock = BiasedLock::new(Tally { left: 0, here: 0 });
    lock.set_biasing(true);
    lock
}

/// Enters if it can; how often it could.
fn enter(lock: &BiasedLock<Tally>) -> u64 {
    let entered = lock.try_lock().map(|mut guard| guard.here += 1);
    u64::from(entered.is_some())
}

/// The owner, biased from the start, against another that tries, and one that leaves.
fn model(
    own: &'static [fn(&BiasedLock<Tally>) -> u64],
    others: &'static [(Option<usize>, fn(&BiasedLock<Tally>) -> u64)],
    left: u64,
) {
    loom::model(move || {
        let lock = Arc::new(tally());
        be(Some(0));
        assert_eq!(enter(&lock), 1);
        assert!(lock.is_biased_to(0));
        let threads: Vec<_> = others
            .iter()
            .map(|&(slot, act)| {
                let lock = lock.clone();
                thread::spawn(move || {
                    be(slot);
                    act(&lock)
                })
            })
            .collect();
        let mut entered = 1 + own.iter().map(|act| act(&lock)).sum::<u64>();
        entered += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
        let guard = lock.try_lock().unwrap();
        assert_eq!((guard.here, guard.left), (entered, left));
    });
}

fn leave_1(lock: &BiasedLock<Tally>) -> u64 {
    lock.delegate(1);
    0
}

fn leave_2(lock: &BiasedLock<Tally>) -> u64 {
    lock.delegate(2);
    0
}

/// As a signal handler that interrupts the owner in its lock.
fn enter_and_reenter(lock: &BiasedLock<Tally>) -> u64 {
    let Some(mut guard) = lock.try_lock() else {
        lock.delegate(4);
        return 0;
    };
    guard.here += 1;
    assert!(lock.try_lock().is_none());
    assert!(!lock.delegate(4));
    drop(guard);
    1
}

/// The others have their turn first, without that counting as a preemption.
fn wait(_: &BiasedLock<Tally>) -> u64 {
    thread::yield_now();
    0
}

#[test]
fn the_owner_and_another_are_never_in_it_together() {
    model(&[enter, enter], &[(Some(1), enter)], 0);
}

#[test]
fn nor_are_others_without_a_slot() {
    model(&[enter], &[(None, enter), (Some(1), enter)], 0);
}

#[test]
fn what_another_leaves_is_done() {
    model(&[enter, enter], &[(Some(1), leave_1)], 1);
}

#[test]
fn what_several_leave_is_done() {
    model(&[enter], &[(Some(1), leave_1), (None, leave_2)], 3);
}

#[test]
fn what_a_handler_leaves_is_done_whoever_comes_meanwhile() {
    model(&[leave_2, enter_and_reenter], &[(Some(1), leave_1)], 7);
}

#[test]
fn a_bias_that_wanders_is_revoked_again() {
    fn often(lock: &BiasedLock<Tally>) -> u64 {
        enter(lock) + enter(lock) + enter(lock)
    }
    model(&[enter, enter], &[(Some(1), often)], 0);
}

#[test]
fn the_choice_changes_while_the_lock_is_used() {
    fn change(lock: &BiasedLock<Tally>) -> u64 {
        lock.set_biasing(false);
        enter(lock) + leave_1(lock)
    }
    model(&[enter, enter], &[(Some(1), change)], 1);
}

/// Its revocation is over, by the owner, before it looks whether the owner is inside; by then it may be another's.
#[test]
fn who_is_late_with_a_revocation_takes_nobody_else_s() {
    model(&[wait, enter, enter], &[(Some(1), enter), (None, enter)], 0);
}

#[test]
fn where_the_fence_is_refused_the_owner_has_the_lock_when_it_comes_again() {
    loom::model(|| {
        let lock = Arc::new(tally());
        be(Some(0));
        assert_eq!(enter(&lock), 1);
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                be(Some(1));
                REFUSED.with(|refused| refused.set(true));
                enter(&lock) + leave_1(&lock)
            })
        };
        let entered = 1 + enter(&lock) + other.join().unwrap();
        drop(lock.try_lock().unwrap());
        let guard = lock.try_lock().unwrap();
        assert_eq!((guard.here, guard.left), (entered, 1));
    });
}
