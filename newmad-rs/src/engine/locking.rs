//! How the engine is locked, and sending beside it: see [`Locking`] and `gate/lease.rs`.

use pioman::plumbing::hold_wakers;

use super::{Engine, LEASE};
use crate::collect::lease::Lease;
use crate::error::Error;
use crate::gate::lease::InlineLease;
use crate::gate::signals::FINE;
use crate::memory::span::Span;
use crate::wire::{Ends, Envelope};

/// From this length on a message to a rank of this process is copied without the lock: its copy takes as long as to lock twice.
const APART: usize = 2048;

/// How the engine of a session is locked. Every choice is sound, however many threads use the session; they differ in
/// cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Locking {
    /// No atomic read-modify-write for the one kernel thread that uses the session: it has the engine until another
    /// comes, which then costs some microseconds; after that the session goes on as with [`Locking::Coarse`], until the
    /// same kernel thread has come often in a row. For modes `no-thread` and `mono`, where the I/O manager's other
    /// kernel threads look only when the program does not.
    None,
    /// One lock, for the whole engine. A thread that finds it taken delegates its work to the holder.
    Coarse,
    /// Beside that lock one for each process that is sent to: while nothing is before a short message, it leaves without
    /// the engine, so that threads that send to different processes, or send while others receive, do not meet. Over shared
    /// memory; where links can break (`tcp`) it is as [`Locking::Coarse`]. Receives, large messages and the looking for
    /// events have the one lock.
    Fine,
}

impl Engine {
    pub(crate) fn set_locking(&self, locking: Locking) -> Result<(), Error> {
        if !self.lock.set_biasing(locking == Locking::None) {
            return Err(Error::Io {
                doing: "membarrier, which NMAD_LOCK=none needs (NMAD_LOCK=coarse does not)",
                source: std::io::Error::from_raw_os_error(libc::ENOSYS),
            });
        }
        // What is lent comes back when it is needed.
        self.signals.set_way(FINE, locking == Locking::Fine);
        Ok(())
    }

    pub(crate) fn locking(&self) -> Locking {
        match self.lock.is_biasing() {
            true => Locking::None,
            false if self.signals.has_way(FINE) => Locking::Fine,
            false => Locking::Coarse,
        }
    }

    pub(crate) fn lock_revocations(&self) -> u64 {
        self.lock.revocations()
    }

    /// As `send_away`, where there is more than the engine's way: beside the engine if the way there is lent; otherwise
    /// with the engine, which then lends it.
    #[inline(never)]
    pub(super) fn send_apart(&self, mine: u16, to: u32, tag: u64, data: &[u8]) -> bool {
        // SAFETY: borrowed; the driver copies it.
        let span = unsafe { Span::new(data.as_ptr(), data.len()) };
        let (process, to) = self.ranks.place(to);
        let Some(lease) = self.leases.get(process as usize) else { return false };
        let envelope = Envelope { tag, ends: Ends::new(mine, to) };
        if !self.signals.has_way(FINE) {
            return self.enter(|core| core.send_to(process, envelope, span)).unwrap_or(false);
        }
        // In this order: see `gate/lease.rs`.
        if !self.signals.submissions.is_pending()
            && self.beside(lease, |way| way.post(envelope, span)) == Some(true)
        {
            return true;
        }
        let sent = self.enter(|core| {
            let sent = core.send_to(process, envelope, span);
            core.lend(process);
            sent
        });
        sent.unwrap_or(false)
    }

    /// As `send_now`, to a rank of this process, which holds several.
    #[inline(never)]
    pub(super) fn send_beside(&self, mine: u16, to: u32, tag: u64, data: &[u8]) -> bool {
        // SAFETY: borrowed; it is copied here.
        let span = unsafe { Span::new(data.as_ptr(), data.len()) };
        let envelope = Envelope { tag, ends: Ends::new(mine, self.beside.place(to)) };
        if data.len() >= APART && self.copy_apart(envelope, span) {
            return true;
        }
        self.enter(|core| core.send_here(envelope, span)).unwrap_or(false)
    }

