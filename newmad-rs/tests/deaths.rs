//! Processes that are killed while others wait for them: an error that names the rank, soon, and never a hang.

mod common;

use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::tolerance::Contribution;
use newmad::{ANY, Cause, Error, Session};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "in_recv" => in_recv,
        "in_send" => in_send,
        "computing" => computing,
        "survivors" => survivors,
        "leaves" => leaves,
        "agreeing" => agreeing,
        "calling" => calling,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

fn kill_oneself() -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("SIGKILL does not return")
}

/// Rank 1, the last, dies; the others succeed.
fn one_dies(scenario: &str, size: usize) {
    for env in
        common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")])
    {
        let ended = launch(scenario, size, &[env]).end(LIMIT);
        for (rank, end) in ended.iter().enumerate() {
            let expected = if rank == 1 { None } else { Some(0) };
            assert!(end.code == expected, "{env:?}: rank {rank}: {end:#?}");
        }
    }
}

fn soon<T: std::fmt::Debug>(since: Instant, result: Result<T, Error>) {
    match result {
        Err(Error::PeerDied { rank: 1, cause: Cause::Vanished }) => {}
        other => panic!("{other:?}"),
    }
    let took = since.elapsed();
    // Far from the network's own time-outs, and from what a busy machine does to two processes that post many sends.
    assert!(took < Duration::from_secs(60), "noticed after {took:?}");
}

fn in_recv(session: &Session) -> Result<(), Error> {
    if session.rank() == 1 {
        session.send(0, 1, b"last words")?;
        std::thread::sleep(Duration::from_millis(50));
        kill_oneself();
    }
    let start = Instant::now();
    soon(start, session.recv(1, 2, &mut [0; 8]));
    // What it sent before it died is there, and from then on everything fails at once.
    let mut words = [0; 16];
    assert_eq!(session.recv(1, 1, &mut words)?.len, 10);
    let start = Instant::now();
    soon(start, session.recv(1, 1, &mut words));
    soon(start, session.send(1, 1, b"x"));
    soon(start, session.send(1, 1, &message(1, 100_000)));
    soon(start, session.irecv(1, 1, vec![0; 8])?.wait());
    soon(start, session.recv(ANY, 9, &mut words));
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "no time-out of the network's was waited for"
    );
    // One's own messages still arrive.
    let own = session.isend(0, 4, "own")?;
    assert_eq!(session.recv(0, 4, &mut words)?.len, 3);
    own.wait().map(drop)
}

#[test]
fn killed_while_the_other_receives() {
    one_dies("in_recv", 2);
}

/// Rank 1 dies with calls that were asked for and have not come. (No rank's calls were served any more.)
fn calling(session: &Session) -> Result<(), Error> {
    let rpc = session.rpc()?;
    rpc.serve("back", |_, data: Vec<u8>| data)?;
    session.barrier()?;
    match session.rank() {
        0 => soon(Instant::now(), session.recv(1, 1, &mut [0])),
        1 => {
            for round in 0..10 {
                rpc.cast(0, "back", &message(round, 1000)).unwrap();
            }
            kill_oneself();
        }
        _ => {
            soon(Instant::now(), session.recv(1, 1, &mut [0]));
            let answer: Vec<u8> = rpc.call(0, "back", &message(1, 100)).unwrap().wait().unwrap();
            assert!(answer == message(1, 100));
        }
    }
    // Until both have come so far.
    let mut word = [0];
    if session.rank() == 0 {
        session.recv(2, 2, &mut word)?;
    } else {
        session.send(0, 2, &word)?;
    }
    Ok(())
}

#[test]
fn killed_with_calls_half_way() {
    for driver in common::settings(&[("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp")]) {
        let ended = launch("calling", 3, &[driver, ("NMAD_RDV_THRESHOLD", "0")]).end(LIMIT);
        for (rank, end) in ended.iter().enumerate() {
            let expected = if rank == 1 { None } else { Some(0) };
            assert!(end.code == expected, "{driver:?}: rank {rank}: {end:#?}");
        }
    }
}

/// Without a hook for failures. (The probe that waits for words of the ring's began anew for ever when nobody was left.)
fn agreeing(session: &Session) -> Result<(), Error> {
    session.barrier()?;
    if session.rank() == 1 {
        kill_oneself();
    }
    let start = Instant::now();
    let flags = |flags| Contribution { flags, offer: 0, acknowledged: Vec::new() };
    assert_eq!(session.agree(7, &[0, 1], flags(6))?.wait()?.failed, [1]);
    assert_eq!(session.agree(7, &[0, 1], flags(3))?.wait()?.flags, 3);
    soon(start, session.recv(1, 1, &mut [0; 8]));
    Ok(())
}

