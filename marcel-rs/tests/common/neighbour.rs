//! A thread beside a neighbour that sleeps, on one virtual processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How often the neighbour runs until the test is content.
const ROUNDS: usize = 5;

/// Makes `operation` again and again until a neighbour that sleeps has run [`ROUNDS`] times.
pub(crate) fn lets_a_sleeper_run(mut operation: impl FnMut()) {
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let neighbour = marcel::spawn(move || {
        for _ in 0..ROUNDS {
            marcel::sleep(Duration::from_millis(1));
            counted.fetch_add(1, SeqCst);
        }
    });
    marcel::yield_now(); // it begins, and so stays on this virtual processor
    while rounds.load(SeqCst) < ROUNDS {
        operation();
    }
    neighbour.join().unwrap();
}
