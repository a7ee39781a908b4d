//! Replaces `check` in a build without an unwinder.

use crate::error::Error;
use crate::knobs;
use crate::tcb::block::Tcb;

/// Nothing is checked.
///
/// # Errors
/// `MARCEL_CHECK` asks for the check, or has a value that the knob does not accept.
pub(crate) fn from_env() -> Result<Option<fn(&'static Tcb)>, Error> {
    match knobs::CHECK.text()?.as_str() {
        "1" => Err(Error::Config {
            what: "MARCEL_CHECK",
            why: "this build has no unwinder to check by: it takes the feature `backtraces`, on x86-64 or aarch64"
                .into(),
        }),
        _ => Ok(None),
    }
}
