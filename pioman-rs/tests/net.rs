//! Sockets and pipes: every type, in every mode, from green and kernel threads.

use std::collections::HashSet;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::fd::Registered;
use pioman::net::{
    TcpListener, TcpStream, ToSocketAddrs, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use pioman::pipe::pipe;
use pioman::{Manager, Points, Runtime};
use proptest::prelude::*;

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
use common::in_a_child;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

/// Runs `f` as a green thread in both modes that have any, with all points, without spare kernel threads and with no
/// progress outside calls; then on kernel threads, with a manager of their own and with the process's.
fn everywhere(f: fn()) {
    for (mode, vps) in [(Mode::NoThread, 1), (Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 3)] {
        for points in [Points::ALL, Points { block: false, ..Points::ALL }, Points::NONE] {
            let threads = marcel::Runtime::builder().vps(vps);
            let manager = Manager::builder().mode(mode).points(points);
            Runtime::build(manager, threads).unwrap().run(f);
        }
    }
    std::thread::spawn(f).join().unwrap();
}

/// Starts a thread of the caller's kind, with its manager; calling the result joins it.
fn start<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Box<dyn FnOnce() -> T> {
    if marcel::is_green() {
        let thread = marcel::spawn(f);
        return Box::new(move || thread.join().unwrap());
    }
    let manager = pioman::current();
    let thread = std::thread::spawn(move || {
        let _entered = manager.as_ref().map(Manager::enter);
        f()
    });
    Box::new(move || thread.join().unwrap())
}

/// Bytes that tell their place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let one = start(move || TcpStream::connect(address).unwrap());
    let (other, peer) = listener.accept().unwrap();
    let one = one();
    assert_eq!(one.local_addr().unwrap(), peer);
    (one, other)
}

/// More than any buffer of the kernel's, to and fro at once: both directions of both ends have to wait.
fn exchange<S: Send + Sync + 'static>(one: S, other: S)
where
    for<'a> &'a S: Read + Write,
{
    const LEN: usize = 3_000_000;
    let ends: Vec<_> = [one, other].into_iter().map(Arc::new).collect();
    let threads = ends.into_iter().flat_map(|end| {
        let (reads, writes) = (end.clone(), end);
        let reader = start(move || {
            let mut bytes = vec![0; LEN];
            (&*reads).read_exact(&mut bytes).unwrap();
            assert!(bytes == pattern(LEN));
        });
        [reader, start(move || (&*writes).write_all(&pattern(LEN)).unwrap())]
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|join| join());
}

#[test]
fn streams_carry_more_than_buffers_hold_in_both_directions() {
    everywhere(|| {
        let (one, other) = tcp_pair();
        exchange(one, other);
        let (one, other) = UnixStream::pair().unwrap();
        exchange(one, other);
    });
}

#[test]
fn a_pipe_ends_when_its_writers_are_gone() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let mut second = writer.try_clone().unwrap();
        let reads = start(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        writer.write_all(&pattern(500_000)).unwrap();
        drop(writer);
        marcel::sleep(Duration::from_millis(1));
        second.write_all(b"end").unwrap();
        drop(second);
        let bytes = reads();
        assert_eq!(bytes.len(), 500_003);
        assert!(bytes[..500_000] == pattern(500_000) && &bytes[500_000..] == b"end");
    });
}

