//! The rule of the progress path (DESIGN §4.1): an allocator that aborts when it is called from there.

mod common;
#[path = "../../pioman-rs/tests/common/strict.rs"]
mod strict;

use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::{ANY, Error, Session};
use pioman::Point;
use strict::FORBIDDEN;

/// One look for events, in which nothing may be allocated or freed.
fn poll(session: &Session) -> bool {
    FORBIDDEN.set(true);
    let found = session.manager().poll(Point::Library);
    FORBIDDEN.set(false);
    found
}

fn poll_until(session: &Session, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing happens any more");
        if !poll(session) {
            std::thread::yield_now();
        }
    }
}

const SIZES: [usize; 8] = [0, 1, 100, 9_000, 16_000, 40_000, 300_000, 2_000_000];

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    if std::env::var(common::SCENARIO).is_err() {
        return;
    }
    let talk = |session: &Session| -> Result<(), Error> {
        let peer = 1 - session.rank();
        for round in 0..20 {
            let mut receives = Vec::new();
            let mut sends = Vec::new();
            // Half of the receives are posted before their messages come, half afterwards.
            for (tag, &size) in SIZES.iter().enumerate().filter(|(tag, _)| tag % 2 == round % 2) {
                receives.push((size, session.irecv(peer, tag as u64, vec![0; size])?));
            }
            for (tag, &size) in SIZES.iter().enumerate() {
                sends.push(session.isend(peer, tag as u64, message(tag as u64, size))?);
            }
            // A burst, which leaves in packets of several messages, and meets cells.
            for number in 0..40 {
                sends.push(session.isend_with_priority(peer, 9, vec![round as u8; 8], number)?);
            }
            let start = Instant::now();
            poll_until(session, || start.elapsed() > Duration::from_millis(2));
            for (tag, &size) in SIZES.iter().enumerate().filter(|(tag, _)| tag % 2 != round % 2) {
                receives.push((size, session.irecv(ANY, tag as u64, vec![0; size])?));
            }
            for _ in 0..40 {
                receives.push((8, session.irecv(peer, 9, vec![0; 8])?));
            }
            for (size, mut receive) in receives {
                poll_until(session, || {
                    FORBIDDEN.set(true);
                    let over = receive.test();
                    FORBIDDEN.set(false);
                    over
                });
                assert_eq!(receive.wait()?.1.len, size);
            }
            for mut send in sends {
                poll_until(session, || send.test());
                send.wait()?;
            }
        }
        Ok(())
    };
    if let Err(error) = newmad::run(talk).and_then(|result| result) {
        panic!("{error}");
    }
}

#[test]
fn no_driver_allocates_while_it_makes_progress() {
    for env in [
        ("NMAD_DRIVER", "shm"),
        ("NMAD_DRIVER", "tcp"),
        ("NMAD_CMA", "0"),
        ("NMAD_STRATEGY", "aggreg"),
        ("NMAD_STRATEGY", "prio"),
    ] {
        // Progress off: the only polls are those of this test.
        let env = [env, ("PIOM_ENABLE_PROGRESSION", "0"), ("MARCEL_MODE", "no-thread")];
        launch("talk", 2, &env).succeed(Duration::from_secs(30));
    }
}

#[test]
fn the_check_works() {
    if std::env::var("NEWMAD_TEST_ABORT").is_ok() {
        FORBIDDEN.set(true);
        drop(std::hint::black_box(Box::new(1)));
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_check_works"])
        .env("NEWMAD_TEST_ABORT", "1")
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .status();
    assert!(!status.unwrap().success());
}
