//! The connection manager's thread: its loop, and what it does when something happens. What it decides with is in
//! `links`, `network` and `handshake`, without sockets or time.

mod asking;
mod calls;
mod ends;

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::card::Card;
use super::control::Control;
use super::handshake::Handshake;
use super::links::{Links, State};
use super::messages::Messages;
use super::order::{FINISH, STOP, Timeouts, WORK};
use super::rail::Rail;
use crate::bootstrap::Bootstrap;
use crate::engine::Engine;
use crate::error::{Cause, Error, during};
use crate::sys;

/// How long a caller may take to prove itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// Greetings of callers that go on at the same time.
const STRANGERS: usize = 256;
/// Callers taken in one go.
const BATCH: usize = 64;
/// The longest sleep in one call.
const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 3600);
/// How long the last words of the control ring may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Marks of what is watched; from [`FIRST`] on they are numbers of connections.
const BELL: u64 = 0;
const LISTENERS: u64 = 1;
const ADAPTERS: u64 = 32;
const FIRST: u64 = 64;
const EDGES: libc::c_int = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// What is to be done at some time.
enum Later {
    /// Call that peer over that rail, if it is still wanted.
    Call(usize, u32),
    /// Call that peer for the control ring.
    Control(u32),
    /// End what needs a peer that is dead.
    Bury(u32),
    /// The rest of a link that a peer has begun should be there.
    Expect(usize, u32),
    /// Listen again on that rail.
    Listen(usize),
    /// That peer should have said how it is reached over that rail.
    Answer(usize, u32),
}

/// See the module.
pub(super) struct Thread {
    rank: u32,
    size: u32,
    boot: Box<dyn Bootstrap>,
    card: Card,
    cards: HashMap<u32, Card>,
    rails: Vec<Rail>,
    links: Links,
    messages: Messages,
    engine: Arc<Engine>,
    order: Arc<AtomicU8>,
    /// Told when the session is open.
    told: Option<Sender<Result<(), Error>>>,
    epoll: OwnedFd,
    /// Greetings that go on, by number: so the oldest are the first.
    handshakes: BTreeMap<u64, Handshake>,
    controls: HashMap<u64, Control>,
    /// Sockets of links of which further ones are to come, by rail and peer.
    partial: HashMap<(usize, u32), Vec<OwnedFd>>,
    /// Calls for the control ring that are wanted, since when.
    ringing: HashMap<u32, (Instant, u32)>,
    /// Peers that have left while a link with them was being made.
    leaving: Vec<u32>,
    later: BTreeMap<(Instant, u64), Later>,
    number: u64,
    born: Instant,
    ticked: Instant,
    left: bool,
    parted: bool,
    timeouts: Timeouts,
}

impl Thread {
    pub(super) fn new(
        boot: Box<dyn Bootstrap>,
        timeouts: Timeouts,
        rails: Vec<Rail>,
        card: Card,
        messages: Messages,
        engine: Arc<Engine>,
        (order, told): (Arc<AtomicU8>, Sender<Result<(), Error>>),
    ) -> Result<Thread, Error> {
        let (rank, size) = (boot.rank(), boot.size());
        let epoll = sys::epoll()?;
        sys::watch(&epoll, engine.signals().bell().as_raw_fd(), libc::EPOLLIN, BELL)?;
        for (index, rail) in rails.iter().enumerate() {
            let fd = rail.listener.socket.as_raw_fd();
            sys::watch(&epoll, fd, libc::EPOLLIN, LISTENERS + index as u64)?;
            if let Some(fd) = rail.events() {
                sys::watch(&epoll, fd, libc::EPOLLIN, ADAPTERS + index as u64)?;
            }
        }
        Ok(Thread {
            rank,
            size,
            boot,
            card,
            cards: HashMap::new(),
            links: Links::new(rank, size, rails.len()),
            rails,
            messages,
            engine,
            order,
            told: Some(told),
            epoll,
            handshakes: BTreeMap::new(),
            controls: HashMap::new(),
            partial: HashMap::new(),
            ringing: HashMap::new(),
            leaving: Vec::new(),
            later: BTreeMap::new(),
            number: FIRST,
            born: Instant::now(),
            ticked: Instant::now(),
            left: false,
            parted: false,
            timeouts,
        })
    }

    /// Until the session ends.
    pub(super) fn run(mut self) -> Result<(), Error> {
        marcel::plumbing::lwp::prefer_current_thread();
        self.act();
        loop {
            match self.order.load(Ordering::SeqCst) {
                STOP => return Ok(()),
                FINISH if self.messages.network.ring.is_over() => break,
                _ => self.wait(None)?,
            }
        }
        for control in self.controls.values_mut() {
            control.hang_up();
        }
        let until = Instant::now() + FAREWELL;
        while !self.controls.is_empty() && Instant::now() < until {
            if self.order.load(Ordering::SeqCst) == STOP {
                break;
            }
            self.wait(Some(until))?;
        }
        self.boot.finish()
    }