#[test]
fn a_writer_learns_that_its_readers_are_gone() {
    everywhere(|| {
        let (reader, mut writer) = pipe().unwrap();
        let writes = start(move || writer.write_all(&pattern(1_000_000)));
        marcel::sleep(Duration::from_millis(2));
        drop(reader);
        assert_eq!(writes().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn half_of_a_connection_can_be_closed() {
    everywhere(|| {
        let (mut one, mut other) = tcp_pair();
        let answers = start(move || {
            let mut question = Vec::new();
            other.read_to_end(&mut question).unwrap();
            other.write_all(b"you said ").unwrap();
            other.write_all(&question).unwrap();
        });
        one.write_all(b"half").unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        one.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "you said half");
        answers();
    });
}

#[test]
fn a_shutdown_by_another_thread_wakes_those_who_wait() {
    everywhere(|| {
        let (one, other) = tcp_pair();
        let one = Arc::new(one);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let one = one.clone();
                start(move || (&*one).read(&mut [0; 8]).unwrap())
            })
            .collect();
        marcel::sleep(Duration::from_millis(2));
        one.shutdown(Shutdown::Both).unwrap();
        readers.into_iter().for_each(|join| assert_eq!(join(), 0));
        drop(other);
    });
}

#[test]
fn two_threads_accept_on_one_listener() {
    everywhere(|| {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let acceptors: Vec<_> = (0..2)
            .map(|_| {
                let listener = listener.clone();
                start(move || {
                    let streams = listener.incoming().map(Result::unwrap).take(10);
                    streams.map(|s| s.peer_addr().unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accepted: HashSet<_> = acceptors.into_iter().flat_map(|join| join()).collect();
        let ours: HashSet<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
        assert_eq!(accepted, ours);
    });
}

#[test]
fn many_readers_of_one_pipe_get_each_byte_once() {
    everywhere(|| {
        let (reader, mut writer) = pipe().unwrap();
        let reader = Arc::new(reader);
        let readers: Vec<_> = (0..6)
            .map(|_| {
                let reader = reader.clone();
                start(move || {
                    let (mut sum, mut count, mut bytes) = (0u64, 0, [0; 7]);
                    loop {
                        match (&*reader).read(&mut bytes).unwrap() {
                            0 => return (sum, count),
                            n => {
                                sum += bytes[..n].iter().map(|&b| b as u64).sum::<u64>();
                                count += n;
                            }
                        }
                    }
                })
            })
            .collect();
        let bytes = pattern(3000);
        for piece in bytes.chunks(11) {
            writer.write_all(piece).unwrap();
            marcel::yield_now();
        }
        drop(writer);
        let (sum, count) = readers
            .into_iter()
            .map(|join| join())
            .fold((0, 0), |(sum, count), (s, c)| (sum + s, count + c));
        assert_eq!((sum, count), (bytes.iter().map(|&b| b as u64).sum(), bytes.len()));
    });
}

#[test]
fn time_outs_end_waits_and_leave_the_stream_as_it_was() {
    everywhere(|| {
        let (one, mut other) = tcp_pair();
        let mut clone = one.try_clone().unwrap();
        assert_eq!(
            one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        one.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(SHORT), "clones share it");
        let start = Instant::now();
        assert_eq!(clone.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= SHORT);
        other.write_all(b"late").unwrap();
        one.set_read_timeout(None).unwrap();
        let mut text = [0; 4];
        clone.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"late");

        other.set_write_timeout(Some(SHORT)).unwrap();
        let error = loop {
            if let Err(error) = other.write(&[0; 100_000]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_nonblocking_socket_does_not_wait() {
    everywhere(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.set_nonblocking(false).unwrap();
        let reads = start(move || one.read(&mut [0; 8]).unwrap());
        other.write_all(b"abc").unwrap();
        assert_eq!(reads(), 3);
    });
}

#[test]
fn connections_are_refused_and_time_out() {
    everywhere(|| {
        // Bound, so that no other test gets the port, and without a listener.
        let silent =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let free = silent.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(TcpStream::connect(free).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // The second of two addresses answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let stream = TcpStream::connect(&[free, there][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        assert!(TcpStream::connect_timeout(&there, Duration::from_secs(60)).is_ok());
        assert_eq!(
            TcpStream::connect_timeout(&there, Duration::ZERO).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(TcpStream::connect(&[][..]).unwrap_err().kind(), ErrorKind::InvalidInput);
        // A listener whose queue is full answers nobody.
        let full =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let address = full.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        let error = loop {
            match TcpStream::connect_timeout(&address, SHORT) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
            assert!(queued.len() < 100);
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn names_are_looked_up() {
    everywhere(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(TcpStream::connect(("localhost", port)).is_ok());
        assert!(
            TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
                || !listener.local_addr().unwrap().is_ipv4()
        );
        assert!("no address".to_socket_addrs().is_err());
        let all: Vec<_> = ("::1", 7).to_socket_addrs().unwrap().collect();
        assert_eq!(all, ["[::1]:7".parse().unwrap()]);
    });
}

#[test]
fn options_are_those_of_the_kernel() {
    let (one, _other) = tcp_pair();
    one.set_nodelay(true).unwrap();
    one.set_ttl(17).unwrap();
    one.set_linger(Some(Duration::from_secs(3))).unwrap();
    assert!(one.nodelay().unwrap());
    assert_eq!((one.ttl().unwrap(), one.linger().unwrap()), (17, Some(Duration::from_secs(3))));
    assert!(one.take_error().unwrap().is_none());
}

#[test]
fn vectors_and_peeks() {
    everywhere(|| {
        let (mut one, mut other) = tcp_pair();
        let reads = start(move || {
            let mut peeked = [0; 2];
            while other.peek(&mut peeked).unwrap() < 2 {}
            let (mut a, mut b) = ([0; 3], [0; 3]);
            let n = other
                .read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)])
                .unwrap();
            (peeked, n, a, b)
        });
        let n = one.write_vectored(&[IoSlice::new(b"abc"), IoSlice::new(b"def")]).unwrap();
        assert_eq!(n, 6);
        assert_eq!(reads(), (*b"ab", 6, *b"abc", *b"def"));
    });
}

#[test]
fn datagrams_arrive_whole() {
    everywhere(|| {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (here, there) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        let echo = start(move || {
            let mut buffer = [0; 100];
            for _ in 0..20 {
                let (n, from) = other.recv_from(&mut buffer).unwrap();
                other.send_to(&buffer[..n], from).unwrap();
            }
            other
        });
        one.connect(there).unwrap();
        assert_eq!(one.peer_addr().unwrap(), there);
        let mut buffer = [0; 100];
        for len in 1..=20 {
            one.send(&pattern(len)).unwrap();
            assert_eq!(one.peek(&mut buffer).unwrap(), len);
            assert_eq!(one.recv(&mut buffer).unwrap(), len);
            assert!(buffer[..len] == pattern(len));
        }
        let other = echo();
        other.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(other.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.send(b"x").unwrap();
        assert_eq!(other.peek_from(&mut buffer).unwrap(), (1, here));
    });
}

#[test]
fn unix_sockets_by_path_and_by_abstract_name() {
    everywhere(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let by_path = UnixListener::bind(&path).unwrap();
        let name = format!("pioman test {} {:?}", std::process::id(), std::thread::current().id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let by_name = UnixListener::bind_addr(&address).unwrap();
        let client = start(move || {
            let mut a = UnixStream::connect(&path).unwrap();
            let mut b = UnixStream::connect_addr(&address).unwrap();
            let c = UnixStream::connect_addr(&UnixAddress::from_pathname(&path).unwrap()).unwrap();
            assert_eq!(c.peer_addr().unwrap().as_pathname(), Some(&*path));
            a.write_all(b"path").unwrap();
            b.write_all(b"name").unwrap();
        });
        let mut text = String::new();
        by_path.accept().unwrap().0.read_to_string(&mut text).unwrap();
        by_name.incoming().next().unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "pathname");
        client();
    });
}

/// The kernel says "again" and never that it goes: a call that blocks has to wait.
#[test]
fn a_unix_listener_s_full_queue_is_waited_for() {
    everywhere(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let full =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        full.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        full.listen(1).unwrap();
        let listener = UnixListener::from(OwnedFd::from(full));
        let clients: Vec<_> = (0..5)
            .map(|_| {
                let path = path.clone();
                start(move || UnixStream::connect(path).unwrap().write_all(b"x").unwrap())
            })
            .collect();
        for _ in 0..5 {
            let mut stream = listener.accept().unwrap().0;
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
        }
        clients.into_iter().for_each(|join| join());
    });
}

#[test]
fn unix_datagrams_wait_for_room() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sends = start(move || {
            (0..2000u16).for_each(|i| assert_eq!(one.send(&i.to_ne_bytes()).unwrap(), 2))
        });
        for i in 0..2000u16 {
            let mut buffer = [0; 8];
            assert_eq!(other.recv(&mut buffer).unwrap(), 2);
            assert_eq!(buffer[..2], i.to_ne_bytes());
        }
        sends();
    });
}

#[test]
fn conversions_keep_the_connection_and_change_who_blocks() {
    everywhere(|| {
        let (one, other) = tcp_pair();
        one.set_read_timeout(Some(SHORT)).unwrap();
        let mut plain = std::net::TcpStream::from(one);
        assert!(plain.read_timeout().unwrap().is_some_and(|time| time >= SHORT));
        let start = Instant::now();
        // Ticks interrupt a read that blocks with a time-out: the kernel does not begin that one again.
        let error = loop {
            match plain.read(&mut [0; 8]).unwrap_err() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        // The kernel counts in its own ticks, the first of which may be nearly over.
        assert!(start.elapsed() >= SHORT / 2, "std's type waits by itself");
        let again = TcpStream::from(OwnedFd::from(plain));
        assert_eq!(again.read_timeout().unwrap(), Some(SHORT));
        (&again).write_all(b"x").unwrap();
        assert_eq!((&other).read(&mut [0; 8]).unwrap(), 1);
    });
}

/// The count of the first manager's registration says nothing about the second's.
#[test]
fn one_descriptor_serves_the_threads_of_several_managers() {
    let (reader, mut writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    let mut byte = [0];
    for round in 0..3 {
        for mode in [Mode::NoThread, Mode::Mono, Mode::Smp] {
            let runtime =
                Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap();
            let writes = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(round));
                writer.write_all(b"xy").unwrap();
                writer
            });
            let shared = reader.clone();
            assert_eq!(runtime.run(move || (&*shared).read(&mut [0]).unwrap()), 1);
            assert_eq!((&*reader).read(&mut byte).unwrap(), 1);
            writer = writes.join().unwrap();
        }
    }
}

/// Each runtime's manager has a set of its own, which is a descriptor.
#[test]
fn a_descriptor_that_outlives_runtimes_keeps_none_of_theirs() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    in_a_child("a_descriptor_that_outlives_runtimes_keeps_none_of_theirs", LONG, || {
        let (reader, writer) = UnixStream::pair().unwrap();
        reader.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let reader = Arc::new(reader);
        let mut first = 0;
        for round in 0..40 {
            let manager = Manager::builder().mode(Mode::NoThread);
            let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
            let shared = reader.clone();
            let waited = runtime.run(move || (&*shared).read(&mut [0]));
            assert_eq!(waited.unwrap_err().kind(), ErrorKind::WouldBlock);
            drop(runtime);
            if round == 0 {
                first = open();
            }
        }
        assert!(open() < first + 20, "{} descriptors, {first} after the first runtime", open());
        drop(writer);
    });
}

/// Numbers of descriptors are used again at once, by others that wait.
#[test]
fn a_descriptor_s_number_may_be_another_s() {
    everywhere(|| {
        for i in 0..200u8 {
            let (mut reader, mut writer) = pipe().unwrap();
            let reads = start(move || {
                let mut byte = [0];
                reader.read_exact(&mut byte).unwrap();
                byte[0]
            });
            if i % 2 == 0 {
                marcel::yield_now();
            }
            writer.write_all(&[i]).unwrap();
            assert_eq!(reads(), i);
        }
    });
}

#[test]
fn a_regular_file_cannot_be_waited_for() {
    let file = tempfile::tempfile().unwrap();
    let error = Registered::new(file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("regular file"), "{error}");
}

#[test]
fn a_registered_descriptor_is_waited_for_with_and_without_a_deadline() {
    everywhere(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Registered::new(reader).unwrap();
        assert_eq!(
            Registered::new(reader.as_fd()).unwrap_err().kind(),
            ErrorKind::AlreadyExists,
            "the same descriptor"
        );
        let soon = Instant::now() + SHORT;
        assert!(!reader.wait_readable_until(soon).unwrap());
        assert!(Instant::now() >= soon);
        assert!(reader.try_io(|mut r| r.read(&mut [0; 8])).unwrap().is_none());
        let reader = Arc::new(reader);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let reader = reader.clone();
                start(move || reader.wait_readable().unwrap())
            })
            .collect();
        marcel::sleep(Duration::from_millis(1));
        writer.write_all(b"x").unwrap();
        waiters.into_iter().for_each(|join| join());
        assert!(reader.wait_readable_until(Instant::now()).unwrap(), "it is still there");
        let far = Instant::now() + Duration::from_secs(60);
        assert_eq!(
            reader
                .io_until(pioman::fd::Interest::Readable, far, |mut r| r.read(&mut [0; 8]))
                .unwrap(),
            Some(1)
        );
        let writer = Registered::new(writer).unwrap();
        writer.wait_writable().unwrap();
        while writer.try_io(|mut w| w.write(&[0; 4096])).unwrap().is_some() {}
        assert!(!writer.wait_writable_until(Instant::now() + SHORT).unwrap());
        drop(Arc::try_unwrap(reader).unwrap().into_inner());
        writer.wait_writable().unwrap(); // the end is an event
    });
}

/// A wait ends by the unwinding of a runtime that stops; the next user of the descriptor finds no trace of it.
#[test]
fn a_runtime_that_stops_takes_its_waiters_off() {
    for mode in [Mode::Mono, Mode::Smp] {
        for _ in 0..20 {
            let (one, other) = UnixStream::pair().unwrap();
            let one = Arc::new(one);
            let runtime =
                Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap();
            let shared = one.clone();
            runtime.run(move || {
                for _ in 0..3 {
                    let (reads, writes) = (shared.clone(), shared.clone());
                    marcel::spawn(move || (&*reads).read(&mut [0; 8]));
                    marcel::spawn(move || (&*writes).write_all(&[0; 1_000_000]));
                }
                marcel::yield_now();
                marcel::sleep(Duration::from_micros(300));
            });
            drop(runtime);
            (&other).write_all(b"x").unwrap();
            assert_eq!((&*one).read(&mut [0; 8]).unwrap(), 1);
        }
    }
}

/// What waits in a destructor of a thread that is unwound would wait for ever.
#[test]
fn a_destructor_that_would_wait_gets_an_error() {
    struct Reads(UnixStream, std::sync::mpsc::Sender<io::Result<usize>>);
    impl Drop for Reads {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.read(&mut [0; 8]));
        }
    }
    let (one, _other) = UnixStream::pair().unwrap();
    let (told, tells) = std::sync::mpsc::channel();
    let runtime = Runtime::build(Manager::builder(), marcel::Runtime::builder()).unwrap();
    let reads = Reads(one, told);
    runtime.run(move || {
        marcel::spawn(move || {
            let _reads = reads; // whether it gets here or not
            loop {
                marcel::park();
            }
        });
        marcel::yield_now();
    });
    drop(runtime);
    let error = tells.recv().unwrap().unwrap_err();
    assert!(error.to_string().contains("stops"), "{error}");
}

