//! What a session tells its protocol when it is made.

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
    /// Messages between this and the threshold use it, too, where the sender is expected to compute meanwhile: to send them
    /// at once would keep it.
    pub(crate) away: usize,
    /// Bound of the memory for unexpected messages.
    pub(crate) unexpected_max: usize,
    /// Bytes of unacknowledged packets that are kept for each peer; at least four times the longest packet.
    pub(crate) retransmit: usize,
    /// The connection manager repairs links that break, and calls `tick`; otherwise a link's end is the peer's.
    pub(crate) repairs: bool,
    /// How long a gate may be without any link, in milliseconds.
    pub(crate) repair_ms: u64,
    /// Packets over rails that can break have checksums.
    pub(crate) checksum: bool,
    /// Bytes of eager messages that a peer may send before they are received.
    pub(crate) credit: u64,
}

impl Config {
    /// With these; otherwise what is usual, and no repairs.
    pub(crate) fn new(threshold: usize, unexpected_max: usize) -> Config {
        Config {
            threshold,
            away: usize::MAX,
            unexpected_max,
            retransmit: 512 * 1024,
            repairs: false,
            repair_ms: 1500,
            checksum: false,
            credit: 64 << 20,
        }
    }
}

/// The credit of each of so many processes: of what is wanted, so much that the messages of all others fit the memory for
/// unexpected ones that is not given out to begin with, in cells of up to eight times what a message counts.
pub(crate) fn credit(wanted: u64, memory: usize, processes: u32) -> u64 {
    wanted.min((memory / processes as usize / 8) as u64)
}
