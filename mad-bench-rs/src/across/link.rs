//! TCP connections to an agent: how they are made, and the one that carries frames.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use crate::across::card::{Agent, random};
use crate::across::frame::{Frame, Frames};
use crate::across::greeting;
use crate::across::greeting::{CHALLENGE, Purpose};

/// How long a connection and its greeting may take.
pub(super) const GREETING: Duration = Duration::from_secs(10);
/// After so long without a sign of life from its machine, a peer is taken for dead: a machine that loses its power
/// says nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// Before a caller that was refused at a door calls again.
const AGAIN: Duration = Duration::from_millis(20);

/// Connects with an agent, each side proving to the other that it knows the key. In a crowd of strangers an agent may
/// send a caller away that is not authenticated yet: then the call is repeated.
///
/// # Errors
/// It is not reached in time, or another program listens there.
pub(super) fn call(agent: &Agent, purpose: Purpose) -> io::Result<TcpStream> {
    let sent_away = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    let until = Instant::now() + GREETING;
    loop {
        match greet(agent, purpose) {
            Err(e) if sent_away.contains(&e.kind()) && Instant::now() < until => {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

fn greet(agent: &Agent, purpose: Purpose) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&agent.address, GREETING)?;
    tune(&stream)?;
    stream.set_read_timeout(Some(GREETING))?;
    stream.set_write_timeout(Some(GREETING))?;
    let hello = greeting::hello(purpose, random()?);
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge)?;
    let proof = greeting::answer(&agent.key, &hello, &challenge)
        .ok_or_else(|| io::Error::other("another program listens there"))?;
    stream.write_all(&proof)?;
    stream.read_exact(&mut [0])?; // that it is admitted
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Nothing waits for more to send, and a machine that is gone is noticed.
pub(super) fn tune(stream: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(SILENCE / 2).with_interval(SILENCE / 6);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive.with_retries(3))?;
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    stream.set_nodelay(true)
}

/// A connection that carries frames; it blocks.
///
/// Both ends write without looking whether the other reads. They cannot wait for each other in a circle: what goes to
/// a supervisor is one answer of PMI for each question, and signals, far less than the sockets hold.
pub(super) struct Link {
    stream: TcpStream,
    frames: Frames,
}

impl Link {
    /// Over this connection.
    pub(super) fn over(stream: TcpStream) -> Link {
        Link { stream, frames: Frames::default() }
    }

    /// The descriptor to poll.
    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The other side is gone, or the frame is too long.
    pub(super) fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let bytes = frame.encode().map_err(|e| io::Error::other(e.to_string()))?;
        self.stream.write_all(&bytes)
    }

    /// Reads once, and gives the frames that are complete now; `None`: the other side is gone.
    ///
    /// # Errors
    /// What came is no frame.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<Frame>>> {
        let mut buffer = [0; 16384];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(n) => self.frames.feed(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if [ErrorKind::ConnectionReset, ErrorKind::TimedOut].contains(&e.kind()) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
        let mut frames = Vec::new();
        while let Some(frame) = self.frames.next().map_err(|e| io::Error::other(e.to_string()))? {
            frames.push(frame);
        }
        Ok(Some(frames))
    }
}
