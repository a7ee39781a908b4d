//! The long soak: two processes create threads, exchange messages and use sockets at once, beside computing processes, until all
//! counts and the time are reached. Every value is checked, and memory must not grow.
//!
//! `cargo test --release --test soak -- --ignored --nocapture`: an hour (`MAD_TEST_SOAK_MINUTES`), 10^7 threads, 10^8
//! messages, 10^6 socket operations. The kills are the simulation's:
//! `cargo test --release -p newmad --lib -- --ignored a_hundred_thousand`.

mod common;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use newmad::Session;
use pioman::net::{TcpListener, TcpStream};

/// Rounds of a process; each does a hundredth of everything.
const ROUNDS: u64 = 100;
/// Of both processes together.
const THREADS: u64 = 10_000_000;
const MESSAGES: u64 = 100_000_000;
const SOCKET_OPERATIONS: u64 = 1_000_000;
/// Of one process in a round.
const fn share(all: u64) -> u64 {
    all / 2 / ROUNDS
}

/// Pairs of a sender and a receiver, each with a tag.
const STREAMS: u64 = 4;
/// Messages of a stream that are on their way at once.
const WINDOW: usize = 64;
/// How much larger the resident memory of the last fifth of the rounds may be than that of the second fifth.
const GROWTH: f64 = 1.01;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Threads that end at once, that yield, that pass values through a channel, and scoped ones.
fn threads(n: u64, ended: &AtomicU64) {
    const BATCH: u64 = 50;
    for batch in 0..n / BATCH {
        marcel::scope(|scope| {
            let (sender, receiver) = marcel::sync::channel::bounded::<u64>(8);
            for i in 0..BATCH {
                let sender = sender.clone();
                scope.spawn(move || {
                    if (i + batch) % 3 == 0 {
                        marcel::yield_now();
                    }
                    sender.send(i).expect("the receiver is there");
                    ended.fetch_add(1, Relaxed);
                });
            }
            drop(sender);
            let mut sum = 0;
            while let Ok(value) = receiver.recv() {
                sum += value;
            }
            assert_eq!(sum, BATCH * (BATCH - 1) / 2, "each value came once");
        });
    }
}

/// Length of message `i` of a stream: mostly short, one in a thousand by rendezvous.
fn length(stream: u64, i: u64) -> usize {
    match (i, stream) {
        (i, _) if i % 1000 == 999 => 64 * 1024,
        (i, 3) => 8 + (i % 512) as usize,
        _ => 8,
    }
}

fn send(session: &Session, stream: u64, first: u64, n: u64) {
    let peer = 1 - session.rank();
    if stream == 0 {
        let mut data = vec![0; 64 * 1024];
        for i in first..first + n {
            data[..8].copy_from_slice(&i.to_le_bytes());
            session.send(peer, stream, &data[..length(stream, i)]).unwrap();
        }
        return;
    }
    let mut window = std::collections::VecDeque::new();
    for i in first..first + n {
        if window.len() == WINDOW {
            let oldest: newmad::Request = window.pop_front().expect("a window is not empty");
            oldest.wait().unwrap();
        }
        let mut data = vec![0; length(stream, i)];
        data[..8].copy_from_slice(&i.to_le_bytes());
        window.push_back(session.isend(peer, stream, data).unwrap());
    }
    window.into_iter().for_each(|request| drop(request.wait().unwrap()));
}

fn receive(session: &Session, stream: u64, first: u64, n: u64, received: &AtomicU64) {
    let peer = 1 - session.rank();
    let mut data = vec![0; 64 * 1024];
    for i in first..first + n {
        let status = session.recv(peer, stream, &mut data).unwrap();
        assert_eq!(status.len, length(stream, i), "stream {stream}, message {i}");
        let number = u64::from_le_bytes(data[..8].try_into().unwrap());
        assert_eq!(number, i, "stream {stream}");
    }
    received.fetch_add(n, Relaxed);
}

