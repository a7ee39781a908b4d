//! A sender that floods a receiver that never receives: the receiver's memory stays small, and what comes behind the
//! flood is received.

mod common;

use std::time::Duration;

use common::{launch, message};
use newmad::{Error, Session};

const MESSAGES: u64 = 20_000;
const SIZE: usize = 10_000;
/// The flood is some seconds of computing, and others may compute beside it.
const LIMIT: Duration = Duration::from_secs(600);

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    if std::env::var(common::SCENARIO).is_err() {
        return;
    }
    if let Err(error) = newmad::run(flood).and_then(|result| result) {
        panic!("{error}");
    }
}

fn flood(session: &Session) -> Result<(), Error> {
    if session.rank() == 0 {
        let data = message(1, SIZE);
        session.scope(|scope| {
            for _ in 0..MESSAGES {
                drop(scope.isend(1, 1, &data));
            }
            session.send(1, 2, b"behind it")
        })?;
        return Ok(());
    }
    let before = resident();
    let mut word = [0; 9];
    if std::env::var(common::SCENARIO).is_ok_and(|scenario| scenario == "tested") {
        // A caller that only tests never waits: the engine must get memory from tests, too.
        let receive = session.irecv(0, 2, word.to_vec())?;
        while !receive.test() {}
        word.copy_from_slice(&receive.wait()?.0);
    } else {
        session.recv(0, 2, &mut word)?;
    }
    assert_eq!(&word, b"behind it");
    let grown = resident().saturating_sub(before);
    // 200 MB were sent. The credit is 1 MB, and an announcement takes a few hundred bytes.
    assert!(grown < 60_000_000, "the flood took {grown} bytes of its receiver");
    let mut buffer = vec![0; SIZE];
    for _ in 0..MESSAGES {
        assert_eq!(session.recv(0, 1, &mut buffer)?.len, SIZE);
    }
    assert_eq!(buffer, message(1, SIZE));
    Ok(())
}

#[test]
fn a_flood_stays_with_its_sender() {
    for driver in common::drivers(&["shm", "tcp"]) {
        // The check of waits keeps debug information in memory, which is not the flood's.
        let env =
            [("NMAD_DRIVER", driver), ("NMAD_EAGER_CREDIT", "1000000"), ("MARCEL_CHECK", "0")];
        launch("flood", 2, &env).succeed(LIMIT);
        launch("tested", 2, &env).succeed(LIMIT);
    }
}
