//! How a session's sleepers are woken: the doorbells that peers ring, and the descriptor that becomes readable.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use marcel::plumbing::SignalTarget;

use crate::error::Error;
use crate::gate::rail::Rail;
use crate::net::{Bell, Driver, Ready};
use crate::sys;

/// How often a thread that leaves the watch asks the kernel for a ring that is under way: the time of a peer's system
/// call.
const LANDING: u32 = 16;

/// See the module.
pub(super) struct Doorbells {
    /// Those of the rails that have one.
    bells: Box<[Arc<Bell>]>,
    /// Those of the rails.
    ready: Box<[Arc<Ready>]>,
    /// Those of the rails whose drivers may hold bytes back.
    holding: Box<[Arc<Ready>]>,
    fd: Option<RawFd>,
    /// Every rail has a doorbell.
    everywhere: bool,
    /// Peers can interrupt over every rail.
    interrupt: bool,
    /// What `fd` is when several rails have a descriptor: one that watches theirs.
    _epoll: Option<OwnedFd>,
}

impl Doorbells {
    pub(super) fn new<D: Driver>(rails: &[Rail<D>]) -> Result<Doorbells, Error> {
        let bells: Box<[_]> =
            rails.iter().filter_map(|rail| rail.driver.doorbell().cloned()).collect();
        let everywhere = bells.len() == rails.len();
        let interrupt = everywhere && sys::signals_threads();
        let mut fd = None;
        let mut epoll = None;
        let ready: Box<[_]> =
            rails.iter().filter_map(|rail| rail.driver.ready().cloned()).collect();
        for (index, own) in ready.iter().map(|ready| ready.fd()).enumerate() {
            let Some(first) = fd else {
                fd = Some(own);
                continue;
            };
            if epoll.is_none() {
                let all = sys::epoll()?;
                sys::watch(&all, first, libc::EPOLLIN, 0)?;
                fd = Some(all.as_raw_fd());
                epoll = Some(all);
            }
            if let Some(all) = &epoll {
                sys::watch(all, own, libc::EPOLLIN, index as u64)?;
            }
        }
        let sockets = rails.iter().filter(|rail| rail.driver.calls_the_kernel());
        let holding = sockets.filter_map(|rail| rail.driver.ready().cloned()).collect();
        Ok(Doorbells { bells, ready, holding, fd, everywhere, interrupt, _epoll: epoll })
    }

    /// Whether no rail has a doorbell: all of them are sockets.
    #[inline]
    pub(super) fn are_absent(&self) -> bool {
        self.bells.is_empty()
    }

    /// Whether every rail has a doorbell: nothing makes the descriptor readable while they are silent.
    #[inline]
    pub(super) fn are_everywhere(&self) -> bool {
        self.everywhere
    }

    /// Whether peers can interrupt a thread of this process, over whichever rail they send.
    pub(super) fn can_interrupt(&self) -> bool {
        self.interrupt
    }

    /// Whether a driver holds bytes back until the descriptor is readable.
    #[inline]
    pub(super) fn hold_back(&self) -> bool {
        self.holding.iter().any(|ready| ready.holds_back())
    }

    /// Whom peers signal instead of ringing, from the next time on that they are asked.
    #[inline]
    pub(super) fn set_target(&self, target: Option<SignalTarget>) {
        self.bells.iter().for_each(|bell| bell.set_target(target));
    }

    /// What becomes readable.
    pub(super) fn fd(&self) -> Option<RawFd> {
        self.fd
    }

    /// The peers need not ring: a thread polls. True: they were to; once the caller polls no more, it tells the I/O
    /// manager.
    #[inline]
    pub(super) fn silence(&self) -> bool {
        let armed = self.bells.iter().any(|bell| bell.is_armed());
        if armed {
            self.disarm();
        }
        armed
    }

    /// The peers need not ring.
    #[inline]
    pub(super) fn disarm(&self) {
        for bell in &self.bells {
            bell.disarm();
        }
    }

    /// Takes away what has made the descriptor readable, and a ring that is under way.
    pub(super) fn acknowledge(&self) {
        let collect = || self.ready.iter().fold(false, |any, ready| ready.collect() | any);
        let collected = collect();
        let under_way = self.bells.iter().fold(false, |any, bell| bell.is_under_way() | any);
        if under_way && !collected {
            (0..LANDING).any(|_| collect());
        }
    }

    /// Tells the peers that a thread waits for a large message, or that it does not any more.
    pub(super) fn show_waiter(&self, waits: bool) {
        self.bells.iter().for_each(|bell| bell.waiter(waits));
    }

    /// Whether this side may owe rings to its peers.
    pub(super) fn owe(&self) -> bool {
        self.bells.iter().any(|bell| bell.owes())
    }

    /// How often peers were rung.
    pub(super) fn rung(&self) -> u64 {
        self.bells.iter().map(|bell| bell.rung()).sum()
    }

    /// How often peers were interrupted.
    pub(super) fn interrupted(&self) -> u64 {
        self.bells.iter().map(|bell| bell.interrupted()).sum()
    }

    #[cfg(test)]
    pub(super) fn bells(&self) -> &[Arc<Bell>] {
        &self.bells
    }
}
