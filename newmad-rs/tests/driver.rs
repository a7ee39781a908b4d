//! Networks of a program's own: the example's pipes, alone and beside shared memory; one whose links break.

mod common;
#[path = "../examples/pipe_driver.rs"]
mod pipe_driver;

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::driver::{Link, Network, Offer, Reach, Track};
use newmad::{Builder, Cause, Driver, Error, Session};
use pipe_driver::Pipes;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let result = match scenario.as_str() {
        "example" => pipe_driver::main(),
        "pipes" => exchange(Session::builder().network(Pipes)),
        "pipes_beside_shm" => exchange(Session::builder().driver(Driver::Shm).network(Pipes)),
        "breaking" => exchange(Session::builder().network(Streams)).map(|()| {
            assert!(LEFT.load(Ordering::Relaxed) > 300, "no link has broken");
        }),
        "death" => death(),
        "panics" => panics(),
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Messages of all kinds of lengths in both directions; and one for a receiver that sleeps.
fn exchange(builder: Builder) -> Result<(), Error> {
    let session = builder.open()?;
    let peer = 1 - session.rank();
    let mut buffer = vec![0; 3_000_000];
    for (number, len) in
        [0, 1, 100, 4000, 4096, 5000, 64 * 1024, 70_000, 3_000_000].into_iter().enumerate()
    {
        let number = number as u64;
        let data = message(number, len);
        for _ in 0..10 {
            let send = session.isend(peer, number, data.clone())?;
            let status = session.recv(peer, number, &mut buffer)?;
            assert_eq!(status.len, len);
            assert!(buffer[..len] == data, "a message of {len} bytes is damaged");
            send.wait()?;
        }
    }
    let mut window = Vec::new();
    for _ in 0..500 {
        window.push(session.isend(peer, 100, message(7, 3000))?);
    }
    for _ in 0..500 {
        session.recv(peer, 100, &mut buffer)?;
    }
    window.into_iter().try_for_each(|send| send.wait().map(drop))?;
    if session.rank() == 0 {
        std::thread::sleep(Duration::from_millis(300));
        session.send(1, 200, b"wake up")?;
    } else {
        session.recv(0, 200, &mut buffer)?;
    }
    session.close()
}

fn death() -> Result<(), Error> {
    let session = Session::builder().network(Pipes).open()?;
    if session.rank() == 1 {
        session.send(0, 1, b"last words")?;
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let (start, mut words) = (Instant::now(), [0; 16]);
    match session.recv(1, 2, &mut words) {
        Err(Error::PeerDied { rank: 1, cause: Cause::Vanished }) => {}
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_secs(40), "noticed after {:?}", start.elapsed());
    assert_eq!(session.recv(1, 1, &mut words)?.len, 10);
    session.close()
}

/// A network that makes no link; in rank 0 it panics, in the connection manager's thread.
struct Panics;

impl Network for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn packet_size(&self) -> usize {
        8192
    }

    fn offer(&mut self, _peer: u32) -> io::Result<Offer> {
        assert!(std::env::var("PMI_RANK").unwrap() != "0", "the network's own panic");
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Rank 0's connection manager dies when the first link is wanted: no message may wait for it.
fn panics() -> Result<(), Error> {
    let session = Session::builder().network(Panics).open()?;
    let peer = 1 - session.rank();
    let start = Instant::now();
    let died = |result: Result<(), Error>| match result {
        Err(Error::PeerDied { rank, cause }) if rank == peer => cause,
        other => panic!("{other:?}"),
    };
    if session.rank() == 0 {
        let cause = died(session.send(peer, 1, &[0; 100]));
        assert_eq!(cause, Cause::Unreachable);
        died(session.send(peer, 1, &[0; 100]));
        let error = session.close().unwrap_err().to_string();
        assert!(error.contains("connection manager"), "{error}");
    } else {
        died(session.recv(peer, 1, &mut [0; 100]).map(drop));
        session.close()?;
    }
    assert!(start.elapsed() < Duration::from_secs(20), "noticed after {:?}", start.elapsed());
    Ok(())
}

/// Both tracks over the socket by which newmad has met the peer. Links break after some packets; newmad makes new ones.
struct Streams;

impl Network for Streams {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn packet_size(&self) -> usize {
        8192
    }

    fn reach(&self) -> Reach {
        Reach::Cluster
    }

    fn offer(&mut self, _peer: u32) -> io::Result<Offer> {
        Ok(Offer::new(Vec::new(), |socket, _| Ok(Stream::new(socket.into()))))
    }
}

/// Its buffers never grow: a signal handler may use it.
struct Stream {
    socket: Option<TcpStream>,
    /// Bytes that the socket has not taken, and those that make no whole packet yet.
    out: VecDeque<u8>,
    input: Vec<u8>,
    /// Packets that nothing has received, by track, each behind its length.
    packets: [VecDeque<u8>; 2],
}

/// Packets until the next link breaks; a few links do.
static LEFT: AtomicU32 = AtomicU32::new(300);

impl Stream {
    fn new(socket: TcpStream) -> Stream {
        let packets = [4 << 20; 2].map(VecDeque::with_capacity);
        let (out, input) = (VecDeque::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
        Stream { socket: Some(socket), out, input, packets }
    }

    fn flush(&mut self) -> io::Result<()> {
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        while !self.out.is_empty() {
            let sent = socket.write(self.out.as_slices().0)?;
            self.out.drain(..sent);
        }
        Ok(())
    }
}

// SAFETY: a non-blocking socket, and buffers that do not grow: `out` is empty before a packet of 8 KiB, and `input`
// holds less than one before 16 KiB come.
unsafe impl Link for Stream {
    fn send(&mut self, track: Track, packet: &[IoSlice<'_>]) -> io::Result<()> {
        self.flush()?;
        if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.close();
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len: usize = packet.iter().map(|part| part.len()).sum();
        self.out.push_back(track as u8);
        self.out.extend((len as u32).to_le_bytes());
        packet.iter().for_each(|part| self.out.extend(&**part));
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    fn receive(&mut self, track: Track, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = self.flush();
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        loop {
            while let Some(head) = self.input.get(..5) {
                let end = 5 + u32::from_le_bytes(head[1..].try_into().unwrap()) as usize;
                let of = head[0] as usize;
                if self.input.len() < end {
                    break;
                }
                let packets = &mut self.packets[of];
                if packets.capacity() - packets.len() < end {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                packets.extend(&self.input[1..end]);
                self.input.drain(..end);
            }
            let packets = &mut self.packets[track as usize];
            if !packets.is_empty() {
                let mut len = [0; 4];
                len.iter_mut().zip(packets.drain(..4)).for_each(|(to, byte)| *to = byte);
                let len = u32::from_le_bytes(len) as usize;
                buffer.iter_mut().zip(packets.drain(..len)).for_each(|(to, byte)| *to = byte);
                return Ok(len);
            }
            let mut bytes = [0; 16 * 1024];
            match socket.read(&mut bytes)? {
                0 => return Ok(0),
                got => self.input.extend(&bytes[..got]),
            }
        }
    }

    fn close(&mut self) {
        self.socket = None;
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.socket.iter().map(|socket| socket.as_fd()).collect()
    }
}

#[test]
fn the_example_runs() {
    let ended = launch("example", 3, &[]).succeed(LIMIT);
    assert!(ended.iter().all(|end| end.text.contains("of 3 over pipe")), "{ended:#?}");
}

#[test]
fn messages_go_over_a_network_of_the_programs() {
    launch("pipes", 2, &[]).succeed(LIMIT);
}

#[test]
fn a_network_of_the_programs_shares_messages_with_a_built_in_one() {
    launch("pipes_beside_shm", 2, &[("NMAD_CMA", "0")]).succeed(LIMIT);
}

#[test]
fn a_link_that_breaks_is_made_again() {
    launch("breaking", 2, &[]).succeed(LIMIT);
    launch("breaking", 2, &[("NMAD_CHECKSUM", "1")]).succeed(LIMIT);
}

#[test]
fn the_end_of_a_peer_is_noticed() {
    let ended = launch("death", 2, &[]).end(LIMIT);
    assert_eq!(ended.iter().map(|end| end.code).collect::<Vec<_>>(), [Some(0), None], "{ended:#?}");
}

#[test]
fn a_panic_of_the_programs_network_ends_what_needs_a_peer() {
    launch("panics", 2, &[]).succeed(Duration::from_secs(40));
}
