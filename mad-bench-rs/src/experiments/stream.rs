//! Messages one way, a window of them under way at once.
//!
//! Rank 0 sends a window of messages, each from a buffer of its own, rank 1 receives each into one of its own, and
//! answers an empty message when it has them all; each waits for all of a window at once: what `osu_bw` and
//! `osu_mbw_mr` do. The buffers are the same in every window, so what is measured includes what caches make of that,
//! for every library alike.

use newmad::Session;

use crate::harness::turns::timed;
use crate::harness::worker::WorkResult;

const DATA: u64 = 1;
const ANSWER: u64 = 2;

/// One end of a stream.
pub(crate) struct Stream<'a> {
    session: &'a Session,
    buffers: Vec<Vec<u8>>,
}

impl<'a> Stream<'a> {
    /// Windows of `window` messages of `size` bytes.
    pub(crate) fn new(session: &'a Session, size: u64, window: u64) -> Stream<'a> {
        Stream { session, buffers: (0..window).map(|_| vec![0; size as usize]).collect() }
    }

    /// A window, to its answer.
    fn window(&mut self) -> WorkResult {
        if self.session.rank() == 0 {
            let mut sends = Vec::with_capacity(self.buffers.len());
            for buffer in self.buffers.drain(..) {
                sends.push(self.session.isend(1, DATA, buffer)?);
            }
            newmad::wait_all(&mut sends);
            for send in sends {
                self.buffers.push(send.wait()?.0);
            }
            self.session.recv(1, ANSWER, &mut [])?;
        } else {
            let mut receives = Vec::with_capacity(self.buffers.len());
            for buffer in self.buffers.drain(..) {
                receives.push(self.session.irecv(0, DATA, buffer)?);
            }
            newmad::wait_all(&mut receives);
            for receive in receives {
                let (buffer, status) = receive.wait()?;
                if status.len != buffer.len() {
                    return Err(format!("{} bytes instead of {}", status.len, buffer.len()).into());
                }
                self.buffers.push(buffer);
            }
            self.session.send(0, ANSWER, &[])?;
        }
        Ok(())
    }

    /// Microseconds of each of `count` windows, after `warm` that do not count.
    pub(crate) fn windows(&mut self, warm: u64, count: u64) -> WorkResult<Vec<f64>> {
        timed(warm, count, || self.window())
    }
}