    /// Sleeps until something happens, and treats it.
    fn wait(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let next = self.later.first_key_value().map(|(&(at, _), _)| at);
        let handshake = self.handshakes.values().map(|handshake| handshake.until).min();
        let tick = self.engine.signals().pace().map(|pace| self.ticked + pace);
        let until = [until, next, handshake, tick].into_iter().flatten().min();
        // Rounded up to milliseconds by the call: to wake up before the time would be to spin until it has come.
        let timeout = until.map(|at| {
            let left = at.saturating_duration_since(Instant::now()).min(LONGEST_SLEEP);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        let mut events = [MaybeUninit::uninit(); 64];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => events,
            // What has happened is looked at before times that are over count: the process may have been stopped.
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(during("waiting for connections")(errno)),
        };
        for event in events.iter() {
            match event.data.u64() {
                BELL => self.asked(),
                mark if (ADAPTERS..FIRST).contains(&mark) => self.heed((mark - ADAPTERS) as usize),
                mark if mark < FIRST => self.listen((mark - LISTENERS) as usize),
                mark => self.happened(mark),
            }
        }
        self.on_time();
        self.tick();
        self.act();
        Ok(())
    }

    /// Tells the engine the time, while it wants to know.
    fn tick(&mut self) {
        let now = Instant::now();
        if self.engine.signals().pace().is_some_and(|pace| now >= self.ticked + pace) {
            self.ticked = now;
            let since = now.duration_since(self.born).as_millis() as u64;
            self.engine.with_memory(|core| core.tick(since));
        }
    }

    /// The engine wants something.
    fn asked(&mut self) {
        let engine = self.engine.clone();
        let signals = engine.signals();
        sys::unring(signals.bell().as_raw_fd());
        let now = Instant::now();
        let mut wanted = Vec::new();
        signals.take_wanted(|rail, peer| wanted.push((rail, peer)));
        for (rail, peer) in wanted {
            let mut carried = false;
            if self.links.get(rail, peer).state == State::Open {
                let there = engine.with(|core| {
                    let gate = &core.gates[peer as usize];
                    carried = gate.reliability.carried & 1 << rail != 0;
                    gate.open & 1 << rail != 0
                });
                // It may have been wanted before the peer's call opened it: then it is there. Otherwise it has broken.
                if there {
                    continue;
                }
            }
            if !self.links.want(rail, peer, carried, now) {
                continue;
            }
            match self.links.get(rail, peer).rest() {
                rest if !rest.is_zero() && self.links.any_open(peer) => {
                    self.call_in(rest, rail, peer);
                }
                _ => self.call(rail, peer),
            }
            // Others that rest are needed now.
            for other in (0..self.rails.len()).filter(|&other| other != rail) {
                if !self.links.any_open(peer) && !self.links.get(other, peer).rest().is_zero() {
                    self.call_again(other, peer);
                }
            }
        }
        // Read first: what was sent before the end is taken out then.
        let leaves = signals.leaves();
        self.messages.send();
        if leaves && !std::mem::replace(&mut self.left, true) {
            self.messages.network.leave();
        }
    }

    /// Something happened on a connection.
    fn happened(&mut self, number: u64) {
        if self.handshakes.contains_key(&number) {
            self.greet(number);
        } else if self.controls.contains_key(&number) {
            self.hear(number);
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            match entry.remove() {
                Later::Call(rail, peer) if self.links.is_due(rail, peer, now) => {
                    self.call(rail, peer);
                }
                Later::Call(..) => {}
                Later::Control(peer) => self.call_for_control(peer),
                Later::Bury(peer) => self.bury(peer),
                Later::Expect(rail, peer) => self.expect(rail, peer),
                Later::Answer(rail, peer) => self.unanswered(rail, peer),
                Later::Listen(rail) => {
                    let fd = self.rails[rail].listener.socket.as_raw_fd();
                    sys::rewatch(&self.epoll, fd, libc::EPOLLIN, LISTENERS + rail as u64);
                }
            }
        }
        let over =
            |(&number, handshake): (&u64, &Handshake)| (handshake.until <= now).then_some(number);
        let late: Vec<u64> = self.handshakes.iter().filter_map(over).collect();
        for number in late {
            self.failed(number, std::io::ErrorKind::TimedOut.into());
        }
    }

    fn later(&mut self, after: Duration, what: Later) {
        self.at(Instant::now() + after, what);
    }

    fn at(&mut self, time: Instant, what: Later) {
        self.number += 1;
        self.later.insert((time, self.number), what);
    }

    /// Calls that peer over that rail after so long, and not before.
    fn call_in(&mut self, after: Duration, rail: usize, peer: u32) {
        let time = Instant::now() + after;
        self.links.call_at(rail, peer, time);
        self.at(time, Later::Call(rail, peer));
    }

    fn is_opening(&self) -> bool {
        self.told.is_some() && self.order.load(Ordering::SeqCst) == WORK
    }

    /// The session is open, or cannot be.
    fn opened(&mut self, result: Result<(), Error>) {
        if let Some(told) = self.told.take() {
            // A session that has given up waiting drops the connection manager.
            let _ = told.send(result);
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // An error or a panic has ended the thread while the session lives: links are neither made nor repaired any
        // more, and ends are not noticed. So nothing may wait for a peer.
        let failed = self.order.load(Ordering::SeqCst) == WORK;
        self.engine.with(|core| {
            for peer in (0..self.size).filter(|&peer| failed && peer != self.rank) {
                core.fail_peer(peer, Cause::Unreachable);
            }
            core.part();
        });
        self.messages.mail.over();
    }
}
