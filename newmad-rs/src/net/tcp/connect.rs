//! What becomes of a link's sockets: the first is the small track, the second the large one.
//!
//! Between processes of one machine there is no network that could be congested. Where the system's congestion control
//! measures and paces (`bbr`), it takes a receiver that lost its core for a slow network: messages of 1 MiB had two
//! thirds of the bandwidth in the median, half of it for every tenth. So these sockets use `reno`, which every Linux
//! has and allows.

use std::os::fd::OwnedFd;

use super::peer::Peer;
use super::socket::{is_inside, use_reno};
use crate::error::Error;

/// Sockets of a link.
pub(crate) const TRACKS: u8 = 2;

/// The link with `peer` over these sockets.
pub(crate) fn link(peer: u32, sockets: Vec<OwnedFd>) -> Result<Peer, Error> {
    let [small, large] = <[OwnedFd; 2]>::try_from(sockets).map_err(|sockets| {
        Error::Bootstrap(format!("the link with rank {peer} has {} sockets", sockets.len()))
    })?;
    for socket in [&small, &large] {
        if is_inside(socket) {
            use_reno(socket);
        }
    }
    Ok(Peer::new(small, large))
}
