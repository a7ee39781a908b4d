//! An open file.

use std::fs::{FileTimes, Metadata, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use marcel::sync::Mutex;

use crate::io::uring::call::{Call, MAX_LEN, POSITION, is_regular};
use crate::io::uring::make::make;
use crate::io::uring::transfer::Transfer;
use crate::like_std::{reads_by_reference, writes_by_reference};
use crate::ltask::inside::is_inside;
use crate::progress::policy::hints::Hint;

/// Most buffers of a vectored call.
const MAX_VECTORS: usize = 1024;

/// As [`std::fs::File`]: same names, same meaning, but a green thread that reads, writes or syncs blocks alone.
/// Positioned reads and writes are those of [`FileExt`] (on a pipe, which has no positions, a ring ignores the offset
/// where the system call is refused).
///
/// # Context
/// Green and kernel threads; not the progress path.
///
/// # Blocking
/// The green thread, or the kernel thread. Only [`File::try_clone`], [`Seek`] and dropping make their system call
/// at once: they do not wait for a disk.
#[derive(Debug)]
pub struct File {
    file: Arc<std::fs::File>,
    /// Of a regular file: held to read or write at the position, or to move it. The kernel's own calls lock it
    /// themselves, a ring's do not. Clones share it, as they share the position.
    position: Option<Arc<Mutex<()>>>,
}

impl File {
    /// Waits until data and metadata are on the disk.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_all`].
    pub fn sync_all(&self) -> io::Result<()> {
        self.call(Call::Sync { fd: self.as_raw_fd(), data_only: false })
    }

    /// Waits until the data is on the disk.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_data`].
    pub fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync { fd: self.as_raw_fd(), data_only: true })
    }

    /// Makes sure that the blocks from `offset` on are there, and the file is long enough, so that writing them cannot
    /// run out of space (`fallocate`).
    ///
    /// # Errors
    /// The kernel's: no space, or a file system that cannot.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.call(Call::Allocate { fd: self.as_raw_fd(), mode: 0, offset, len })
    }

    /// A call without memory.
    fn call(&self, call: Call) -> io::Result<()> {
        loop {
            // SAFETY: it refers to our descriptor only.
            match unsafe { make(call, Hint::Long) } {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }

    /// Cuts the file or fills it up with zeroes.
    ///
    /// # Errors
    /// As [`std::fs::File::set_len`].
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        marcel::blocking(|| self.file.set_len(size))
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// As [`std::fs::File::metadata`].
    pub fn metadata(&self) -> io::Result<Metadata> {
        marcel::blocking(|| self.file.metadata())
    }

    /// Bytes of the file. The kernel is asked for nothing else: [`File::metadata`] asks for times, too, and Linux 6.13 then
    /// has the next write update the inode.
    ///
    /// # Blocking
    /// The kernel thread: a network file system asks its server. Local ones know.
    ///
    /// # Errors
    /// As [`std::fs::File::metadata`].
    pub fn size(&self) -> io::Result<u64> {
        let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
        let (fd, flags) = (self.as_raw_fd(), libc::AT_EMPTY_PATH);
        // SAFETY: an empty path; room for the answer.
        let asked =
            unsafe { libc::statx(fd, c"".as_ptr(), flags, libc::STATX_SIZE, found.as_mut_ptr()) };
        // SAFETY: zeroes, or what the kernel has written.
        let found = unsafe { found.assume_init() };
        // Kernels before 4.11, and some filters of system calls, do not know it.
        match asked == 0 && found.stx_mask & libc::STATX_SIZE != 0 {
            true => Ok(found.stx_size),
            false => self.file.metadata().map(|found| found.len()),
        }
    }

    /// Changes the permissions.
    ///
    /// # Errors
    /// As [`std::fs::File::set_permissions`].
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        marcel::blocking(|| self.file.set_permissions(permissions))
    }

    /// Changes the times.
    ///
    /// # Errors
    /// As [`std::fs::File::set_times`].
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        marcel::blocking(|| self.file.set_times(times))
    }

    /// Another handle with the same position.
    ///
    /// # Errors
    /// As [`std::fs::File::try_clone`].
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File { file: Arc::new(self.file.try_clone()?), position: self.position.clone() })
    }

    /// Closes it, and says what the last write-back had to say (dropping does not).
    ///
    /// # Errors
    /// The kernel's. The file is closed all the same. While transfers use it, they close it when they have ended.
    pub fn close(self) -> io::Result<()> {
        let Ok(file) = Arc::try_unwrap(self.file) else { return Ok(()) };
        let fd = file.into_raw_fd();
        // SAFETY: the descriptor is ours alone.
        unsafe { make(Call::Close { fd }, Hint::Short) }.map(drop)
    }

    /// Reads what the page cache has at `offset`, up to `buffer.len()` bytes. Fewer: the rest is not in memory, or the file
    /// ends. `None`: nothing is in memory, or the file system cannot tell (tmpfs).
    ///
    /// # Blocking
    /// No.
    pub fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let (fd, to, len) = (self.as_raw_fd(), buffer.as_mut_ptr(), clamp(buffer.len()));
        let call = Call::Read { fd, to, len, offset: position(offset) };
        // SAFETY: the borrow lasts until this returns.
        unsafe { call.run_at_once() }.map(|n| n as usize)
    }

    /// Begins to read up to `buffer.len()` bytes at `offset`.
    ///
    /// # Blocking
    /// No; but a kernel thread on a machine without io_uring makes the call at once.
    pub fn start_read_at(&self, buffer: Vec<u8>, offset: u64) -> Transfer {
        let fd = self.as_raw_fd();
        let offset = position(offset);
        let call = |to, len| Call::Read { fd, to, len: clamp(len), offset };
        // SAFETY: that memory, our descriptor.
        unsafe { Transfer::begin(self.file.clone(), buffer, call) }
    }

    /// Begins to read up to `buffer.len()` bytes from the position on; of a pipe, when some come. A call
    /// that reads or writes at the position of a file meanwhile may use the same one.
    ///
    /// # Blocking
    /// As [`File::start_read_at`].
    pub fn start_read(&self, buffer: Vec<u8>) -> Transfer {
        let fd = self.as_raw_fd();
        let call = |to, len| Call::Read { fd, to, len: clamp(len), offset: POSITION };
        // SAFETY: that memory, our descriptor.
        unsafe { Transfer::begin(self.file.clone(), buffer, call) }
    }

    /// Begins to write `buffer` at `offset`.
    ///
    /// # Blocking
    /// As [`File::start_read_at`].
    pub fn start_write_at(&self, buffer: Vec<u8>, offset: u64) -> Transfer {
        let fd = self.as_raw_fd();
        let offset = position(offset);
        let call = |from: *mut u8, len| Call::Write { fd, from, len: clamp(len), offset };
        // SAFETY: that memory, our descriptor.
        unsafe { Transfer::begin(self.file.clone(), buffer, call) }
    }

    /// Begins to bring data and metadata to the disk.
    ///
    /// # Blocking
    /// As [`File::start_read_at`].
    pub fn start_sync(&self) -> Transfer {
        let fd = self.as_raw_fd();
        // SAFETY: our descriptor.
        unsafe {
            Transfer::begin(self.file.clone(), Vec::new(), |_, _| Call::Sync {
                fd,
                data_only: false,
            })
        }
    }

    /// The standard library's handle; a duplicate while transfers use this one.
    ///
    /// # Errors
    /// Of duplicating.
    pub fn into_std(self) -> io::Result<std::fs::File> {
        Arc::try_unwrap(self.file).or_else(|shared| shared.try_clone())
    }

    /// Calls `work` while no other call moves the position.
    fn at_position<T>(&self, work: impl FnOnce() -> T) -> T {
        let _held = self.position.as_ref().and_then(|position| match is_inside() {
            true => position.try_lock(), // a light task must not wait
            false => Some(position.lock()),
        });
        work()
    }

    fn read_from(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fd(self.as_raw_fd(), buffer, offset)
    }

    fn write_to(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        write_fd(self.as_raw_fd(), data, offset)
    }
}

