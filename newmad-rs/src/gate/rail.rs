//! A rail: one network of a session, and what is known of it.

use crate::gate::config::Config;
use crate::memory::span::Span;
use crate::net::reliable::checksum;
use crate::net::{Driver, GATHER_MAX_CHECKED};
use crate::sampling::{self, Pace};
use crate::wire::{CHECKED, CHECKSUM, Header, Kind, SENDER_WAITS};

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

    /// Whether that is the announcement of a message whose sender does not wait, and which is copied faster than both sides
    /// are interrupted: its receiver copies it when it comes to wait.
    fn has_time(&self, header: &Header) -> bool {
        let announced = header.kind == Kind::Rts && header.flags & SENDER_WAITS == 0;
        announced && self.pace.copies_ns(header.len) < 2 * self.driver.ring_ns()
    }

    /// Gives the driver a small packet, with its checksum where there is one. False: there is no room now. `later`: no
    /// thread is to be woken by the end of what it begins.
    #[inline]
    pub(crate) fn give(&mut self, to: u32, header: &Header, parts: &[Span], later: bool) -> bool {
        if !self.checked {
            return match later && self.has_time(header) {
                true => self.driver.post_later(to, header, parts),
                false => self.driver.post_small(to, header, parts),
            };
        }
        let header = Header {
            flags: header.flags | CHECKED,
            payload: header.payload + CHECKSUM as u32,
            ..*header
        };
        let sum = checksum(&header, parts).to_le_bytes();
        let mut with = [Span::EMPTY; GATHER_MAX_CHECKED];
        let count = parts.len().min(GATHER_MAX_CHECKED - 1);
        with[..count].copy_from_slice(&parts[..count]);
        // SAFETY: a local, which outlives the call.
        with[count] = unsafe { Span::new(sum.as_ptr(), CHECKSUM) };
        self.driver.post_small(to, &header, &with[..=count])
    }

    /// A small packet that has come, without its checksum, if that is right.
    pub(crate) fn check(&self, header: &Header, payload: Span) -> Option<(Header, Span)> {
        if !self.checked {
            return (header.flags & CHECKED == 0).then_some((*header, payload));
        }
        let len = payload.len().checked_sub(CHECKSUM)?;
        let mut sum = [0; CHECKSUM];
        // SAFETY: the local has the length of the part.
        unsafe { payload.part(len, CHECKSUM).copy_to(sum.as_mut_ptr()) };
        let payload = payload.part(0, len);
        let right =
            header.flags & CHECKED != 0 && checksum(header, &[payload]) == u32::from_le_bytes(sum);
        let plain = Header { flags: header.flags & !CHECKED, payload: len as u32, ..*header };
        right.then_some((plain, payload))
    }
}
