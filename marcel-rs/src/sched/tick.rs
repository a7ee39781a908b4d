//! The tick: a timer signal to the kernel thread of a busy virtual processor.
//!
//! A computing green thread never yields, so the I/O manager is called from a signal handler instead. Each
//! virtual processor has a timer of its own that signals its kernel thread only. It is armed when the
//! virtual processor is busy *and* something is pending; it is disarmed by the handler that finds nothing
//! left, and before the virtual processor sleeps (`armed`: no tick is lost). So a request that completes within a
//! period costs at most one system call for the timer, and silence costs nothing.
//!
//! The handler runs on an alternate stack (green threads' stacks are small), saves `errno`, and does nothing
//! if the kernel thread is in the scheduler, which polls by itself (rule 5 of the progress path).
//!
//! Rejected: one timer for the process (its signal would go to any thread); `SIGALRM`/`ITIMER_PROF` (left to
//! the application).

use std::cell::UnsafeCell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::time::Duration;

use crate::os::signal::{self, Handler};
use crate::sched::armed::Armed;

/// No timer.
const NONE: usize = usize::MAX;

/// When a timer expires first.
#[derive(Clone, Copy)]
enum First {
    Never,
    Soon,
    Period,
}

/// The timer of one virtual processor.
pub(crate) struct Tick {
    timer: AtomicUsize,
    period_ns: UnsafeCell<i64>,
    armed: Armed,
    /// Counts the threads that set the timer: it is not deleted meanwhile, for the kernel may give its number to
    /// another.
    setting: AtomicU32,
    /// A tick is to come soon and has not come, and the timer was not set otherwise since.
    soon: AtomicBool,
}

// SAFETY: `period_ns` is written once, by `create`, before `timer` is published with release.
unsafe impl Sync for Tick {}

impl Default for Tick {
    fn default() -> Self {
        Tick {
            timer: AtomicUsize::new(NONE),
            period_ns: UnsafeCell::new(0),
            armed: Armed::default(),
            setting: AtomicU32::new(0),
            soon: AtomicBool::new(false),
        }
    }
}

/// How soon a tick comes that stands for a signal which found the scheduler at work: most such sections are shorter.
const SOON_NS: i64 = 20_000;

/// The signal that ticks use.
pub(crate) fn number() -> i32 {
    libc::SIGRTMIN() + 6
}

impl Tick {
    /// Makes the timer, for the calling kernel thread.
    pub(crate) fn create(&self, period: Duration, handler: Handler) -> io::Result<()> {
        install(handler)?;
        // SAFETY: all-zero is a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = number();
        // SAFETY: gettid has no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: valid pointers to a sigevent and to the result.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `timer` is still NONE, so no thread reads the period.
        unsafe { *self.period_ns.get() = period.as_nanos().clamp(1, i64::MAX as u128) as i64 };
        self.timer.store(timer as usize, Release);
        self.armed.reset(false);
        Ok(())
    }

    /// Starts ticking, if it does not tick. Any thread, signal handlers included.
    pub(crate) fn arm(&self) {
        self.armed.change(true, |on| self.set(on));
    }

    /// Whether there is a timer: then the handler is installed, too.
    pub(crate) fn is_there(&self) -> bool {
        self.timer.load(Acquire) != NONE
    }

    /// Ticks soon, and from then on at its pace. In the handler, on the kernel thread that made the timer.
    ///
    /// A tick that is to come soon already is not put off: signals may come faster than that for as long as they like.
    pub(crate) fn come_soon(&self) {
        self.arm();
        // Before the timer is set: whoever sets it otherwise takes this back after that.
        if !self.soon.swap(true, SeqCst) {
            self.set_first(First::Soon);
        }
    }

    /// A tick has come; true if it was to come soon. In the handler, on the kernel thread that made the timer.
    pub(crate) fn came(&self) -> bool {
        self.soon.swap(false, SeqCst)
    }

    /// Stops ticking.
    pub(crate) fn disarm(&self) {
        self.armed.change(false, |on| self.set(on));
    }