/// Reads from a descriptor of the caller's.
pub(crate) fn read_fd(fd: RawFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let (to, len) = (buffer.as_mut_ptr(), clamp(buffer.len()));
    // SAFETY: the borrow lasts until this returns or unwinds.
    unsafe { make(Call::Read { fd, to, len, offset }, Hint::Short) }
}

/// Writes to a descriptor of the caller's.
pub(crate) fn write_fd(fd: RawFd, data: &[u8], offset: u64) -> io::Result<usize> {
    let (from, len) = (data.as_ptr(), clamp(data.len()));
    // SAFETY: as above.
    unsafe { make(Call::Write { fd, from, len, offset }, Hint::Short) }
}

fn clamp(len: usize) -> u32 {
    len.min(MAX_LEN) as u32
}

/// An offset that cannot be mistaken for the position: beyond what any file has, the kernel refuses both alike.
fn position(offset: u64) -> u64 {
    if offset == POSITION { POSITION - 1 } else { offset }
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, position(offset))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(data, position(offset))
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.at_position(|| self.read_from(buffer, POSITION))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let n = buffers.len().min(MAX_VECTORS) as u32;
        let to = buffers.as_mut_ptr().cast();
        let call = Call::Readv { fd: self.as_raw_fd(), to, n, offset: POSITION };
        // SAFETY: an `IoSliceMut` is an `iovec`; the borrow lasts until this returns or unwinds.
        self.at_position(|| unsafe { make(call, Hint::Short) })
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.at_position(|| self.write_to(data, POSITION))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = buffers.len().min(MAX_VECTORS) as u32;
        let from = buffers.as_ptr().cast();
        let call = Call::Writev { fd: self.as_raw_fd(), from, n, offset: POSITION };
        // SAFETY: an `IoSlice` is an `iovec`; the borrow lasts until this returns or unwinds.
        self.at_position(|| unsafe { make(call, Hint::Short) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at_position(|| (&*self.file).seek(to))
    }
}

reads_by_reference!(File);
writes_by_reference!(File);

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        let position = is_regular(file.as_raw_fd()).then(Arc::default);
        File { file: Arc::new(file), position }
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> File {
        std::fs::File::from(fd).into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
