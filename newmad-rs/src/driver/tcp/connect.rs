//! What becomes of a link's sockets: the first is the small track, the second the large one.

use std::os::fd::OwnedFd;

use super::Peer;
use crate::error::Error;

/// Sockets of a link.
pub(crate) const TRACKS: u8 = 2;

/// The link with `peer` over these sockets.
pub(crate) fn link(peer: u32, sockets: Vec<OwnedFd>) -> Result<Peer, Error> {
    let [small, large] = <[OwnedFd; 2]>::try_from(sockets).map_err(|sockets| {
        Error::Bootstrap(format!("the link with rank {peer} has {} sockets", sockets.len()))
    })?;
    Ok(Peer::new(small, large))
}
