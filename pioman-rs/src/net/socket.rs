//! What all sockets have in common: time-outs, the non-blocking flag, and the conversions.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::fd::{Interest, Registered, set_nonblocking};

/// A socket that is non-blocking, and how long its calls wait.
#[derive(Debug)]
pub(super) struct Socket<T: AsFd> {
    io: Registered<T>,
    /// Clones share it, as they share the kernel's options.
    options: Arc<Options>,
}

#[derive(Debug, Default)]
struct Options {
    /// Nanoseconds; 0: for ever.
    read: AtomicU64,
    write: AtomicU64,
    nonblocking: AtomicBool,
}

/// The deadline of a call that has to wait now.
fn deadline(nanos: &AtomicU64) -> Option<Instant> {
    match nanos.load(Relaxed) {
        0 => None,
        nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
    }
}

fn nanos(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl<T: AsFd> Socket<T> {
    /// A new socket: the only descriptor of its open file.
    pub(super) fn new(io: T) -> Self {
        // Refused only for what is no descriptor.
        let _ = set_nonblocking(io.as_fd(), true);
        Self::ready(Registered::lazy(io))
    }

    /// One that is non-blocking already.
    pub(super) fn ready(io: Registered<T>) -> Self {
        Socket { io, options: Arc::default() }
    }

    /// One that has been `std`'s, with its time-outs.
    pub(super) fn adopt(io: T) -> Self {
        let socket = SockRef::from(&io);
        let options = Options {
            read: nanos(socket.read_timeout().unwrap_or_default()).into(),
            write: nanos(socket.write_timeout().unwrap_or_default()).into(),
            nonblocking: false.into(),
        };
        Socket { options: Arc::new(options), ..Self::new(io) }
    }

    /// Gives it to `std`, which expects it to block.
    pub(super) fn release(self) -> T {
        let nonblocking = self.options.nonblocking.load(Relaxed);
        let io = self.io.into_inner();
        let _ = set_nonblocking(io.as_fd(), nonblocking);
        io
    }

    pub(super) fn get(&self) -> &T {
        self.io.get_ref()
    }

    pub(super) fn clone_as(&self, io: T) -> Self {
        Socket { io: Registered::lazy(io), options: self.options.clone() }
    }

    /// A call that waits until it can read.
    #[inline]
    pub(super) fn read<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io(Interest::Readable, &self.options.read, call)
    }

    /// A call that waits until it can write.
    #[inline]
    pub(super) fn write<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io(Interest::Writable, &self.options.write, call)
    }

    #[inline]
    fn io<R>(
        &self,
        interest: Interest,
        time: &AtomicU64,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        if self.options.nonblocking.load(Relaxed) {
            return call(self.get());
        }
        match self.io.io_within(interest, || deadline(time), call)? {
            Some(value) => Ok(value),
            // As the kernel, and so `std`, says it.
            None => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
        }
    }

    pub(super) fn set_nonblocking(&self, on: bool) {
        self.options.nonblocking.store(on, Relaxed);
    }

    /// Also tells the kernel: the time-out stays when the socket becomes `std`'s.
    ///
    /// # Errors
    /// A time-out of zero.
    pub(super) fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        check(time)?;
        SockRef::from(self.get()).set_read_timeout(time)?;
        self.options.read.store(nanos(time), Relaxed);
        Ok(())
    }

    pub(super) fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        check(time)?;
        SockRef::from(self.get()).set_write_timeout(time)?;
        self.options.write.store(nanos(time), Relaxed);
        Ok(())
    }

    pub(super) fn read_timeout(&self) -> Option<Duration> {
        time(&self.options.read)
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        time(&self.options.write)
    }
}

fn time(nanos: &AtomicU64) -> Option<Duration> {
    Some(nanos.load(Relaxed)).filter(|&nanos| nanos > 0).map(Duration::from_nanos)
}

fn check(time: Option<Duration>) -> io::Result<()> {
    if time == Some(Duration::ZERO) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
    }
    Ok(())
}

/// The methods that every socket type has, over its field `socket`.
macro_rules! socket_methods {
    ($type:ident, $inner:path) => {
        impl $type {
            /// Another handle of the same socket: they share options, time-outs and the connection.
            ///
            /// # Errors
            /// The kernel gives no descriptor.
            pub fn try_clone(&self) -> io::Result<$type> {
                let clone = self.socket.get().try_clone().map_err(explain)?;
                Ok($type { socket: self.socket.clone_as(clone) })
            }

            /// The error that the kernel has noted for the socket, which is cleared.
            ///
            /// # Errors
            /// The kernel's refusal.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.get().take_error()
            }

            /// Whether calls fail with [`io::ErrorKind::WouldBlock`] instead of waiting; clones are meant, too.
            ///
            /// # Errors
            /// None; `std`'s has.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.socket.set_nonblocking(nonblocking);
                Ok(())
            }
        }

        impl From<$inner> for $type {
            fn from(inner: $inner) -> $type {
                $type { socket: Socket::adopt(inner) }
            }
        }

        impl From<$type> for $inner {
            fn from(this: $type) -> $inner {
                this.socket.release()
            }
        }

        $crate::like_std::descriptor!($type, $inner, this => this.socket.get());
    };
}

/// Time-outs of reads and writes.
macro_rules! timeout_methods {
    ($type:ident) => {
        impl $type {
            /// How long reads wait; `None`: for ever. After it they fail with [`io::ErrorKind::WouldBlock`], as
            /// `std`'s.
            ///
            /// # Errors
            /// `InvalidInput` for a duration of zero.
            pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
                self.socket.set_read_timeout(time)
            }

            /// How long writes wait; `None`: for ever. After it they fail with [`io::ErrorKind::WouldBlock`].
            ///
            /// # Errors
            /// `InvalidInput` for a duration of zero.
            pub fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
                self.socket.set_write_timeout(time)
            }

            /// How long reads wait.
            ///
            /// # Errors
            /// None; `std`'s has.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.read_timeout())
            }

            /// How long writes wait.
            ///
            /// # Errors
            /// None; `std`'s has.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.write_timeout())
            }
        }
    };
}

/// `Read` and `Write` for a stream.
macro_rules! stream_io {
    ($type:ident, $inner:path) => {
        $crate::like_std::reads!($type, $inner, |this, call| this.socket.read(call));
        $crate::like_std::writes!($type, $inner, |this, call| this.socket.write(call));
    };
}

pub(super) use {socket_methods, stream_io, timeout_methods};
