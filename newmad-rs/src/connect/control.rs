//! A connection of the control ring: notices of fixed length, both ways.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, SendFlags, Shutdown};

use super::ring::{NOTICE, Notice};
use super::socket;

/// See the module.
pub(super) struct Control {
    pub(super) socket: OwnedFd,
    /// Only the end of the peer's process ends it.
    pub(super) sure: bool,
    input: [u8; NOTICE],
    got: usize,
    output: VecDeque<u8>,
}

impl Control {
    pub(super) fn new(socket: OwnedFd, sure: bool) -> Control {
        Control { socket, sure, input: [0; NOTICE], got: 0, output: VecDeque::new() }
    }

    /// The next notice: `Ok(None)`, none now; an error: its end.
    pub(super) fn read(&mut self, size: u32) -> io::Result<Option<Notice>> {
        let mut given = Vec::new();
        while self.got < NOTICE {
            match socket::receive(&self.socket, &mut self.input[self.got..], &mut given) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => self.got += got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.got = 0;
        Notice::decode(self.input, size).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sends it, now or when there is room.
    pub(super) fn send(&mut self, notice: Notice) {
        self.output.extend(notice.encode());
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
    }

    /// Nothing more will be sent.
    pub(super) fn hang_up(&mut self) {
        self.flush();
        let _ = net::shutdown(&self.socket, Shutdown::Write);
    }
}
