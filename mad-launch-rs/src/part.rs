//! A part of what the launcher runs: the job of the command line, or one that its processes have spawned.
//!
//! Each part is a job to PMI, with ranks, a key-value space and barriers of its own, and it fails by itself: processes
//! that are connected with it learn of that by their connections.

use std::ops::Range;
use std::time::Instant;

use crate::pmi::Server;

/// How far a part has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Grace,
    Term,
    Kill,
}

/// See the module.
pub(crate) struct Part {
    pub(crate) server: Server,
    /// Its ranks among all that the launcher has started.
    pub(crate) ranks: Range<usize>,
    /// Its name to PMI.
    pub(crate) name: String,
    pub(crate) phase: Phase,
    /// When the next phase begins.
    pub(crate) turn: Option<Instant>,
}

impl Part {
    pub(crate) fn new(server: Server, name: String, ranks: Range<usize>) -> Part {
        Part { server, ranks, name, phase: Phase::Running, turn: None }
    }

    /// The others of a rank that has failed have until then to notice by themselves.
    pub(crate) fn gives_grace(&mut self, until: Instant) {
        self.phase = self.phase.max(Phase::Grace);
        self.turn.get_or_insert(until);
    }
}
