//! Files: `std::fs`'s names and meaning; a green thread that waits for a disk blocks alone.
//!
//! ```
//! # let runtime = pioman::Runtime::new()?;
//! # runtime.run(|| {
//! use pioman::fs;
//! use std::os::unix::fs::FileExt;
//!
//! let path = std::env::temp_dir().join(format!("pioman-doc-{}", std::process::id()));
//! fs::write(&path, "hello, disk")?;
//! let file = fs::File::open(&path)?;
//! let mut word = [0; 4];
//! file.read_exact_at(&mut word, 7)?;
//! assert_eq!(&word, b"disk");
//! fs::remove_file(&path)
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How
//! In a green thread: what a read finds in the page cache it takes at once, by a system call that does not wait. Else,
//! opening, reading, writing and syncing go by the manager's `io_uring` ([`crate::Manager::file_engine`]). What has to
//! do with names and metadata, and everything where there is no ring, is made by [`marcel::blocking()`]. A plain kernel
//! thread makes the system call: it blocks no green thread. [`File::start_read_at`] and its like do not wait at all:
//! from any thread, by the ring.
//!
//! Time-outs and cancellation: a [`crate::Transfer`] has both. The blocking calls have none, as in `std`; in a runtime
//! that stops they are cancelled, and their buffers are not left before the kernel has done with them.

mod file;
mod mapping;
mod options;

use std::fs::{Metadata, Permissions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub use self::file::File;
pub use self::mapping::Mapping;
pub use self::options::OpenOptions;

/// Most that one step of [`copy`] moves.
const STEP: usize = 256 << 10;

/// The contents of a file, as [`std::fs::read`].
///
/// # Blocking
/// The green thread, or the kernel thread.
///
/// # Errors
/// Of opening and reading.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut contents = Vec::new();
    contents.try_reserve_exact(usize::try_from(size).map_err(io::Error::other)?)?;
    file.read_to_end(&mut contents)?;
    Ok(contents)
}

/// The contents of a file, as [`std::fs::read_to_string`].
///
/// # Blocking
/// As [`read`].
///
/// # Errors
/// As [`read`]; the contents are not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

/// Makes `contents` the contents of a file, as [`std::fs::write`].
///
/// # Blocking
/// As [`read`].
///
/// # Errors
/// Of opening and writing.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Copies contents and permissions, as [`std::fs::copy`]; how many bytes. (By the kernel, on a thread that blocks: in
/// steps, so that a runtime that stops does not wait for all of it.)
///
/// # Blocking
/// As [`read`].
///
/// # Errors
/// Of opening, reading and writing; what is copied is no regular file.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let source = File::open(from)?;
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        let why = "the source path is neither a regular file nor a symlink to a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
    let target = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(to)?;
    if target.metadata()?.is_file() {
        target.set_permissions(metadata.permissions())?;
    }
    let (mut source, mut target) = (source.into_std()?, target.into_std()?);
    let mut total = 0;
    loop {
        // The standard library finds the best way for each pair of files.
        match marcel::blocking(|| {
            io::copy(&mut Read::by_ref(&mut source).take(64 * STEP as u64), &mut target)
        })? {
            0 => return Ok(total),
            n => total += n,
        }
    }
}

/// Functions of `std::fs` as they are, on a thread that blocks.
macro_rules! as_in_std {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident),+) -> $result:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Blocking
        /// The green thread, or the kernel thread.
        ///
        /// # Errors
        /// As its namesake.
        pub fn $name($($arg: impl AsRef<Path>),+) -> io::Result<$result> {
            $(let $arg = $arg.as_ref();)+
            marcel::blocking(|| std::fs::$name($($arg),+))
        }
    )*};
}

as_in_std! {
    /// What is known of what a path leads to, as [`std::fs::metadata`].
    fn metadata(path) -> Metadata;
    /// What is known of a path, which may be a link, as [`std::fs::symlink_metadata`].
    fn symlink_metadata(path) -> Metadata;
    /// Whether there is something, as [`std::fs::exists`].
    fn exists(path) -> bool;
    /// The path without links, as [`std::fs::canonicalize`].
    fn canonicalize(path) -> PathBuf;
    /// What a link says, as [`std::fs::read_link`].
    fn read_link(path) -> PathBuf;
    /// Removes a file, as [`std::fs::remove_file`].
    fn remove_file(path) -> ();
    /// Gives a file another name, as [`std::fs::rename`].
    fn rename(from, to) -> ();
    /// Gives a file one more name, as [`std::fs::hard_link`].
    fn hard_link(original, link) -> ();
    /// Makes a folder, as [`std::fs::create_dir`].
    fn create_dir(path) -> ();
    /// Makes a folder and those above it, as [`std::fs::create_dir_all`].
    fn create_dir_all(path) -> ();
    /// Removes an empty folder, as [`std::fs::remove_dir`].
    fn remove_dir(path) -> ();
    /// Removes a folder and what is in it, as [`std::fs::remove_dir_all`].
    fn remove_dir_all(path) -> ();
}

/// Changes the permissions, as [`std::fs::set_permissions`].
///
/// # Blocking
/// The green thread, or the kernel thread.
///
/// # Errors
/// As its namesake.
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    marcel::blocking(|| std::fs::set_permissions(path, permissions))
}

/// What is in a folder, as [`std::fs::read_dir`], but all of it at once.
///
/// # Blocking
/// The green thread, or the kernel thread.
///
/// # Errors
/// As its namesake.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<std::fs::DirEntry>> {
    let path = path.as_ref();
    marcel::blocking(|| std::fs::read_dir(path)?.collect())
}
