//! Off-loading of submissions ([Trahay09], 6.3.3): `isend` only registers a message, and an idle core sends it.
//!
//! A short message over shared memory is sent by its caller in less time than it takes to hand it over. What takes
//! longer, a copy of some kilobytes or a system call, is put on the submission list while an idle virtual processor of
//! another core polls: it finds it there. Otherwise the caller sends it at once; to leave it for the wait would let the
//! receiver wait for the sender's computation, and gain nothing.
//!
//! The caller computes meanwhile, or waits: then it takes part in the polling, and so in the sending. The I/O manager
//! keeps an idle virtual processor awake for the next message while that pays.
//!
//! Rejected: to wake a core that sleeps when the message is there. Waking costs the caller a system call that
//! interrupts the other core: 10 us on one machine, as much as the sending itself, and the message leaves later.

use crate::error::Error;
use crate::knobs;
use crate::request::{Op, Request};

/// From this length on a copy into shared memory takes longer than to leave it for another core.
const LEAST_SHM: usize = 4096;
/// A send over a socket is a system call, whatever its length.
const LEAST_TCP: usize = 0;

/// See the module.
pub(crate) struct Offload {
    /// From which length on messages are left to idle cores.
    least: usize,
}

impl Offload {
    /// As the knob says. `memory`: the messages go through shared memory.
    pub(crate) fn read(memory: bool) -> Result<Offload, Error> {
        let least = match (knobs::OFFLOAD.text()?.as_str(), memory) {
            ("never", _) => usize::MAX,
            ("always", _) => 0,
            (_, true) => LEAST_SHM,
            (_, false) => LEAST_TCP,
        };
        Ok(Offload { least })
    }

    /// Whether an idle core, if there is one, is to begin this request.
    #[inline]
    pub(crate) fn wants(&self, request: &Request) -> bool {
        self.wants_send(request.capacity) && request.op == Op::Send
    }

    /// Whether an idle core, if there is one, is to begin a send of so many bytes.
    #[inline]
    pub(crate) fn wants_send(&self, len: usize) -> bool {
        len >= self.least
    }
}
