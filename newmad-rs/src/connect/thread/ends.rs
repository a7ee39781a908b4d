//! The control ring's connections, and what is done when a peer ends.

use std::time::{Duration, Instant};

use super::calls::pause;
use super::{Later, Thread};
use crate::connect::greeting::Purpose;
use crate::connect::links::State;
use crate::connect::network::{Action, Frame, Message};
use crate::connect::ring::{self, Life};
use crate::error::{Cause, Error};
use crate::proto::core::Core;

/// How long what a dead peer has sent may take to be seen over links that are open.
const GRACE: Duration = Duration::from_millis(500);
/// Rounds in which that is looked for at last.
const LAST_LOOKS: usize = 1000;

impl Thread {
    /// Does what the control network wants.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.messages.network.action() {
            let action = match action {
                Action::Ring(action) => action,
                Action::Forward(link, message) => {
                    self.transmit(link, &Frame::Message(message));
                    continue;
                }
                Action::Deliver(message) => {
                    self.deliver(message);
                    continue;
                }
            };
            match action {
                ring::Action::Send(link, notice) => self.transmit(link, &Frame::Notice(notice)),
                ring::Action::Call(peer) => {
                    self.ringing.insert(peer, (Instant::now(), 0));
                    self.call_for_control(peer);
                }
                ring::Action::Left(peer) => {
                    self.messages.mail.ended(peer, Cause::Left);
                    self.leaving.push(peer);
                    self.settle(peer);
                }
                ring::Action::Died(peer) => {
                    self.messages.mail.ended(peer, Cause::Vanished);
                    self.died(peer);
                }
                ring::Action::Cut => {}
                ring::Action::Expelled => {
                    let rank = self.rank;
                    for peer in (0..self.size).filter(|&peer| peer != rank) {
                        self.end(peer, Cause::Unreachable);
                    }
                }
            }
        }
        self.messages.acted();
        if self.is_opening() && self.ringing.is_empty() {
            // In the ring; or all others have died already, which is for the requests to say.
            self.opened(Ok(()));
        }
        if self.messages.network.ring.is_over() && !std::mem::replace(&mut self.parted, true) {
            self.engine.with(Core::part);
        }
    }

    fn transmit(&mut self, link: u64, frame: &Frame) {
        if let Some(control) = self.controls.get_mut(&link) {
            control.send(frame);
        }
    }

    /// A message has come for this process.
    fn deliver(&mut self, message: Message) {
        if let Some((peer, card)) = self.messages.delivered(message, &self.card) {
            self.informed(peer, card);
        }
    }

    /// Calls a peer for the control ring, if that is still wanted.
    pub(super) fn call_for_control(&mut self, peer: u32) {
        if !self.ringing.contains_key(&peer) {
            return;
        }
        if self.messages.network.ring.is_over()
            || self.messages.network.ring.life(peer) == Life::Dead
        {
            self.ringing.remove(&peer);
        } else if let Err(error) = self.dial(peer, Purpose::Control) {
            self.call_failed(peer, Purpose::Control, error);
        }
    }

    /// Over which rail to call for the control ring: those that have a link first, and each time another one. Where the
    /// first is of this machine nothing cuts it.
    pub(super) fn control_rail(&self, peer: u32) -> usize {
        if self.rails[0].is_local() {
            return 0;
        }
        let mut order: Vec<usize> = (0..self.rails.len()).collect();
        order.sort_by_key(|&rail| self.links.get(rail, peer).state != State::Open);
        let tries = self.ringing.get(&peer).map_or(0, |&(_, tries)| tries);
        order[tries as usize % order.len()]
    }

    /// A call for the control ring has come to nothing. `fatal`: no other will do better.
    pub(super) fn control_failed(&mut self, peer: u32, refused: bool, fatal: Option<Error>) {
        let Some(&(since, tries)) = self.ringing.get(&peer) else { return };
        let opening = self.is_opening();
        if let Some(error) = fatal {
            self.ringing.remove(&peer);
            if opening {
                return self.opened(Err(error));
            }
            return self.messages.network.unreachable(peer);
        }
        let patience = if opening { self.timeouts.connect } else { self.timeouts.repair };
        let all = tries as usize + 1 >= self.rails.len();
        if refused || (all && since.elapsed() >= patience && !self.rails[0].is_local()) {
            self.ringing.remove(&peer);
            self.messages.network.unreachable(peer);
        } else {
            self.ringing.insert(peer, (since, tries + 1));
            self.later(pause(tries), Later::Control(peer));
        }
    }

    /// Something happened on a connection of the control ring.
    pub(super) fn hear(&mut self, number: u64) {
        let Some(control) = self.controls.get_mut(&number) else { return };
        control.flush();
        loop {
            match control.read(self.size) {
                Ok(None) => return,
                Ok(Some(frame)) => self.messages.network.heard(number, frame),
                Err(_) => {
                    let sure = control.sure;
                    self.controls.remove(&number);
                    return self.messages.network.lost(number, sure);
                }
            }
        }
    }

    /// Links with that peer cannot be made any more. Its connections of the control ring may be as silent and not know:
    /// they are made anew, and when that cannot be done either, the peer is dead for all processes.
    pub(super) fn doubt(&mut self, peer: u32) {
        if self.rails[0].is_local() {
            // The kernel would have told.
            return;
        }
        for link in self.messages.network.ring.links_with(peer) {
            self.controls.remove(&link);
            self.messages.network.lost(link, false);
        }
    }

    /// A peer is dead. What it has sent before is there, or comes soon.
    fn died(&mut self, peer: u32) {
        self.ringing.remove(&peer);
        self.handshakes
            .retain(|_, handshake| handshake.called.is_none_or(|(called, _)| called != peer));
        self.partial.retain(|&(_, from), _| from != peer);
        let open = self.links.any_open(peer);
        for rail in 0..self.rails.len() {
            self.messages.forget(rail, peer);
            let link = self.links.get_mut(rail, peer);
            if link.state != State::Open {
                link.state = State::Closed;
            }
        }
        if open {
            self.later(GRACE, Later::Bury(peer));
        } else {
            self.end(peer, Cause::Vanished);
        }
    }

    /// Ends what needs a dead peer, after a last look at what it has sent.
    pub(super) fn bury(&mut self, peer: u32) {
        self.engine.with(|core| {
            let _ = (0..LAST_LOOKS).any(|_| !core.progress());
        });
        self.end(peer, Cause::Vanished);
    }

    /// There is no way to that peer.
    pub(super) fn end(&mut self, peer: u32, cause: Cause) {
        for rail in 0..self.rails.len() {
            self.give_up(rail, peer);
            let link = self.links.get_mut(rail, peer);
            link.state = State::Closed;
            link.wanted = false;
            link.since = None;
        }
        self.engine.with(|core| core.fail_peer(peer, cause));
    }

    /// Whether that peer has left, and may still have something to send.
    pub(super) fn is_leaving(&self, peer: u32) -> bool {
        self.leaving.contains(&peer)
    }

    /// A peer that has left, and with which there is no link nor will be one, sends nothing more. (Over a link it says
    /// goodbye itself, after all that it sends. That may be on its way when a link breaks, so one that is wanted between two
    /// calls is waited for.)
    pub(super) fn settle(&mut self, peer: u32) {
        if self.is_leaving(peer) && !self.links.any_to_come(peer) {
            self.leaving.retain(|&left| left != peer);
            self.engine.with(|core| core.on_bye(peer));
        }
    }
}
