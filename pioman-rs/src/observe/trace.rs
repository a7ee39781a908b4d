//! What a wait tells the trace ([`marcel::trace`]): a few lines here, so that those who wait need one each.

use marcel::trace::{self, Kind};

use crate::policy::Choice;

/// The polling part of a wait for the request at `request`. Thinned out, as waits may be shorter than a record is cheap.
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

/// The wait for `request` goes to sleep, until what this returns is dropped: the policy wanted it for the source that the
/// trace calls `source`.
#[inline(always)]
pub(crate) fn sleeps<T>(request: &T, source: u32, choice: &Choice) -> Sleeps {
    let request = std::ptr::from_ref(request).addr() as u64;
    let told = trace::often(Kind::WaitSleep, request, 0);
    if told {
        let why = u64::from(trace::intern_static(choice.why)) << 32;
        trace::record(Kind::Method, source.into(), choice.method as u64 | why);
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
