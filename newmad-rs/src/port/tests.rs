//! Ports between threads of this process.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use super::*;
use crate::Session;

fn soon() -> Instant {
    sys::deadline(Duration::from_secs(20))
}

#[test]
fn a_caller_with_the_name_gets_a_channel() {
    let port = Port::open().unwrap();
    let name = port.name().to_owned();
    assert!(!name.contains([' ', ';', '=']));
    let long = vec![7; 3 << 20];
    let theirs = long.clone();
    let caller = thread::spawn(move || {
        let mut channel = call(&name, soon()).unwrap();
        assert_eq!(channel.exchange(&theirs, soon()).unwrap(), theirs);
        channel.send(b"short", soon()).unwrap();
        channel.secret()
    });
    let mut channel = port.accept(Some(soon())).unwrap();
    assert_eq!(channel.exchange(&long, soon()).unwrap(), long);
    assert_eq!(channel.receive(soon()).unwrap(), b"short");
    assert_eq!(caller.join().unwrap(), channel.secret());
    assert!(matches!(channel.receive(soon()), Err(Failure::Lost(_))), "the other side has ended");
}

#[test]
fn strangers_hold_up_nobody() {
    let port = Port::open().unwrap();
    let address = port.listener.local_addr().unwrap();
    let silent: Vec<TcpStream> =
        (0..2 * STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut liar = TcpStream::connect(address).unwrap();
    liar.write_all(&[b'x'; 100]).unwrap();
    let name = port.name().to_owned();
    let caller = thread::spawn(move || call(&name, soon()).map(|channel| channel.secret()));
    let channel = port.accept(Some(soon())).unwrap();
    assert_eq!(caller.join().unwrap().unwrap(), channel.secret());
    drop(port);
    let mut rest = Vec::new();
    let _ = liar.read_to_end(&mut rest);
    assert!(rest.is_empty(), "a stranger was told something");
    drop(silent);
}

/// Both have proven themselves before the first accept ends, and the second accept comes late.
#[test]
fn a_caller_waits_for_as_long_as_nobody_accepts() {
    let port = Port::open().unwrap();
    let callers = [(); 2].map(|()| {
        let name = port.name().to_owned();
        thread::spawn(move || {
            let mut channel = call(&name, soon()).unwrap();
            channel.receive(soon()).unwrap()
        })
    });
    thread::sleep(Duration::from_millis(200));
    for pause in [PATIENCE + Duration::from_millis(100), Duration::ZERO] {
        let mut channel = port.accept(Some(soon())).unwrap();
        channel.send(b"welcome", soon()).unwrap();
        thread::sleep(pause);
    }
    for caller in callers {
        assert_eq!(caller.join().unwrap(), b"welcome");
    }
}

#[test]
fn a_name_that_leads_nowhere_is_an_error_in_time() {
    for name in ["", "x", "newmad-port1,00,127.0.0.1:80", "newmad-port2,"] {
        assert!(matches!(call(name, soon()), Err(Failure::BadName)), "{name}");
    }
    let port = Port::open().unwrap();
    let (name, address) = (port.name().to_owned(), port.listener.local_addr().unwrap());
    assert!(matches!(call(&name, sys::deadline(Duration::from_millis(50))), Err(Failure::Late)));
    let closed = sys::deadline(Duration::from_millis(50));
    assert!(matches!(port.accept(Some(closed)), Err(Failure::Late)));
    drop(port);
    assert!(matches!(call(&name, soon()), Err(Failure::Refused)));
    // Another port has its number, and another key.
    let Ok(listener) = TcpListener::bind(address) else { return };
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; greeting::HELLO];
        stream.read_exact(&mut hello).unwrap();
        let challenge = crate::authentication::challenge(&[1; KEY], &hello, [2; 16]).unwrap();
        stream.write_all(&challenge).unwrap();
    });
    assert!(matches!(call(&name, soon()), Err(Failure::Refused)));
    other.join().unwrap();
}

#[test]
fn the_ends_of_a_socket_join() {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut kept, mut kept_too) = (one.try_clone().unwrap(), other.try_clone().unwrap());
    let there = thread::spawn(move || join(other.into(), soon()).unwrap());
    let (here, first) = join(one.into(), soon()).unwrap();
    let (there, second) = there.join().unwrap();
    assert_eq!((here.secret(), first), (there.secret(), !second));
    // The socket is the program's again.
    for socket in [&mut kept, &mut kept_too] {
        socket.set_nonblocking(true).unwrap();
        assert!(socket.read(&mut [0]).is_err(), "something was left in the socket");
    }
}

#[test]
fn processes_that_are_introduced_open_a_session() {
    let manager = pioman::Manager::builder().build().unwrap();
    let size = 3;
    let secret = [9; KEY];
    let all: Vec<_> = (0..size)
        .map(|rank| {
            let builder = Session::builder().manager(Arc::clone(&manager));
            builder.introduce(rank, size, secret).unwrap()
        })
        .collect();
    let cards: Vec<String> = all.iter().map(|one| one.card().to_owned()).collect();
    let zero = "0".repeat(2 * KEY);
    assert!(cards.iter().all(|card| card.contains(&zero)), "a key travels with a card");
    let threads: Vec<_> = all
        .into_iter()
        .map(|one| {
            let cards = cards.clone();
            thread::spawn(move || {
                let session = one.open(cards).unwrap();
                let next = (session.rank() + 1) % session.size();
                let sent = session.isend(next, 5, vec![session.rank() as u8]).unwrap();
                let mut got = [0];
                session.recv(crate::ANY, 5, &mut got).unwrap();
                sent.wait().unwrap();
                assert_eq!(u32::from(got[0] + 1) % size, session.rank());
                assert!(session.process_manager().job().is_err());
                session.close().unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
