//! The descriptor that a process manager of the PMI family gives to each process, and what is read from it: lines,
//! and texts of known length.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use marcel::plumbing::signal::{self, Action};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, FdFlags};
use rustix::net::{self, RecvFlags, SendFlags};

use crate::error::Error;

/// Longest answer that is accepted.
pub(super) const LONGEST: usize = 64 * 1024;
/// Most processes of a session.
pub(super) const MOST: u32 = 1 << 16;

static USED: AtomicBool = AtomicBool::new(false);

/// See the module.
pub(super) struct Wire {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) rank: u32,
    pub(super) size: u32,
    pending: Vec<u8>,
    /// Requests that were sent and whose answers have not been read: those that come too late are for nobody.
    owed: u32,
}

pub(super) fn failed(why: impl std::fmt::Display) -> Error {
    Error::Bootstrap(format!("PMI: {why}"))
}

/// A variable of the environment.
pub(super) fn variable(name: &str) -> Result<Option<String>, Error> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(Error::Bootstrap(format!("{name} is not text"))),
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Result<T, Error> {
    let value =
        variable(name)?.ok_or_else(|| failed(format_args!("PMI_FD is set but {name} is not")))?;
    value
        .trim()
        .parse()
        .map_err(|_| failed(format_args!("{name}={value:?} is not a number in range")))
}

/// The descriptor that `PMI_FD` names; `None` without the variable.
pub(super) fn descriptor() -> Result<Option<RawFd>, Error> {
    let Some(fd) = variable("PMI_FD")? else { return Ok(None) };
    let number = fd.trim().parse();
    number.map(Some).map_err(|_| failed(format_args!("PMI_FD={fd:?} is not a descriptor's number")))
}

/// Whether a descriptor of that number is open in this process.
pub(super) fn is_open(fd: RawFd) -> bool {
    // SAFETY: no memory is passed.
    fd >= 0 && unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0
}

