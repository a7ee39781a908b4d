//! Calls in both directions, and the links that they make.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{BATCH, Control, EDGES, Handshake, LONGEST_SLEEP, Later, PATIENCE, STRANGERS, Thread};
use crate::connect::card::Card;
use crate::connect::greeting::{Hello, Purpose, Verdict};
use crate::connect::handshake::Outcome;
use crate::connect::links::{REST, Ruling, State};
use crate::connect::rail::{End, Offer};
use crate::connect::ring::Life;
use crate::connect::socket::{self, Address};
use crate::error::{Cause, Error, during};
use crate::net;
use crate::net::details::Details;
use crate::sys;

/// What a failed call was for, in its error.
const CALLING: &str = "calling another process";

fn refused() -> Error {
    during(CALLING)(io::Error::other("refused"))
}

/// How long to wait before the next try.
pub(super) fn pause(tries: u32) -> Duration {
    Duration::from_millis(5 << tries.min(5))
}

impl Thread {
    /// The card of a peer, looked up at its first use.
    fn card_of(&mut self, peer: u32) -> Result<Card, Error> {
        if let Some(card) = self.cards.get(&peer) {
            return Ok(card.clone());
        }
        let text = self.boot.card_of(peer, sys::deadline(self.timeouts.connect))?;
        let mut card = self.messages.card(&text, peer, &self.card)?;
        card.key = self.boot.key_of(peer).unwrap_or(card.key);
        self.cards.insert(peer, card.clone());
        Ok(card)
    }

    /// Begins a call.
    pub(super) fn dial(&mut self, peer: u32, purpose: Purpose) -> Result<(), Error> {
        if let Purpose::Link { rail, .. } = purpose
            && self.messages.is_to_ask()
            && !self.cards.contains_key(&peer)
        {
            self.ask(rail as usize, peer);
            return Ok(());
        }
        let card = self.card_of(peer)?;
        let (rail, generation) = match purpose {
            Purpose::Control => (self.control_rail(peer), 0),
            Purpose::Link { rail, .. } => {
                (rail as usize, self.links.get(rail as usize, peer).generation)
            }
        };
        let offer = match purpose {
            Purpose::Link { .. } => self.rails[rail].offer(peer)?,
            Purpose::Control => Offer::Nothing,
        };
        let hello = Hello {
            from: self.rank,
            to: peer,
            purpose,
            generation,
            nonce: sys::random()?,
            details: self.rails[rail].details(&offer),
        };
        let address = &card.addresses[rail];
        let socket = socket::call(address).map_err(during(CALLING))?;
        if matches!(address, Address::Tcp(_)) {
            socket::prepare_tcp(&socket).map_err(during(CALLING))?;
        }
        let now = Instant::now();
        let until = match purpose {
            // The kernel tells of the end of a process of this machine, and a call that is given up just when the called takes
            // it looks like that end.
            _ if self.rails[rail].is_local() => now + LONGEST_SLEEP,
            Purpose::Link { .. } => self.links.attempt(rail, peer, self.timeouts, now),
            Purpose::Control => now + self.timeouts.first_call(),
        };
        let handshake = Handshake::call(socket, until, card.key, &hello, rail, offer);
        self.number += 1;
        sys::watch(&self.epoll, handshake.socket.as_raw_fd(), EDGES, self.number)?;
        self.handshakes.insert(self.number, handshake);
        Ok(())
    }

    /// A link is wanted: calls.
    pub(super) fn call(&mut self, rail: usize, peer: u32) {
        match self.messages.network.ring.life(peer) {
            Life::Dead => return self.bury(peer),
            _ if self.messages.network.ring.is_over() => return self.end(peer, Cause::Unreachable),
            _ => {}
        }
        self.links.get_mut(rail, peer).state = State::Calling;
        let purpose = Purpose::Link { rail: rail as u8, track: 0 };
        if let Err(error) = self.dial(peer, purpose) {
            self.call_failed(peer, purpose, error);
        }
    }

    /// Calls, if the link is still wanted, and nothing is done about it.
    pub(super) fn call_again(&mut self, rail: usize, peer: u32) {
        if self.links.get(rail, peer).is_callable() {
            self.call(rail, peer);
        }
    }

