//! How the processes of a session meet, stay connected, and notice each other's end: the *porter*.
//!
//! A session of several processes has one kernel thread that does everything for connections that blocks or
//! allocates. It sleeps in one `epoll_wait` until somebody wants something, calls, or ends.
//!
//! ```text
//!   engine ── wants (rail, peer): a bit and a bell ──▶ porter ── attach / unreachable / goodbye ──▶ engine
//!                                                     │   │
//!                     process manager: cards, lazily ─┘   ├─ listeners, calls, greetings   (greeting, half, socket)
//!                                                         ├─ the links: whose call counts  (links)
//!                                                         └─ the control ring: ends        (ring)
//! ```
//! *Opening* a session publishes this process's card, waits until all have, and calls one other: the next on the control
//! ring. A link is made when it is first wanted: by a send to that peer, or a receive that names it. So a session of n
//! processes opens n control connections, and for the rest what it uses.
//!
//! *Repair*: a TCP link that has broken is wanted again by the engine, and made again; when that takes longer than
//! `NMAD_REPAIR_MS`, and no other rail leads there, the peer is unreachable. A refused call means that its process is
//! gone: no waiting then.
//!
//! *Strangers* on a port or socket cost a bounded number of bytes, connections and seconds each ([`half`]), and hold up
//! nobody: greetings go on side by side, and when there are too many, the oldest that has not proven itself ends. Who is
//! turned away wrongly that way calls again.
//!
//! Rejected: connecting everybody when the session opens (n²/2 connections, most of them for nothing); connecting in
//! the thread that sends (it may be in a signal handler, and a green thread would block its virtual processor); a
//! source of the I/O manager instead of a thread (its events are treated where nothing may be allocated).

mod card;
mod control;
mod greeting;
mod half;
#[cfg(any(test, fuzzing))]
pub(crate) mod hostile;
mod links;
mod porter;
mod rail;
mod ring;
mod socket;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

pub(crate) use rail::Rail;

use crate::bootstrap::Bootstrap;
use crate::engine::Engine;
use crate::error::{Error, os};
use crate::sys;
pub(crate) use card::Card;

/// What the porter is asked to do, beside links.
const WORK: u8 = 0;
const FINISH: u8 = 1;
const STOP: u8 = 2;

/// How long the porter tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// To reach the others when the session opens.
    pub(crate) connect: std::time::Duration,
    /// To make a link again that has broken.
    pub(crate) repair: std::time::Duration,
}

/// The porter's thread. Dropping it ends the thread at once, which the others take for a death.
pub(crate) struct Porter {
    engine: Arc<Engine>,
    order: Arc<AtomicU8>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Porter {
    /// Publishes the card, waits for the others, starts the thread, and returns when it is in the control ring. The
    /// engine has been told that there is a porter.
    pub(crate) fn start(
        mut boot: Box<dyn Bootstrap>,
        timeouts: Timeouts,
        rails: Vec<Rail>,
        names: String,
        threshold: usize,
        engine: &Arc<Engine>,
    ) -> Result<Porter, Error> {
        let until = sys::deadline(timeouts.connect);
        let addresses = rails.iter().map(|rail| rail.listener.address.clone()).collect();
        let card = Card::new(names, threshold, addresses)?;
        boot.publish(&card.encode(), until)?;
        boot.fence(until)?;
        let order = Arc::new(AtomicU8::new(WORK));
        let (told, opened) = mpsc::channel();
        let thread =
            porter::Thread::new(boot, timeouts, rails, card, engine.clone(), order.clone(), told)?;
        let thread = std::thread::Builder::new()
            .name("newmad-porter".into())
            .stack_size(256 * 1024)
            .spawn(move || pioman::plumbing::library_thread(|| thread.run()))
            .map_err(|_| os("starting the porter"))?;
        let porter = Porter { engine: engine.clone(), order, thread: Some(thread) };
        match opened.recv_timeout(timeouts.connect) {
            Ok(result) => result.map(|()| porter),
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
        thread.join().unwrap_or_else(|_| Err(Error::Bootstrap("the porter's thread failed".into())))
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.end(STOP);
    }
}
