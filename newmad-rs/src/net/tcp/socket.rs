//! The calls on sockets: never blocking, tried again when interrupted.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{self, SocketAddrAny};

use crate::error::Cause;
use crate::memory::span::Span;
use crate::sys::errno;

/// What became of bytes to send.
pub(super) enum Sent {
    Some(usize),
    Nothing,
    Broken,
}

/// What came.
pub(super) enum Got {
    Some(usize),
    Nothing,
    End(Cause),
}

#[inline]
pub(super) fn send(socket: &OwnedFd, data: &[u8]) -> Sent {
    // SAFETY: the slice is readable for its length.
    sent(|| unsafe {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), flags)
    })
}

/// So long without an answer to what was sent again and again, and a connection is silent.
const SILENCE_MS: u32 = 1000;
/// What was sent was sent again so often. The first time may be the network's.
const AGAIN: u8 = 2;

/// Whether the other end's kernel does not answer any more. A process that only does not read is not silent: its kernel
/// says that there is no room.
pub(super) fn is_silent(socket: &OwnedFd) -> bool {
    // SAFETY: plain data for which zero is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: a local of the size that is passed.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut info).cast(), &mut len)
    };
    let again = info.tcpi_retransmits.max(info.tcpi_probes) >= AGAIN;
    done == 0 && again && info.tcpi_last_ack_recv >= SILENCE_MS
}

/// Whether both ends have the same address: then they are on one machine.
pub(super) fn is_inside(socket: &OwnedFd) -> bool {
    let own = net::getsockname(socket).ok().and_then(ip);
    let other = net::getpeername(socket).ok().flatten().and_then(ip);
    own.is_some() && own == other
}

fn ip(address: SocketAddrAny) -> Option<IpAddr> {
    SocketAddr::try_from(address).ok().map(|address| address.ip())
}

/// Has a connection use the congestion control that paces nothing. Where that is refused it stays as it is.
pub(super) fn use_reno(socket: &OwnedFd) {
    let _ = net::sockopt::set_tcp_congestion(socket, "reno");
}

/// Copies the bytes of `parts` from `from` on to `to`, as many as it holds.
pub(super) fn gather(parts: &[Span], mut from: usize, mut to: &mut [u8]) {
    for part in parts {
        let piece = part.part(from, to.len());
        from = from.saturating_sub(part.len());
        let (here, rest) = to.split_at_mut(piece.len());
        // SAFETY: the slice has the piece's length, and is not user memory.
        unsafe { piece.copy_to(here.as_mut_ptr()) };
        to = rest;
    }
}

/// Tries until the call is not interrupted.
#[inline]
fn sent(call: impl Fn() -> isize) -> Sent {
    loop {
        let sent = call();
        if sent >= 0 {
            return Sent::Some(sent as usize);
        }
        match errno() {
            libc::EINTR => {}
            libc::EAGAIN | libc::ENOBUFS => return Sent::Nothing,
            _ => return Sent::Broken,
        }
    }
}

/// # Safety
/// Every part is readable for its length.
#[inline]
pub(super) unsafe fn send_parts(socket: &OwnedFd, parts: &mut [libc::iovec]) -> Sent {
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the caller's promise; the array lives through the call.
    sent(|| unsafe {
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    })
}

/// # Safety
/// `len` bytes at `to` are writable and exclusive.
#[inline]
pub(super) unsafe fn receive(socket: &OwnedFd, to: *mut u8, len: usize) -> Got {
    loop {
        // SAFETY: the caller's promise.
        let got = unsafe { libc::recv(socket.as_raw_fd(), to.cast(), len, libc::MSG_DONTWAIT) };
        if got > 0 {
            return Got::Some(got as usize);
        }
        if got == 0 {
            return Got::End(Cause::Vanished);
        }
        match errno() {
            libc::EINTR => {}
            libc::EAGAIN => return Got::Nothing,
            libc::ECONNRESET | libc::EPIPE => return Got::End(Cause::Vanished),
            errno => return Got::End(Cause::Broken(errno)),
        }
    }
}
