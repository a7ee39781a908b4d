//! What the tick's handler does, on a busy virtual processor: it looks at sources only. Light tasks are safe code, which
//! may be in the middle of anything.
//!
//! The handler runs because the timer has expired ([`Point::Tick`]), or because a peer has sent the signal
//! ([`Point::Interrupt`]). A peer sends one signal for all that comes until it is asked again, so the handler polls until
//! nothing is left, and then asks.

use std::time::{Duration, Instant};

use crate::driver::core::Driver;
use crate::progress::point::Point;
use crate::progress::registry::Pinned;

/// A tick that finds a transfer under way goes on polling until nothing has come for this long (a peer that
/// has to be woken first answers within 5–10 µs, one that shares the core within a short slice of 100 µs)…
const LINGER: Duration = Duration::from_micros(120);
/// …one that is called at the next event polls as long as a call costs…
const LINGER_CALLED: Duration = Duration::from_micros(10);
/// …but takes no more than this of the computation at a time.
const TICK_BOUND: Duration = Duration::from_millis(2);

/// Looks for events.
pub(crate) fn poll(driver: &Driver, point: Point) {
    if !driver.machine.points.tick {
        return;
    }
    let sources = driver.registry.pin();
    let looks = driver.ticking() | driver.advisor.passed();
    let found = sources.poll_these(point, sources.pending_of(looks));
    if !found && point == Point::Tick {
        return;
    }
    let start = Instant::now();
    if found {
        linger(driver, point, &sources, start);
    }
    if driver.methods.interrupted() != 0 {
        ask_again(driver, point, &sources, start);
    }
}

/// Polls until nothing has come for a while.
fn linger(driver: &Driver, point: Point, sources: &Pinned<'_>, start: Instant) {
    let looks = driver.ticking() | driver.advisor.passed();
    let mut last = start;
    loop {
        let pending = sources.pending_of(looks);
        if pending == 0 {
            break;
        }
        let called = pending & !driver.methods.interrupted() == 0;
        let found = sources.poll_these(point, pending);
        let now = Instant::now();
        if found {
            last = now;
        }
        let most = if called { LINGER_CALLED } else { LINGER };
        if now - last > most || now - start > TICK_BOUND {
            break;
        }
    }
}

/// Has peers interrupt at the next event. One that has come already is treated first. What is left when the time is up
/// is the next tick's.
fn ask_again(driver: &Driver, point: Point, sources: &Pinned<'_>, start: Instant) {
    loop {
        let open = driver.unpolled(sources) & driver.methods.interrupted();
        if open == 0 || driver.arm_interrupts(sources, open) || start.elapsed() > TICK_BOUND {
            return;
        }
        sources.poll_these(point, open);
    }
}
