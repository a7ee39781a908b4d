//! Eager credit comes back: a receiver of everything is never out of reach of short blocking sends, also when one
//! thread plays both sides and no other looks for events.

mod common;

use std::time::Duration;

use common::launch;
use newmad::{Error, Session};
use pioman::Manager;

/// More bytes than the smallest credit has, many times over; and more packets than a ring has slots.
const MESSAGES: usize = 3000;
/// The smallest credit that there is.
const SMALL: (&str, &str) = ("NMAD_EAGER_CREDIT", "1024");
/// Far more than any of these takes; without credit they never end.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let result = match scenario.as_str() {
        "alone" => alone(),
        "full" => full(),
        "one way" => newmad::run(one_way).and_then(|result| result),
        _ => newmad::run(ping_pong).and_then(|result| result),
    };
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// How a rank receives in a test: with a request that stays, or blocking.
fn receive(session: &Session, from: u32, waits: bool, expected: &[u8]) -> Result<(), Error> {
    let mut buffer = vec![0; 600];
    let len = if waits {
        session.recv(from, 1, &mut buffer)?.len
    } else {
        let receive = session.irecv(from, 1, buffer)?;
        let (back, status) = receive.wait()?;
        buffer = back;
        status.len
    };
    assert_eq!(&buffer[..len], expected);
    Ok(())
}

/// One thread plays all ranks, in each pattern and with each kind of receive.
fn alone() -> Result<(), Error> {
    // (from, to) in turns.
    let patterns: [&[(usize, usize)]; 4] =
        [&[(0, 1)], &[(0, 1), (1, 0)], &[(0, 1), (1, 2), (2, 0)], &[(0, 1), (0, 2), (2, 2)]];
    for pattern in patterns {
        for waits in [true, false] {
            for sizes in [&[1][..], &[40], &[0, 500], &[300, 30, 560]] {
                let manager = Manager::builder().build().unwrap();
                let ranks = Session::local_world(3, &manager)?;
                for number in 0..MESSAGES {
                    let data = vec![number as u8; sizes[number % sizes.len()]];
                    for &(from, to) in pattern {
                        ranks[from].send(to as u32, 1, &data)?;
                        receive(&ranks[to], from as u32, waits, &data)?;
                    }
                }
            }
        }
    }
    // Bursts that fill the credit, one way and then the other.
    let manager = Manager::builder().build().unwrap();
    let ranks = Session::local_world(2, &manager)?;
    for turn in 0..MESSAGES / 10 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        for number in 0..10 {
            ranks[from].send(to as u32, 1, &[number])?;
        }
        for number in 0..10 {
            receive(&ranks[to], from as u32, turn % 3 == 0, &[number])?;
        }
    }
    Ok(())
}

/// The word has no room when it is owed: the track is full of messages that no receive takes yet.
fn full() -> Result<(), Error> {
    let manager = Manager::builder().build().unwrap();
    let ranks = Session::local_world(2, &manager)?;
    for number in 0..4 {
        ranks[1].send(0, 1, &[number])?;
    }
    for number in 0..MESSAGES {
        let data = [number as u8; 1];
        ranks[0].send(1, 1, &data)?;
        receive(&ranks[1], 0, number % 7 != 0, &data)?;
    }
    for number in 0..4 {
        receive(&ranks[0], 1, true, &[number])?;
    }
    Ok(())
}

/// One side only sends, the other only receives.
fn one_way(session: &Session) -> Result<(), Error> {
    for number in 0..MESSAGES {
        let data = [number as u8; 1];
        if session.rank() == 0 {
            session.send(1, 1, &data)?;
        } else {
            receive(session, 0, number % 7 != 0, &data)?;
        }
    }
    Ok(())
}

fn ping_pong(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for number in 0..MESSAGES {
        let data = [number as u8; 1];
        for from in 0..2 {
            if session.rank() == from {
                session.send(peer, 1, &data)?;
            } else {
                receive(session, from, number % 7 != 0, &data)?;
            }
        }
    }
    Ok(())
}

#[test]
fn one_thread_plays_all_ranks() {
    for lock in [("NMAD_LOCK", "coarse"), ("NMAD_LOCK", "fine")] {
        launch("alone", 1, &[SMALL, lock]).succeed(PATIENCE);
        launch("full", 1, &[SMALL, lock, ("NMAD_SHM_SLOTS", "4")]).succeed(PATIENCE);
    }
}

#[test]
fn who_only_sends_and_who_only_receives() {
    for driver in common::drivers(&["shm", "tcp"]) {
        for lock in ["coarse", "none", "fine"] {
            let env = [("NMAD_DRIVER", driver), ("NMAD_LOCK", lock), SMALL];
            launch("one way", 2, &env).succeed(PATIENCE);
            launch("ping-pong", 2, &env).succeed(PATIENCE);
        }
    }
}
