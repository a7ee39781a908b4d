//! How the processes of a session meet over shared memory.
//!
//! Each listens on an abstract Unix socket of random name and publishes name, key and geometry. Rank `i` calls
//! every lower rank. Both sides send one greeting with two descriptors (segment, bell); the caller's carries
//! the key of the called, the kernel vouches for user and process number. The socket stays open: its end is
//! how a death is noticed.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::segment::{Geometry, Segment};
use super::{Life, Peer, Reach, Shm, cma};
use crate::bootstrap::Bootstrap;
use crate::driver::card::{Card, KEY, hex, same_key};
use crate::error::{Error, os};
use crate::knobs::Settings;
use crate::sys;

const MAGIC: u64 = 0x0001_6d68_7364_6d6e;
const GREETING: usize = 8 + 8 + 8 + KEY;
/// How long a caller may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

struct Greeting {
    rank: u32,
    probe: u64,
    key: [u8; KEY],
}

impl Greeting {
    fn encode(&self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::from(self.rank).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.probe.to_le_bytes());
        bytes[24..].copy_from_slice(&self.key);
        bytes
    }

    fn decode(bytes: &[u8; GREETING]) -> Option<Greeting> {
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if word(0)? != MAGIC {
            return None;
        }
        let key = bytes[24..].try_into().ok()?;
        Some(Greeting { rank: u32::try_from(word(8)?).ok()?, probe: word(16)?, key })
    }
}

/// Opens the driver of this process and connects it with the others.
pub(crate) fn open(
    boot: &mut dyn Bootstrap,
    settings: &Settings,
    threshold: usize,
) -> Result<Shm, Error> {
    let (rank, size) = (boot.rank(), boot.size());
    let deadline = sys::deadline(settings.connect_timeout);
    let geometry = Geometry {
        ranks: size as usize,
        slots: settings.shm_slots,
        slot_size: settings.shm_slot_size,
    };
    let (segment, memory) = Segment::create(&geometry)?;
    let segment = Arc::new(segment);
    let bell = sys::eventfd()?;
    if settings.cma {
        cma::permit();
    }
    let name = format!("newmad-{}", hex(&sys::random::<16>()?));
    let listener = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .map_err(|source| Error::Io { doing: "listening on a Unix socket", source })?;
    // SAFETY: no memory is passed. The standard library's backlog is too short for many ranks.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    let address = vec![name, geometry.slots.to_string(), geometry.slot_size.to_string()];
    let card = Card::new("shm", threshold, address)?;
    boot.publish(&card.encode(), deadline)?;
    boot.fence(deadline)?;
    let cards: Vec<String> =
        (0..size).map(|peer| boot.card_of(peer, deadline)).collect::<Result<_, Error>>()?;
    let mut parsed = Vec::new();
    for (peer, text) in cards.iter().enumerate() {
        let theirs = Card::decode(text, peer as u32, &card)?;
        let there = geometry_of(&theirs, size).ok_or_else(|| {
            Error::Bootstrap(format!("the card of rank {peer} has no sound geometry: {text:?}"))
        })?;
        parsed.push((theirs, there));
    }

    let greeting = |key| Greeting { rank, probe: segment.probe_address(), key }.encode();
    let descriptors = [memory.as_raw_fd(), bell.as_raw_fd()];
    let mut peers: Vec<Option<Peer>> = (0..size).map(|_| None).collect();
    let admit = |line: OwnedFd, theirs: Greeting, fds: [OwnedFd; 2]| -> Result<Peer, Error> {
        let [memory, bell] = fds;
        let there = &parsed[theirs.rank as usize].1;
        let reach = match settings.cma.then(|| peer_of(line.as_raw_fd())).flatten() {
            Some((pid, _)) if cma::probe(pid, theirs.probe) => Reach::Process(pid),
            _ => Reach::None,
        };
        // The bell may be shared with a process that makes writes to it block: it must not.
        // SAFETY: no memory is passed.
        if unsafe { libc::fcntl(bell.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(os("setting up a peer's bell"));
        }
        let segment_there = Segment::open(&memory, there)?;
        let theirs_at = (segment_there, there);
        Peer::new(
            rank,
            (&segment, &geometry),
            theirs.rank,
            theirs_at,
            bell,
            reach,
            Life::Line(line),
        )
    };

    for lower in 0..rank {
        let there = &parsed[lower as usize].0;
        let failed = |source: io::Error| {
            Error::Bootstrap(format!(
                "rank {rank} could not reach rank {lower} over shared memory: {source}"
            ))
        };
        let line = SocketAddr::from_abstract_name(&there.address[0])
            .and_then(|address| UnixStream::connect_addr(&address))
            .map_err(failed)?;
        let line = OwnedFd::from(line);
        send_with(line.as_raw_fd(), &greeting(there.key), &descriptors, deadline)
            .map_err(failed)?;
        let (theirs, fds) = receive(&line, deadline).map_err(failed)?;
        if theirs.rank != lower {
            return Err(failed(io::Error::other("somebody else answered")));
        }
        peers[lower as usize] = Some(admit(line, theirs, fds)?);
    }

    let mut missing = size - 1 - rank;
    while missing > 0 {
        if !sys::wait_fd(listener.as_raw_fd(), libc::POLLIN, deadline)
            .map_err(|_| os("accepting a peer"))?
        {
            let who: Vec<String> = (rank + 1..size)
                .filter(|&peer| peers[peer as usize].is_none())
                .map(|peer| peer.to_string())
                .collect();
            return Err(Error::Bootstrap(format!(
                "rank(s) {} did not call within {:?} (NMAD_CONNECT_TIMEOUT_MS)",
                who.join(", "),
                settings.connect_timeout
            )));
        }
        let Ok((line, _)) = listener.accept() else { continue };
        let line = OwnedFd::from(line);
        // Whoever is not of this session is turned away; it must not keep the others from coming in.
        // SAFETY: no memory is passed.
        let uid = unsafe { libc::getuid() };
        if peer_of(line.as_raw_fd()).is_none_or(|(_, user)| user != uid) {
            continue;
        }
        let Ok((theirs, fds)) = receive(&line, deadline.min(sys::deadline(PATIENCE))) else {
            continue;
        };
        let expected =
            theirs.rank > rank && theirs.rank < size && peers[theirs.rank as usize].is_none();
        if !expected || !same_key(&theirs.key, &card.key) {
            continue;
        }
        let answer = greeting(parsed[theirs.rank as usize].0.key);
        let sent = send_with(line.as_raw_fd(), &answer, &descriptors, deadline);
        sent.map_err(|source| Error::Io { doing: "greeting a peer", source })?;
        let peer = theirs.rank as usize;
        peers[peer] = Some(admit(line, theirs, fds)?);
        missing -= 1;
    }
    Shm::new("shm", segment, bell, peers.into_boxed_slice(), Arc::new(AtomicBool::new(false)))
}

fn geometry_of(card: &Card, size: u32) -> Option<Geometry> {
    let [_, slots, slot_size] = card.address.as_slice() else { return None };
    let geometry = Geometry {
        ranks: size as usize,
        slots: slots.parse().ok()?,
        slot_size: slot_size.parse().ok()?,
    };
    geometry.is_sound().then_some(geometry)
}

/// Process number and user of the other end, by the kernel's word.
fn peer_of(fd: RawFd) -> Option<(i32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a local of the size that is passed.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut len,
        )
    };
    (done == 0).then_some((credentials.pid, credentials.uid))
}

