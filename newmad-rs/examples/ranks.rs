//! Many ranks in one process: half a round trip between neighbours, a barrier, and an allreduce of 8 bytes.
//!
//! ```sh
//! cargo run --release -p newmad --example ranks -- 16
//! ```

use std::time::{Duration, Instant};

use newmad::coll::Op;
use newmad::{Error, Session};

/// The fastest of some turns: `rounds` calls each, and the time of one.
fn timed(
    session: &Session,
    rounds: u32,
    mut call: impl FnMut() -> Result<(), Error>,
) -> Result<Duration, Error> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        session.barrier()?;
        let begun = Instant::now();
        for _ in 0..rounds {
            call()?;
        }
        best = best.min(begun.elapsed() / rounds);
    }
    Ok(best)
}

fn measure(session: &Session) -> Result<[Duration; 3], Error> {
    let rank = session.rank();
    let peer = if rank ^ 1 < session.size() { rank ^ 1 } else { rank };
    let mut buffer = [0; 8];
    let round_trip = timed(session, 200_000, || {
        if rank < peer {
            session.send(peer, 1, &[1; 8])?;
            session.recv(peer, 1, &mut buffer)?;
        } else if rank > peer {
            session.recv(peer, 1, &mut buffer)?;
            session.send(peer, 1, &buffer)?;
        }
        Ok(())
    })?;
    let world = session.world()?;
    let barrier = timed(session, 2000, || world.barrier().wait())?;
    let mut sum = [1u64];
    let allreduce =
        timed(session, 2000, || world.allreduce(&mut sum, &Op::sum()).wait().map(drop))?;
    Ok([round_trip / 2, barrier, allreduce])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ranks = std::env::args().nth(1).map_or(Ok(16), |text| text.parse())?;
    let results = newmad::run_ranks(ranks, measure)?;
    let [half, barrier, allreduce] = results.into_iter().next().ok_or("no rank")??;
    println!(
        "{ranks} ranks: half round trip {half:?}, barrier {barrier:?}, allreduce {allreduce:?}"
    );
    Ok(())
}