/// Echoes of a connection. An echo is four operations: two writes, two reads.
const ECHOES: u8 = 125;
fn sockets(listener: &TcpListener, n: u64, done: &AtomicU64) {
    let address = listener.local_addr().unwrap();
    for _ in 0..n / (4 * u64::from(ECHOES)) {
        marcel::scope(|scope| {
            let server = scope.spawn(|| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut data = [0; 32];
                for _ in 0..ECHOES {
                    socket.read_exact(&mut data).unwrap();
                    socket.write_all(&data).unwrap();
                }
            });
            let mut socket = TcpStream::connect(address).unwrap();
            let mut data = [0; 32];
            for i in 0..ECHOES {
                socket.write_all(&[i; 32]).unwrap();
                socket.read_exact(&mut data).unwrap();
                assert_eq!(data, [i; 32]);
            }
            server.join().unwrap();
        });
        done.fetch_add(4 * u64::from(ECHOES), Relaxed);
    }
}

/// What one of the two processes does.
fn rank(session: &Session) {
    let least = Duration::from_secs(60 * number("MAD_TEST_SOAK_MINUTES", 60));
    let started = Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (ended, received, operations) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let each = share(MESSAGES) / STREAMS;
    let mut memory = Vec::new();
    for round in 0.. {
        // Both processes have to make as many rounds: the first one decides.
        let mut more = [u8::from(round < ROUNDS || started.elapsed() < least)];
        if session.rank() == 0 {
            session.send(1, u64::MAX >> 8, &more).unwrap();
        } else {
            session.recv(0, u64::MAX >> 8, &mut more).unwrap();
        }
        if more == [0] {
            break;
        }
        marcel::scope(|scope| {
            for stream in 0..STREAMS {
                scope.spawn(move || send(session, stream, round * each, each));
                let received = &received;
                scope.spawn(move || receive(session, stream, round * each, each, received));
            }
            scope.spawn(|| threads(share(THREADS), &ended));
            scope.spawn(|| sockets(&listener, share(SOCKET_OPERATIONS), &operations));
        });
        memory.push(resident());
        if session.rank() == 0 {
            println!(
                "round {round}, {:.0} s: {} threads, {} messages, {} socket operations here; {} KiB",
                started.elapsed().as_secs_f64(),
                ended.load(Relaxed),
                received.load(Relaxed),
                operations.load(Relaxed),
                memory[memory.len() - 1],
            );
        }
    }
    let rounds = memory.len() as u64;
    assert_eq!(ended.load(Relaxed), rounds * share(THREADS));
    assert_eq!(received.load(Relaxed), rounds * share(MESSAGES));
    assert_eq!(operations.load(Relaxed), rounds * share(SOCKET_OPERATIONS));
    let fifth = memory.len() / 5;
    let most = |rounds: &[u64]| rounds.iter().copied().max().unwrap_or(0);
    let (early, late) = (most(&memory[fifth..2 * fifth]), most(&memory[4 * fifth..]));
    println!("rank {}: {early} KiB, at the end {late} KiB", session.rank());
    assert!(late as f64 <= early as f64 * GROWTH, "memory grew from {early} to {late} KiB");
}

/// Processes that compute; killed when it is dropped.
struct Load(Vec<Child>);

impl Load {
    fn new(processes: usize) -> Load {
        let one = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Load((0..processes).map(one).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

#[test]
#[ignore = "an hour: cargo test --release --test soak -- --ignored --nocapture"]
fn an_hour_beside_load_loses_nothing_and_does_not_grow() {
    const ROLE: &str = "MAD_TEST_SOAK_RANK";
    if std::env::var_os(ROLE).is_some() {
        newmad::run(rank).unwrap();
        return;
    }
    let _load = Load::new(std::thread::available_parallelism().map_or(2, usize::from));
    let own = std::env::current_exe().unwrap();
    let minutes = number("MAD_TEST_SOAK_MINUTES", 60).to_string();
    let status = common::mad(&["run", "-n", "2"])
        .arg(own)
        .args(["an_hour_beside_load", "--ignored", "--nocapture"])
        .env(ROLE, "1")
        .env("MAD_TEST_SOAK_MINUTES", minutes)
        .stdout(Stdio::inherit())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