/// Room for the ancillary data of two descriptors, aligned as its header wants.
#[repr(align(8))]
struct Ancillary([u8; 64]);

fn send_with(fd: RawFd, data: &[u8], fds: &[RawFd; 2], deadline: Instant) -> io::Result<()> {
    let mut ancillary = Ancillary([0; 64]);
    let mut io = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.0.as_mut_ptr().cast();
    let size = mem::size_of_val(fds) as u32;
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as usize;
    // SAFETY: the control buffer is large and aligned enough for one header and two descriptors.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
        libc::CMSG_DATA(header).cast::<[RawFd; 2]>().write_unaligned(*fds);
    }
    loop {
        // SAFETY: everything the message points to lives through the call.
        let sent = unsafe { libc::sendmsg(fd, &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        if sent == data.len() as isize {
            return Ok(());
        }
        if sent >= 0 {
            // A fresh Unix socket takes so few bytes whole.
            return Err(io::ErrorKind::WriteZero.into());
        }
        sys::retry(fd, libc::POLLOUT, deadline)?;
    }
}

fn receive(line: &OwnedFd, deadline: Instant) -> io::Result<(Greeting, [OwnedFd; 2])> {
    let fd = line.as_raw_fd();
    let mut data = [0; GREETING];
    let mut ancillary = Ancillary([0; 64]);
    let mut io = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.0.as_mut_ptr().cast();
    message.msg_controllen = ancillary.0.len();
    let got = loop {
        // SAFETY: everything the message points to lives through the call.
        let got =
            unsafe { libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        if got >= 0 {
            break got as usize;
        }
        sys::retry(fd, libc::POLLIN, deadline)?;
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel wrote well-formed ancillary data; every descriptor in it is new and ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                let first = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / mem::size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if got < GREETING {
        sys::recv_all(fd, &mut data[got..], deadline)?;
    }
    let greeting =
        Greeting::decode(&data).ok_or_else(|| refuse("the greeting is not of this library"))?;
    let fds = fds.try_into().map_err(|_| refuse("the greeting lacks its descriptors"))?;
    Ok((greeting, fds))
}
