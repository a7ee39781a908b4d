//! Pipes with `std`'s names, whose ends block one green thread only.
//!
//! Also for one end of a pipe to another process: [`PipeReader`] is made from [`std::process::ChildStdout`] and the
//! like by way of [`OwnedFd`](std::os::fd::OwnedFd). The descriptor becomes non-blocking, for all descriptors of its
//! open file (not the other end).

use std::io;
use std::os::fd::AsFd;

use crate::fd::{Interest, Registered, set_nonblocking};
use crate::kernel_limits::explain;
use crate::like_std::{descriptor, reads, writes};

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

        descriptor!($type, std::io::$type, this => this.0.get_ref());
    };
}

end_of_pipe!(PipeReader);
end_of_pipe!(PipeWriter);

reads!(PipeReader, std::io::PipeReader, |this, call| this.0.io(Interest::Readable, call));
writes!(PipeWriter, std::io::PipeWriter, |this, call| this.0.io(Interest::Writable, call));
