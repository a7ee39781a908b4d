//! Datagrams within the machine.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::kernel_limits::explain;
use crate::net::socket::{Socket, socket_methods, timeout_methods};

/// A socket for datagrams: [`std::os::unix::net::UnixDatagram`], but it blocks one green thread only.
///
/// There is no `send_to` that waits: when an address that the socket is not connected to has room again, the kernel
/// tells only a sender that blocks in the call. [`UnixDatagram::try_send_to`] says so instead.
pub struct UnixDatagram {
    socket: Socket<std::os::unix::net::UnixDatagram>,
}

socket_methods!(UnixDatagram, std::os::unix::net::UnixDatagram);
timeout_methods!(UnixDatagram);

impl UnixDatagram {
    /// A socket at `path`, which must not exist.
    ///
    /// # Errors
    /// The path exists or cannot be made; the kernel gives no descriptor.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        Self::new(std::os::unix::net::UnixDatagram::bind(path))
    }

    /// A socket without an address.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::new(std::os::unix::net::UnixDatagram::unbound())
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = std::os::unix::net::UnixDatagram::pair().map_err(explain)?;
        Ok((UnixDatagram { socket: Socket::new(one) }, UnixDatagram { socket: Socket::new(other) }))
    }

    fn new(inner: io::Result<std::os::unix::net::UnixDatagram>) -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: Socket::new(inner.map_err(explain)?) })
    }

    /// Makes `path` the address that [`UnixDatagram::send`] sends to.
    ///
    /// # Errors
    /// No socket is bound to `path`.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.socket.get().connect(path)
    }

    /// Sends a datagram to the address that the socket is connected to.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread, while the receiver's queue is full.
    ///
    /// # Errors
    /// Not connected; the receiver has gone; `WouldBlock` after the time-out.
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.socket.write(|inner| inner.send(datagram))
    }

    /// Sends a datagram to `path`, if there is room.
    ///
    /// # Errors
    /// `WouldBlock` when the receiver's queue is full; no socket is bound to `path`.
    pub fn try_send_to<P: AsRef<Path>>(&self, datagram: &[u8], path: P) -> io::Result<usize> {
        self.socket.get().send_to(datagram, path)
    }

    /// Waits for a datagram; its length, cut to the buffer's.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` after the time-out.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.recv(buffer))
    }

    /// As [`UnixDatagram::recv`], and its sender.
    ///
    /// # Blocking, Errors
    /// As [`UnixDatagram::recv`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.recv_from(buffer))
    }

    /// Its own address.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().local_addr()
    }

    /// The address that it is connected to.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().peer_addr()
    }

    /// Ends one direction, or both.
    ///
    /// # Wakes
    /// Threads that wait in the direction.
    ///
    /// # Errors
    /// It is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.get().shutdown(how)
    }
}