/// Only calls that are made in the child matter here, so it says what happened by its exit status.
#[test]
fn a_child_of_fork_gets_an_error_where_it_would_wait() {
    // Alone in a process: where other tests run, the child may inherit a lock that one of their threads holds.
    const ALONE: &str = "PIOMAN_NET_FORKS";
    if std::env::var_os(ALONE).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_of_fork_gets_an_error_where_it_would_wait", "--nocapture"])
            .arg("--test-threads=1")
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{}: {text}", output.status);
        return;
    }
    let (mut reader, mut writer) = pipe().unwrap();
    writer.write_all(b"x").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    let soon = Instant::now() + Duration::from_millis(1);
    assert!(!reader.registered().wait_readable_until(soon).unwrap()); // registered now
    // SAFETY: the child makes system calls, allocates (glibc's allocator is usable after a fork) and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let waited = reader.read(&mut [0]);
        let told = waited.is_err_and(|error| error.to_string().contains("fork"));
        drop(reader);
        // SAFETY: no destructors, no handlers.
        unsafe { libc::_exit(if told { 7 } else { 8 }) };
    }
    let (mut status, limit) = (0, Instant::now() + Duration::from_secs(60));
    // SAFETY: our child.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } != child {
        if Instant::now() > limit {
            // SAFETY: our child.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 7);
    // The child has not taken the parent's descriptor out of the parent's set.
    let reads = std::thread::spawn(move || reader.read(&mut [0]).unwrap());
    std::thread::sleep(Duration::from_millis(5));
    writer.write_all(b"y").unwrap();
    assert_eq!(reads.join().unwrap(), 1);
}

