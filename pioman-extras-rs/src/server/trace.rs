//! What servers tell the trace ([`marcel::trace`]).

use marcel::trace::{self, Kind};

/// `request` is about to complete. Recorded before the event: the request's owner may free it at once.
#[inline(always)]
pub(super) fn completes<T>(request: &T) {
    if trace::is_on() {
        trace::often(Kind::Complete, std::ptr::from_ref(request).addr() as u64, 0);
    }
}

/// A callback that is being called, until this is dropped.
#[must_use]
pub(super) struct Call(bool);

impl Call {
    /// The callback `which` of the server that the trace calls `server`.
    #[inline(always)]
    pub(super) fn begin(server: u32, which: &'static str) -> Call {
        Call(
            trace::is_on()
                && trace::often(Kind::Callback, server.into(), trace::intern_static(which).into()),
        )
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            trace::record(Kind::CallbackEnd, 0, 0);
        }
    }
}
