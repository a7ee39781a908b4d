//! Descriptors that threads wait for: the level below [`crate::net`] and [`crate::pipe`], for whatever else the kernel
//! can say is ready (a device, an eventfd, a socket of some other library).
//!
//! A call on a [`Registered`] descriptor is tried first: when it succeeds it costs nothing more. When the kernel says
//! "not now" the thread waits with its manager ([`crate::Manager::here`]), polling or asleep as the load has it, and
//! tries again when there has been an event. A call that succeeds at once spends one operation of the thread's
//! [budget](marcel#what-lets-others-run), so that input that is always ready holds up no other thread. Any number of threads may wait for one descriptor, green ones of several
//! runtimes and kernel threads among them.
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | [`Registered::wait_readable`], [`Registered::io`], … | blocks | goes on | blocks |
//! | [`Registered::try_io`], [`Registered::new`] | goes on | goes on | goes on |
//!
//! # Fork
//! A child of `fork` shares its parent's `epoll` sets. It can use descriptors as far as it need not wait; a wait is an
//! error there, not a hang. (`std::process::Command`, which calls `exec`, is not concerned.)

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use marcel::plumbing::budget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::io::fd::registrations::Registrations;
pub use crate::io::fd::set::Interest;
use crate::manager::Manager;
use crate::progress::policy::hints::{Hint, Hints};

/// A descriptor that threads can wait for.
///
/// ```
/// use pioman::fd::Registered;
/// use std::io::{Read, Write};
///
/// let runtime = pioman::Runtime::new()?;
/// let (reader, mut writer) = std::io::pipe()?;
/// let text = runtime.run(move || -> std::io::Result<String> {
///     let reader = Registered::new(reader)?;
///     let waits = marcel::spawn(move || {
///         reader.wait_readable()?;
///         let mut text = [0; 8];
///         let n = reader.get_ref().read(&mut text)?;
///         Ok(String::from_utf8_lossy(&text[..n]).into_owned())
///     });
///     writer.write_all(b"hello")?;
///     waits.join().unwrap()
/// })?;
/// assert_eq!(text, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Registered<T: AsFd> {
    // Before the descriptor: it leaves the kernel's sets while it is open.
    registrations: Registrations,
    io: T,
}

impl<T: AsFd> Registered<T> {
    /// Makes the descriptor non-blocking (with all that share its open file) and registers it with the caller's
    /// manager.
    ///
    /// # Errors
    /// `Unsupported` for what the kernel cannot say is ready: regular files and directories, which [`std::fs`] and
    /// [`marcel::blocking()`] are for. `AlreadyExists` when the same descriptor is registered already. Limits of the
    /// kernel, with the way out.
    pub fn new(io: T) -> io::Result<Self> {
        set_nonblocking(io.as_fd(), true)?;
        let this = Self::lazy(io);
        let manager = manager()?;
        this.registrations.with(&manager, None)?;
        Ok(this)
    }

    /// As [`Registered::new`] for a descriptor that is non-blocking and known to be a socket or a pipe: it is
    /// registered when a thread first waits.
    pub(crate) fn lazy(io: T) -> Self {
        Registered { registrations: Registrations::new(io.as_fd().as_raw_fd()), io }
    }

    /// What is registered.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Gives the descriptor back. It stays non-blocking.
    pub fn into_inner(self) -> T {
        let Registered { registrations, io } = self;
        drop(registrations);
        io
    }

