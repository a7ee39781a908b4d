//! What messages over the control network are for: the program's, and to learn how a peer is reached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::card::Card;
use super::mail::Mail;
use super::network::{Kind, Message, Network};
use crate::authentication::{KEY, key_of};
use crate::error::Error;

/// See the module.
pub(super) struct Messages {
    pub(super) network: Network,
    pub(super) mail: Arc<Mail>,
    /// From which the keys of all processes are found, if peers are asked how they are reached.
    job: Option<[u8; KEY]>,
    /// Rails over which links with a peer wait for its answer, and until when.
    asking: HashMap<u32, Vec<(usize, Instant)>>,
    unacknowledged: usize,
}

impl Messages {
    pub(super) fn new(network: Network, mail: Arc<Mail>, job: Option<[u8; KEY]>) -> Messages {
        Messages { network, mail, job, asking: HashMap::new(), unacknowledged: 0 }
    }

    pub(super) fn is_to_ask(&self) -> bool {
        self.job.is_some()
    }

    /// Sends what the program has.
    pub(super) fn send(&mut self) {
        for (process, body) in self.mail.take() {
            self.network.send(process, Kind::User, body);
        }
        self.acted();
    }

    /// The network has done something.
    pub(super) fn acted(&mut self) {
        let count = self.network.unacknowledged();
        if std::mem::replace(&mut self.unacknowledged, count) != count {
            self.mail.set_unacknowledged(count);
        }
        if self.network.ring.is_alone() || self.network.ring.is_over() {
            self.mail.alone();
        }
    }

    /// The card of that peer.
    pub(super) fn card(&self, text: &str, peer: u32, mine: &Card) -> Result<Card, Error> {
        let card = Card::decode(text, peer, mine)?;
        let key = self.job.and_then(|job| key_of(&job, peer)).unwrap_or(card.key);
        Ok(Card { key, ..card })
    }

    /// A message has come. How its sender is reached, if it says so.
    pub(super) fn delivered(
        &mut self,
        message: Message,
        mine: &Card,
    ) -> Option<(u32, Result<Card, Error>)> {
        let Message { kind, from, body, .. } = message;
        match kind {
            Kind::User => self.mail.came(from, &body),
            Kind::Ask | Kind::Card if self.job.is_some() => {
                if kind == Kind::Ask {
                    self.network.send(from, Kind::Card, shown(mine));
                }
                return Some((from, self.card(&String::from_utf8_lossy(&body), from, mine)));
            }
            Kind::Ask | Kind::Card | Kind::Ack => {}
        }
        None
    }

    /// A link over that rail waits, until then, for what a peer says about how it is reached: the peer is asked, unless it is
    /// already.
    pub(super) fn ask(&mut self, rail: usize, peer: u32, until: Instant, mine: &Card) {
        let rails = self.asking.entry(peer).or_default();
        let asked = !rails.is_empty();
        rails.retain(|&(asked, _)| asked != rail);
        rails.push((rail, until));
        if !asked {
            self.network.send(peer, Kind::Ask, shown(mine));
        }
    }

    /// The rails over which links wait for that peer's answer, which has come.
    pub(super) fn asked(&mut self, peer: u32) -> Vec<usize> {
        let rails = self.asking.remove(&peer).unwrap_or_default();
        rails.into_iter().map(|(rail, _)| rail).collect()
    }

    /// Whether a link over that rail has waited too long for that peer's answer. It waits no more then.
    pub(super) fn is_late(&mut self, rail: usize, peer: u32, now: Instant) -> bool {
        let late = |&(asked, until): &(usize, Instant)| asked == rail && until <= now;
        let late = self.asking.get(&peer).is_some_and(|rails| rails.iter().any(late));
        if late {
            self.forget(rail, peer);
        }
        late
    }

    /// No link over that rail waits for that peer's answer any more.
    pub(super) fn forget(&mut self, rail: usize, peer: u32) {
        if let Some(rails) = self.asking.get_mut(&peer) {
            rails.retain(|&(asked, _)| asked != rail);
        }
    }
}

/// A card as it travels over the network: without its key.
fn shown(card: &Card) -> Vec<u8> {
    Card { key: [0; KEY], ..card.clone() }.encode().into_bytes()
}
