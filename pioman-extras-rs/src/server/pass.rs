//! What a round of polling looks at.

use pioman::plumbing::Delegated;

use super::kinds::Kind;
use super::pending::Pending;

/// Left with the lock of a [`Pass`]: the list has changed, so let go of what it holds.
pub(super) const FORGET: u64 = 1;

/// What a round looks at, grouped.
pub(super) struct Pass<R> {
    pub(super) generation: u64,
    pub(super) by: Option<Kind>,
    pub(super) requests: Vec<Pending<R>>,
    /// Ends of the groups in `requests`, where groups are polled.
    pub(super) ends: Vec<usize>,
    /// Where polling one by one goes on.
    pub(super) next: usize,
}

impl<R> Pass<R> {
    pub(super) fn new() -> Pass<R> {
        Pass { generation: u64::MAX, by: None, requests: Vec::new(), ends: Vec::new(), next: 0 }
    }
}

impl<R> Delegated for Pass<R> {
    /// Lets go of ended requests now, so that their values do not live until the next round.
    fn run_delegated(&mut self, _: u64) {
        self.generation = u64::MAX;
        self.requests.clear();
    }
}
