//! UDP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::kernel_limits::explain;
use crate::net::address::{self, ToSocketAddrs};
use crate::net::socket::{Socket, socket_methods, timeout_methods};

/// A socket for datagrams: [`std::net::UdpSocket`], but it blocks one green thread only.
pub struct UdpSocket {
    socket: Socket<std::net::UdpSocket>,
}

socket_methods!(UdpSocket, std::net::UdpSocket);
timeout_methods!(UdpSocket);

impl UdpSocket {
    /// A socket at the first of the addresses that can be had.
    ///
    /// # Blocking
    /// The green thread, to look up a host's name.
    ///
    /// # Errors
    /// None of the addresses can be had; the kernel gives no descriptor.
    pub fn bind<A: ToSocketAddrs>(addresses: A) -> io::Result<UdpSocket> {
        let inner = std::net::UdpSocket::bind(&address::all(addresses)?[..]).map_err(explain)?;
        Ok(UdpSocket { socket: Socket::new(inner) })
    }

    /// Waits for a datagram: its length, cut to the buffer's, and its sender.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` after the time-out.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.recv_from(buffer))
    }

    /// As [`UdpSocket::recv_from`], but the datagram stays.
    ///
    /// # Blocking, Errors
    /// As [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|inner| inner.peek_from(buffer))
    }

    /// Sends a datagram to the first of the addresses.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread, while the kernel's buffer is full or a name is looked up.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` when there is no address.
    pub fn send_to<A: ToSocketAddrs>(&self, datagram: &[u8], addresses: A) -> io::Result<usize> {
        let Some(address) = addresses.to_socket_addrs()?.next() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to send data to",
            ));
        };
        self.socket.write(|inner| inner.send_to(datagram, address))
    }

    /// Makes the first of the addresses that will do the one that [`UdpSocket::send`] sends to, and
    /// [`UdpSocket::recv`] receives from.
    ///
    /// # Blocking
    /// The green thread, to look up a host's name.
    ///
    /// # Errors
    /// None of the addresses can be reached.
    pub fn connect<A: ToSocketAddrs>(&self, addresses: A) -> io::Result<()> {
        address::each(addresses, |address| self.socket.get().connect(address))
    }

    /// Sends a datagram to the address that the socket is connected to.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread, while the kernel's buffer is full.
    ///
    /// # Errors
    /// The kernel's: not connected, or no socket was there for an earlier datagram.
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.socket.write(|inner| inner.send(datagram))
    }

    /// Waits for a datagram from the address that the socket is connected to; its length.
    ///
    /// # Blocking, Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.recv(buffer))
    }

    /// As [`UdpSocket::recv`], but the datagram stays.
    ///
    /// # Blocking, Errors
    /// As [`UdpSocket::recv_from`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.peek(buffer))
    }

    /// The address that it is connected to.
    ///
    /// # Errors
    /// It is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().peer_addr()
    }

    /// Its own address.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().local_addr()
    }
}

/// Options of the kernel's, as `std` has them.
macro_rules! options {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl UdpSocket {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The kernel's refusal.
                pub fn $name(&self, $($argument: $type),*) -> io::Result<$result> {
                    self.socket.get().$name($($argument),*)
                }
            )*
        }
    };
}

options! {
    /// Whether datagrams may go to broadcast addresses.
    fn set_broadcast(broadcast: bool) -> ();
    /// See [`UdpSocket::set_broadcast`].
    fn broadcast() -> bool;
    /// Over how many routers a packet may go.
    fn set_ttl(ttl: u32) -> ();
    /// See [`UdpSocket::set_ttl`].
    fn ttl() -> u32;
    /// Whether multicast packets come back to this host (IPv4).
    fn set_multicast_loop_v4(on: bool) -> ();
    /// See [`UdpSocket::set_multicast_loop_v4`].
    fn multicast_loop_v4() -> bool;
    /// Over how many routers a multicast packet may go (IPv4).
    fn set_multicast_ttl_v4(ttl: u32) -> ();
    /// See [`UdpSocket::set_multicast_ttl_v4`].
    fn multicast_ttl_v4() -> u32;
    /// Whether multicast packets come back to this host (IPv6).
    fn set_multicast_loop_v6(on: bool) -> ();
    /// See [`UdpSocket::set_multicast_loop_v6`].
    fn multicast_loop_v6() -> bool;
    /// Joins a multicast group at the interface with this address.
    fn join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Joins a multicast group at the interface with this number.
    fn join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Leaves a multicast group.
    fn leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Leaves a multicast group.
    fn leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
}
