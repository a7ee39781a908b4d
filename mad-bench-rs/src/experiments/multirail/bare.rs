//! The same messages over plain sockets, one for each network: what the plumbing itself gives.
//!
//! Over both networks a message is divided by their capacities, unless the second one's part would be short.

use std::net::{AddrParseError, IpAddr};

use newmad::Session;

use crate::clock::now_ns;
use crate::experiments::multirail::network::CABLES;
use crate::experiments::sockets::{Direction, Sockets};
use crate::harness::worker::WorkResult;

/// What the cables carry, in megabits a second.
pub(super) const MEGABITS: [u32; CABLES] = [1000, 400];
/// A shorter part is not worth a network.
const LEAST: usize = 16 * 1024;

/// See the module.
pub(super) struct Bare(Sockets);

impl Bare {
    /// Connects ranks 0 and 1 by direction of these addresses of rank 0's.
    ///
    /// # Errors
    /// When the kernel refuses something.
    pub(super) fn connect(session: &Session, addresses: &[&str]) -> WorkResult<Bare> {
        let parsed = addresses
            .iter()
            .map(|address| address.parse().map_err(|e: AddrParseError| format!("{address}: {e}")));
        Ok(Bare(Sockets::connect(session, &parsed.collect::<Result<Vec<IpAddr>, _>>()?)?))
    }

    /// One message there and back (rank 0), or the other side of it.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(super) fn trip(&mut self, buffer: &mut [u8]) -> WorkResult {
        self.0.directions().into_iter().try_for_each(|direction| self.pass(buffer, direction))
    }

    /// So many windows of messages, each answered by a byte, after one that does not count: the time of each in
    /// microseconds.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(super) fn windows(&mut self, buffers: &mut [Vec<u8>], count: u64) -> WorkResult<Vec<f64>> {
        let [direction, back] = self.0.directions();
        let mut window = || {
            let before = now_ns();
            buffers.iter_mut().try_for_each(|buffer| self.pass(buffer, direction))?;
            self.pass(&mut [0], back)?;
            Ok((now_ns() - before) as f64 / 1000.0)
        };
        window()?;
        (0..count).map(|_| window()).collect()
    }
    /// Sends or receives a message.
    fn pass(&mut self, buffer: &mut [u8], direction: Direction) -> WorkResult {
        let second = if self.0.count() > 1 { second_part(buffer.len()) } else { 0 };
        self.0.pass(buffer, second, direction)
    }
}

/// How much of a message goes over the second network.
fn second_part(len: usize) -> usize {
    let [first, second] = MEGABITS.map(|megabits| megabits as usize);
    Some(len * second / (first + second)).filter(|&part| part >= LEAST).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_divided_by_what_the_networks_carry() {
        assert_eq!(second_part(4), 0);
        assert_eq!(second_part(16 << 10), 0);
        assert_eq!(second_part(1_400_000), 400_000);
    }
}
