//! A connection of the control ring, or a short cut beside it: frames both ways.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown};

use super::network::{Frame, LONGEST};
use super::socket;

/// See the module.
pub(super) struct Control {
    pub(super) socket: OwnedFd,
    /// Only the end of the peer's process ends it.
    pub(super) sure: bool,
    /// What has come and is not taken.
    input: Vec<u8>,
    output: VecDeque<u8>,
    /// Nothing follows `output`.
    ends: bool,
}

impl Control {
    pub(super) fn new(socket: OwnedFd, sure: bool) -> Control {
        if !sure {
            // Refused: its end is noticed late.
            let _ = socket::doubt_what_is_unanswered(&socket);
        }
        Control { socket, sure, input: Vec::new(), output: VecDeque::new(), ends: false }
    }

    /// The next frame: `Ok(None)`, none now; an error: its end.
    pub(super) fn read(&mut self, size: u32) -> io::Result<Option<Frame>> {
        let mut given = Vec::new();
        loop {
            let read = Frame::decode(&self.input, size);
            let whole = match read.map_err(|()| io::Error::from(io::ErrorKind::InvalidData))? {
                Ok((frame, len)) => {
                    self.input.drain(..len);
                    return Ok(Some(frame));
                }
                Err(whole) => whole,
            };
            // As much as there is: the next frames come with this one.
            let got = self.input.len();
            self.input.resize(whole.max(LONGEST), 0);
            let read = socket::receive(&self.socket, &mut self.input[got..], &mut given);
            self.input.truncate(got + read.as_ref().map_or(0, |&more| more));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends it, now or when there is room.
    pub(super) fn send(&mut self, frame: &Frame) {
        match frame {
            Frame::Notice(notice) => self.output.extend(notice.encode()),
            Frame::Message(message) => message.encode(&mut self.output),
        }
        self.flush();
    }

    /// Sends what waits. A failure is seen when reading.
    pub(super) fn flush(&mut self) {
        while !self.output.is_empty() {
            let bytes = self.output.make_contiguous();
            match net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
        if self.ends {
            let _ = net::shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Nothing more will be sent than what waits.
    pub(super) fn hang_up(&mut self) {
        self.ends = true;
        self.flush();
    }
}