    /// Copies a message to a rank of this process into the buffer of its receive, if that is there, without the engine:
    /// ranks on other cores copy at the same time.
    fn copy_apart(&self, envelope: Envelope, data: Span) -> bool {
        let Some(receive) = self.enter(|core| core.take_receive(envelope)).flatten() else {
            return false;
        };
        receive.store(0, data);
        self.with(|core| core.received_here(receive, envelope, data.len()));
        true
    }

    /// Uses a way that is lent. If the engine wants it back, it gets it, and does what waited for it, at once or when
    /// its holder lets go. `None`: nothing is lent, or another uses it.
    #[inline]
    fn beside<R>(
        &self,
        lease: &Lease<InlineLease>,
        f: impl FnOnce(&mut InlineLease) -> R,
    ) -> Option<R> {
        let (done, wanted) = lease.with(f)?;
        if wanted {
            let _held = hold_wakers();
            self.lock.delegate(LEASE);
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::engine::tests::close;
    use crate::net::reliable::ACK;
    use crate::{Cause, Error, Locking, Session};
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
        a.inner().engine.with(|core| assert!(core.gates[1].lease.is_lent()));
        (a, b)
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
        let send = engine.beside(&engine.leases[1], |_| {
            let send = a.isend(1, 2, vec![2; 20_000]).unwrap();
            engine.with(|core| assert!(core.gates[1].lease.is_lent() && core.gates.backlog > 0));
            send
        });
        // At once: no other thread polls.
        engine.with(|core| assert!(!core.gates[1].lease.is_lent() && core.gates.backlog == 0));
        let mut buffer = [0; 20_000];
        b.recv(0, 2, &mut buffer).unwrap();
        send.unwrap().wait().unwrap();
        assert_eq!(buffer, [2; 20_000]);
        close(a, b);
    }

    #[test]
    fn a_word_that_is_owed_recalls_the_way() {
        let (a, b) = lent();
        a.inner().engine.with(|core| {
            core.gates.owe_word(1, ACK);
            core.gates.flush_words(1);
            assert_eq!(core.gates[1].reliability.due, 0);
        });
        close(a, b);
    }

    #[test]
    fn nothing_is_lent_while_messages_wait() {
        let (a, b) = lent();
        let mut sends = Vec::new();
        let engine = &a.inner().engine;
        // Nothing is taken from the track, which fills up.
        b.inner().engine.with(|_| {
            while engine.with(|core| core.gates[1].sends.is_empty()) {
                assert!(sends.len() < 100_000, "the track is never full");
                sends.push(a.isend(1, 4, vec![4]).unwrap());
            }
            engine.with(|core| {
                core.gates.consider(1);
                core.lend(1);
                assert!(!core.gates[1].lease.is_lent());
            });
        });
        for send in sends {
            b.recv(0, 4, &mut [0]).unwrap();
            send.wait().unwrap();
        }
        close(a, b);
    }

    #[test]
    fn credit_that_was_lent_and_not_used_comes_back() {
        let (a, b) = lent();
        a.inner().engine.with(|core| {
            assert!(core.gates.recall(1));
            let out = core.gates[1].credit.out();
            for _ in 0..100 {
                core.lend(1);
                assert!(core.gates[1].lease.is_lent() && core.gates.recall(1));
            }
            assert_eq!(core.gates[1].credit.out(), out);
        });
        close(a, b);
    }

    #[test]
    fn nothing_is_sent_beside_the_engine_to_the_dead() {
        let (a, b) = lent();
        a.inner().engine.with(|core| core.fail_peer(1, Cause::Vanished));
        assert!(matches!(a.send(1, 5, &[5]), Err(Error::PeerDied { rank: 1, .. })));
        close(a, b);
    }

    #[test]
    fn no_thread_sends_beside_an_engine_with_another_lock() {
        let (a, b) = lent();
        a.set_locking(Locking::Coarse).unwrap();
        a.send(1, 3, &[3]).unwrap();
        a.inner().engine.with(|core| {
            assert!(!core.gates[1].lease.is_lent());
            assert!(core.gates[1].inline > 0);
        });
        b.recv(0, 3, &mut [0]).unwrap();
        close(a, b);
    }
}
