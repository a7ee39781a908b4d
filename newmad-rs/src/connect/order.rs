//! What the session asks of its connection manager beside links, and how long that tries.

use std::time::Duration;

/// Keep the links.
pub(super) const WORK: u8 = 0;
/// End in order: the engine has ended.
pub(super) const FINISH: u8 = 1;
/// End at once.
pub(super) const STOP: u8 = 2;

/// How long the connection manager tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// To reach the others when the session opens.
    pub(crate) connect: Duration,
    /// To make a link again that has broken.
    pub(crate) repair: Duration,
}
