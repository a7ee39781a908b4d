//! Real processes that talk to each other over each driver.

mod common;

use std::time::Duration;

use common::{launch, message};
use newmad::{ANY, Error, Session};

const LIMIT: Duration = Duration::from_secs(8);
const DRIVERS: [&str; 2] = ["shm", "tcp"];

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "ping_pong" => ping_pong,
        other => panic!("unknown scenario {other}"),
    };
    newmad::run(run).unwrap().unwrap();
}

/// Sizes around everything that changes the protocol: cache line, slot, thresholds, pieces.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 7, 23, 24, 25, 63, 64, 65, 1000];
    for edge in [8200, 8208, 8216, 16384, 32768, 65536, 262_144, 1 << 20] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes.push(5_000_000);
    sizes
}

fn ping_pong(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let mut buffer = vec![0; 5_000_000];
    for (number, size) in sizes().into_iter().enumerate() {
        let number = number as u64;
        let data = message(number, size);
        for round in 0..3 {
            if session.rank() == 0 {
                session.send(peer, number, &data)?;
            }
            buffer[..size].fill(0);
            let status = session.recv(peer, number, &mut buffer)?;
            assert_eq!((status.source, status.tag, status.len), (peer, number, size));
            assert!(buffer[..size] == data, "size {size}, round {round}");
            if session.rank() == 1 {
                session.send(peer, number, &data)?;
            }
        }
    }
    Ok(())
}

#[test]
fn ping_pong_of_all_sizes() {
    for driver in DRIVERS {
        launch("ping_pong", 2, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
    launch("ping_pong", 2, &[("NMAD_DRIVER", "shm"), ("NMAD_CMA", "0")]).succeed(LIMIT);
}
