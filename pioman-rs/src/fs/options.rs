//! How a file is opened.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::File;
use crate::io::uring::call::Call;
use crate::io::uring::make::make;
use crate::progress::policy::hints::Hint;

/// As [`std::fs::OpenOptions`], and its Unix extensions.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom: i32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Nothing is chosen yet.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom: 0,
        }
    }

    /// For reading.
    pub fn read(&mut self, on: bool) -> &mut Self {
        self.read = on;
        self
    }

    /// For writing.
    pub fn write(&mut self, on: bool) -> &mut Self {
        self.write = on;
        self
    }

    /// For writing at the end, wherever that is at each write.
    pub fn append(&mut self, on: bool) -> &mut Self {
        self.append = on;
        self
    }

    /// Emptied first.
    pub fn truncate(&mut self, on: bool) -> &mut Self {
        self.truncate = on;
        self
    }

    /// Created if it is not there.
    pub fn create(&mut self, on: bool) -> &mut Self {
        self.create = on;
        self
    }

    /// Created; an error if it is there.
    pub fn create_new(&mut self, on: bool) -> &mut Self {
        self.create_new = on;
        self
    }

    /// Permissions of a file that is created, less the process's mask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// More flags for `open`; those of access are not taken.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.custom = flags;
        self
    }

    /// Opens a file.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// As [`std::fs::OpenOptions::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        let flags = self.flags().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        loop {
            let call = Call::Open { path: path.as_ptr(), flags, mode: self.mode };
            // SAFETY: `path` is in place until this returns or unwinds.
            match unsafe { make(call, Hint::Short) } {
                // SAFETY: the kernel has just made it, for us.
                Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// As the standard library has it: `None` for combinations that make no sense.
    fn flags(&self) -> Option<i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return None,
        };
        let creates = self.create || self.create_new;
        if (!self.write && !self.append && (self.truncate || creates))
            || (self.append && self.truncate && !self.create_new)
        {
            return None;
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => libc::O_CREAT,
            (false, true, false) => libc::O_TRUNC,
            (true, true, false) => libc::O_CREAT | libc::O_TRUNC,
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
        };
        Some(libc::O_CLOEXEC | access | creation | (self.custom & !libc::O_ACCMODE))
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing; empties it, or creates it.
    ///
    /// # Errors
    /// As [`std::fs::File::create`].
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing that is not there yet.
    ///
    /// # Errors
    /// As [`std::fs::File::create_new`].
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Other ways to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }
}
