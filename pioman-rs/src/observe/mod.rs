//! What the manager has done so far, in numbers: [`Manager::counters`](crate::Manager::counters), or a table at the
//! end of the process (`PIOM_STATS=1`).
//!
//! `figures`: the numbers as users see them. `background`: what the library costs beside a program, and may. `ledger`: those of what has gone, and the table at the end.

mod background;
pub(crate) mod figures;
pub(crate) mod ledger;

pub use self::background::Background;
pub use self::figures::{Counters, Poller, Polls, SourceCounters};
pub use crate::progress::histogram::{BUCKETS, Histogram};
