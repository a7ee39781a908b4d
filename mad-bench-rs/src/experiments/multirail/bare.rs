//! The same messages over plain sockets, one for each network: what the plumbing itself gives.
//!
//! One thread of each rank moves what its sockets take or have, in turn, and does nothing else. Over both networks a
//! message is divided by their capacities, unless the second one's part would be short.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};

use newmad::Session;

use crate::clock::now_ns;
use crate::experiments::multirail::network::CABLES;
use crate::harness::worker::WorkResult;

/// What the cables carry, in megabits a second.
pub(super) const MEGABITS: [u32; CABLES] = [1000, 400];
const HELLO: u64 = 3;
/// A shorter part is not worth a network.
const LEAST: usize = 16 * 1024;

/// See the module.
pub(super) struct Bare {
    sockets: Vec<TcpStream>,
    rank: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Out,
    In,
}

impl Bare {
    /// Connects ranks 0 and 1 by direction of these addresses of rank 0's.
    ///
    /// # Errors
    /// When the kernel refuses something.
    pub(super) fn connect(session: &Session, addresses: &[&str]) -> WorkResult<Bare> {
        let connected = addresses.iter().map(|address| {
            let address: IpAddr = address.parse().map_err(|e| format!("{address}: {e}"))?;
            let socket = if session.rank() == 0 {
                let listener = TcpListener::bind((address, 0)).map_err(io)?;
                let port = listener.local_addr().map_err(io)?.port();
                session.send(1, HELLO, &port.to_ne_bytes())?;
                listener.accept().map_err(io)?.0
            } else {
                let mut port = [0; 2];
                session.recv(0, HELLO, &mut port)?;
                TcpStream::connect((address, u16::from_ne_bytes(port))).map_err(io)?
            };
            socket.set_nodelay(true).map_err(io)?;
            socket.set_nonblocking(true).map_err(io)?;
            Ok(socket)
        });
        let sockets = connected.collect::<WorkResult<_>>()?;
        Ok(Bare { sockets, rank: session.rank() })
    }

    /// One message there and back (rank 0), or the other side of it.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(super) fn trip(&mut self, buffer: &mut [u8]) -> WorkResult {
        let directions = if self.rank == 0 {
            [Direction::Out, Direction::In]
        } else {
            [Direction::In, Direction::Out]
        };
        directions.into_iter().try_for_each(|direction| self.pass(buffer, direction))
    }

    /// So many windows of messages, each answered by a byte, after one that does not count: the time of each in
    /// microseconds.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(super) fn windows(&mut self, buffers: &mut [Vec<u8>], count: u64) -> WorkResult<Vec<f64>> {
        let (direction, back) = if self.rank == 0 {
            (Direction::Out, Direction::In)
        } else {
            (Direction::In, Direction::Out)
        };
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
        let second = if self.sockets.len() > 1 { second_part(buffer.len()) } else { 0 };
        let (one, two) = buffer.split_at_mut(buffer.len() - second);
        let mut parts = [one, two];
        while parts.iter().any(|part| !part.is_empty()) {
            for (part, socket) in parts.iter_mut().zip(&mut self.sockets) {
                if part.is_empty() {
                    continue;
                }
                let done = match direction {
                    Direction::Out => socket.write(part),
                    Direction::In => socket.read(part),
                };
                match done {
                    Ok(0) => return Err("bare connection: the peer has closed it".into()),
                    Ok(moved) => *part = &mut std::mem::take(part)[moved..],
                    Err(e)
                        if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                    {
                        std::hint::spin_loop();
                    }
                    Err(e) => return Err(io(e).into()),
                }
            }
        }
        Ok(())
    }
}

/// How much of a message goes over the second network.
fn second_part(len: usize) -> usize {
    let [first, second] = MEGABITS.map(|megabits| megabits as usize);
    Some(len * second / (first + second)).filter(|&part| part >= LEAST).unwrap_or(0)
}

fn io(e: std::io::Error) -> String {
    format!("bare connection: {e}")
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
