//! Faults of other people's code, told on standard error: a callback that panicked, or ran for too long.
//!
//! One line each, with what kind of thing it is, its name and what it did. Bursts are cut: more than [`BURST`] lines in
//! a second are counted instead of written, and the next line says how many there were. Never in a signal handler,
//! since no code of others runs there.

use std::any::Any;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::trace::Stamp;

use crate::knobs;

/// Lines in a second.
const BURST: u64 = 20;

static TOLD: Limit =
    Limit { second: AtomicU64::new(0), lines: AtomicU64::new(0), left_out: AtomicU64::new(0) };
static ALL: AtomicU64 = AtomicU64::new(0);

/// How many faults of callbacks (panics, calls that took too long) the I/O managers of this process have seen.
pub fn faults() -> u64 {
    ALL.load(Relaxed)
}

/// Tells of a fault of the `kind` (such as "light task") called `name`.
pub fn report(kind: &str, name: &str, what: fmt::Arguments<'_>) {
    ALL.fetch_add(1, Relaxed);
    let Some(left_out) = TOLD.pass(seconds()) else { return };
    let more = match left_out {
        0 => String::new(),
        n => format!(" ({n} more were not told)"),
    };
    let line = format!("pioman: {kind} {name:?} {what}{more}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether a callback has taken longer than it may (`PIOM_LONG_CALLBACK_USEC`).
#[inline]
pub fn is_too_long(took: Duration) -> bool {
    took > limit()
}

/// Whether a call from `start` to `end` may have been too long; a question that costs nothing.
#[inline]
pub fn may_be_long(start: Stamp, end: Stamp) -> bool {
    !start.is_surely_within(limit(), end)
}

/// Tells of a call that has taken `took`, if that is too long.
#[inline]
pub(crate) fn check_time(kind: &str, name: &str, took: Duration) {
    if is_too_long(took) {
        too_long(kind, name, took);
    }
}

#[cold]
fn too_long(kind: &str, name: &str, took: Duration) {
    let limit = limit();
    report(
        kind,
        name,
        format_args!("took {took:?}: nothing else progresses there meanwhile (limit {limit:?})"),
    );
}

/// The longest time that a callback may take without being told of.
#[inline]
fn limit() -> Duration {
    static LIMIT: OnceLock<Duration> = OnceLock::new();
    *LIMIT.get_or_init(|| match knobs::LONG_CALLBACK_USEC.int() {
        Ok(Some(us @ 1..)) => Duration::from_micros(us as u64),
        // A wrong value is an error of `Builder::build`.
        _ => Duration::MAX,
    })
}

/// Calls foreign code; a panic in it is told of and ends here.
pub(crate) fn guard(kind: &str, name: &str, call: impl FnOnce()) -> Called {
    let start = Stamp::now();
    let result = catch_unwind(AssertUnwindSafe(call));
    let end = Stamp::now();
    if let Err(panic) = result {
        let (took, text) = (start.until(end), message(&*panic));
        let what = "what waits for it may sleep on";
        report(kind, name, format_args!("panicked after {took:?}: {text}; {what}"));
        return Called { start, end: start };
    }
    Called { start, end }
}

/// What [`guard`] has called.
pub(crate) struct Called {
    start: Stamp,
    end: Stamp,
}

impl Called {
    /// Tells of it if it took too long. (If it panicked, that was told.)
    pub(crate) fn check_time(self, kind: &str, name: &str) {
        if may_be_long(self.start, self.end) {
            check_time(kind, name, self.start.until(self.end));
        }
    }
}

/// What a panic said.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a text",
    }
}

fn seconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs() + 1
}

/// Lets so many through in each second.
struct Limit {
    second: AtomicU64,
    lines: AtomicU64,
    left_out: AtomicU64,
}

impl Limit {
    /// Whether one may pass now; if so, how many could not since the last that did.
    fn pass(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Relaxed) != second {
            self.lines.store(0, Relaxed);
        }
        if self.lines.fetch_add(1, Relaxed) < BURST {
            return Some(self.left_out.swap(0, Relaxed));
        }
        self.left_out.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_cut_and_counted() {
        let limit = Limit {
            second: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        };
        let passed = (0..100).filter(|_| limit.pass(1) == Some(0)).count();
        assert_eq!(passed as u64, BURST);
        assert_eq!(limit.pass(2), Some(100 - BURST));
        assert_eq!(limit.pass(2), Some(0));
    }

    #[test]
    fn panics_of_every_kind_have_a_text() {
        let caught = |f: fn()| std::panic::catch_unwind(f).unwrap_err();
        assert_eq!(message(&*caught(|| panic!("plain"))), "plain");
        assert_eq!(message(&*caught(|| panic!("{}", 6 * 7))), "42");
        assert_eq!(
            message(&*caught(|| std::panic::resume_unwind(Box::new(1)))),
            "a panic without a text"
        );
    }
}
