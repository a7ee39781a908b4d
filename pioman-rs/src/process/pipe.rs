//! A child's standard input, output and error.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::pipe::{PipeReader, PipeWriter};

macro_rules! pipes {
    ($($(#[$doc:meta])* $name:ident: $end:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($end);

        impl From<std::process::$name> for $name {
            fn from(pipe: std::process::$name) -> $name {
                $name(OwnedFd::from(pipe).into())
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }
    )*};
}

pipes! {
    /// Where a child's input comes from. Dropping it is the end of the input.
    ChildStdin: PipeWriter;
    /// What a child writes.
    ChildStdout: PipeReader;
    /// What a child writes to its standard error.
    ChildStderr: PipeReader;
}

impl Write for ChildStdin {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for ChildStdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Read for ChildStderr {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
