//! Connections within the machine.

use std::io;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Type};

use crate::fd::Registered;
use crate::kernel_limits::explain;
use crate::net::socket::{Socket, socket_methods, stream_io, timeout_methods};

/// A connection: [`std::os::unix::net::UnixStream`], but it blocks one green thread only.
pub struct UnixStream {
    socket: Socket<std::os::unix::net::UnixStream>,
}

socket_methods!(UnixStream, std::os::unix::net::UnixStream);
timeout_methods!(UnixStream);
stream_io!(UnixStream, std::os::unix::net::UnixStream);

impl UnixStream {
    /// Connects to the socket at `path`.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread, while the listener's queue is full.
    ///
    /// # Errors
    /// No socket listens there; the kernel gives no descriptor.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        let path = path.as_ref();
        Self::connect_to(&SockAddr::unix(path)?, || std::os::unix::net::UnixStream::connect(path))
    }

    /// Connects to the socket at `address`, which may be one without a path.
    ///
    /// # Blocking, Errors
    /// As [`UnixStream::connect`].
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        let path = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => path.to_owned(),
            (None, Some(name)) => {
                let mut path = vec![0];
                path.extend_from_slice(name);
                PathBuf::from(std::ffi::OsStr::from_bytes(&path))
            }
            (None, None) => {
                let why = "an address without a name: no socket listens there";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        let connect = || std::os::unix::net::UnixStream::connect_addr(address);
        Self::connect_to(&SockAddr::unix(path)?, connect)
    }

    /// The kernel connects at once, or says that the listener's queue is full. Only a call that blocks can wait
    /// for room there.
    fn connect_to(
        address: &SockAddr,
        block: impl FnOnce() -> io::Result<std::os::unix::net::UnixStream> + Send,
    ) -> io::Result<UnixStream> {
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None);
        let socket = socket.map_err(explain)?;
        match socket.connect(address) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                drop(socket);
                let inner = marcel::blocking::export(block).map_err(explain)?;
                Ok(UnixStream { socket: Socket::new(inner) })
            }
            other => {
                other?;
                Ok(UnixStream { socket: Socket::ready(Registered::lazy(socket.into())) })
            }
        }
    }

    /// Two streams that are connected to each other.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair().map_err(explain)?;
        Ok((UnixStream { socket: Socket::new(one) }, UnixStream { socket: Socket::new(other) }))
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
}

/// Where connections arrive: [`std::os::unix::net::UnixListener`], but it blocks one green thread only.
pub struct UnixListener {
    socket: Socket<std::os::unix::net::UnixListener>,
}

socket_methods!(UnixListener, std::os::unix::net::UnixListener);

impl UnixListener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    /// The path exists or cannot be made; the kernel gives no descriptor.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        let inner = std::os::unix::net::UnixListener::bind(path).map_err(explain)?;
        Ok(UnixListener { socket: Socket::new(inner) })
    }

    /// Listens at `address`, which may be one without a path.
    ///
    /// # Errors
    /// As [`UnixListener::bind`].
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let inner = std::os::unix::net::UnixListener::bind_addr(address).map_err(explain)?;
        Ok(UnixListener { socket: Socket::new(inner) })
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
    /// The kernel gives no descriptor (the error says what to do; the connection waits).
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, address) = self.socket.read(|inner| inner.accept().map_err(explain))?;
        Ok((UnixStream { socket: Socket::new(stream) }, address))
    }

    /// The connections as they arrive, for ever.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }
}

/// See [`UnixListener::incoming`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl std::iter::FusedIterator for UnixIncoming<'_> {}
