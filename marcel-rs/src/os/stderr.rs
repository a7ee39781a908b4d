//! The file descriptor 2, without the lock of `std::io::stderr`, which a stuck thread may hold.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// Has something written to file descriptor 2.
pub(crate) fn to_stderr(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    // SAFETY: borrowed, not closed. If the program has closed it, writing is an error, which is ignored.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    let mut out = BufWriter::new(&*stderr);
    let _ = write(&mut out).and_then(|()| out.flush());
}
