//! Sockets of the connection manager: they listen, call, and carry short messages with descriptors; nothing here blocks.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;

use crate::driver::MAX_DESCRIPTORS;
use crate::error::{Error, os};
use crate::sys::{self, errno};

/// Most descriptors that come with a message.
const DESCRIPTORS: usize = MAX_DESCRIPTORS;

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
            .map_err(|source| Error::Io { doing: "listening on a Unix socket", source })?;
        Listener::ready(socket.into(), Address::Unix(name))
    }

    /// Listens on a TCP port of the kernel's choice.
    pub(crate) fn tcp(address: IpAddr) -> Result<Listener, Error> {
        let socket = TcpListener::bind((address, 0)).map_err(|source| {
            Error::Bootstrap(format!("cannot listen on NMAD_TCP_ADDRESS={address}: {source}"))
        })?;
        let address = socket.local_addr().map_err(|source| Error::Io {
            doing: "reading the port that the kernel chose",
            source,
        })?;
        Listener::ready(socket.into(), Address::Tcp(address))
    }

    fn ready(socket: OwnedFd, address: Address) -> Result<Listener, Error> {
        // SAFETY: no memory is passed. The standard library's backlog is too short for many ranks.
        let listening = unsafe { libc::listen(socket.as_raw_fd(), 4096) } == 0;
        if !listening || !nonblocking(&socket) {
            return Err(os("listening for the other processes"));
        }
        Ok(Listener { socket, address })
    }

    /// The next caller, if there is one and it may be listened to.
    pub(super) fn accept(&self) -> io::Result<OwnedFd> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        loop {
            // SAFETY: no memory is passed.
            let fd = unsafe {
                let no_address = std::ptr::null_mut();
                libc::accept4(self.socket.as_raw_fd(), no_address, std::ptr::null_mut(), flags)
            };
            if fd >= 0 {
                // SAFETY: the kernel has just returned it, and it has no other owner.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
            if !matches!(errno(), libc::EINTR | libc::ECONNABORTED) {
                return Err(io::Error::last_os_error());
            }
        }
    }
}

fn nonblocking(socket: &OwnedFd) -> bool {
    let fd = socket.as_raw_fd();
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: no memory is passed.
    flags >= 0 && unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } == 0
}

/// A connection that has been begun: it is there, or has failed, when the socket can be written.
pub(super) fn call(address: &Address) -> io::Result<OwnedFd> {
    let family = match address {
        Address::Unix(_) => libc::AF_UNIX,
        Address::Tcp(SocketAddr::V4(_)) => libc::AF_INET,
        Address::Tcp(SocketAddr::V6(_)) => libc::AF_INET6,
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned it, and it has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let done = match address {
        Address::Unix(name) => {
            // SAFETY: plain data for which zero is valid.
            let mut to: libc::sockaddr_un = unsafe { mem::zeroed() };
            to.sun_family = libc::AF_UNIX as libc::sa_family_t;
            // The first byte is zero: an abstract name.
            for (to, &byte) in to.sun_path[1..].iter_mut().zip(name.as_bytes()) {
                *to = byte as libc::c_char;
            }
            let len = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
            connect(fd, &to, len)
        }
        Address::Tcp(SocketAddr::V4(v4)) => {
            // SAFETY: plain data for which zero is valid.
            let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_port = v4.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            connect(fd, &to, mem::size_of_val(&to))
        }
        Address::Tcp(SocketAddr::V6(v6)) => {
            // SAFETY: plain data for which zero is valid.
            let mut to: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            to.sin6_port = v6.port().to_be();
            to.sin6_addr.s6_addr = v6.ip().octets();
            to.sin6_scope_id = v6.scope_id();
            connect(fd, &to, mem::size_of_val(&to))
        }
    };
    match done {
        0 => Ok(socket),
        _ if errno() == libc::EINPROGRESS => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

fn connect<T>(fd: RawFd, to: &T, len: usize) -> libc::c_int {
    // SAFETY: an address of `len` bytes, at most its type's size, that lives through the call.
    unsafe { libc::connect(fd, std::ptr::from_ref(to).cast(), len as libc::socklen_t) }
}

/// What became of a connection that was begun.
pub(super) fn outcome(socket: &OwnedFd) -> io::Result<()> {
    let mut error = 0i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: a local of the size that is passed.
    let done = unsafe {
        let value = (&raw mut error).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &mut len)
    };
    match (done, error) {
        (0, 0) => Ok(()),
        (0, error) => Err(io::Error::from_raw_os_error(error)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What every TCP socket of ours is set to: no delay, and machines that vanish without a word are noticed.
pub(super) fn prepare_tcp(socket: &OwnedFd) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 1)?;
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 1)
}

/// Room for the ancillary data of these descriptors, aligned as its header wants.
#[repr(align(8))]
struct Ancillary([u8; 64]);

/// Sends a short message whole, with a few descriptors, on a socket that has nothing to send.
pub(super) fn send(socket: &OwnedFd, data: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let descriptors = &descriptors[..descriptors.len().min(DESCRIPTORS)];
    let mut ancillary = Ancillary([0; 64]);
    let mut io = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let size = mem::size_of_val(descriptors) as u32;
        message.msg_control = ancillary.0.as_mut_ptr().cast();
        // SAFETY: arithmetic only.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as usize;
        // SAFETY: the control buffer is large and aligned enough for one header and those descriptors.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
            let to = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, &fd) in descriptors.iter().enumerate() {
                to.add(index).write_unaligned(fd);
            }
        }
    }
    loop {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: everything the message points to lives through the call.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) };
        if sent == data.len() as isize {
            return Ok(());
        }
        if sent >= 0 {
            // A fresh socket takes so few bytes whole.
            return Err(io::ErrorKind::WriteZero.into());
        }
        if errno() != libc::EINTR {
            return Err(io::Error::last_os_error());
        }
    }
}

/// Reads up to `data.len()` bytes, and the descriptors that come with them. `Ok(0)`: the end.
pub(super) fn receive(
    socket: &OwnedFd,
    data: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut ancillary = Ancillary([0; 64]);
    let mut io = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut io;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.0.as_mut_ptr().cast();
    message.msg_controllen = ancillary.0.len();
    let got = loop {
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: everything the message points to lives through the call.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
        if got >= 0 {
            break got as usize;
        }
        if errno() != libc::EINTR {
            return Err(io::Error::last_os_error());
        }
    };
    // SAFETY: the kernel wrote well-formed ancillary data; every descriptor in it is new and ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                let first = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / mem::size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    if descriptors.len() > DESCRIPTORS {
        // No process of this library sends so many.
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(got)
}
