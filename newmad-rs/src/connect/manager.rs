//! The session's handle on its connection manager.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;

use marcel::plumbing::signal::spawn_blocked;

use super::card::Card;
use super::messages::Messages;
use super::network::Network;
use super::order::{FINISH, STOP, Start, WORK};
use super::rail::Rail;
use super::thread::Thread;
use crate::authentication;
use crate::bootstrap::Bootstrap;
use crate::engine::Engine;
use crate::error::{Error, os};
use crate::sys;

/// A session's connection manager. Dropping it ends its thread at once, which the peers take for a death.
pub(crate) struct ConnectionManager {
    engine: Arc<Engine>,
    order: Arc<AtomicU8>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl ConnectionManager {
    /// Publishes the card, waits for the others, starts the thread, and returns when it is in the control ring. The
    /// engine knows already that it has a connection manager.
    pub(crate) fn start(
        mut boot: Box<dyn Bootstrap>,
        rails: Vec<Rail>,
        start: Start,
        engine: &Arc<Engine>,
    ) -> Result<ConnectionManager, Error> {
        let Start { timeouts, mut card, control, mail } = start;
        let until = sys::deadline(timeouts.connect);
        boot.publish(&card.encode(), until)?;
        boot.fence(until)?;
        let (rank, size) = (boot.rank(), boot.size());
        // Cards that go over the control network name no key: all are found from that of process 0, which the process
        // manager alone tells.
        let job = match control.cards_by_network {
            true if rank == 0 => Some(card.key),
            true => Some(Card::decode(&boot.card_of(0, until)?, 0, &card)?.key),
            false => None,
        };
        card.key = job.and_then(|job| authentication::key_of(&job, rank)).unwrap_or(card.key);
        mail.serve();
        let network = Network::new(rank, size, Arc::new(control.torus(size)));
        let control = Messages::new(network, mail, job);
        let order = Arc::new(AtomicU8::new(WORK));
        let (told, opened) = mpsc::channel();
        let thread = Thread::new(
            boot,
            timeouts,
            rails,
            card,
            control,
            engine.clone(),
            (order.clone(), told),
        )?;
        let run = move || pioman::plumbing::library_thread(|| thread.run());
        let thread = std::thread::Builder::new()
            .name("newmad-connect".into())
            .stack_size(marcel::plumbing::lwp::program_stack());
        let thread =
            spawn_blocked(thread, run).map_err(|_| os("starting the connection manager"))?;
        let mut manager = ConnectionManager { engine: engine.clone(), order, thread: Some(thread) };
        match opened.recv_timeout(timeouts.connect) {
            Ok(result) => return result.map(|()| manager),
            // The thread has ended. Its own error is the one to report.
            Err(RecvTimeoutError::Disconnected) => manager.end(STOP)?,
            Err(RecvTimeoutError::Timeout) => {}
        }
        Err(Error::Bootstrap(format!(
            "no other process could be reached within {:?} (NMAD_CONNECT_TIMEOUT_MS)",
            timeouts.connect
        )))
    }

    /// Ends it in order, after the engine has ended.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.end(FINISH)
    }

    fn end(&mut self, how: u8) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.order.store(how, Ordering::SeqCst);
        sys::ring(self.engine.signals().bell().as_raw_fd());
        thread.join().unwrap_or_else(|_| {
            Err(Error::Bootstrap("the connection manager's thread panicked".into()))
        })
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        // No caller is left to learn of an error.
        let _ = self.end(STOP);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::connect::mail::Mail;
    use crate::connect::order::{Shape, Timeouts};
    use crate::gate::config::Config;
    use crate::gate::ranks::Ranks;
    use crate::gate::signals::Signals;
    use crate::net::segment::Geometry;
    use crate::proto::core::Core;

    /// A process manager whose client panics when it is asked for a card.
    struct Panics;

    impl Bootstrap for Panics {
        fn rank(&self) -> u32 {
            0
        }
        fn size(&self) -> u32 {
            2
        }
        fn room(&self) -> usize {
            1024
        }
        fn put(&mut self, _: &str, _: &str, _: Instant) -> Result<(), Error> {
            Ok(())
        }
        fn fence(&mut self, _: Instant) -> Result<(), Error> {
            Ok(())
        }
        fn get(&mut self, _: u32, _: &str, _: Instant) -> Result<String, Error> {
            panic!("the process manager's client");
        }
        fn job(&mut self, _: Instant) -> Result<String, Error> {
            Ok("panics".into())
        }
        fn finish(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_ends_while_the_session_opens_is_not_taken_for_a_silent_network() {
        let geometry = Geometry { ranks: 2, slots: 4, slot_size: 192 };
        let (rail, driver) = Rail::shm(0, geometry, false).unwrap();
        let signals = Signals::new(2, 1).unwrap();
        let core =
            Core::new(0, Ranks::one_each(2), vec![driver], Config::new(1024, 1 << 20), signals);
        let engine = Arc::new(Engine::new(core, None).unwrap());
        let minute = Duration::from_secs(60);
        let timeouts = Timeouts { connect: minute, repair: minute };
        let mail = Mail::new(0, Ranks::one_each(2), Signals::new(2, 1).unwrap());
        let control = Shape { dimensions: None, cards_by_network: false };
        let addresses = vec![rail.listener.address.clone()];
        let card = Card::new("shm".into(), 1024, 2, control.text(), addresses, None).unwrap();
        let start = Start { timeouts, card, control, mail };
        let start = ConnectionManager::start(Box::new(Panics), vec![rail], start, &engine);
        let error = start.err().unwrap().to_string();
        assert!(error.contains("the connection manager's thread"), "{error}");
    }
}
