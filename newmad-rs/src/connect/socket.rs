//! Sockets of the connection manager: they listen, call, and carry short messages with descriptors; nothing here
//! blocks.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::driver::MAX_DESCRIPTORS;
use crate::error::{Error, during};
use crate::sys;

/// Where a process is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The name of an abstract Unix socket.
    Unix(String),
    /// TCP.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(name) => write!(f, "@{name}"),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = ();
    fn from_str(text: &str) -> Result<Address, ()> {
        match text.strip_prefix('@') {
            Some(name) if (1..=100).contains(&name.len()) => Ok(Address::Unix(name.to_owned())),
            Some(_) => Err(()),
            None => text.parse().map(Address::Tcp).map_err(drop),
        }
    }
}

/// A socket on which a process can be called.
pub(crate) struct Listener {
    pub(super) socket: OwnedFd,
    pub(crate) address: Address,
}

impl Listener {
    /// Listens on an abstract Unix socket of random name.
    pub(crate) fn unix() -> Result<Listener, Error> {
        let name = format!("newmad-{:032x}", u128::from_be_bytes(sys::random()?));
        let socket = std::os::unix::net::SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address))
            .map_err(during("listening on a Unix socket"))?;
        Listener::ready(socket.into(), Address::Unix(name))
    }

    /// Listens on a TCP port of the kernel's choice.
    pub(crate) fn tcp(address: IpAddr) -> Result<Listener, Error> {
        let socket = TcpListener::bind((address, 0)).map_err(|source| {
            Error::Bootstrap(format!("cannot listen on NMAD_TCP_ADDRESS={address}: {source}"))
        })?;
        let address =
            socket.local_addr().map_err(during("reading the port that the kernel chose"))?;
        Listener::ready(socket.into(), Address::Tcp(address))
    }

    fn ready(socket: OwnedFd, address: Address) -> Result<Listener, Error> {
        let doing = "listening for the other processes";
        // The standard library's backlog is too short for many ranks.
        net::listen(&socket, 4096).map_err(during(doing))?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(during(doing))?;
        Ok(Listener { socket, address })
    }

    /// The next caller, if there is one and it may be listened to.
    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            match net::accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                accepted => return Ok(accepted?),
            }
        }
    }
}

/// A connection that has been begun: it is there, or has failed, when the socket can be written.
pub(super) fn call(address: &Address) -> io::Result<OwnedFd> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    let connected = match address {
        Address::Unix(name) => {
            net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)
        }
        Address::Tcp(address) => net::connect(&socket, address),
    };
    match connected {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

/// What became of a connection that was begun.
pub(super) fn outcome(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// What every TCP socket of ours is set to: no delay, and machines that vanish without a word are noticed.
pub(super) fn prepare_tcp(socket: &OwnedFd) -> io::Result<()> {
    let second = Duration::from_secs(1);
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, second)?;
    sockopt::set_tcp_keepintvl(socket, second)?;
    Ok(sockopt::set_tcp_keepcnt(socket, 1)?)
}

/// For a TCP socket whose other end reads all that comes: that nothing of what was sent is acknowledged is noticed as soon
/// as that nobody answers while nothing is. (The kernel would send it again for a quarter of an hour, and asks nothing else
/// meanwhile.)
pub(super) fn doubt_what_is_unanswered(socket: &OwnedFd) -> io::Result<()> {
    const MS: u32 = 2000; // as long as `prepare_tcp` has it
    Ok(sockopt::set_tcp_user_timeout(socket, MS)?)
}

/// Sends a short message whole, with a few descriptors, on a socket that has nothing to send.
pub(super) fn send(socket: &OwnedFd, data: &[u8], descriptors: &[Arc<OwnedFd>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let descriptors: Vec<BorrowedFd<'_>> =
        descriptors.iter().take(MAX_DESCRIPTORS).map(|fd| fd.as_fd()).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match net::sendmsg(socket, &[IoSlice::new(data)], &mut control, flags) {
            Ok(sent) if sent == data.len() => return Ok(()),
            // A fresh socket takes so few bytes whole.
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads up to `data.len()` bytes, and the descriptors that come with them. `Ok(0)`: the end.
pub(super) fn receive(
    socket: &OwnedFd,
    data: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    // Room for one more than any process of this library sends.
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = loop {
        match net::recvmsg(socket, &mut [IoSliceMut::new(data)], &mut control, flags) {
            Err(Errno::INTR) => {}
            got => break got?.bytes,
        }
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(given) = message {
            descriptors.extend(given);
        }
    }
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(got)
}
