//! The segment of a window: memory that all members map.
//!
//! ```text
//!   line 0: the cookie │ line 1 + r: the locks of member r │ from the next page on: the members' memory, one after the other
//! ```
//! The first member makes it as a `memfd`, which has no name and is gone with its last user. The others open it through
//! `/proc/PID/fd`, which the kernel allows to processes of the same user, and find the cookie there that they were told:
//! in another name space of processes the same number is another process.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use newmad::plumbing::shared_locks::{FairLock, SharedMutex};

const LINE: usize = 128;
pub(super) const PAGE: usize = 4096;

/// The locks of a member.
#[repr(C, align(128))]
#[derive(Default)]
pub(super) struct Locks {
    /// `MPI_Win_lock`.
    pub(super) epoch: FairLock,
    /// Accumulations.
    pub(super) update: SharedMutex,
    /// For how many locks of epochs the member waits, or holds them.
    pub(super) entered: AtomicU32,
}

const _: () = assert!(size_of::<Locks>() == LINE);

/// See the module.
pub(super) struct Segment {
    base: NonNull<u8>,
    bytes: usize,
    members: usize,
}

// SAFETY: shared memory; its first page is accessed as atomics, the rest is the program's.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Bytes in front of the members' memory.
pub(super) fn head(members: usize) -> usize {
    ((members + 1) * LINE).next_multiple_of(PAGE)
}

impl Segment {
    /// Makes one with so many bytes for the members' memory.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn create(
        members: usize,
        memory: usize,
        cookie: u64,
    ) -> std::io::Result<(Segment, File)> {
        let bytes = head(members).checked_add(memory).ok_or(std::io::ErrorKind::OutOfMemory)?;
        pioman::plumbing::check_file_size(bytes as u64)?;
        // SAFETY: the name is a string.
        let fd = unsafe { libc::memfd_create(c"madmpi-window".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: it is new, and nothing else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes as u64)?;
        let segment = Segment::map(&file, members, bytes)?;
        segment.cookie().store(cookie, Ordering::Release);
        Ok((segment, file))
    }

    /// Maps the segment that process `pid` has made.
    ///
    /// # Errors
    /// The kernel's; it is another file.
    pub(super) fn open(
        (pid, fd): (u64, u64),
        members: usize,
        memory: usize,
        cookie: u64,
    ) -> std::io::Result<Segment> {
        let file =
            OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}"))?;
        let bytes = head(members).saturating_add(memory);
        if file.metadata()?.len() != bytes as u64 {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let segment = Segment::map(&file, members, bytes)?;
        match segment.cookie().load(Ordering::Acquire) == cookie {
            true => Ok(segment),
            false => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }

    fn map(file: &File, members: usize, bytes: usize) -> std::io::Result<Segment> {
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Segment { base, bytes, members })
            }
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn cookie(&self) -> &AtomicU64 {
        // SAFETY: the first line, which is accessed as an atomic only.
        unsafe { self.base.cast().as_ref() }
    }

    /// The locks of a member.
    pub(super) fn locks(&self, member: usize) -> &Locks {
        assert!(member < self.members);
        // SAFETY: the head has a line for each member; all bytes are valid, and accessed as atomics only.
        unsafe { self.base.add((member + 1) * LINE).cast().as_ref() }
    }

    /// The address here of the members' memory.
    pub(super) fn memory(&self) -> usize {
        self.base.as_ptr().expose_provenance() + head(self.members)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: this mapping's own; the window that uses it is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
