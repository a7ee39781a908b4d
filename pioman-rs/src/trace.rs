//! What waits, completions, light tasks and servers tell the trace ([`marcel::trace`]), one line at each place that
//! does.

use std::borrow::Cow;

use marcel::trace::{self, Kind};

/// The polling part of a wait for the request at `request`. Thinned out, as waits may be shorter than a record is
/// cheap.
#[inline(always)]
pub(crate) fn polls<T>(request: &T) -> Polls {
    let request = std::ptr::from_ref(request).addr() as u64;
    Polls { request, told: trace::often(Kind::WaitPoll, request, 0) }
}

/// See [`polls`].
#[must_use]
pub(crate) struct Polls {
    request: u64,
    told: bool,
}

impl Polls {
    /// It is over, with or without success.
    #[inline(always)]
    pub(crate) fn end(self, done: bool) {
        if self.told {
            trace::record(Kind::WaitPollEnd, self.request & !1 | u64::from(done), 0);
        }
    }
}

/// `request` is about to complete. Before the event: its owner may free it at once.
#[inline(always)]
pub fn completes<T>(request: &T) {
    if trace::is_on() {
        tell_completion(std::ptr::from_ref(request).addr() as u64);
    }
}

#[cold]
#[inline(never)]
fn tell_completion(request: u64) {
    trace::often(Kind::Complete, request, 0);
}

/// A light task's name, ready to be traced on the progress path: a constant gets its number there, what was made up has
/// it.
#[derive(Clone, Copy)]
pub(crate) enum Label {
    Constant(&'static str),
    Number(u32),
}

impl Label {
    /// `interns`: a name that was made up gets a number. Not the progress path.
    #[expect(clippy::ptr_arg, reason = "whether it is borrowed says whether it is a constant")]
    pub(crate) fn of(name: &Cow<'static, str>, interns: bool) -> Label {
        match name {
            Cow::Borrowed(name) => Label::Constant(name),
            Cow::Owned(name) if interns => Label::Number(trace::intern(name)),
            Cow::Owned(_) => Label::Number(0),
        }
    }

    fn number(self) -> u32 {
        match self {
            Label::Constant(name) => trace::intern_static(name),
            Label::Number(number) => number,
        }
    }
}

/// Foreign code that is being called, until this is dropped.
#[must_use]
#[derive(Debug)]
pub struct Call(Option<Kind>);

impl Call {
    /// A light task.
    #[inline(always)]
    pub(crate) fn task(label: Label) -> Call {
        if !trace::is_on() {
            return Call(None);
        }
        let told = trace::often(Kind::Task, label.number().into(), 0);
        Call(told.then_some(Kind::TaskEnd))
    }

    /// The callback `which` of the server that the trace calls `server`.
    #[inline(always)]
    pub fn callback(server: u32, which: &'static str) -> Call {
        let told = trace::is_on()
            && trace::often(Kind::Callback, server.into(), trace::intern_static(which).into());
        Call(told.then_some(Kind::CallbackEnd))
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(end) = self.0 {
            trace::record(end, 0, 0);
        }
    }
}

/// The wait for `request` goes to sleep, until what this returns is dropped: the policy wanted it for the source that
/// the trace calls `source`.
#[inline(always)]
pub(crate) fn sleeps<T>(request: &T, source: u32, method: u64, why: &'static str) -> Sleeps {
    let request = std::ptr::from_ref(request).addr() as u64;
    let told = trace::often(Kind::WaitSleep, request, 0);
    if told {
        let why = u64::from(trace::intern_static(why)) << 32;
        trace::record(Kind::Method, source.into(), method | why);
    }
    Sleeps { request, told }
}

/// See [`sleeps`].
#[must_use]
pub(crate) struct Sleeps {
    request: u64,
    told: bool,
}

impl Drop for Sleeps {
    #[inline(always)]
    fn drop(&mut self) {
        if self.told {
            trace::record(Kind::WaitEnd, self.request, 0);
        }
    }
}