    /// Deletes the timer. On the kernel thread that made it.
    pub(crate) fn delete(&self) {
        self.armed.reset(true); // no `arm` from now on
        let timer = self.timer.swap(NONE, SeqCst);
        if timer != NONE {
            while self.setting.load(SeqCst) > 0 {
                std::thread::yield_now(); // another thread is about to make one system call
            }
            // SAFETY: made by `create`, and no thread uses it any more: see `set`.
            unsafe { libc::timer_delete(timer as libc::timer_t) };
        }
    }

    fn set(&self, on: bool) {
        self.set_first(if on { First::Period } else { First::Never });
        // A signal that came in between, or another thread's, has been overridden.
        if self.soon.swap(false, SeqCst) && on && !self.soon.swap(true, SeqCst) {
            self.set_first(First::Soon);
        }
    }

    /// Sets the timer: when it expires first. After that it expires at its pace.
    fn set_first(&self, first: First) {
        self.setting.fetch_add(1, SeqCst);
        self.set_counted(first);
        self.setting.fetch_sub(1, Release);
    }

    fn set_counted(&self, first: First) {
        let timer = self.timer.load(SeqCst);
        if timer == NONE {
            return;
        }
        // SAFETY: written before `timer` was published.
        let period = unsafe { *self.period_ns.get() };
        let (first, period) = match first {
            First::Never => (0, 0),
            First::Soon => (SOON_NS.min(period), period),
            First::Period => (period, period),
        };
        let time =
            |ns: i64| libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        let spec = libc::itimerspec { it_interval: time(period), it_value: time(first) };
        // SAFETY: a timer made by `create` and a valid itimerspec; async-signal-safe by POSIX.
        unsafe {
            libc::timer_settime(timer as libc::timer_t, 0, &spec, std::ptr::null_mut());
        }
    }
}

fn install(handler: Handler) -> io::Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: what a tick calls keeps the rules of the progress path.
    match INSTALLED.get_or_init(|| unsafe { signal::handle(number(), handler) }.is_ok()) {
        true => Ok(()),
        false => Err(io::Error::other("the tick's signal is not to be had")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::sched::tick_handler::handler;

    /// In how long the timer expires next.
    fn next(tick: &Tick) -> Duration {
        // SAFETY: all-zero is valid; a timer made by `create`, and a valid place.
        let spec = unsafe {
            let mut spec: libc::itimerspec = std::mem::zeroed();
            let timer = tick.timer.load(SeqCst) as libc::timer_t;
            assert_eq!(libc::timer_gettime(timer, &mut spec), 0);
            spec
        };
        Duration::new(spec.it_value.tv_sec as u64, spec.it_value.tv_nsec as u32)
    }

    /// When each signal set the timer anew, it had never expired soon after one.
    #[test]
    fn signals_without_end_do_not_put_off_the_tick() {
        let tick = Tick::default();
        tick.create(Duration::from_secs(100), handler).unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let (mut ticks, mut signals) = (0, 0u64);
        while ticks < 100 {
            let before = Instant::now();
            tick.come_soon();
            signals += 1;
            if next(&tick) > Duration::from_secs(1) {
                // Not where the thread was preempted after that signal.
                ticks += u32::from(before.elapsed() < Duration::from_nanos(SOON_NS as u64 / 2));
                assert!(tick.came());
            }
            assert!(Instant::now() < limit, "{ticks} ticks, {signals} signals");
        }
        tick.delete();
    }

    #[test]
    fn a_tick_that_was_put_at_its_pace_comes_soon_again() {
        let tick = Tick::default();
        tick.create(Duration::from_secs(100), handler).unwrap();
        for _ in 0..100 {
            tick.come_soon();
            tick.disarm();
            assert_eq!(next(&tick), Duration::ZERO);
            assert!(!tick.came());
            tick.arm();
            assert!(next(&tick) > Duration::from_secs(1));
            tick.come_soon();
            assert!(tick.came());
        }
        tick.delete();
    }
}
