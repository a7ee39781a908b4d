//! A tick of a busy virtual processor, in a signal handler: sources only. Light tasks are safe code, which may be in
//! the middle of anything.

use std::time::{Duration, Instant};

use crate::driver::core::Driver;
use crate::progress::point::Point;

/// A tick that finds a transfer under way goes on polling until nothing has come for this long (a peer that
/// has to be woken first answers within 5–10 µs, one that shares the core within a short slice of 100 µs)…
const LINGER: Duration = Duration::from_micros(120);
/// …but takes no more than this of the computation at a time.
const TICK_BOUND: Duration = Duration::from_millis(2);

/// Looks for events.
pub(crate) fn poll(driver: &Driver) {
    let sources = driver.registry.pin();
    let looks = driver.ticking() | driver.advisor.passed();
    let points = driver.machine.points;
    if !points.tick || !sources.poll_these(Point::Tick, sources.pending_of(looks)) {
        return;
    }
    let start = Instant::now();
    let mut last = start;
    loop {
        let pending = sources.pending_of(looks);
        if pending == 0 {
            break;
        }
        let found = sources.poll_these(Point::Tick, pending);
        let now = Instant::now();
        if found {
            last = now;
        }
        if now - last > LINGER || now - start > TICK_BOUND {
            break;
        }
    }
}
