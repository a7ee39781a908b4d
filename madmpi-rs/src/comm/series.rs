//! Series: which collectives of a communicator meet, where the order of their starts does not say it.
//!
//! Collectives of one group meet in the order in which members start them. Two kinds have a number instead, which all
//! members count in the same way:
//!
//! | what | number | why |
//! |---|---|---|
//! | persistent collectives | that of the call that made it | members start them in any order |
//! | calls between two groups | that of the call | a later stage begins when the one before is over, at each rank at another time |
//!
//! The numbers are in the tags of the messages. Starts of one persistent collective come in the same order everywhere,
//! and messages with one tag do not overtake each other. So a number serves again as soon as its collective is over:
//! after [`MOST`] others.

use std::collections::HashSet;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;

use crate::abi::MPI_ERR_OTHER;
use crate::error::Fault;

/// Numbers of each of the two kinds.
const MOST: u16 = 1 << 15;
/// Bits of a lane in a tag.
const LANE_BITS: u32 = 12;
/// Internal tags of exchanges from this one on: those in no series, and those in a series.
const IN_NO_SERIES: u32 = 1024;
const IN_A_SERIES: u32 = 1 << 28;

/// The number of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Series(u16);

impl Series {
    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

/// The numbers that a communicator gives out.
#[derive(Default)]
pub(crate) struct Numbers(KernelMutex<State>);

#[derive(Default)]
struct State {
    calls: u16,
    made: u16,
    /// Those of the persistent collectives that exist.
    kept: HashSet<Series>,
}

/// The series of a persistent collective, as long as that exists.
pub(crate) struct KeptSeries {
    numbers: Arc<Numbers>,
    pub(crate) series: Series,
}

impl Drop for KeptSeries {
    fn drop(&mut self) {
        self.numbers.0.lock().kept.remove(&self.series);
    }
}

/// Counts modulo [`MOST`].
fn next(count: &mut u16) -> u16 {
    let number = *count;
    *count = (number + 1) % MOST;
    number
}

impl Numbers {
    /// The series of a call between two groups.
    pub(super) fn of_call(&self) -> Series {
        Series(next(&mut self.0.lock().calls))
    }

    /// The series of a persistent collective that is being made.
    ///
    /// # Errors
    /// The one that had the number before exists still.
    pub(super) fn of_persistent(self: &Arc<Numbers>) -> Result<KeptSeries, Fault> {
        let mut state = self.0.lock();
        let series = Series(MOST | next(&mut state.made));
        if !state.kept.insert(series) {
            let why = format!(
                "{MOST} persistent collectives were made of the communicator since one that exists still: free that, \
                 or use a duplicate of the communicator"
            );
            return Err(Fault::new(MPI_ERR_OTHER, why));
        }
        Ok(KeptSeries { numbers: self.clone(), series })
    }
}

/// The internal tag for messages of a lane of an exchange.
pub(super) fn lane_tag(series: Option<Series>, lane: u32) -> u32 {
    debug_assert!(lane < 1 << LANE_BITS);
    match series {
        None => IN_NO_SERIES + lane,
        Some(series) => IN_A_SERIES | u32::from(series.0) << LANE_BITS | lane,
    }
}
