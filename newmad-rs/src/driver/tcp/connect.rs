//! How the processes of a session meet over TCP.
//!
//! Each listens on a port of the kernel's choice and publishes address and key. Rank `i` calls every lower
//! rank twice, once per track, and says who it is, for which track, and the key of the called.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{Peer, Tcp};
use crate::bootstrap::Bootstrap;
use crate::driver::card::{Card, KEY, same_key};
use crate::error::{Error, os};
use crate::knobs::Settings;
use crate::sys;

const MAGIC: [u8; 8] = *b"newmad1t";
const GREETING: usize = 8 + 4 + 4 + KEY;
/// How long a caller may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

fn greeting(rank: u32, track: u32, key: &[u8; KEY]) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&rank.to_le_bytes());
    bytes[12..16].copy_from_slice(&track.to_le_bytes());
    bytes[16..].copy_from_slice(key);
    bytes
}

/// Who calls, for which track, if it knows the key.
fn admit(bytes: &[u8; GREETING], key: &[u8; KEY]) -> Option<(u32, usize)> {
    let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let track = word(12)? as usize;
    (bytes[..8] == MAGIC && track < 2 && same_key(&bytes[16..], key)).then_some((word(8)?, track))
}

/// Opens the driver of this process and connects it with the others.
pub(crate) fn open(
    boot: &mut dyn Bootstrap,
    settings: &Settings,
    threshold: usize,
) -> Result<Tcp, Error> {
    let (rank, size) = (boot.rank(), boot.size());
    let deadline = sys::deadline(settings.connect_timeout);
    let listener = TcpListener::bind((settings.tcp_address, 0)).map_err(|source| {
        Error::Bootstrap(format!(
            "cannot listen on NMAD_TCP_ADDRESS={}: {source}",
            settings.tcp_address
        ))
    })?;
    // SAFETY: no memory is passed. The standard library's backlog is too short for many ranks.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    let address = listener
        .local_addr()
        .map_err(|source| Error::Io { doing: "reading the port that the kernel chose", source })?;
    let card = Card::new("tcp", threshold, vec![address.to_string()])?;
    boot.publish(&card.encode(), deadline)?;
    boot.fence(deadline)?;
    let cards: Vec<String> =
        (0..size).map(|peer| boot.card_of(peer, deadline)).collect::<Result<_, Error>>()?;
    let mut sockets: Vec<[Option<OwnedFd>; 2]> = (0..size).map(|_| [None, None]).collect();

    for lower in 0..rank {
        let theirs = Card::decode(&cards[lower as usize], lower, &card)?;
        let failed = |source: io::Error| {
            Error::Bootstrap(format!(
                "rank {rank} could not reach rank {lower} at {}: {source}",
                theirs.address.join(",")
            ))
        };
        let address: SocketAddr =
            theirs
                .address
                .first()
                .and_then(|address| address.parse().ok())
                .ok_or_else(|| failed(io::Error::other("its card has no address")))?;
        for track in 0..2u32 {
            let left =
                deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let socket = TcpStream::connect_timeout(&address, left).map_err(failed)?;
            let socket = OwnedFd::from(socket);
            prepare(&socket).map_err(failed)?;
            sys::send_all(socket.as_raw_fd(), &greeting(rank, track, &theirs.key), deadline)
                .map_err(failed)?;
            sockets[lower as usize][track as usize] = Some(socket);
        }
    }

    let mut missing = 2 * (size - 1 - rank);
    while missing > 0 {
        if !sys::wait_fd(listener.as_raw_fd(), libc::POLLIN, deadline)
            .map_err(|_| os("accepting a peer"))?
        {
            let who: Vec<String> = (rank + 1..size)
                .filter(|&peer| sockets[peer as usize].iter().any(Option::is_none))
                .map(|peer| peer.to_string())
                .collect();
            return Err(Error::Bootstrap(format!(
                "rank(s) {} did not call within {:?} (NMAD_CONNECT_TIMEOUT_MS)",
                who.join(", "),
                settings.connect_timeout
            )));
        }
        let Ok((socket, _)) = listener.accept() else { continue };
        let socket = OwnedFd::from(socket);
        let mut bytes = [0; GREETING];
        let patience = deadline.min(sys::deadline(PATIENCE));
        // Whoever is not of this session is turned away; it must not keep the others from coming in.
        if prepare(&socket).is_err()
            || sys::recv_all(socket.as_raw_fd(), &mut bytes, patience).is_err()
        {
            continue;
        }
        match admit(&bytes, &card.key) {
            Some((peer, track))
                if peer > rank && peer < size && sockets[peer as usize][track].is_none() =>
            {
                Card::decode(&cards[peer as usize], peer, &card)?;
                sockets[peer as usize][track] = Some(socket);
                missing -= 1;
            }
            _ => {}
        }
    }

    let peers = sockets.into_iter().map(|[small, large]| Some(Peer::new(small?, large?)));
    Tcp::new(peers.collect())
}

fn prepare(socket: &OwnedFd) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    // A machine that vanishes without a word is noticed by keep-alive probes.
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)?;
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: no memory is passed.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_know_the_key_come_in() {
        let key = [7; KEY];
        assert_eq!(admit(&greeting(3, 1, &key), &key), Some((3, 1)));
        assert_eq!(admit(&greeting(3, 1, &[8; KEY]), &key), None);
        assert_eq!(admit(&greeting(3, 2, &key), &key), None);
        assert_eq!(admit(&[0; GREETING], &key), None);
    }
}
