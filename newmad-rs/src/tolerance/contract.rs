//! What a layer above gives to the service, and gets from it.

/// What a layer above does when ranks fail. Called by threads of the library, too: it must not block.
pub trait Hook: Send + Sync {
    /// More ranks have failed: see [`Session::failed_ranks`](crate::Session::failed_ranks).
    fn failed(&self);

    /// The messages of this key are revoked. Called at least once for each key, perhaps by two threads at a time.
    fn revoked(&self, key: u64);
}

/// What a rank contributes to an agreement.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// Combined by `&`.
    pub flags: u64,
    /// One of the ranks' offers is the decision's.
    pub offer: u64,
    /// Failed ranks that the program knows of.
    pub acknowledged: Vec<u32>,
}

/// What the ranks have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What all that live have in common; some that have failed may count, too.
    pub flags: u64,
    /// The offer of one of the ranks.
    pub offer: u64,
    /// The ranks among those that agree that have failed, in ascending order.
    pub failed: Vec<u32>,
    /// Whether all that live had acknowledged all of these.
    pub acknowledged: bool,
}
