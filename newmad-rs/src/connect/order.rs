//! What the session asks of its connection manager beside links, and how long that tries.

use std::sync::Arc;
use std::time::Duration;

use super::card::Card;
use super::mail::Mail;
use super::network::torus::Torus;

/// Keep the links.
pub(super) const WORK: u8 = 0;
/// End in order: the engine has ended.
pub(super) const FINISH: u8 = 1;
/// End at once.
pub(super) const STOP: u8 = 2;

/// How long the first call may take before another is tried, since what was sent may be lost for good. Each has twice the
/// time of the one before.
pub(super) const ATTEMPT: Duration = Duration::from_secs(1);
/// However short the time for repairs is, a call has this long.
const SHORTEST_CALL: Duration = Duration::from_millis(100);

/// How long the connection manager tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// To reach the others when the session opens.
    pub(crate) connect: Duration,
    /// To make a link again that has broken.
    pub(crate) repair: Duration,
}

impl Timeouts {
    /// How long the first of several calls may take.
    pub(super) fn first_call(self) -> Duration {
        self.repair.clamp(SHORTEST_CALL, ATTEMPT)
    }
}

/// The shape of the control network, and what it is for. The same in all processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// `None`: by the number of processes.
    pub(crate) dimensions: Option<u32>,
    /// Peers are asked over it how they are reached, not the process manager.
    pub(crate) cards_by_network: bool,
}

impl Shape {
    pub(super) fn torus(&self, size: u32) -> Torus {
        Torus::new(size, self.dimensions.unwrap_or_else(|| Torus::usual_dimensions(size)))
    }

    /// As it is written in cards, so that all processes have the same.
    pub(crate) fn text(&self) -> String {
        let dimensions = self.dimensions.map_or("usual".into(), |count| count.to_string());
        format!("{dimensions}/{}", if self.cards_by_network { "network" } else { "manager" })
    }
}

/// What a connection manager starts with, beside its rails.
pub(crate) struct Start {
    pub(crate) timeouts: Timeouts,
    /// This process's.
    pub(crate) card: Card,
    pub(crate) control: Shape,
    pub(crate) mail: Arc<Mail>,
}
