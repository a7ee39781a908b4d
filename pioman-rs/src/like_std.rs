//! What the types that stand for `std`'s have in common: conversions of descriptors, `Read` and `Write`.

/// The conversions of `$type`, which wraps the `$inner` that `$borrow` borrows, and which `From` makes of one another.
macro_rules! descriptor {
    ($type:ident, $inner:path, $this:ident => $borrow:expr) => {
        const _: () = {
            use std::fmt;
            use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

            impl From<OwnedFd> for $type {
                fn from(fd: OwnedFd) -> $type {
                    <$inner>::from(fd).into()
                }
            }

            impl From<$type> for OwnedFd {
                fn from(this: $type) -> OwnedFd {
                    <$inner>::from(this).into()
                }
            }

            impl AsFd for $type {
                fn as_fd(&self) -> BorrowedFd<'_> {
                    let $this = self;
                    $borrow.as_fd()
                }
            }

            impl AsRawFd for $type {
                fn as_raw_fd(&self) -> RawFd {
                    self.as_fd().as_raw_fd()
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
                    let $this = self;
                    $borrow.fmt(f)
                }
            }
        };
    };
}

/// `Read` for a reference, by a call on `$inner` that `$wait` makes when it is possible, and for the type itself.
macro_rules! reads {
    ($type:ident, $inner:path, |$this:ident, $call:ident| $wait:expr) => {
        const _: () = {
            use std::io::{IoSliceMut, Read, Result};

            impl Read for &$type {
                #[inline]
                fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
                    let ($this, $call) = (*self, |mut inner: &$inner| inner.read(buffer));
                    $wait
                }
                fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
                    let ($this, $call) = (*self, |mut inner: &$inner| inner.read_vectored(buffers));
                    $wait
                }
            }
        };
        $crate::like_std::reads_by_reference!($type);
    };
}

/// `Read` for a type whose references have it.
macro_rules! reads_by_reference {
    ($type:ident) => {
        const _: () = {
            use std::io::{IoSliceMut, Read, Result};

            impl Read for $type {
                #[inline]
                fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
                    (&*self).read(buffer)
                }
                fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
                    (&*self).read_vectored(buffers)
                }
            }
        };
    };
}

/// `Write`, as [`reads`].
macro_rules! writes {
    ($type:ident, $inner:path, |$this:ident, $call:ident| $wait:expr) => {
        const _: () = {
            use std::io::{IoSlice, Result, Write};

            impl Write for &$type {
                #[inline]
                fn write(&mut self, bytes: &[u8]) -> Result<usize> {
                    let ($this, $call) = (*self, |mut inner: &$inner| inner.write(bytes));
                    $wait
                }
                fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize> {
                    let ($this, $call) = (*self, |mut inner: &$inner| inner.write_vectored(slices));
                    $wait
                }
                fn flush(&mut self) -> Result<()> {
                    Ok(())
                }
            }
        };
        $crate::like_std::writes_by_reference!($type);
    };
}

/// `Write` for a type whose references have it.
macro_rules! writes_by_reference {
    ($type:ident) => {
        const _: () = {
            use std::io::{IoSlice, Result, Write};

            impl Write for $type {
                #[inline]
                fn write(&mut self, bytes: &[u8]) -> Result<usize> {
                    (&*self).write(bytes)
                }
                fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize> {
                    (&*self).write_vectored(slices)
                }
                fn flush(&mut self) -> Result<()> {
                    Ok(())
                }
            }
        };
    };
}

pub(crate) use {descriptor, reads, reads_by_reference, writes, writes_by_reference};
