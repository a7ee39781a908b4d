//! A driver of a program's own: packets between the processes of a job go through pipes.
//!
//! `mad run -n 2 -- cargo run -q -p newmad --example pipe_driver`
//!
//! Each process makes a pipe per track for every peer, keeps the ends that read, and passes the ends that write. The
//! pipes are in packet mode (`O_DIRECT`): what one call writes, one call reads.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use newmad::driver::{Link, Network, Offer, Track};
use newmad::{ANY, Session};

/// The network: makes pipes.
pub(crate) struct Pipes;

impl Network for Pipes {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn packet_size(&self) -> usize {
        libc::PIPE_BUF
    }

    fn offer(&mut self, _peer: u32) -> io::Result<Offer> {
        let [(small, to_small), (large, to_large)] = [pipe()?, pipe()?];
        Ok(Offer::new(vec![to_small, to_large], move |_socket, given| {
            let given = <[OwnedFd; 2]>::try_from(given);
            let writers =
                given.map_err(|_| io::Error::other("the peer has passed no two pipes"))?;
            let readers = [small, large].map(|end| Some(File::from(end)));
            Ok(Pipe { readers, writers: writers.map(|end| Some(File::from(end))) })
        }))
    }
}

/// The ends of a pipe in packet mode: the one that reads, and the one that writes.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let flags = libc::O_DIRECT | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), flags) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made both, and they have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// A link: its pipes by track; none once it is closed.
struct Pipe {
    readers: [Option<File>; 2],
    writers: [Option<File>; 2],
}

// SAFETY: system calls that do not block, and errors that allocate nothing.
unsafe impl Link for Pipe {
    fn send(&mut self, track: Track, packet: &[IoSlice<'_>]) -> io::Result<()> {
        let writer = self.writers[track as usize].as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // Up to PIPE_BUF bytes go whole, or not at all.
        writer.write_vectored(packet).map(drop)
    }

    fn receive(&mut self, track: Track, buffer: &mut [u8]) -> io::Result<usize> {
        let reader = self.readers[track as usize].as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        reader.read(buffer)
    }

    fn close(&mut self) {
        (self.readers, self.writers) = ([None, None], [None, None]);
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.readers.iter().chain(&self.writers).flatten().map(File::as_fd).collect()
    }
}

pub(crate) fn main() -> Result<(), newmad::Error> {
    let session = Session::builder().network(Pipes).open()?;
    let (rank, size) = (session.rank(), session.size());
    // A short message, one of several packets, and one long enough to be asked for first.
    for (tag, len) in [(1, 8), (2, 20_000), (3, 1 << 20)] {
        let sends: Result<Vec<_>, _> =
            (0..size).map(|to| session.isend(to, tag, vec![rank as u8; len])).collect();
        let sends = sends?;
        let mut buffer = vec![0; len];
        for _ in 0..size {
            let status = session.recv(ANY, tag, &mut buffer)?;
            assert_eq!(status.len, len);
            assert!(buffer.iter().all(|&byte| byte == status.source as u8), "a byte is wrong");
        }
        for send in sends {
            send.wait()?;
        }
    }
    println!("rank {rank} of {size} over {}: all messages have arrived", session.driver());
    session.close()
}
