//! TCP.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Type};

use crate::fd::Registered;
use crate::kernel_limits::explain;
use crate::net::address::{self, ToSocketAddrs};
use crate::net::socket::{Socket, socket_methods, stream_io, timeout_methods};

/// A connection: [`std::net::TcpStream`], but it blocks one green thread only.
pub struct TcpStream {
    socket: Socket<std::net::TcpStream>,
}

socket_methods!(TcpStream, std::net::TcpStream);
timeout_methods!(TcpStream);
stream_io!(TcpStream, std::net::TcpStream);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// No address answers; the kernel gives no descriptor.
    pub fn connect<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpStream> {
        address::each(addresses, |address| Self::connect_until(&address, None))
    }

    /// As [`TcpStream::connect`] to one address, for at most `time`.
    ///
    /// # Blocking
    /// As [`TcpStream::connect`].
    ///
    /// # Errors
    /// Also `TimedOut`, and `InvalidInput` for a duration of zero.
    pub fn connect_timeout(address: &SocketAddr, time: Duration) -> io::Result<TcpStream> {
        if time.is_zero() {
            let why = "cannot set a 0 duration timeout";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Self::connect_until(address, Instant::now().checked_add(time))
    }

    fn connect_until(address: &SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
        let kind = Type::STREAM.nonblocking();
        let socket = socket2::Socket::new(Domain::for_address(*address), kind, None);
        let socket = socket.map_err(explain)?;
        let begun = socket.connect(&(*address).into());
        let io = Registered::lazy(std::net::TcpStream::from(socket));
        match begun {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                match deadline {
                    None => io.wait_writable()?,
                    Some(deadline) if io.wait_writable_until(deadline)? => {}
                    Some(_) => {
                        let why = "connection timed out";
                        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                    }
                }
                if let Some(error) = io.get_ref().take_error()? {
                    return Err(error);
                }
            }
            other => other?,
        }
        Ok(TcpStream { socket: Socket::ready(io) })
    }

    /// The other side's address.
    ///
    /// # Errors
    /// It is not connected any more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().peer_addr()
    }

    /// The address on this side.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().local_addr()
    }

    /// Ends one direction of the connection, or both.
    ///
    /// # Wakes
    /// Threads that wait in the direction: reads return 0, writes fail.
    ///
    /// # Errors
    /// It is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.get().shutdown(how)
    }

    /// Reads without taking what is read.
    ///
    /// # Blocking
    /// As a read.
    ///
    /// # Errors
    /// As a read.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|inner| inner.peek(buffer))
    }

    /// Whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.get().set_nodelay(nodelay)
    }

    /// See [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.get().nodelay()
    }

    /// How long the kernel goes on sending after the socket has been closed (`SO_LINGER`).
    ///
    /// # Blocking
    /// No; but with a time that is not zero, *dropping* the last handle blocks the kernel thread, and so the virtual
    /// processor, until everything is sent or the time is over.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        SockRef::from(self.socket.get()).set_linger(time)
    }

    /// See [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.socket.get()).linger()
    }

    /// Over how many routers a packet may go.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.get().set_ttl(ttl)
    }

    /// See [`TcpStream::set_ttl`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.get().ttl()
    }
}

/// Where connections arrive: [`std::net::TcpListener`], but it blocks one green thread only. Several threads may accept
/// on one listener.
pub struct TcpListener {
    socket: Socket<std::net::TcpListener>,
}

socket_methods!(TcpListener, std::net::TcpListener);

impl TcpListener {
    /// Listens at the first of the addresses that can be had.
    ///
    /// # Blocking
    /// The green thread, to look up a host's name.
    ///
    /// # Errors
    /// None of the addresses can be had; the kernel gives no descriptor.
    pub fn bind<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpListener> {
        let inner = std::net::TcpListener::bind(&address::all(addresses)?[..]).map_err(explain)?;
        Ok(TcpListener { socket: Socket::new(inner) })
    }

    /// The address where it listens.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().local_addr()
    }

    /// Waits for a connection.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// The connection has gone already; the kernel gives no descriptor (the error says what to do; the connection
    /// waits).
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = self.socket.read(|inner| inner.accept().map_err(explain))?;
        Ok((TcpStream { socket: Socket::new(stream) }, address))
    }

    /// The connections as they arrive, for ever.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Over how many routers a packet may go.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.get().set_ttl(ttl)
    }

    /// See [`TcpListener::set_ttl`].
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.get().ttl()
    }
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}