/// A child waits, as far as it can, beside a thread of its parent's that sleeps: neither disturbs the other.
#[test]
fn a_child_of_fork_does_not_take_what_its_parent_waits_for() {
    let test = "a_child_of_fork_does_not_take_what_its_parent_waits_for";
    in_a_child(test, Duration::from_secs(60), || {
        for round in 0..20 {
            let (mut reader, mut writer) = pipe().unwrap();
            writer.write_all(b"x").unwrap();
            reader.read_exact(&mut [0]).unwrap();
            let manager = pioman::Manager::here().unwrap();
            // SAFETY: the child makes system calls, allocates (glibc's allocator is usable after a fork) and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let limit = Instant::now() + Duration::from_millis(50);
                let done = pioman::Completion::new();
                let waited = manager.wait_until(&done, pioman::Hint::Long, limit);
                // SAFETY: no destructors, no handlers.
                unsafe { libc::_exit(waited.into()) };
            }
            let reads = std::thread::spawn(move || reader.read(&mut [0]).unwrap());
            std::thread::sleep(Duration::from_millis(5 * (round % 2)));
            writer.write_all(b"y").unwrap();
            assert_eq!(reads.join().unwrap(), 1);
            let mut status = 0;
            // SAFETY: our child.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    });
}

/// A ring of pipes: each of many threads passes on what it gets, plus one.
/// Numbers go round a ring of pipes, each through all of so many threads.
fn ring(manager: pioman::Builder, threads: u32) {
    let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
    runtime.run(|| {
        let (first, mut into) = pipe().unwrap();
        let mut last = first;
        for _ in 0..threads {
            let (next, mut out) = pipe().unwrap();
            let mut from = std::mem::replace(&mut last, next);
            marcel::spawn(move || {
                let mut number = [0; 4];
                while from.read_exact(&mut number).is_ok() {
                    out.write_all(&(u32::from_ne_bytes(number) + 1).to_ne_bytes()).unwrap();
                }
            });
        }
        let mut number = [0; 4];
        for start in 0..10u32 {
            into.write_all(&start.to_ne_bytes()).unwrap();
        }
        for start in 0..10u32 {
            last.read_exact(&mut number).unwrap();
            assert_eq!(u32::from_ne_bytes(number), start + threads);
        }
        drop(into);
        assert_eq!(last.read(&mut number).unwrap(), 0);
    });
}

#[test]
fn a_thousand_threads_in_a_ring_of_pipes() {
    for mode in [Mode::Mono, Mode::Smp] {
        ring(Manager::builder().mode(mode), 1000);
    }
}

/// A thread that polls gives way to the one whose work it waits for.
#[test]
fn a_ring_goes_round_under_every_policy() {
    for name in pioman::policy::NAMES {
        for mode in [Mode::Mono, Mode::Smp] {
            let policy = pioman::policy::by_name(name).unwrap();
            ring(Manager::builder().mode(mode).policy(policy), 50);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the pieces that are written, read and timed out: the bytes come in order, once.
    #[test]
    fn bytes_come_in_order_however_they_are_cut(
        writes in prop::collection::vec(1usize..9000, 1..60),
        reads in prop::collection::vec(1usize..9000, 1..20),
        pauses in prop::collection::vec(0u64..300, 1..10),
        smp: bool,
        unix: bool,
    ) {
        let mode = if smp { Mode::Smp } else { Mode::Mono };
        let runtime = Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap();
        let total: usize = writes.iter().sum();
        let got = runtime.run(move || {
            let (mut one, mut other): (OwnedFd, OwnedFd) = if unix {
                let (one, other) = UnixStream::pair().unwrap();
                (one.into(), other.into())
            } else {
                let (one, other) = tcp_pair();
                (one.into(), other.into())
            };
            if !unix {
                std::mem::swap(&mut one, &mut other);
            }
            let (mut one, mut other) = (TcpStream::from(one), TcpStream::from(other));
            let writer = marcel::spawn(move || {
                let bytes = pattern(total);
                let mut rest = &bytes[..];
                for (i, len) in writes.into_iter().enumerate() {
                    let (piece, after) = rest.split_at(len);
                    one.write_all(piece).unwrap();
                    rest = after;
                    match pauses[i % pauses.len()] {
                        0..100 => {}
                        100..200 => marcel::yield_now(),
                        us => marcel::sleep(Duration::from_micros(us)),
                    }
                }
            });
            other.set_read_timeout(Some(Duration::from_micros(150))).unwrap();
            let mut got = Vec::new();
            for len in reads.into_iter().cycle() {
                let mut piece = vec![0; len];
                match other.read(&mut piece) {
                    Ok(0) => break,
                    Ok(n) => got.extend_from_slice(&piece[..n]),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            writer.join().unwrap();
            got
        });
        prop_assert!(got == pattern(total));
    }
}
