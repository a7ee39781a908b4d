//! Rule 1 of the progress path: an allocator that aborts when it is called from there.

mod common;
#[path = "../../pioman-rs/tests/common/strict.rs"]
mod strict;

use std::io::IoSliceMut;
use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::{ANY, Error, Session, Strided, Tag};
use pioman::Point;
use strict::FORBIDDEN;

/// Both ranks poll all the time, and share what cores a busy machine leaves them.
const LIMIT: Duration = Duration::from_secs(240);

/// Memory for eager channels.
const CHANNELS: &str = "NMAD_VERBS_CHANNELS";

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
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happens any more");
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
                sends.push(session.isend_with(
                    peer,
                    9,
                    vec![round as u8; 8],
                    newmad::SendOptions::new().priority(number),
                )?);
            }
            let start = Instant::now();
            poll_until(session, || start.elapsed() > Duration::from_millis(2));
            for (tag, &size) in SIZES.iter().enumerate().filter(|(tag, _)| tag % 2 != round % 2) {
                receives.push((size, session.irecv(ANY, tag as u64, vec![0; size])?));
            }
            for _ in 0..40 {
                receives.push((8, session.irecv(peer, 9, vec![0; 8])?));
            }
            for (size, receive) in receives {
                poll_until(session, || {
                    FORBIDDEN.set(true);
                    let over = receive.test();
                    FORBIDDEN.set(false);
                    over
                });
                assert_eq!(receive.wait()?.1.len, size);
            }
            for send in sends {
                poll_until(session, || send.test());
                send.wait()?;
            }
        }
        if std::env::var(CHANNELS).is_ok_and(|bytes| bytes != "0") {
            let through = newmad::plumbing::eager_channels::counts().through;
            assert!(through > 0, "no packet went through an eager channel");
        }
        Ok(())
    };
    let kinds = |session: &Session| -> Result<(), Error> {
        let peer = 1 - session.rank();
        for round in 0..6 {
            for (tag, &size) in SIZES.iter().enumerate().filter(|(_, size)| **size < 500_000) {
                kinds_of(session, peer, tag as u64, size, round)?;
            }
        }
        Ok(())
    };
    let talk = if std::env::var(common::SCENARIO).as_deref() == Ok("kinds") {
        Box::new(kinds) as Box<dyn FnOnce(&Session) -> Result<(), Error> + Send>
    } else {
        Box::new(talk)
    };
    if let Err(error) = newmad::run(talk).and_then(|result| result) {
        panic!("{error}");
    }
}

/// The other kinds of requests: scattered, synchronous, with masks, probed for, persistent.
fn kinds_of(
    session: &Session,
    peer: u32,
    tag: u64,
    size: usize,
    round: usize,
) -> Result<(), Error> {
    let data = message(tag, size);
    let gaps = Strided { block: 100, stride: 130, count: size / 100 };
    let spread = vec![7; gaps.count * 130];
    let mut room = spread.clone();
    let mut pieces: Vec<Vec<u8>> = data.chunks(999).map(|piece| vec![0; piece.len()]).collect();
    let mut slices: Vec<_> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
    let mut persistent = session.recv_init(
        ANY,
        Tag { value: tag, mask: 0xff },
        vec![0; size],
        newmad::RecvOptions::new(),
    )?;
    let quiet = || {
        let start = Instant::now();
        poll_until(session, || start.elapsed() > Duration::from_millis(1));
    };
    session.scope(|scope| {
        // Half of the receives are posted before their messages come, half afterwards.
        let late = round % 2 == 1;
        let send = || {
            let _ = scope.isend_with(peer, tag | 0x100, &spread, gaps)?;
            let _ = scope.isend(peer, tag | 0x200, &data)?;
            scope.isend_with(peer, tag | 0x300, &data, newmad::SendOptions::new().sync())
        };
        let early = if late { Some(send()?) } else { None };
        quiet();
        let _ = scope.irecv_with(peer, tag | 0x100, &mut room, gaps)?;
        let _ = scope.irecv_with(peer, tag | 0x200, &mut slices[..], newmad::RecvOptions::new())?;
        let sure = match early {
            Some(sure) => sure,
            None => send()?,
        };
        quiet();
        let held = session.mprobe(peer, Tag { value: tag | 0x300, mask: !0 })?;
        if round.is_multiple_of(3) {
            drop(held);
            persistent.start(session)?;
        } else {
            assert_eq!(held.recv(&mut vec![0; size])?.len, size);
        }
        poll_until(session, || persistent.test());
        poll_until(session, || sure.test());
        Ok(())
    })?;
    session.barrier()
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
        launch("talk", 2, &env).succeed(LIMIT);
        launch("kinds", 2, &env).succeed(LIMIT);
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

/// In the guest of `ci/verbs.sh`.
#[test]
fn nor_does_verbs_with_reads_of_long_messages_and_eager_channels() {
    if newmad::plumbing::ports().is_ok_and(|ports| ports.iter().any(|port| port.is_active)) {
        for (from, channels) in [("0", "0"), ("100000", "0"), ("100000", "1048576")] {
            let env = [
                ("NMAD_DRIVER", "verbs"),
                ("NMAD_VERBS_RDMA", from),
                (CHANNELS, channels),
                ("NMAD_VERBS_CHANNELS_AFTER", "20"),
                ("PIOM_ENABLE_PROGRESSION", "0"),
                ("MARCEL_MODE", "no-thread"),
            ];
            launch("talk", 2, &env).succeed(LIMIT);
            launch("kinds", 2, &env).succeed(LIMIT);
        }
    }
}
