//! A connection over which two processes tell each other what they need to meet: frames with a length before them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::failure::Failure;
use crate::authentication::KEY;

/// The longest frame: the cards of 65536 processes fit.
const MOST: usize = 64 << 20;
/// Memory is set aside for so many bytes that have not come.
const AHEAD: usize = 64 << 10;
/// The longest sleep in one call.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// See the module.
pub struct Channel {
    stream: TcpStream,
    secret: [u8; KEY],
}

impl Channel {
    pub(super) fn new(stream: TcpStream, secret: [u8; KEY]) -> io::Result<Channel> {
        stream.set_nonblocking(true)?;
        // A socket of another family has no such option.
        let _ = stream.set_nodelay(true);
        Ok(Channel { stream, secret })
    }

    /// Over any connected stream socket.
    pub(super) fn over(socket: OwnedFd) -> io::Result<Channel> {
        Channel::new(TcpStream::from(socket), [0; KEY])
    }

    pub(super) fn admitted(&mut self, secret: [u8; KEY]) {
        self.secret = secret;
    }

    /// A key that the processes at both ends know, and no other. It is fresh for each channel.
    pub fn secret(&self) -> [u8; KEY] {
        self.secret
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The other side is gone, or takes nothing in time.
    pub fn send(&mut self, frame: &[u8], deadline: Instant) -> Result<(), Failure> {
        let len = u32::try_from(frame.len()).ok().filter(|&len| len as usize <= MOST);
        let len = len.ok_or_else(|| Failure::Lost(io::ErrorKind::FileTooLarge.into()))?;
        self.write(&len.to_le_bytes(), deadline)?;
        Ok(self.write(frame, deadline)?)
    }

    /// Receives a frame.
    ///
    /// # Errors
    /// The other side is gone, or sends nothing in time, or a frame that is longer than any.
    pub fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, Failure> {
        let mut len = [0; 4];
        self.read(&mut len, deadline)?;
        let len = u32::from_le_bytes(len) as usize;
        if len > MOST {
            return Err(Failure::Lost(io::ErrorKind::InvalidData.into()));
        }
        let mut frame = Vec::new();
        while frame.len() < len {
            let have = frame.len();
            frame.resize(len.min(have + AHEAD), 0);
            self.read(&mut frame[have..], deadline)?;
        }
        Ok(frame)
    }

    /// Sends a frame and receives the other side's, which does the same.
    ///
    /// # Errors
    /// As [`Channel::send`] and [`Channel::receive`].
    pub fn exchange(&mut self, frame: &[u8], deadline: Instant) -> Result<Vec<u8>, Failure> {
        // Long frames of both sides would fill the buffers of both sockets: the other side's is read meanwhile.
        let mut other =
            self.stream.try_clone().map(|stream| Channel { stream, secret: [0; KEY] })?;
        std::thread::scope(|scope| {
            let sends = scope.spawn(move || other.send(frame, deadline));
            let received = self.receive(deadline);
            if received.is_err() {
                let _ = self.stream.shutdown(Shutdown::Both);
            }
            let sent = sends.join().unwrap_or(Err(Failure::Late));
            received.and_then(|frame| sent.map(|()| frame))
        })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            // The standard library's `write` asks for no signal (`MSG_NOSIGNAL`).
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn read(&mut self, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => bytes = &mut bytes[got..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags, deadline: Instant) -> io::Result<()> {
        loop {
            let mut one = [PollFd::from_borrowed_fd(self.stream.as_fd(), events)];
            if poll(&mut one, Some(deadline))? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Waits for one of the events; `false`: none came in time, or a signal did.
pub(super) fn poll(all: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<bool> {
    let left = until.map_or(LONGEST_SLEEP, |at| at.saturating_duration_since(Instant::now()));
    let left = left.min(LONGEST_SLEEP);
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match rustix::event::poll(all, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("Channel")
            .field("peer", &self.stream.peer_addr().ok())
            .finish_non_exhaustive()
    }
}
