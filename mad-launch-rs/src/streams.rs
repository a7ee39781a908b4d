//! The launcher's own standard output and standard error, which are written without waiting for their reader: a reader that
//! pauses must hold up neither signals, nor the time limit, nor the answers that ranks wait for.
//!
//! A stream takes lines, and the launcher's `poll` says when its descriptor has room. While too much of a stream is
//! unwritten, the ranks' output for it stays in their pipes, so they wait for the reader as they would without a launcher.
//!
//! A terminal that has room may still have too little: a write sleeps until the rest fits. The launcher opens it once more,
//! non-blocking, and writes there.
//!
//! Rejected: `O_NONBLOCK` on the file that the launcher was given, which other processes that share it would get, too; a thread
//! that writes (nothing could end it while it waits).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
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
        let err = (!are_one_file()).then(|| Writer::of(io::stderr().as_fd()));
        Streams { out: Writer::of(io::stdout().as_fd()), err }
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

/// The same terminal, non-blocking, if the file is a terminal that may be opened.
fn opened_anew(file: BorrowedFd<'_>) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = terminal(file)?;
    let anew = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    // The master's side of a pseudo-terminal opens as another one's.
    (self::terminal(anew.as_fd()) == Some(terminal)).then_some(anew)
}

/// The device number of the terminal that the file is.
fn terminal(file: BorrowedFd<'_>) -> Option<libc::c_uint> {
    let mut device: libc::c_uint = 0;
    // SAFETY: the call writes an unsigned int.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGDEV, &raw mut device) };
    (answer == 0).then_some(device)
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
    /// What is written to instead of the descriptor.
    terminal: Option<OwnedFd>,
    /// It cannot be written: lines are dropped.
    broken: bool,
}

impl Writer {
    fn of(file: BorrowedFd<'_>) -> Writer {
        Writer { terminal: opened_anew(file), ..Writer::default() }
    }

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
            let to = self.terminal.as_ref().map_or(file, OwnedFd::as_fd);
            match rustix::io::write(to, &self.piece()) {
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
    use std::os::fd::FromRawFd;
    use std::ptr::null_mut;
    use std::time::Instant;

    use super::*;
    use crate::ready::readable;

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

    /// A new pseudo-terminal: the side of its reader, and of its programs.
    fn pty() -> (OwnedFd, OwnedFd) {
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: the call writes two ints, and is given nothing else.
        let answer =
            unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null_mut(), null_mut()) };
        assert_eq!(answer, 0);
        // SAFETY: both are open, and owned by nothing else.
        unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
    }

    #[test]
    fn a_full_terminal_is_left() {
        let (master, slave) = pty();
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let (tell, told) = std::sync::mpsc::channel();
        let other = slave.try_clone().unwrap();
        let writes = std::thread::spawn(move || {
            let mut writer = Writer::of(other.as_fd());
            (0..1000).for_each(|_| writer.push(line.clone()));
            let written = writer.write(other.as_fd());
            tell.send(()).unwrap();
            written.map(|()| (writer, other))
        });
        let left = told.recv_timeout(Duration::from_secs(30)).is_ok();
        if !left {
            drop(master); // which ends its write
            drop(writes.join());
            panic!("the writer waits for the terminal's reader");
        }
        let (mut writer, other) = writes.join().unwrap().unwrap();
        assert!(!writer.lines.is_empty());
        // The kernel makes some more room meanwhile. Room that takes nothing would have the launcher spin.
        let until = Instant::now() + Duration::from_secs(30);
        while wait(&mut [writable(other.as_raw_fd())], Some(Duration::ZERO)) {
            assert!(Instant::now() < until);
            writer.write(other.as_fd()).unwrap();
        }
        assert!(!writer.lines.is_empty());
        // Those that share the file have it as it was.
        let flags = rustix::fs::fcntl_getfl(&slave).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        let (mut read, mut buffer) = (0, [0; 5000]);
        while read < 1000 * 101 {
            let there = wait(&mut [readable(master.as_raw_fd())], Some(Duration::from_secs(30)));
            assert!(there, "{read}");
            read += rustix::io::read(&master, &mut buffer).unwrap();
            writer.write(other.as_fd()).unwrap();
        }
        assert!(writer.lines.is_empty());
        assert_eq!(read, 1000 * 101); // each newline as two characters
    }

    #[test]
    fn only_the_same_terminal_is_opened_anew() {
        let (master, slave) = pty();
        assert!(opened_anew(slave.as_fd()).is_some());
        assert!(opened_anew(master.as_fd()).is_none());
        let (_reader, pipe) = io::pipe().unwrap();
        assert!(opened_anew(pipe.as_fd()).is_none());
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
