//! What the kernel itself takes: a thread blocked in a system call.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::experiments::detect::child;
use crate::experiments::detect::stage::Stage;

/// The stage whose waiter blocks in the kernel for an event of this source.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn stage(source: &str) -> Result<Arc<dyn Stage>, String> {
    Ok(match source {
        "shm" => Arc::new(Futex(AtomicU32::new(0))),
        "timer" => Arc::new(Sleep),
        "tcp" => {
            let (near, far) = connection()?;
            Arc::new(Ends { near, far, bytes: 1, what: "a TCP connection" })
        }
        "pipe" => {
            let (near, far) = std::io::pipe().map_err(|e| format!("a pipe: {e}"))?;
            Arc::new(Ends { near, far, bytes: 1, what: "a pipe" })
        }
        "child" => child::kernel(),
        _ => Arc::new(Blocked(EventFd::new(true)?)),
    })
}

/// An event descriptor.
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// A fresh one, for which its readers wait or not.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn new(blocks: bool) -> Result<EventFd, String> {
        let blocking = if blocks { EventfdFlags::empty() } else { EventfdFlags::NONBLOCK };
        let fd = eventfd(0, EventfdFlags::CLOEXEC | blocking);
        fd.map(EventFd).map_err(|e| format!("eventfd: {e}"))
    }

    /// Its number.
    pub(crate) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Adds one to the counter.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes()); // full: it has been rung
    }

    /// Empties the counter; whether there was anything. Blocks until there is, unless made not to.
    pub(crate) fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]) == Ok(8)
    }
}

impl From<EventFd> for OwnedFd {
    fn from(fd: EventFd) -> OwnedFd {
        fd.0
    }
}

/// `read(2)`.
struct Blocked(EventFd);

impl Stage for Blocked {
    fn raise(&self) {
        self.0.ring();
    }
    fn wait(&self, _: u64) -> Result<(), String> {
        while !self.0.take() {}
        Ok(())
    }
}

/// A word in memory, and `futex(2)`.
struct Futex(AtomicU32);

impl Stage for Futex {
    fn prepare(&self) -> Result<(), String> {
        self.0.store(0, SeqCst);
        Ok(())
    }
    fn raise(&self) {
        self.0.store(1, SeqCst);
        // SAFETY: the word is alive; no other pointers are used.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            )
        };
    }
    fn wait(&self, _: u64) -> Result<(), String> {
        while self.0.load(SeqCst) == 0 {
            let timeout = null::<libc::timespec>();
            // SAFETY: the word is alive; without a time-out.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    0,
                    timeout,
                )
            };
        }
        Ok(())
    }
}

/// `clock_nanosleep(2)` until a moment.
struct Sleep;

impl Stage for Sleep {
    fn is_timed(&self) -> bool {
        true
    }
    fn wait(&self, due: u64) -> Result<(), String> {
        let until = Duration::from_nanos(due);
        let until = libc::timespec {
            tv_sec: until.as_secs() as i64,
            tv_nsec: i64::from(until.subsec_nanos()),
        };
        let flag = libc::TIMER_ABSTIME;
        // SAFETY: `until` is readable; nothing is written.
        while unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flag, &until, std::ptr::null_mut())
        } == libc::EINTR
        {}
        Ok(())
    }
}

/// Two ends of a TCP connection over the loop-back device.
///
/// # Errors
/// What the kernel says.
pub(crate) fn connection() -> Result<(TcpStream, TcpStream), String> {
    let make = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let far = listener.accept()?.0;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        Ok((near, far))
    };
    make().map_err(|e: std::io::Error| format!("a TCP connection: {e}"))
}

/// A thread reads at one end what another writes at the other.
pub(super) struct Ends<R, W> {
    pub(super) near: R,
    pub(super) far: W,
    pub(super) bytes: usize,
    pub(super) what: &'static str,
}

impl<R: Send + Sync, W: Send + Sync> Stage for Ends<R, W>
where
    for<'a> &'a R: Read,
    for<'a> &'a W: Write,
{
    fn raise(&self) {
        // A loss shows in the wait. (Eight bytes that make one, for an event descriptor.)
        let _ = (&self.far).write_all(&1u64.to_ne_bytes()[..self.bytes]);
    }
    fn wait(&self, _: u64) -> Result<(), String> {
        let mut buffer = [0; 8];
        let read = (&self.near).read_exact(&mut buffer[..self.bytes]);
        read.map_err(|e| format!("{}: {e}", self.what))
    }
}
