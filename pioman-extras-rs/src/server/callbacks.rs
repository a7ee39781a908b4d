//! A server's callbacks: kept, called, and what happens when one misbehaves.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use super::counters::Common;
use super::kinds::{Kind, Kinds};
use super::pending::{Group, Pending};
use super::word::Outcome;
use marcel::plumbing::is_forced_unwinding;
use pioman::plumbing;

pub(super) type OnOne<R> = Box<dyn Fn(&Pending<R>) + Send + Sync>;
pub(super) type OnOneTimeout<R> = Box<dyn Fn(&Pending<R>, Duration) + Send + Sync>;
pub(super) type OnGroup<R> = Box<dyn for<'a> Fn(&Group<'a, R>) + Send + Sync>;
pub(super) type OnGroupTimeout<R> = Box<dyn for<'a> Fn(&Group<'a, R>, Duration) + Send + Sync>;

pub(super) struct Callbacks<R> {
    pub(super) poll_one: Option<OnOne<R>>,
    pub(super) poll_group: Option<OnGroup<R>>,
    pub(super) poll_any: Option<OnGroup<R>>,
    pub(super) block_one: Option<OnOne<R>>,
    pub(super) block_one_timeout: Option<OnOneTimeout<R>>,
    pub(super) block_group: Option<OnGroup<R>>,
    pub(super) block_any: Option<OnGroup<R>>,
    pub(super) block_any_timeout: Option<OnGroupTimeout<R>>,
    pub(super) interrupt: Option<OnGroup<R>>,
    /// Bits of kinds that are not called any more.
    pub(super) out_of_service: AtomicU8,
}

impl<R> Default for Callbacks<R> {
    fn default() -> Self {
        Callbacks {
            poll_one: None,
            poll_group: None,
            poll_any: None,
            block_one: None,
            block_one_timeout: None,
            block_group: None,
            block_any: None,
            block_any_timeout: None,
            interrupt: None,
            out_of_service: AtomicU8::new(0),
        }
    }
}

/// Whose callback, for messages.
#[derive(Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) name: &'a str,
    /// The name in traces.
    pub(super) number: u32,
    pub(super) common: &'a Common,
}

impl<R: Send + Sync + 'static> Callbacks<R> {
    /// Those that there are and that work.
    pub(super) fn kinds(&self) -> Kinds {
        let bit = |kind: Kind, there: bool| if there { kind.bit() } else { 0 };
        let mask = bit(Kind::PollOne, self.poll_one.is_some())
            | bit(Kind::PollGroup, self.poll_group.is_some())
            | bit(Kind::PollAny, self.poll_any.is_some())
            | bit(Kind::BlockOne, self.block_one.is_some())
            | bit(Kind::BlockOneTimeout, self.block_one_timeout.is_some())
            | bit(Kind::BlockGroup, self.block_group.is_some())
            | bit(Kind::BlockAny, self.block_any.is_some())
            | bit(Kind::BlockAnyTimeout, self.block_any_timeout.is_some());
        let mask = mask & !self.out_of_service.load(Relaxed);
        Kinds { mask, interrupt: self.interrupt.is_some() }
    }

    /// Calls a polling callback, or a blocking one with this time-out. `requests` is not empty. False if from now on
    /// the kind is out of service.
    pub(super) fn call(
        &self,
        whose: Whose<'_>,
        kind: Kind,
        requests: &[Pending<R>],
        timeout: Duration,
    ) -> bool {
        let group = Group { requests };
        let call = || match kind {
            Kind::PollOne => requests.iter().for_each(|r| run(&self.poll_one, |f| f(r))),
            Kind::BlockOne => requests.iter().for_each(|r| run(&self.block_one, |f| f(r))),
            Kind::BlockOneTimeout => {
                requests.iter().for_each(|r| run(&self.block_one_timeout, |f| f(r, timeout)));
            }
            Kind::PollGroup => run(&self.poll_group, |f| f(&group)),
            Kind::PollAny => run(&self.poll_any, |f| f(&group)),
            Kind::BlockGroup => run(&self.block_group, |f| f(&group)),
            Kind::BlockAny => run(&self.block_any, |f| f(&group)),
            Kind::BlockAnyTimeout => run(&self.block_any_timeout, |f| f(&group, timeout)),
        };
        let short = timeout.is_zero();
        if whose.guarded(kind.name(), short, call) {
            return true;
        }
        match requests {
            // It panicked over this request: that one has failed, others are looked for as before.
            [request] => {
                request.end(Outcome::Failed);
                true
            }
            // It is not known over which request it panicked: other kinds of callback take over.
            _ => {
                self.out_of_service.fetch_or(kind.bit(), Relaxed);
                false
            }
        }
    }

    /// Gets a thread out of its blocking call on `requests`.
    pub(super) fn interrupt(&self, whose: Whose<'_>, requests: &[Pending<R>]) {
        if let Some(interrupt) = &self.interrupt {
            whose.common.interrupts.fetch_add(1, Relaxed);
            whose.guarded("interrupt", true, || interrupt(&Group { requests }));
        }
    }
}

fn run<F: ?Sized>(callback: &Option<Box<F>>, f: impl FnOnce(&F)) {
    if let Some(callback) = callback {
        f(callback);
    }
}

impl Whose<'_> {
    /// Calls a closure of the library's; false if it panicked. Panics are named and end here; so is one that should be
    /// `short` and is not.
    fn guarded(&self, what: &'static str, short: bool, call: impl FnOnce()) -> bool {
        let called = {
            let _told = plumbing::TracedCall::callback(self.number, what);
            plumbing::call_foreign(call)
        };
        let tell = |text: std::fmt::Arguments<'_>| plumbing::report("server", self.name, text);
        match called.result {
            // Not a panic: the thread waited in the callback, and is unwound because its runtime stops.
            Err(payload) if is_forced_unwinding(&*payload) => resume_unwind(payload),
            Err(_) => {
                self.common.panics.fetch_add(1, Relaxed);
                let (text, took) = (called.message().unwrap_or_default(), called.took());
                tell(format_args!("{what}: panicked after {took:?}: {text}"));
                false
            }
            Ok(()) => {
                if short && let Some(took) = called.too_long() {
                    self.common.too_long.fetch_add(1, Relaxed);
                    tell(format_args!("{what}: ran for {took:?}: {}", plumbing::TOO_LONG));
                }
                true
            }
        }
    }
}