    /// Makes a call, once; `None` when the kernel says "not now" ([`io::ErrorKind::WouldBlock`]).
    ///
    /// # Errors
    /// Those of the call.
    pub fn try_io<R>(&self, mut call: impl FnMut(&T) -> io::Result<R>) -> io::Result<Option<R>> {
        match call(&self.io) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    /// Makes a call, again and again until the kernel does not say "not now" ([`io::ErrorKind::WouldBlock`]) any
    /// more, and waits meanwhile. The call must be one that becomes possible by what `interest` says.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Wakes
    /// No thread. Events wake it, including the end: another thread, or the peer, shuts the socket down.
    ///
    /// # Errors
    /// Those of the call; no manager can be had; the kernel refuses to watch the descriptor; the runtime of the thread
    /// stops, or the process is a fork's child: neither can wait.
    pub fn io<R>(
        &self,
        interest: Interest,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.io_within(interest, || None, call)? {
            Some(value) => Ok(value),
            None => Err(io::ErrorKind::TimedOut.into()), // without a deadline: never
        }
    }

    /// As [`Registered::io`], until `deadline` at the latest; `None` after it.
    ///
    /// # Context, Blocking, Errors
    /// As [`Registered::io`].
    pub fn io_until<R>(
        &self,
        interest: Interest,
        deadline: Instant,
        call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<Option<R>> {
        self.io_within(interest, || Some(deadline), call)
    }

    /// As [`Registered::io_until`], with a deadline that is only asked for when the first attempt has failed.
    pub(crate) fn io_within<R>(
        &self,
        interest: Interest,
        deadline: impl FnOnce() -> Option<Instant>,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<Option<R>> {
        budget::spend();
        let seen = self.registrations.seen(interest);
        if let Some(value) = self.try_io(&mut call)? {
            return Ok(Some(value));
        }
        let deadline = deadline();
        let manager = manager()?;
        let place = self.registrations.with(&manager, Some(interest))?;
        let readiness = place.readiness(interest);
        let hints = Hints::new(Hint::Short).on(place.id);
        // What has been seen before the call; if that was another manager's count, none has been seen.
        let mut seen = seen.filter(|_| place.is_first).unwrap_or_else(|| readiness.fresh());
        loop {
            if !place.source.wait(&manager, hints, readiness, seen, deadline)? {
                return Ok(None);
            }
            seen = readiness.seen();
            if let Some(value) = self.try_io(&mut call)? {
                return Ok(Some(value));
            }
        }
    }

    /// Waits until the descriptor can be read from, as the kernel sees it at that moment: another reader may be faster.
    ///
    /// # Context, Blocking, Errors
    /// As [`Registered::io`].
    pub fn wait_readable(&self) -> io::Result<()> {
        self.io(Interest::Readable, |io| is_ready(io.as_fd(), PollFlags::IN | PollFlags::RDHUP))
    }

    /// As [`Registered::wait_readable`], until `deadline` at the latest; false after it.
    ///
    /// # Context, Blocking, Errors
    /// As [`Registered::io`].
    pub fn wait_readable_until(&self, deadline: Instant) -> io::Result<bool> {
        let ready = |io: &T| is_ready(io.as_fd(), PollFlags::IN | PollFlags::RDHUP);
        Ok(self.io_until(Interest::Readable, deadline, ready)?.is_some())
    }

    /// Waits until the descriptor can be written to, as the kernel sees it at that moment.
    ///
    /// # Context, Blocking, Errors
    /// As [`Registered::io`].
    pub fn wait_writable(&self) -> io::Result<()> {
        self.io(Interest::Writable, |io| is_ready(io.as_fd(), PollFlags::OUT))
    }

    /// As [`Registered::wait_writable`], until `deadline` at the latest; false after it.
    ///
    /// # Context, Blocking, Errors
    /// As [`Registered::io`].
    pub fn wait_writable_until(&self, deadline: Instant) -> io::Result<bool> {
        let ready = |io: &T| is_ready(io.as_fd(), PollFlags::OUT);
        Ok(self.io_until(Interest::Writable, deadline, ready)?.is_some())
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.io).finish()
    }
}

impl<T: AsFd> AsFd for Registered<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Registered<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_fd().as_raw_fd()
    }
}

fn manager() -> io::Result<std::sync::Arc<Manager>> {
    Manager::here().map_err(io::Error::other)
}

/// `WouldBlock` unless `poll` finds one of the events, an error or the end.
fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    let mut look = [PollFd::from_borrowed_fd(fd, events)];
    // It does not wait, but a tick that is due interrupts it.
    match rustix::io::retry_on_intr(|| poll(&mut look, Some(&Timespec::default())))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

/// Whether calls on the descriptor, and on all that share its open file, return at once.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, on)?)
}
