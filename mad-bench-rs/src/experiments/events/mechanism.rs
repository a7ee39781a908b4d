//! The mechanisms: how an event is raised, and how the receiver waits for it.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::clock::now_ns;
use crate::experiments::detect::kernel::EventFd;
use crate::experiments::events::page::Page;

/// When the handler began, for the one receiver that is in a process; 0: it has not been called since.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// The signal of [Goedefroit23].
const SIGNAL: i32 = libc::SIGUSR1;

/// How an event comes to its receiver. Descriptors are inherited by a raiser that is another process.
pub(super) enum Mechanism {
    /// `tgkill(2)` to a thread that runs.
    Signal,
    /// `read(2)` of an event descriptor.
    EventFd(File),
    /// `read(2)` of a pipe.
    Pipe(PipeReader, PipeWriter),
    /// `futex(2)` on a word in shared memory.
    Futex,
    /// A flag in shared memory that the receiver polls.
    Poll,
}

impl Mechanism {
    /// The mechanism of this name, ready for use by the calling process.
    ///
    /// # Errors
    /// What the kernel refuses; there is none of this name.
    pub(super) fn by_name(name: &str) -> Result<Mechanism, String> {
        Ok(match name {
            "signal" => {
                catch()?;
                Mechanism::Signal
            }
            "eventfd" => Mechanism::EventFd(File::from(OwnedFd::from(EventFd::new(true)?))),
            "pipe" => {
                let (reader, writer) = std::io::pipe().map_err(|e| format!("a pipe: {e}"))?;
                Mechanism::Pipe(reader, writer)
            }
            "futex" => Mechanism::Futex,
            "poll" => Mechanism::Poll,
            _ => return Err(format!("there is no mechanism {name}")),
        })
    }

    /// Raises an event for the receiver, whose process and kernel thread are `to`.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn raise(&self, page: &Page, to: [i32; 2]) -> Result<(), String> {
        match self {
            Mechanism::Signal => {
                // SAFETY: takes no pointers; the receiver handles the signal.
                let sent = unsafe { libc::syscall(libc::SYS_tgkill, to[0], to[1], SIGNAL) };
                match sent {
                    0 => Ok(()),
                    _ => Err(format!("tgkill: {}", std::io::Error::last_os_error())),
                }
            }
            Mechanism::EventFd(fd) => (&*fd)
                .write_all(&1u64.to_ne_bytes())
                .map_err(|e| format!("an event descriptor: {e}")),
            Mechanism::Pipe(_, end) => (&*end).write_all(&[1]).map_err(|e| format!("a pipe: {e}")),
            Mechanism::Futex => {
                page.flag.store(1, Release);
                futex(&page.flag, libc::FUTEX_WAKE, 1);
                Ok(())
            }
            Mechanism::Poll => {
                page.flag.store(1, Release);
                Ok(())
            }
        }
    }

    /// Waits for the event; the moment at which it was told of it.
    ///
    /// # Blocking
    /// The calling kernel thread, in the mechanism's way.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn wait(&self, page: &Page) -> Result<u64, String> {
        match self {
            Mechanism::Signal => loop {
                match HANDLED.load(Relaxed) {
                    0 => std::hint::spin_loop(),
                    at => {
                        HANDLED.store(0, Relaxed); // the next signal is sent when this is known
                        return Ok(at);
                    }
                }
            },
            Mechanism::EventFd(fd) => {
                let read = (&*fd).read_exact(&mut [0; 8]);
                let at = now_ns();
                read.map(|()| at).map_err(|e| format!("an event descriptor: {e}"))
            }
            Mechanism::Pipe(end, _) => {
                let read = (&*end).read_exact(&mut [0; 1]);
                let at = now_ns();
                read.map(|()| at).map_err(|e| format!("a pipe: {e}"))
            }
            Mechanism::Futex => {
                while page.flag.load(Acquire) == 0 {
                    futex(&page.flag, libc::FUTEX_WAIT, 0);
                }
                let at = now_ns();
                page.flag.store(0, Relaxed);
                Ok(at)
            }
            Mechanism::Poll => {
                while page.flag.load(Acquire) == 0 {
                    std::hint::spin_loop();
                }
                let at = now_ns();
                page.flag.store(0, Relaxed);
                Ok(at)
            }
        }
    }
}

/// Its first line takes the time.
extern "C" fn handler(_: i32) {
    let at = now_ns();
    HANDLED.store(at, Relaxed);
}

fn catch() -> Result<(), String> {
    // SAFETY: a valid action whose handler has the plain signature and only reads the clock and writes an atomic.
    let caught = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
    };
    match caught {
        0 => Ok(()),
        _ => Err(format!("sigaction: {}", std::io::Error::last_os_error())),
    }
}

/// Not private: the two sides may be processes.
fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word is alive; no other pointer is used. Whatever the call says, the word is looked at again.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, null::<libc::timespec>())
    };
}
