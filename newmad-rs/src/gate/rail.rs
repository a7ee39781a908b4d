//! A rail: one network of a session, and what is known of it.

use crate::gate::config::Config;
use crate::net::Driver;
use crate::sampling::{self, Pace};
use crate::wire::CHECKSUM;

/// One network. Rails have the same order in all processes, the one of lowest latency first.
pub(crate) struct Rail<D> {
    pub(crate) driver: D,
    /// How fast it is, as sampled.
    pub(crate) pace: Pace,
    /// The core that copies limits its bandwidth, not the network, as far as is known.
    pub(crate) copies: bool,
    /// When it will be free of the large messages that it carries, as predicted.
    pub(crate) free_ns: u64,
    /// Its links can break although the peer lives, and the connection manager repairs them.
    pub(crate) breaks: bool,
    /// Its packets have checksums.
    pub(crate) checked: bool,
    /// Either of these: its packets need more than to be posted.
    pub(crate) reliable: bool,
}

impl<D: Driver> Rail<D> {
    pub(crate) fn new(driver: D, config: &Config) -> Rail<D> {
        let (pace, copies) = (sampling::built_in(driver.calls_the_kernel()), true);
        let breaks = config.repairs && driver.can_break();
        let checked = config.checksum && driver.can_break();
        Rail { driver, pace, copies, free_ns: 0, breaks, checked, reliable: breaks || checked }
    }

    /// Name of its driver.
    pub(crate) fn driver_name(&self) -> &'static str {
        self.driver.name()
    }

    /// Bytes behind the payload of a small packet.
    pub(crate) fn trailer(&self) -> usize {
        if self.checked { CHECKSUM } else { 0 }
    }
}
