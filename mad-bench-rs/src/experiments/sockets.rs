//! Messages over plain sockets between two processes, one socket for each network, polled: what the kernel and the
//! networks themselves take, at that moment.
//!
//! One thread of each rank moves what its sockets take or have, in turn, and does nothing else.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use newmad::Session;

use crate::harness::worker::WorkResult;

const HELLO: u64 = 2;

/// One end of them.
pub(crate) struct Sockets {
    sockets: Vec<TcpStream>,
    rank: u32,
}

/// Which way a message goes, for this end.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Direction {
    Out,
    In,
}

impl Sockets {
    /// Connects ranks 0 and 1 by direction of these addresses of rank 0's.
    ///
    /// # Errors
    /// When the kernel refuses something.
    pub(crate) fn connect(session: &Session, addresses: &[IpAddr]) -> WorkResult<Sockets> {
        let connected = addresses.iter().map(|&address| {
            let socket = if session.rank() == 0 {
                let listener = TcpListener::bind((address, 0)).map_err(io)?;
                let at = listener.local_addr().map_err(io)?.to_string();
                session.send(1, HELLO, at.as_bytes())?;
                listener.accept().map_err(io)?.0
            } else {
                let mut at = [0; 64];
                let status = session.recv(0, HELLO, &mut at)?;
                let at = String::from_utf8_lossy(&at[..status.len]);
                let to: SocketAddr =
                    at.parse().map_err(|e| format!("bare connection: {at}: {e}"))?;
                TcpStream::connect(to).map_err(io)?
            };
            socket.set_nodelay(true).map_err(io)?;
            socket.set_nonblocking(true).map_err(io)?;
            Ok(socket)
        });
        Ok(Sockets { sockets: connected.collect::<WorkResult<_>>()?, rank: session.rank() })
    }

    /// The direction in which a message of rank 0's goes, and the other one.
    pub(crate) fn directions(&self) -> [Direction; 2] {
        match self.rank {
            0 => [Direction::Out, Direction::In],
            _ => [Direction::In, Direction::Out],
        }
    }

    /// Sends or receives a message, of which the `second` last bytes go over the second network.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(crate) fn pass(
        &mut self,
        buffer: &mut [u8],
        second: usize,
        direction: Direction,
    ) -> WorkResult {
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

    /// How many networks there are.
    pub(crate) fn count(&self) -> usize {
        self.sockets.len()
    }
}

/// An error of the kernel's, in words.
pub(crate) fn io(e: impl Into<Error>) -> String {
    format!("bare connection: {}", e.into())
}
