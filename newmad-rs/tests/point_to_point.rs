//! The kinds of sends and receives, between the ranks of one process and between real ones.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{launch, message};
use newmad::{ANY, Cause, Error, Session};
use pioman::Manager;

const LIMIT: Duration = Duration::from_secs(120);

fn world(size: u32) -> Vec<Session> {
    let manager: Arc<Manager> = Manager::builder().build().unwrap();
    Session::local_world(size, &manager).unwrap()
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "synchronous" => synchronous,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// Every driver, and shared memory without cross-memory attach.
fn everywhere(scenario: &str, size: usize) {
    for env in [("NMAD_DRIVER", "shm"), ("NMAD_DRIVER", "tcp"), ("NMAD_CMA", "0")] {
        launch(scenario, size, &[env]).succeed(LIMIT);
    }
}

const SIZES: [usize; 7] = [0, 1, 100, 9_000, 16_385, 40_000, 1_000_000];

/// A synchronous send is not over before its message is received: what its receiver does before comes first.
fn synchronous(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for (number, size) in SIZES.into_iter().enumerate() {
        let data = message(number as u64, size);
        if session.rank() == 0 {
            let mut pending = session.issend(peer, 1, data.clone())?;
            // The peer receives only after this.
            for _ in 0..1000 {
                assert!(!pending.test(), "over before it was received");
            }
            session.send(peer, 2, b"now")?;
            pending.wait()?;
            session.ssend(peer, 1, &data)?;
            session.scope(|scope| scope.issend(peer, 1, &data)?.wait())?;
        } else {
            session.recv(peer, 2, &mut [0; 3])?;
            let mut buffer = vec![0; size];
            for _ in 0..3 {
                assert_eq!(session.recv(ANY, 1, &mut buffer)?.len, size);
                assert!(buffer == data);
            }
        }
    }
    Ok(())
}

#[test]
fn a_synchronous_send_ends_when_it_is_received() {
    everywhere("synchronous", 2);
}

#[test]
fn a_synchronous_send_that_nobody_receives_ends_with_its_receiver() {
    let mut sessions = world(2);
    let (last, first) = (sessions.pop().unwrap(), sessions.pop().unwrap());
    let pending = first.issend(1, 1, Vec::new()).unwrap();
    drop(last);
    let gone = pending.wait();
    assert!(matches!(gone, Err(Error::PeerDied { rank: 1, cause: Cause::Left })), "{gone:?}");
}
