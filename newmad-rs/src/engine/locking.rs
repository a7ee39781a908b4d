//! How the engine is locked, and sending beside it: see [`Locking`] and `transfer/lane.rs`.

use std::sync::atomic::Ordering;

use pioman::hold_wakers;

use super::{Engine, LANE};
use crate::error::Error;
use crate::request::span::Span;
use crate::session::Locking;

impl Engine {
    pub(crate) fn set_locking(&self, locking: Locking) -> Result<(), Error> {
        if !self.lock.set_biasing(locking == Locking::None) {
            return Err(Error::Io {
                doing: "membarrier, which NMAD_LOCK=none needs (NMAD_LOCK=coarse does not)",
                source: std::io::Error::from_raw_os_error(libc::ENOSYS),
            });
        }
        // What is lent comes back when it is needed.
        self.signals.fine.store(locking == Locking::Fine, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn locking(&self) -> Locking {
        match self.lock.is_biasing() {
            true => Locking::None,
            false if self.signals.fine.load(Ordering::Relaxed) => Locking::Fine,
            false => Locking::Coarse,
        }
    }

    pub(crate) fn lock_revocations(&self) -> u64 {
        self.lock.revocations()
    }

    /// As `send_now`, beside the engine if the way there is lent; otherwise with the engine, which then lends it.
    #[inline(never)]
    pub(super) fn send_apart(&self, to: u32, tag: u64, data: &[u8]) -> bool {
        // SAFETY: borrowed; the driver copies it.
        let span = unsafe { Span::new(data.as_ptr(), data.len()) };
        let Some(lane) = self.lanes.get(to as usize) else { return false };
        // In this order: see `transfer/lane.rs`.
        if !self.signals.submissions.is_pending()
            && let Some((sent, wanted)) = lane.with(|way| way.post(tag, span))
        {
            if wanted {
                let _held = hold_wakers();
                self.lock.leave(LANE);
            }
            if sent {
                return true;
            }
        }
        let _held; // dropped after the lock
        let Some(mut core) = self.try_lock() else { return false };
        _held = self.watching.load(Ordering::Relaxed).then(hold_wakers);
        core.drain();
        let sent = core.recall(to) && core.send_straight(to, tag, span);
        core.lend(to);
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::engine::LANE;
    use crate::gate::links::ACK;
    use crate::{Locking, Session};
    use pioman::Manager;

    /// Two ranks; the way from the first to the second is lent.
    fn lent() -> (Session, Session) {
        let manager = Manager::builder().build().unwrap();
        let mut world = Session::local_world(2, &manager).unwrap();
        let (b, a) = (world.pop().unwrap(), world.pop().unwrap());
        a.set_locking(Locking::Fine).unwrap();
        // The first finds that there is credit in plenty, the second goes straight.
        for _ in 0..2 {
            a.send(1, 0, &[0]).unwrap();
            b.recv(0, 0, &mut [1]).unwrap();
        }
        a.inner().engine.with(|core| assert!(core.gates[1].lane.is_lent()));
        (a, b)
    }

    fn close(a: Session, b: Session) {
        std::thread::scope(|scope| {
            scope.spawn(|| a.close().unwrap());
            b.close().unwrap();
        });
    }

    #[test]
    fn a_short_message_leaves_while_another_has_the_engine() {
        let (a, b) = lent();
        let (done, is_done) = channel();
        let sender = a.clone();
        let left = a.inner().engine.with(|_| {
            std::thread::spawn(move || {
                sender.send(1, 1, &[7]).unwrap();
                done.send(()).unwrap();
            });
            // Otherwise it waits until this is over.
            is_done.recv_timeout(Duration::from_secs(10))
        });
        assert_eq!(left, Ok(()));
        let mut buffer = [0];
        b.recv(0, 1, &mut buffer).unwrap();
        assert_eq!(buffer, [7]);
        close(a, b);
    }

    #[test]
    fn what_wants_the_way_goes_when_it_is_left() {
        let (a, b) = lent();
        let engine = &a.inner().engine;
        let (send, wanted) = engine.lanes[1]
            .with(|_| {
                let send = a.isend(1, 2, vec![2; 20_000]).unwrap();
                engine.with(|core| assert!(core.gates[1].lane.is_lent() && core.backlog > 0));
                send
            })
            .unwrap();
        assert!(wanted);
        engine.lock.leave(LANE);
        let mut buffer = [0; 20_000];
        b.recv(0, 2, &mut buffer).unwrap();
        send.wait().unwrap();
        assert_eq!(buffer, [2; 20_000]);
        close(a, b);
    }

    #[test]
    fn a_word_that_is_owed_recalls_the_way() {
        let (a, b) = lent();
        a.inner().engine.with(|core| {
            core.owe_word(1, ACK);
            core.flush_care(1);
            assert_eq!(core.gates[1].care.due, 0);
        });
        close(a, b);
    }

    #[test]
    fn nobody_sends_beside_an_engine_with_another_lock() {
        let (a, b) = lent();
        a.set_locking(Locking::Coarse).unwrap();
        a.send(1, 3, &[3]).unwrap();
        a.inner().engine.with(|core| {
            assert!(!core.gates[1].lane.is_lent());
            assert!(core.gates[1].straight > 0);
        });
        b.recv(0, 3, &mut [0]).unwrap();
        close(a, b);
    }
}
