//! Pipes with `std`'s names, whose ends block one green thread only.
//!
//! Also for one end of a pipe to another process: [`PipeReader`] is made from [`std::process::ChildStdout`] and the
//! like by way of [`OwnedFd`]. The descriptor becomes non-blocking, for all descriptors of its open file (not the other
//! end).

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::fd::{Interest, Registered, set_nonblocking};
use crate::kernel_limits::explain;

/// A pipe: what is written to the second can be read from the first. [`std::io::pipe`].
///
/// # Errors
/// The kernel gives no descriptors.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = std::io::pipe().map_err(explain)?;
    Ok((reader.into(), writer.into()))
}

/// The end that is read from: [`std::io::PipeReader`], but it blocks one green thread only.
pub struct PipeReader(Registered<std::io::PipeReader>);

/// The end that is written to: [`std::io::PipeWriter`], but it blocks one green thread only.
pub struct PipeWriter(Registered<std::io::PipeWriter>);

macro_rules! end_of_pipe {
    ($type:ident) => {
        impl $type {
            /// Another handle of the same end.
            ///
            /// # Errors
            /// The kernel gives no descriptor.
            pub fn try_clone(&self) -> io::Result<$type> {
                let clone = self.0.get_ref().try_clone().map_err(explain)?;
                Ok($type(Registered::lazy(clone)))
            }

            /// The descriptor, to wait for with a deadline.
            pub fn registered(&self) -> &Registered<std::io::$type> {
                &self.0
            }
        }

        impl From<std::io::$type> for $type {
            fn from(inner: std::io::$type) -> $type {
                // Refused only for what is no descriptor.
                let _ = set_nonblocking(inner.as_fd(), true);
                $type(Registered::lazy(inner))
            }
        }

        impl From<$type> for std::io::$type {
            fn from(this: $type) -> std::io::$type {
                let inner = this.0.into_inner();
                let _ = set_nonblocking(inner.as_fd(), false);
                inner
            }
        }

        impl From<OwnedFd> for $type {
            fn from(fd: OwnedFd) -> $type {
                std::io::$type::from(fd).into()
            }
        }

        impl From<$type> for OwnedFd {
            fn from(this: $type) -> OwnedFd {
                std::io::$type::from(this).into()
            }
        }

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        impl IntoRawFd for $type {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }

        impl FromRawFd for $type {
            unsafe fn from_raw_fd(fd: RawFd) -> $type {
                // SAFETY: the caller's promise.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.get_ref().fmt(f)
            }
        }
    };
}

end_of_pipe!(PipeReader);
end_of_pipe!(PipeWriter);

impl Read for &PipeReader {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.io(Interest::Readable, |mut inner| inner.read(buffer))
    }
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.io(Interest::Readable, |mut inner| inner.read_vectored(buffers))
    }
}

impl Read for PipeReader {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for &PipeWriter {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.io(Interest::Writable, |mut inner| inner.write(bytes))
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.io(Interest::Writable, |mut inner| inner.write_vectored(slices))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for PipeWriter {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(slices)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
