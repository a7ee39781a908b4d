//! Faults of other people's code, told on standard error: a callback that panicked; or that ran for too long, if the
//! program's user asks for that (`PIOM_LONG_CALLBACK_USEC`).
//!
//! One line each, with what kind of thing it is, its name and what it did. Bursts are cut: more than [`BURST`] lines in
//! a second are counted instead of written, and the next line says how many there were. Never in a signal handler,
//! since no code of others runs there.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::plumbing::{budget, is_forced_unwinding};
use marcel::trace::Stamp;

use crate::knobs;
use crate::stderr::say;

/// What a panic may have left behind.
pub(crate) const SLEEPS_ON: &str = "; what waits for it may sleep on";
/// What to do about a callback that takes too long.
pub const TOO_LONG: &str = "nothing else progresses there meanwhile; let it do a part at a time, or leave the work to a \
                            thread (marcel::spawn) or to a blocking alternative (TaskBuilder::blocking)";
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
    say(format_args!("pioman: {kind} {name:?} {what}{more}"));
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

/// Calls foreign code that others wait behind. A panic in it ends here, or where the caller resumes it. The code does
/// not yield on account of the calling thread's budget.
#[inline]
pub fn call<T>(call: impl FnOnce() -> T) -> Called<T> {
    let _exempt = budget::exempt();
    let start = Stamp::now();
    let result = catch_unwind(AssertUnwindSafe(call));
    Called { result, start, end: Stamp::now() }
}

/// A call of foreign code that has returned, or has panicked.
#[derive(Debug)]
#[must_use = "a panic is to be told of"]
pub struct Called<T> {
    /// What it has returned, or the panic.
    pub result: std::thread::Result<T>,
    start: Stamp,
    end: Stamp,
}

impl<T> Called<T> {
    /// How long it took.
    pub fn took(&self) -> Duration {
        self.start.until(self.end)
    }

    /// How long it took, if that is too long (`PIOM_LONG_CALLBACK_USEC`). Costs next to nothing if not.
    #[inline]
    pub fn too_long(&self) -> Option<Duration> {
        if self.start.is_surely_within(limit(), self.end) {
            return None;
        }
        Some(self.took()).filter(|took| *took > limit())
    }

    /// What its panic said, if it panicked.
    pub fn message(&self) -> Option<&str> {
        let panic = self.result.as_ref().err()?;
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Some(text.unwrap_or("a panic without a text"))
    }

    /// Whether the code has waited, and the green thread is unwound there: no panic to tell of.
    pub fn is_unwinding(&self) -> bool {
        self.result.as_ref().is_err_and(|payload| is_forced_unwinding(&**payload))
    }

    /// What the caller resumes (`resume_unwind`) when its own things are in order, if the code has waited and the green
    /// thread is unwound there: see [`is_forced_unwinding`].
    pub fn into_unwinding(self) -> Option<Box<dyn Any + Send>> {
        self.result.err().filter(|payload| is_forced_unwinding(&**payload))
    }

    /// Tells of a panic; the message ends with `result`.
    pub(crate) fn tell_panic(&self, kind: &str, name: &str, result: &str) {
        if let Some(message) = self.message()
            && !self.is_unwinding()
        {
            let took = self.took();
            report(kind, name, format_args!("panicked after {took:?}: {message}{result}"));
        }
    }

    /// Tells of it if it took too long. (A panic is told of elsewhere.)
    #[inline]
    pub(crate) fn tell_time(&self, kind: &str, name: &str) {
        if self.result.is_ok()
            && let Some(took) = self.too_long()
        {
            tell_time(kind, name, took);
        }
    }
}

#[cold]
fn tell_time(kind: &str, name: &str, took: Duration) {
    let limit = limit();
    report(
        kind,
        name,
        format_args!("took {took:?} (PIOM_LONG_CALLBACK_USEC: {limit:?}): {TOO_LONG}"),
    );
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
        let text = |f: fn()| call(f).message().map(str::to_owned);
        assert_eq!(text(|| ()), None);
        assert_eq!(text(|| panic!("plain")).unwrap(), "plain");
        assert_eq!(text(|| panic!("{}", 6 * 7)).unwrap(), "42");
        let without = text(|| std::panic::resume_unwind(Box::new(1)));
        assert_eq!(without.unwrap(), "a panic without a text");
    }
}