#[test]
fn killed_while_the_other_agrees() {
    one_dies("agreeing", 2);
}

fn in_send(session: &Session) -> Result<(), Error> {
    if session.rank() == 1 {
        session.barrier()?;
        std::thread::sleep(Duration::from_millis(50));
        kill_oneself();
    }
    session.barrier()?;
    let start = Instant::now();
    // A rendezvous that is never answered, and short messages until the track is full.
    let long = session.isend(1, 1, message(1, 5_000_000))?;
    let short: Vec<_> =
        (0..5_000).map(|_| session.isend(1, 2, vec![0; 8000])).collect::<Result<_, _>>()?;
    soon(start, long.wait());
    for send in short {
        let _ = send.wait();
    }
    soon(start, session.send(1, 2, b"x"));
    Ok(())
}

#[test]
fn killed_while_the_other_sends() {
    one_dies("in_send", 2);
}

fn computing(session: &Session) -> Result<(), Error> {
    // The peer dies while a large message moves and this side computes.
    if session.rank() == 1 {
        session.barrier()?;
        let request = session.irecv(0, 1, vec![0; 100_000_000])?;
        std::thread::sleep(Duration::from_millis(3));
        std::mem::forget(request);
        kill_oneself();
    }
    let data = vec![1; 100_000_000];
    session.barrier()?;
    let start = Instant::now();
    match session.isend(1, 1, data)?.wait() {
        Ok(_) => Ok(()),
        failed => {
            soon(start, failed);
            Ok(())
        }
    }
}

#[test]
fn killed_in_the_middle_of_a_large_message() {
    one_dies("computing", 2);
}

fn survivors(session: &Session) -> Result<(), Error> {
    let rank = session.rank();
    if rank == 1 {
        session.barrier()?;
        kill_oneself();
    }
    let waiting = session.irecv(ANY, 5, vec![0; 8])?;
    session.barrier()?;
    soon(Instant::now(), session.recv(1, 3, &mut [0; 8]));
    // Receives from any rank go on as long as one lives.
    let other = 2 - rank;
    session.send(other, 5, b"alive")?;
    let (_, status) = waiting.wait()?;
    assert_eq!((status.source, status.len), (other, 5));
    Ok(())
}

#[test]
fn the_others_go_on() {
    one_dies("survivors", 3);
}

fn leaves(session: &Session) -> Result<(), Error> {
    // Rank 1 ends in order while rank 0 still wants something: not a death, but an end.
    if session.rank() == 1 {
        return session.send(0, 1, b"bye");
    }
    match session.recv(1, 2, &mut [0; 8]) {
        Err(Error::PeerDied { rank: 1, cause: Cause::Left }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(session.recv(1, 1, &mut [0; 8])?.len, 3);
    assert!(session.send(1, 1, b"x").is_err());
    Ok(())
}

#[test]
fn an_orderly_end_is_told_from_a_death() {
    for driver in ["shm", "tcp"] {
        launch("leaves", 2, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

#[test]
fn a_peer_that_never_comes_is_an_error() {
    // Only one of the two ranks exists: the other's place in the barrier is never taken.
    let ended =
        common::launch_some("leaves", 2, 1, &[("NMAD_CONNECT_TIMEOUT_MS", "300")]).end(LIMIT);
    assert!(ended[0].text.contains("NMAD_CONNECT_TIMEOUT_MS"), "{ended:#?}");
    assert_ne!(ended[0].code, Some(0));
}

#[test]
fn wrong_knobs_are_errors_that_name_them() {
    for (knob, value) in [
        ("NMAD_DRIVER", "carrier-pigeon"),
        ("NMAD_RDV_THRESHOLD", "many"),
        ("NMAD_SHM_SLOTS", "3"),
        ("NMAD_SHM_SLOT_SIZE", "100"),
        ("NMAD_CMA", "perhaps"),
        ("NMAD_TCP_ADDRESS", "nowhere"),
    ] {
        let ended = launch("leaves", 1, &[(knob, value)]).end(LIMIT);
        assert_ne!(ended[0].code, Some(0));
        assert!(ended[0].text.contains(knob) && ended[0].text.contains(value), "{ended:#?}");
    }
}
