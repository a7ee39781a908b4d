//! How far the clocks of two processes are apart: a moment of one means something to the other only then.
//!
//! On one machine they read the same clock. Elsewhere rank 0 asks rank 1 for the time, [`TRIPS`] times, and believes
//! the answer that came back soonest: it was given between the asking and the coming back, so the difference is known
//! to half of that round trip, some microseconds on a fast network. Clocks drift apart by as much within a second, so
//! it is asked anew for each measurement.

use newmad::Session;

use crate::clock;
use crate::harness::worker::WorkResult;

const TRIPS: usize = 20;
/// Longest name of a clock.
const NAME: usize = 128;

/// See the module.
pub(crate) struct Clocks {
    same: bool,
    tag: u64,
}

impl Clocks {
    /// Those of ranks 0 and 1, which both call this; messages have this tag.
    pub(crate) fn of(session: &Session, tag: u64) -> WorkResult<Clocks> {
        if session.rank() > 1 {
            return Ok(Clocks { same: true, tag });
        }
        let peer = 1 - session.rank();
        let mut mine = [0; NAME];
        let name = clock::name();
        let length = name.len().min(NAME);
        mine[..length].copy_from_slice(&name.as_bytes()[..length]);
        let mut theirs = [0; NAME];
        let send = session.isend(peer, tag, mine.to_vec())?;
        session.recv(peer, tag, &mut theirs)?;
        send.wait()?;
        Ok(Clocks { same: mine == theirs, tag })
    }

    /// By how many nanoseconds rank 1's is ahead of rank 0's now: for rank 0, while rank 1 calls this too.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn ahead(&self, session: &Session) -> WorkResult<i64> {
        let mut best = (u64::MAX, 0);
        for _ in 0..if self.same { 0 } else { TRIPS } {
            let mut answer = [0; 8];
            if session.rank() == 1 {
                session.recv(0, self.tag, &mut [])?;
                session.send(0, self.tag, &clock::now_ns().to_le_bytes())?;
                continue;
            }
            let asked = clock::now_ns();
            session.send(1, self.tag, &[])?;
            session.recv(1, self.tag, &mut answer)?;
            let back = clock::now_ns();
            best = best.min(sample(asked, u64::from_le_bytes(answer), back));
        }
        Ok(best.1)
    }
}

/// What one answer says: how long it took, and how far ahead the other clock seems to be.
fn sample(asked: u64, answer: u64, back: u64) -> (u64, i64) {
    let middle = asked + (back - asked) / 2;
    (back - asked, answer.wrapping_sub(middle) as i64)
}

/// A moment of rank 1 by rank 0's clock.
pub(crate) fn here(moment: u64, ahead: i64) -> u64 {
    moment.wrapping_sub(ahead as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_or_behind_is_put_right() {
        for ahead in [0i64, 1_000_000_000, -700_000] {
            let answer = (5_000_000i64 + ahead) as u64;
            let (round_trip, seen) = sample(4_999_000, answer, 5_001_000);
            assert_eq!((round_trip, seen), (2000, ahead));
            assert_eq!(here((6_000_000 + ahead) as u64, seen), 6_000_000);
        }
    }
}