impl Wire {
    /// Takes the descriptor `fd`, once per process.
    pub(super) fn take(fd: RawFd) -> Result<Wire, Error> {
        let (rank, size): (u32, u32) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        if size == 0 || rank >= size || size > MOST {
            return Err(failed(format_args!("PMI_RANK={rank} and PMI_SIZE={size} make no sense")));
        }
        if !is_open(fd) {
            return Err(failed(format_args!(
                "PMI_FD={fd} is not open: start the program with `mad run`, or unset PMI_FD"
            )));
        }
        if USED.swap(true, Ordering::SeqCst) {
            return Err(failed("this process has opened its session already; a process opens one"));
        }
        // SAFETY: the process manager gave us the descriptor, and `USED` lets it be taken once.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // Children of this process have no business with it.
        let _ = rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC);
        survive_notices();
        Ok(Wire::new(socket, rank, size))
    }

    /// Rank `rank` of `size` at its end of a connection.
    pub(super) fn new(socket: OwnedFd, rank: u32, size: u32) -> Wire {
        Wire { socket: Arc::new(socket), rank, size, pending: Vec::new(), owed: 0 }
    }

    /// Sends a request and reads its answer, with `read`, which takes an answer whole or not at all; before that the answers
    /// to earlier requests whose time was over.
    pub(super) fn ask<T>(
        &mut self,
        request: &str,
        deadline: Instant,
        read: impl Fn(&mut Wire, Instant) -> io::Result<T>,
    ) -> io::Result<T> {
        while self.owed > 0 {
            read(self, deadline)?;
            self.owed -= 1;
        }
        self.send(request, deadline)?;
        self.owed = 1;
        let answer = read(self, deadline)?;
        self.owed = 0;
        Ok(answer)
    }

    /// Sends a request.
    pub(super) fn send(&self, request: &str, deadline: Instant) -> io::Result<()> {
        let mut rest = request.as_bytes();
        while !rest.is_empty() {
            match net::send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, deadline)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self, deadline: Instant) -> io::Result<String> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.pending[looked..].iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=looked + end).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            looked = self.pending.len();
            if looked > LONGEST {
                return Err(io::Error::other("its answer is too long"));
            }
            self.read(deadline)?;
        }
    }

    /// The next text whose length stands before it, in six characters.
    pub(super) fn framed(&mut self, deadline: Instant) -> io::Result<String> {
        const HEADER: usize = 6;
        self.have(HEADER, deadline)?;
        let length = std::str::from_utf8(&self.pending[..HEADER]).ok();
        let length = length.and_then(|length| length.trim().parse().ok());
        let length = length.filter(|&length: &usize| length <= LONGEST);
        let end = HEADER + length.ok_or_else(|| io::Error::other("it has no sound length"))?;
        self.have(end, deadline)?;
        let bytes: Vec<u8> = self.pending.drain(..end).skip(HEADER).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn have(&mut self, len: usize, deadline: Instant) -> io::Result<()> {
        while self.pending.len() < len {
            self.read(deadline)?;
        }
        Ok(())
    }

    fn read(&mut self, deadline: Instant) -> io::Result<()> {
        let mut bytes = [0; 4096];
        // The descriptor may block, and others may share its flags: poll first.
        self.wait(PollFlags::IN, deadline)?;
        match net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((got, _)) => {
                self.pending.extend_from_slice(&bytes[..got]);
                Ok(())
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until the connection is ready for `events`.
    fn wait(&self, events: PollFlags, deadline: Instant) -> io::Result<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match rustix::event::poll(&mut [PollFd::new(&self.socket, events)], Some(&timeout)) {
                Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Hydra tells the others of a death by SIGUSR1, if it was told not to end them: which would end a program that knows
/// nothing of it. A program's own action is left alone.
fn survive_notices() {
    extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    if std::env::var_os("HYDI_CONTROL_FD").is_none() {
        return;
    }
    // Not "ignore": that would be inherited by the programs that this one starts.
    if Action::of(libc::SIGUSR1).is_ok_and(|action| action.is_default()) {
        // SAFETY: the handler does nothing.
        let _ = unsafe { signal::handle(libc::SIGUSR1, nothing) };
    }
}

/// What a failure of the connection means to a caller that waits for `answer`.
pub(super) fn lost(source: &io::Error, answer: &str) -> Error {
    match source.kind() {
        io::ErrorKind::TimedOut => failed(format_args!(
            "no {answer} from the process manager in time (NMAD_CONNECT_TIMEOUT_MS); \
             another process of the session may have failed to start"
        )),
        _ => failed(format_args!(
            "the process manager is gone ({source}) while waiting for {answer}"
        )),
    }
}

/// The beginning of an answer, for a message about it.
pub(super) fn shorten(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    if short.len() < text.len() { format!("{short:?} …") } else { format!("{short:?}") }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    type Read = fn(&mut Wire, Instant) -> io::Result<String>;

    #[test]
    fn an_answer_that_comes_too_late_is_for_nobody() {
        let frames = ["     4la", "te     4next", "     4last"];
        let lines = ["la", "te\nnext\n", "last\n"];
        let cases: [(Read, [&str; 3]); 2] = [(Wire::line, lines), (Wire::framed, frames)];
        for (read, [part, rest, last]) in cases {
            let (own, mut theirs) = UnixStream::pair().unwrap();
            let mut wire = Wire::new(own.into(), 0, 1);
            theirs.write_all(part.as_bytes()).unwrap();
            let soon = Instant::now() + Duration::from_millis(20);
            let error = wire.ask("first\n", soon, read).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            theirs.write_all(rest.as_bytes()).unwrap();
            let late = Instant::now() + Duration::from_secs(60);
            assert_eq!(wire.ask("second\n", late, read).unwrap(), "next");
            theirs.write_all(last.as_bytes()).unwrap();
            assert_eq!(wire.ask("third\n", late, read).unwrap(), "last");
        }
    }
}
