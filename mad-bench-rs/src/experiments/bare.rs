//! Ping-pong without the library, between the same two processes: what the machine itself takes at that
//! moment. Figures of a virtual machine drift by a factor of three with its placement; ratios do not.
//!
//! - *tcp*: a socket pair of its own, on the addresses and with the options of the library's (no delay, not blocking),
//!   polled.
//! - *shm*: a page of shared memory with a mailbox for each direction; the sender copies the message in and
//!   raises a counter, the receiver polls the counter and copies it out. No queue, no matching, no header:
//!   less than any library has to do.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::*};

use newmad::Session;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::across::address;
use crate::experiments::sockets::{Direction, Sockets, io};
use crate::harness::worker::WorkResult;

const HELLO: u64 = 2;
const LINE: usize = 128;

/// A way to the other process.
pub(crate) enum Bare {
    /// A socket.
    Tcp(Sockets),
    /// Mailboxes.
    Shm(Mailboxes),
}

impl Bare {
    /// Connects ranks 0 and 1; messages have at most `most` bytes.
    ///
    /// # Errors
    /// When the kernel refuses something.
    pub(crate) fn connect(session: &Session, most: usize) -> WorkResult<Bare> {
        match session.driver() {
            "tcp" => Sockets::connect(session, &[address()?]).map(Bare::Tcp),
            _ => Mailboxes::open(session, most).map(Bare::Shm),
        }
    }

    /// One message there and back (rank 0), or the other side of it.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) fn trip(&mut self, rank: u32, buffer: &mut [u8]) -> WorkResult {
        if rank == 0 {
            self.send(buffer)?;
            self.receive(buffer)
        } else {
            self.receive(buffer)?;
            self.send(buffer)
        }
    }

    fn send(&mut self, buffer: &mut [u8]) -> WorkResult {
        match self {
            Bare::Tcp(sockets) => sockets.pass(buffer, 0, Direction::Out),
            Bare::Shm(mailboxes) => {
                mailboxes.put(buffer);
                Ok(())
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> WorkResult {
        match self {
            Bare::Tcp(sockets) => sockets.pass(buffer, 0, Direction::In),
            Bare::Shm(mailboxes) => {
                mailboxes.take(buffer);
                Ok(())
            }
        }
    }
}

/// A mailbox for each direction in memory that both processes have mapped.
pub(crate) struct Mailboxes {
    base: *mut u8,
    bytes: usize,
    /// Offsets of the mailbox that this process fills and of the one that it empties.
    mine: usize,
    theirs: usize,
    sent: u64,
    taken: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread, and there is one owner.
unsafe impl Send for Mailboxes {}

impl Mailboxes {
    fn open(session: &Session, most: usize) -> WorkResult<Mailboxes> {
        let each = LINE + most.next_multiple_of(LINE);
        let bytes = 2 * each;
        // Rank 0 makes the memory, rank 1 opens it by way of rank 0's descriptor.
        let fd = if session.rank() == 0 {
            let fd = memfd_create("mad-bare", MemfdFlags::CLOEXEC).map_err(io)?;
            ftruncate(&fd, bytes as u64).map_err(io)?;
            let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
            session.send(1, HELLO, path.as_bytes())?;
            let mut done = [0; 1];
            session.recv(1, HELLO, &mut done)?;
            fd
        } else {
            let mut path = [0; 64];
            let status = session.recv(0, HELLO, &mut path)?;
            let path = String::from_utf8_lossy(&path[..status.len]).into_owned();
            let file = std::fs::File::options().read(true).write(true).open(path).map_err(io)?;
            session.send(0, HELLO, &[1])?;
            OwnedFd::from(file)
        };
        // SAFETY: a fresh mapping of `bytes` of the file, at an address of the kernel's choice.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io(std::io::Error::last_os_error()).into());
        }
        let (mine, theirs) = if session.rank() == 0 { (0, each) } else { (each, 0) };
        Ok(Mailboxes { base: base.cast(), bytes, mine, theirs, sent: 0, taken: 0 })
    }

    fn counter(&self, mailbox: usize) -> &AtomicU64 {
        // SAFETY: inside the mapping, aligned to a line, only ever used as an atomic.
        unsafe { &*self.base.add(mailbox).cast::<AtomicU64>() }
    }

    fn put(&mut self, message: &[u8]) {
        let to = self.base.wrapping_add(self.mine + LINE);
        // SAFETY: the mailbox holds the longest message, and is ours until the counter says otherwise: the
        // peer has answered the message before.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), to, message.len()) };
        self.sent += 1;
        self.counter(self.mine).store(self.sent, Release);
    }

    fn take(&mut self, message: &mut [u8]) {
        self.taken += 1;
        while self.counter(self.theirs).load(Acquire) != self.taken {
            std::hint::spin_loop();
        }
        let from = self.base.wrapping_add(self.theirs + LINE);
        // SAFETY: the mailbox holds the longest message, and is ours to read until we answer.
        unsafe { std::ptr::copy_nonoverlapping(from, message.as_mut_ptr(), message.len()) };
    }
}

impl Drop for Mailboxes {
    fn drop(&mut self) {
        // SAFETY: mapped in `open`, and no reference into it is left.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
