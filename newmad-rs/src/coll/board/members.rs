//! The places of a group's members.

use std::cell::Cell;
use std::time::Duration;

use crate::net::segment::board::Place;

/// The places of a group's members.
pub(in crate::coll) struct Board {
    pub(in crate::coll) members: Box<[Member]>,
    /// That of the last collective.
    pub(in crate::coll) number: u64,
    /// All members are known to have come so far.
    pub(in crate::coll) all_came: u64,
    /// The user's limit of looking in vain.
    pub(in crate::coll) limit: Duration,
    /// How long it looks before it sleeps.
    pub(in crate::coll) budget: Cell<Duration>,
    /// The members' node has fewer cores than ranks, as some of them see it.
    pub(in crate::coll) crowded: bool,
    /// Each member can read the memory of the others.
    pub(in crate::coll) lends: bool,
    /// Which place of the session's it is.
    pub(in crate::coll) index: usize,
}

pub(in crate::coll) struct Member {
    pub(in crate::coll) place: Place,
    /// Numbers of the place that belong to groups before: this group's count from here.
    pub(in crate::coll) base: u64,
    /// Its process, if this one can read its memory.
    pub(in crate::coll) process: Option<i32>,
    /// This rank itself.
    pub(in crate::coll) own: bool,
}
