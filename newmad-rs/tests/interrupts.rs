//! Processes that compute are interrupted by their peers, over shared memory.

mod common;

use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::{Error, SendOptions, Session};
use pioman::Point;

/// A round counts only if both ranks have a core at the same time: a busy machine takes many rounds.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "interrupted" => interrupted,
        "waits" => waits,
        "both" => both,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

fn interrupts(session: &Session) -> u64 {
    let counters = session.manager().counters();
    counters.source("newmad").map_or(0, |newmad| newmad.at(Point::Interrupt).hits)
}

/// Computes for that long, and calls nothing.
fn compute(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Rank 0 sends to rank 1, which computes, until a message was found by an interrupt: a tick may come first.
fn interrupted(session: &Session) -> Result<(), Error> {
    for size in [4, 40_000, 1 << 20] {
        let data = message(size as u64, size);
        for round in 0.. {
            assert!(round < 1000, "{size} bytes: never found by an interrupt");
            let mut found = [0];
            if session.rank() == 0 {
                session.barrier()?;
                compute(Duration::from_micros(300));
                // Its receiver has to answer, however short it is.
                session.isend_with(1, 1, data.clone(), SendOptions::new().sync())?.wait()?;
                session.recv(1, 2, &mut found)?;
            } else {
                let before = interrupts(session);
                let receive = session.irecv(0, 1, vec![0; size])?;
                session.barrier()?;
                compute(Duration::from_millis(10));
                let after = interrupts(session);
                assert!(receive.wait()?.0 == data);
                found = [u8::from(after > before)];
                session.send(0, 2, &found)?;
            }
            if found[0] != 0 {
                break;
            }
        }
    }
    Ok(())
}

#[test]
fn a_computing_receiver_is_interrupted() {
    for env in
        [[("MARCEL_MODE", "mono"); 2], [("MARCEL_MODE", "smp"), ("PIOM_POLICY", "interrupt")]]
    {
        launch("interrupted", 2, &env).succeed(LIMIT);
        launch("interrupted", 2, &[env[0], env[1], ("NMAD_CMA", "0")]).succeed(LIMIT);
    }
}

/// Blocking calls only. A process that polls or sleeps is not interrupted; one whose wait has just stopped to poll, and is
/// about to sleep, may be.
fn waits(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let mut buffer = vec![0; 100_000];
    for round in 0..200 {
        let size = [4, 3_000, 100_000][round % 3];
        if round % 20 == 0 && session.rank() == 0 {
            std::thread::sleep(Duration::from_millis(2)); // the peer falls asleep
        }
        for sends in [session.rank() == 0, session.rank() == 1] {
            match sends {
                true => session.send(peer, 1, &buffer[..size])?,
                false => drop(session.recv(peer, 1, &mut buffer)?),
            }
        }
    }
    let interrupts = interrupts(session);
    assert!(interrupts <= 20, "{interrupts} interrupts in 400 waits");
    Ok(())
}

#[test]
fn processes_that_wait_are_not_interrupted() {
    launch("waits", 2, &[("MARCEL_MODE", "mono")]).succeed(LIMIT);
}

/// All ranks compute, allocate, write files, and interrupt each other.
fn both(session: &Session) -> Result<(), Error> {
    let (me, size) = (session.rank(), session.size());
    for round in 0..150u64 {
        let lens = [8, 12_000, 70_000, 300_000];
        let len = |from: u32| lens[(round + u64::from(from)) as usize % lens.len()];
        let others = || (0..size).filter(|rank| *rank != me);
        let receives = others()
            .map(|peer| session.irecv(peer, round, vec![0; len(peer)]))
            .collect::<Result<Vec<_>, _>>()?;
        let data = message(round << 8 | u64::from(me), len(me));
        let sends = others()
            .map(|peer| session.isend_with(peer, round, data.clone(), SendOptions::new().sync()))
            .collect::<Result<Vec<_>, _>>()?;
        let until = Instant::now() + Duration::from_micros(500);
        let mut kept = Vec::new();
        while Instant::now() < until {
            kept.push(vec![round; 1 + kept.len() % 300]);
            let (mut near, mut far) = std::io::pipe().unwrap();
            std::io::Write::write_all(&mut far, &round.to_ne_bytes()).unwrap();
            let mut back = [0; 8];
            std::io::Read::read_exact(&mut near, &mut back).unwrap();
            assert_eq!(u64::from_ne_bytes(back), round);
        }
        assert!(kept.iter().flatten().all(|value| *value == round));
        for (peer, receive) in others().zip(receives) {
            let (buffer, _) = receive.wait()?;
            assert!(buffer == message(round << 8 | u64::from(peer), len(peer)), "round {round}");
        }
        for send in sends {
            send.wait()?;
        }
    }
    session.barrier()
}

#[test]
fn processes_that_interrupt_each_other_lose_nothing() {
    for size in [2, 4] {
        launch("both", size, &[("MARCEL_MODE", "mono")]).succeed(LIMIT);
        let env = [("MARCEL_MODE", "smp"), ("PIOM_POLICY", "interrupt")];
        launch("both", size, &env).succeed(LIMIT);
        launch("both", size, &[env[0], env[1], ("NMAD_CMA", "0")]).succeed(LIMIT);
    }
}