    /// The peer that has begun a link had time to finish it. If it has not, it is one's own turn.
    pub(super) fn expect(&mut self, rail: usize, peer: u32) {
        if self.links.get(rail, peer).state == State::Called {
            self.give_up(rail, peer);
            self.links.get_mut(rail, peer).state = State::Closed;
            self.call_again(rail, peer);
            self.settle(peer);
        }
    }

    /// Gives a call up, if there is one.
    pub(super) fn give_up(&mut self, rail: usize, peer: u32) {
        let mine = |handshake: &Handshake| match handshake.called {
            Some((to, Purpose::Link { rail: over, .. })) => to == peer && over as usize == rail,
            _ => false,
        };
        self.handshakes.retain(|_, handshake| !mine(handshake));
        self.messages.forget(rail, peer);
        self.partial.remove(&(rail, peer));
    }

    /// A caller has connected to the listener of that rail.
    pub(super) fn listen(&mut self, rail: usize) {
        let local = self.rails[rail].is_local();
        for _ in 0..BATCH {
            let socket = match self.rails[rail].listener.accept() {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptors, no memory: what strangers hold is given back, and others wait a little.
                    self.turn_away(0);
                    sys::unwatch(&self.epoll, self.rails[rail].listener.socket.as_raw_fd());
                    return self.later(Duration::from_millis(50), Later::Listen(rail));
                }
            };
            let user = rustix::process::getuid().as_raw();
            let known = match local {
                true => {
                    let there = sys::peer_of(socket.as_raw_fd());
                    there.is_some_and(|(_, theirs)| theirs == user)
                }
                false => socket::prepare_tcp(&socket).is_ok(),
            };
            self.turn_away(STRANGERS - 1);
            self.number += 1;
            if known && sys::watch(&self.epoll, socket.as_raw_fd(), EDGES, self.number).is_ok() {
                let until = Instant::now() + PATIENCE;
                let handshake = Handshake::answer(socket, until, self.card.key, rail);
                self.handshakes.insert(self.number, handshake);
            }
        }
    }

    /// Ends the oldest greetings of callers until only so many are left.
    fn turn_away(&mut self, left: usize) {
        let callers =
            self.handshakes.values().filter(|handshake| handshake.called.is_none()).count();
        let mut over = callers.saturating_sub(left);
        self.handshakes.retain(|_, handshake| {
            let ends = over > 0 && handshake.called.is_none();
            over -= usize::from(ends);
            !ends
        });
    }

    /// A greeting may go on.
    pub(super) fn greet(&mut self, number: u64) {
        let Some(handshake) = self.handshakes.get_mut(&number) else { return };
        match handshake.go_on() {
            Ok(None) => {}
            Err(error) => self.failed(number, error),
            Ok(Some(done)) => {
                let Some(handshake) = self.handshakes.remove(&number) else { return };
                match done {
                    Outcome::Request(hello, given) => self.admit(number, handshake, &hello, given),
                    Outcome::Verdict(verdict, given) => {
                        self.answered(number, handshake, verdict, given)
                    }
                }
            }
        }
    }

    /// A greeting has come to nothing.
    pub(super) fn failed(&mut self, number: u64, error: io::Error) {
        let Some(handshake) = self.handshakes.remove(&number) else { return };
        // A caller that is not authenticated has no rank.
        if let Some((peer, purpose)) = handshake.called {
            let source = match handshake.is_connecting() {
                true => error,
                // Only a refused call says that no process is there.
                false => io::Error::other(error),
            };
            self.call_failed(peer, purpose, during(CALLING)(source));
        }
    }

    /// A call has come to nothing: another one, or there is no way.
    pub(super) fn call_failed(&mut self, peer: u32, purpose: Purpose, error: Error) {
        let refused = match &error {
            Error::Io { source, .. } => source.kind() == io::ErrorKind::ConnectionRefused,
            _ => false,
        };
        let hopeless = !matches!(error, Error::Io { .. });
        match purpose {
            Purpose::Control => self.control_failed(peer, refused, hopeless.then_some(error)),
            Purpose::Link { rail, .. } => {
                let rail = rail as usize;
                self.give_up(rail, peer);
                let link = self.links.get_mut(rail, peer);
                link.state = State::Closed;
                link.tries += 1;
                link.hopeless |= hopeless;
                let tries = link.tries;
                let out = self.links.is_out_of_reach(peer, self.timeouts, Instant::now());
                if self.links.any_open(peer) {
                    self.call_in(REST, rail, peer);
                } else if refused && self.is_leaving(peer) {
                    // It has ended, after all that it sends was acknowledged.
                    self.links.want_none(peer);
                } else if refused {
                    self.messages.network.unreachable(peer);
                    self.end(peer, Cause::Vanished);
                } else if out {
                    self.end(peer, Cause::Unreachable);
                    self.doubt(peer);
                } else {
                    self.call_in(pause(tries), rail, peer);
                }
                self.settle(peer);
            }
        }
    }

    /// An authenticated caller asks for something.
    fn admit(&mut self, number: u64, handshake: Handshake, hello: &Hello, given: Vec<OwnedFd>) {
        let peer = hello.from;
        if hello.to != self.rank || peer >= self.size || peer == self.rank {
            return;
        }
        let expelled = self.messages.network.ring.life(peer) == Life::Dead;
        let verdict = match hello.purpose {
            _ if expelled => Verdict::Expelled,
            Purpose::Control if handshake.on == 0 || !self.rails[0].is_local() => {
                Verdict::Accepted(Details::default())
            }
            Purpose::Link { rail, track }
                if handshake.on == rail as usize && track < self.rails[handshake.on].tracks() =>
            {
                return self.admit_link(handshake, hello, rail as usize, track, given);
            }
            _ => Verdict::Refused,
        };
        let sent = socket::send(&handshake.socket, &verdict.encode(), &[]).is_ok();
        if sent && matches!(verdict, Verdict::Accepted(_)) {
            self.connected(number, peer, handshake);
        }
    }

    fn admit_link(
        &mut self,
        handshake: Handshake,
        hello: &Hello,
        rail: usize,
        track: u8,
        given: Vec<OwnedFd>,
    ) {
        let peer = hello.from;
        let breakable = !self.rails[rail].is_local();
        if let Ruling::Say(verdict) =
            self.links.called(rail, peer, track, hello.generation, breakable)
        {
            let _ = socket::send(&handshake.socket, &verdict.encode(), &[]);
            return;
        }
        if track == 0 {
            self.give_up(rail, peer);
            self.links.get_mut(rail, peer).state = State::Closed;
        }
        let held = self.partial.get(&(rail, peer)).map_or(0, Vec::len);
        if held != track as usize {
            let _ = socket::send(&handshake.socket, &Verdict::Refused.encode(), &[]);
            return;
        }
        let Ok(offer) = self.rails[rail].offer(peer) else { return self.take_turn(rail, peer) };
        // The verdict has to be the first on the socket, so nothing that can fail comes after it.
        let verdict = Verdict::Accepted(self.rails[rail].details(&offer)).encode();
        // They stay open until the peer has them.
        let own = offer.descriptors();
        let line = match handshake.socket.try_clone() {
            Ok(line) if track + 1 == self.rails[rail].tracks() => line,
            Ok(_) => {
                if socket::send(&handshake.socket, &verdict, &own).is_ok() {
                    self.links.get_mut(rail, peer).state = State::Called;
                    self.later(PATIENCE, Later::Expect(rail, peer));
                    self.forget(&handshake.socket);
                    self.partial.entry((rail, peer)).or_default().push(handshake.socket);
                } else {
                    self.take_turn(rail, peer);
                }
                return;
            }
            Err(_) => return self.take_turn(rail, peer),
        };
        self.forget(&handshake.socket);
        let mut sockets = self.partial.remove(&(rail, peer)).unwrap_or_default();
        sockets.push(handshake.socket);
        let link = self.rails[rail].link(End::Called, peer, sockets, hello.details, (offer, given));
        let Ok(link) = link else { return self.take_turn(rail, peer) };
        if self.rails[rail].sends_beside_the_socket() {
            // The caller sends as soon as it has the verdict, and what comes is taken only for a link that is there. A
            // verdict that does not leave ends the socket, and so the link.
            self.attach(rail, peer, link);
            if socket::send(&line, &verdict, &own).is_err() {
                let _ = rustix::net::shutdown(&line, rustix::net::Shutdown::Both);
            }
        } else if socket::send(&line, &verdict, &own).is_ok() {
            self.attach(rail, peer, link);
        } else {
            self.take_turn(rail, peer);
        }
    }

    /// A peer's call could not be taken, for which one's own was given up: this side calls again after a while, if it wants
    /// the link.
    fn take_turn(&mut self, rail: usize, peer: u32) {
        self.give_up(rail, peer);
        let link = self.links.get_mut(rail, peer);
        if link.state != State::Open {
            link.state = State::Closed;
            link.tries += 1;
            let tries = link.tries;
            self.call_in(pause(tries), rail, peer);
        }
    }

    /// The called has decided.
    fn answered(
        &mut self,
        number: u64,
        mut handshake: Handshake,
        verdict: Verdict,
        given: Vec<OwnedFd>,
    ) {
        let Some((peer, purpose)) = handshake.called else { return };
        if verdict == Verdict::Expelled {
            return self.messages.network.expelled();
        }
        let (rail, track) = match (purpose, verdict) {
            (Purpose::Control, Verdict::Accepted(_)) => {
                return self.connected(number, peer, handshake);
            }
            (Purpose::Link { rail, track }, _) => (rail as usize, track),
            (Purpose::Control, _) => {
                return self.call_failed(peer, purpose, refused());
            }
        };
        match verdict {
            Verdict::Accepted(theirs) => {
                self.forget(&handshake.socket);
                let offer = std::mem::replace(&mut handshake.offer, Offer::Nothing);
                let sockets = self.partial.entry((rail, peer)).or_default();
                sockets.push(handshake.socket);
                let result = if track + 1 < self.rails[rail].tracks() {
                    let next = Purpose::Link { rail: rail as u8, track: track + 1 };
                    self.dial(peer, next)
                } else {
                    let sockets = self.partial.remove(&(rail, peer)).unwrap_or_default();
                    let link =
                        self.rails[rail].link(End::Caller, peer, sockets, theirs, (offer, given));
                    link.map(|link| self.attach(rail, peer, link))
                };
                if let Err(error) = result {
                    self.call_failed(peer, purpose, error);
                }
            }
            Verdict::Stale(generation) => {
                if self.links.stale(rail, peer, generation) {
                    self.give_up(rail, peer);
                    return self.call(rail, peer);
                }
                let again = io::Error::other("it takes every call for one from the past");
                self.call_failed(peer, purpose, during(CALLING)(again));
            }
            _ => self.call_failed(peer, purpose, refused()),
        }
    }

    /// The socket is not the connection manager's any more.
    fn forget(&self, socket: &OwnedFd) {
        sys::unwatch(&self.epoll, socket.as_raw_fd());
    }

    /// A link is there.
    fn attach(&mut self, rail: usize, peer: u32, link: net::Link) {
        self.links.opened(rail, peer, Instant::now());
        let installed = self.engine.with(|core| {
            let mut installed = Ok(());
            core.attach(rail, peer, |driver| installed = driver.install(peer, link));
            // Takes what came before the link was attached.
            core.look_once();
            installed
        });
        if installed.is_err() {
            self.links.get_mut(rail, peer).state = State::Closed;
            self.end(peer, Cause::Unreachable);
        }
    }

    /// An adapter has told something.
    pub(super) fn heed(&mut self, rail: usize) {
        while let Some(event) = self.rails[rail].event() {
            self.engine.with(|core| {
                core.gates.rails[rail].driver.on_event(event);
                core.look_once();
            });
        }
    }

    /// There is a connection of the control ring.
    fn connected(&mut self, number: u64, peer: u32, handshake: Handshake) {
        self.ringing.remove(&peer);
        self.controls
            .insert(number, Control::new(handshake.socket, self.rails[handshake.on].is_local()));
        self.messages.network.connected(number, peer);
        // Something may have come already, and its edge is over.
        self.hear(number);
    }
}
