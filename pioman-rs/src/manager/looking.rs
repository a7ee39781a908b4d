//! A thread that polls a source by itself.

use std::time::Instant;

use crate::completion::one_shot::Completion;
use crate::driver::core::Polling;
use crate::driver::wait;
use crate::progress::policy::hints::Hints;

/// A thread that polls a source: see [`crate::Manager::looking`].
#[derive(Debug)]
pub struct Looking<'a>(pub(super) Polling<'a>);

impl Looking<'_> {
    /// As [`crate::Manager::wait_prepared`], by the poller itself: between its last poll and the wait no thread is asked
    /// to watch, and the wait polls or arms.
    ///
    /// # Context
    /// As [`crate::Manager::wait`].
    ///
    /// # Blocking
    /// As [`crate::Manager::wait`].
    pub fn wait_prepared(
        self,
        completion: &Completion,
        hints: impl Into<Hints>,
        deadline: Option<Instant>,
        before_sleep: &dyn Fn(),
    ) -> bool {
        let debt = self.0.stop();
        wait::wait_owing(debt, completion, hints.into(), deadline, before_sleep)
    }
}
