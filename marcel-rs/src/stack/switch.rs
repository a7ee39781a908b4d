//! What a switch back to the scheduler says.

/// Why a thread gave control back to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Switch {
    /// It goes to the end of the run queue.
    Yield,
    /// It waits for an unpark.
    Park,
    /// Its body has returned: the context is idle.
    Ended,
}
