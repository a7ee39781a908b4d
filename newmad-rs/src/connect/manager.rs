//! The session's handle on its connection manager.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::card::Card;
use super::order::{FINISH, STOP, Timeouts, WORK};
use super::rail::Rail;
use super::thread::Thread;
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
        timeouts: Timeouts,
        rails: Vec<Rail>,
        names: String,
        threshold: usize,
        engine: &Arc<Engine>,
    ) -> Result<ConnectionManager, Error> {
        let until = sys::deadline(timeouts.connect);
        let addresses = rails.iter().map(|rail| rail.listener.address.clone()).collect();
        let card = Card::new(names, threshold, addresses)?;
        boot.publish(&card.encode(), until)?;
        boot.fence(until)?;
        let order = Arc::new(AtomicU8::new(WORK));
        let (told, opened) = mpsc::channel();
        let thread = Thread::new(boot, timeouts, rails, card, engine.clone(), order.clone(), told)?;
        let thread = std::thread::Builder::new()
            .name("newmad-connect".into())
            .stack_size(256 * 1024)
            .spawn(move || pioman::plumbing::library_thread(|| thread.run()))
            .map_err(|_| os("starting the connection manager"))?;
        let manager = ConnectionManager { engine: engine.clone(), order, thread: Some(thread) };
        match opened.recv_timeout(timeouts.connect) {
            Ok(result) => result.map(|()| manager),
            Err(_) => Err(Error::Bootstrap(format!(
                "no other process could be reached within {:?} (NMAD_CONNECT_TIMEOUT_MS)",
                timeouts.connect
            ))),
        }
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
            Err(Error::Bootstrap("the connection manager's thread failed".into()))
        })
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        // No caller is left to learn of an error.
        let _ = self.end(STOP);
    }
}
