//! Which mechanism makes a blocking call.

use std::sync::Arc;
use std::time::Duration;

use crate::blocking::export::{self, export};
use crate::blocking::pool::Pool;
use crate::error::Error;
use crate::knobs;

/// What a runtime has for blocking calls.
pub(crate) struct Blocking {
    pool: Arc<Pool>,
}

impl Blocking {
    /// No thread is started yet. What is not given comes from the knobs.
    pub(crate) fn new(max: Option<usize>, keep: Option<Duration>) -> Result<Blocking, Error> {
        let max = match max {
            Some(n) => n,
            None => knobs::LWP_MAX.int()?.unwrap_or(512) as usize,
        };
        if max == 0 {
            return Err(Error::Config {
                what: "blocking_max",
                why: "no thread for blocking calls; it takes at least 1".into(),
            });
        }
        let keep = match keep {
            Some(time) => time,
            None => Duration::from_millis(knobs::LWP_KEEP.int()?.unwrap_or(10_000) as u64),
        };
        Ok(Blocking { pool: Pool::new(max, Some(keep), Box::new(export::start)) })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The runtime stops: no call begins any more.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Waits for the kernel threads. The virtual processors have ended.
    pub(crate) fn join(&self) {
        self.pool.join();
    }
}

/// Makes a call that may block in the kernel, and returns what it returns: the calling green thread waits, its
/// virtual processor goes on. The closure may borrow.
///
/// # Context, Blocking, Panics
/// As [`export`].
pub fn blocking<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    export(f)
}
