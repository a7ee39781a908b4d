//! Two processes that have a socket between them: one opens a port, and tells the other its name over the socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::{Channel, Failure, Port, call};
use crate::sys;

/// Bytes that decide which of the two opens the port.
const LOT: usize = 16;
/// Bytes of a message with a name; the rest is zero.
const NAME: usize = 256;

/// Meets the process at the other end of a connected stream socket, which calls this too. Nothing of what is sent is
/// left in the socket afterwards. The answer is the channel, and whether this side is the first of the two.
///
/// # Blocking
/// The kernel thread, until the other process comes, or `deadline`.
/// # Errors
/// The other side is gone, or did not come in time.
pub fn join(socket: OwnedFd, deadline: Instant) -> Result<(Channel, bool), Failure> {
    let flags = rustix::fs::fcntl_getfl(&socket).map_err(io::Error::from)?;
    let kept = socket.try_clone()?;
    let met = meet(Channel::over(socket)?, deadline);
    // A channel does not block; the program's descriptor of the socket may.
    let _ = rustix::fs::fcntl_setfl(kept, flags);
    met
}

fn meet(mut socket: Channel, deadline: Instant) -> Result<(Channel, bool), Failure> {
    let lost = |error| Failure::Lost(io::Error::other(error));
    loop {
        let mine: [u8; LOT] = sys::random().map_err(lost)?;
        let mut theirs = [0; LOT];
        socket.write(&mine, deadline)?;
        socket.read(&mut theirs, deadline)?;
        if mine == theirs {
            continue;
        }
        let mut message = [0; NAME];
        if mine > theirs {
            let port = Port::open().map_err(lost)?;
            message[..port.name().len()].copy_from_slice(port.name().as_bytes());
            socket.write(&message, deadline)?;
            return Ok((port.accept(Some(deadline))?, true));
        }
        socket.read(&mut message, deadline)?;
        let name = message.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| Failure::BadName)?;
        return Ok((call(name, deadline)?, false));
    }
}
