//! The launcher's own standard output and standard error, which are written without waiting for their reader: a reader that
//! pauses must hold up neither signals, nor the time limit, nor the answers that ranks wait for.
//!
//! A stream takes lines, and the launcher's `poll` says when its descriptor has room. While too much of a stream is
//! unwritten, the ranks' output for it stays in their pipes, so they wait for the reader as they would without a launcher.
//!
//! Rejected: `O_NONBLOCK`, which other processes that share the file would get, too; a thread that writes (nothing could
//! end it while it waits).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::rank::Stream;
use crate::ready::wait;

/// Unwritten bytes with which a stream takes no more output.
const FULL: usize = 1 << 16;
/// What a descriptor that is ready takes without waiting; what a pipe takes whole.
const AT_ONCE: usize = libc::PIPE_BUF;

/// Both.
pub(crate) struct Streams {
    out: Writer,
    /// `None`: it is the same file as standard output. One queue then keeps the lines whole, and in order.
    err: Option<Writer>,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        let err = (!are_one_file()).then(Writer::default);
        Streams { out: Writer::default(), err }
    }

    /// Whether the ranks' output for this stream is to wait.
    pub(crate) fn is_full(&self, stream: Stream) -> bool {
        match (stream, &self.err) {
            (Stream::Err, Some(err)) => err.unwritten >= FULL,
            _ => self.out.unwritten >= FULL,
        }
    }

    /// Whether all is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.lines.is_empty() && self.err.as_ref().is_none_or(|err| err.lines.is_empty())
    }

    /// Takes a line, with its newline.
    pub(crate) fn push(&mut self, stream: Stream, line: Vec<u8>) {
        match (stream, &mut self.err) {
            (Stream::Err, Some(err)) => err.push(line),
            _ => self.out.push(line),
        }
    }

    /// What has to become writable.
    pub(crate) fn waiting(&self) -> Vec<libc::pollfd> {
        let err = self.err.as_ref().filter(|err| !err.lines.is_empty());
        let out = Some(&self.out).filter(|out| !out.lines.is_empty());
        let fds = out.map(|_| io::stdout().as_raw_fd()).into_iter();
        fds.chain(err.map(|_| io::stderr().as_raw_fd())).map(writable).collect()
    }

    /// Writes what can be written at once.
    ///
    /// # Errors
    /// Standard output cannot be written. An error of standard error has no reader to be told to.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if let Some(err) = &mut self.err {
            let _ = err.write(io::stderr().as_fd());
        }
        self.out.write(io::stdout().as_fd())
    }
}

/// Whether standard output and standard error are the same file.
fn are_one_file() -> bool {
    match (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    }
}

/// A descriptor whose room is waited for.
fn writable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }
}

/// Lines on their way to a descriptor.
#[derive(Default)]
struct Writer {
    lines: VecDeque<Vec<u8>>,
    /// How much of the first line is written.
    begun: usize,
    unwritten: usize,
    /// It cannot be written: lines are dropped.
    broken: bool,
}

impl Writer {
    fn push(&mut self, line: Vec<u8>) {
        if !self.broken {
            self.unwritten += line.len();
            self.lines.push_back(line);
        }
    }

    fn write(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        while !self.lines.is_empty()
            && wait(&mut [writable(file.as_raw_fd())], Some(Duration::ZERO))
        {
            match rustix::io::write(file, &self.piece()) {
                // The room that `poll` has seen is another writer's now.
                Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
                Ok(written @ 1..) => self.advance(written),
                wrong => {
                    *self = Writer { broken: true, ..Writer::default() };
                    let error = wrong.err().map_or(io::ErrorKind::WriteZero.into(), Into::into);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What goes in one call: whole lines, so that other writers' words come between lines; of one that is longer, a part.
    fn piece(&self) -> Vec<u8> {
        let mut lines = self.lines.iter();
        let first = lines.next().map_or(&[][..], |line| &line[self.begun..]);
        let mut piece = first[..first.len().min(AT_ONCE)].to_vec();
        for line in lines {
            if piece.len() + line.len() > AT_ONCE {
                break;
            }
            piece.extend_from_slice(line);
        }
        piece
    }

    fn advance(&mut self, written: usize) {
        self.unwritten -= written;
        self.begun += written;
        while let Some(line) = self.lines.pop_front_if(|line| line.len() <= self.begun) {
            self.begun -= line.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that is blocking, and whose reader takes a little at a time.
    #[test]
    fn a_full_pipe_is_left_and_lines_stay_whole() {
        use std::io::Read;
        let (mut reader, pipe) = io::pipe().unwrap();
        let mut writer = Writer::default();
        let lines: Vec<Vec<u8>> = (0..2000u32)
            .map(|number| format!("{number} {}\n", "x".repeat(number as usize * 7 % 300)).into())
            .chain([[&[b'y'; 300_000][..], b"\n"].concat(), b"last\n".to_vec()])
            .collect();
        lines.iter().for_each(|line| writer.push(line.clone()));
        let (mut read, mut buffer) = (Vec::new(), [0; 5000]);
        while !writer.lines.is_empty() {
            writer.write(pipe.as_fd()).unwrap();
            assert!(writer.piece().len() <= AT_ONCE);
            let length = reader.read(&mut buffer).unwrap();
            read.extend_from_slice(&buffer[..length]);
        }
        assert_eq!((writer.unwritten, writer.begun), (0, 0));
        drop(pipe);
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, lines.concat());
    }

    #[test]
    fn a_stream_without_a_reader_drops_what_it_is_given() {
        let (reader, pipe) = io::pipe().unwrap();
        drop(reader);
        let mut writer = Writer::default();
        writer.push(b"word\n".to_vec());
        assert_eq!(writer.write(pipe.as_fd()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        writer.push(b"word\n".to_vec());
        assert!(writer.lines.is_empty());
        writer.write(pipe.as_fd()).unwrap();
    }
}
