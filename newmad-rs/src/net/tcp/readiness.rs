//! Which sockets are worth reading, and what a sleeper watches.
//!
//! The sockets are in one edge-triggered epoll descriptor. With a single peer a round is one attempt to read and the
//! descriptor is only emptied before a sleep; with several it is asked which sockets are worth reading. A short read
//! means that a socket is empty, unless its end was announced with what was read.
//!
//! An arrival on a watched socket costs the kernel a walk through the epoll descriptors above it. So a single
//! peer's small socket is taken out while it is only ever polled, and a thread that arms puts it back.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::peer::Peer;
use crate::error::Error;
use crate::net::ready::{NO_BITS, Ready};
use crate::sys;

/// A single peer's socket that has been polled so often since a thread armed is not watched any more.
const STEADY: u32 = 4096;
const EDGES: libc::c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// The gates, by rank.
pub(super) type Peers = [Option<Peer>];

/// See the module.
pub(super) struct Readiness {
    ready: Arc<Ready>,
    /// An event counter among them, and a timer, for waking oneself; edge-triggered, so never emptied.
    wake: OwnedFd,
    timer: OwnedFd,
    /// At most one peer is connected.
    pub(super) alone: bool,
    /// Rounds since a thread armed; up to [`STEADY`], at which the small sockets are not watched.
    unarmed: u32,
}

impl Readiness {
    /// For so many ranks.
    pub(super) fn new(ranks: usize) -> Result<Readiness, Error> {
        let (ready, wake, timer) = (Ready::new(2 * ranks)?, sys::eventfd()?, sys::timerfd()?);
        for own in [&wake, &timer] {
            ready.watch(own.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET, NO_BITS)?;
        }
        Ok(Readiness { ready: Arc::new(ready), wake, timer, alone: true, unarmed: 0 })
    }

    /// What a sleeper watches.
    pub(super) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// Makes the descriptor readable.
    pub(super) fn wake(&self) {
        sys::ring(self.wake.as_raw_fd());
    }

    /// Makes the descriptor readable at that moment only; 0: at none. True: it will be.
    pub(super) fn wake_at(&self, ns: u64) -> bool {
        sys::expire_at(&self.timer, ns)
    }

    /// Every socket is watched from now on, until it has been polled for long.
    pub(super) fn watch_all(&mut self, peers: &Peers) {
        if std::mem::take(&mut self.unarmed) == STEADY {
            self.watch_small(peers, true);
        }
    }

    /// A peer was connected: its sockets are watched from now on, as all others are already.
    pub(super) fn add(&mut self, peers: &Peers, rank: u32) -> Result<(), Error> {
        self.alone = peers.iter().flatten().filter(|peer| peer.is_connected()).count() <= 1;
        let Some(peer) = &peers[rank as usize] else { return Ok(()) };
        for (track, socket) in [&peer.small.socket, &peer.large.socket].into_iter().enumerate() {
            if let Some(socket) = socket {
                let number = u64::from(rank) * 2 + track as u64;
                self.ready.watch(socket.as_raw_fd(), EDGES, number)?;
            }
        }
        Ok(())
    }

    /// Counts a round in which no thread armed.
    #[inline]
    pub(super) fn polled_again(&mut self, peers: &Peers) {
        if self.unarmed < STEADY {
            self.unarmed += 1;
            if self.unarmed == STEADY {
                self.watch_small(peers, false);
            }
        }
    }

    #[cold]
    fn watch_small(&mut self, peers: &Peers, yes: bool) {
        for (rank, peer) in peers.iter().enumerate() {
            let Some(socket) = peer.as_ref().and_then(|peer| peer.small.socket.as_ref()) else {
                continue;
            };
            if !yes {
                self.ready.unwatch(socket.as_raw_fd());
            } else if !self.ready.rewatch(socket.as_raw_fd(), EDGES, (rank * 2) as u64) {
                // No thread may sleep on it then: every sleep ends at once.
                self.wake();
            }
        }
    }

    /// Asks which sockets are worth reading.
    pub(super) fn look_around(&mut self, peers: &mut Peers) {
        self.ready.take(|number, ended| {
            if let Some(Some(peer)) = peers.get_mut(number / 2) {
                match number % 2 {
                    0 => {
                        peer.small.ready = true;
                        peer.small.ends |= ended;
                    }
                    _ => peer.large.ready = true,
                }
            }
        });
    }

    /// A thread is about to sleep. Edges seen so far are forgotten; the round that follows reads what they stood for.
    pub(super) fn arm(&mut self, peers: &mut Peers) {
        self.watch_all(peers);
        self.look_around(peers);
        if self.alone {
            for peer in peers.iter_mut().flatten() {
                peer.readable();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::now_ns;

    fn is_readable(readiness: &Readiness, ms: libc::c_int) -> bool {
        let (fd, events) = (readiness.ready().fd(), libc::POLLIN);
        let mut poll = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: one entry of a local.
        unsafe { libc::poll(&raw mut poll, 1, ms) == 1 }
    }

    #[test]
    fn a_timer_wakes_as_often_as_it_is_set_and_not_when_it_is_stopped() {
        let readiness = Readiness::new(2).unwrap();
        for _ in 0..3 {
            assert!(!is_readable(&readiness, 0));
            assert!(readiness.wake_at(now_ns() + 1_000_000));
            assert!(is_readable(&readiness, -1));
            assert!(readiness.ready().collect(), "it was the timer");
        }
        assert!(readiness.wake_at(now_ns() + 3_600_000_000_000) && readiness.wake_at(0));
        assert!(!is_readable(&readiness, 20), "it was stopped");
    }
}
