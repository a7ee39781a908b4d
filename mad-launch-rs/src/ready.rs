//! What the parent of ranks waits for: signals, descriptors of its own, the ranks' connections and their output.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::rank::{Output, Rank, Stream};
use crate::signals::Signals;

/// What is ready, in the order in which it is to be treated. Output is ahead of connections: what a rank said before it
/// died explains why.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ready {
    /// Signals have arrived.
    Signals,
    /// Output of the rank at this place, on this descriptor.
    Output(usize, RawFd),
    /// The PMI connection of the rank at this place.
    Connection(usize),
    /// A descriptor of the caller's own.
    Own,
}

/// Waits until something is ready, or for so long; what is. Output on streams that are not `heeded` stays where it is.
pub fn poll(
    signals: &Signals,
    own: &[libc::pollfd],
    ranks: &[Rank],
    heeded: impl Fn(Stream) -> bool,
    timeout: Option<Duration>,
) -> Vec<Ready> {
    let mut fds = vec![readable(signals.fd())];
    let mut what = vec![Ready::Signals];
    for &fd in own {
        fds.push(fd);
        what.push(Ready::Own);
    }
    for (index, rank) in ranks.iter().enumerate() {
        if let Some(connection) = &rank.connection {
            let mut fd = readable(connection.fd());
            fd.events |= if connection.has_unsent() { libc::POLLOUT } else { 0 };
            fds.push(fd);
            what.push(Ready::Connection(index));
        }
        for output in rank.outputs.iter().filter(|output| heeded(output.stream())) {
            fds.push(readable(output.fd()));
            what.push(Ready::Output(index, output.fd()));
        }
    }
    wait(&mut fds, timeout);
    let ready = fds.iter().zip(what).filter(|(fd, _)| fd.revents != 0);
    let mut ready: Vec<Ready> = ready.map(|(_, what)| what).collect();
    ready.sort_unstable();
    ready
}

impl Rank {
    /// Waits for output of a rank that has ended, on either of its streams, which its children may still write; the
    /// descriptor, which is to be read. `None`: all is read, or as much as was there when the time was over.
    pub fn last_output(&mut self, until: Instant) -> Option<RawFd> {
        let mut fds: Vec<_> = self.outputs.iter().map(|output| readable(output.fd())).collect();
        let left = until.saturating_duration_since(Instant::now());
        if !fds.is_empty() && wait(&mut fds, Some(left)) && Instant::now() < until {
            return fds.iter().find(|fd| fd.revents != 0).map(|fd| fd.fd);
        }
        self.outputs.iter_mut().for_each(Output::end_here);
        self.outputs.first().map(Output::fd)
    }
}

/// A descriptor whose input is waited for; nothing if it is negative.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Waits until a descriptor is ready (true) or the time is over.
pub fn wait(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    // Rounded up: a wait that ends early would spin.
    let millis = timeout.map_or(-1, |t| t.as_micros().div_ceil(1000).min(1 << 30) as i32);
    // SAFETY: `fds` is a valid slice of pollfd for its length.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
    ready > 0
}
