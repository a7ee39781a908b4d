//! What one record tells of a message.

use mad_bench::quantity;
use marcel::trace::Kind;

use super::read::Event;

/// What one side tells of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    /// The rank that tells, and the other.
    pub(crate) ranks: (u32, u32),
    /// Tag and length, if they are known.
    pub(crate) about: Option<(u64, u64)>,
}

impl Message {
    /// What an event tells, if it is of a message.
    pub(crate) fn of(event: &Event, about: Option<(u64, u64)>) -> Option<Message> {
        let ranks = ((event.b >> 32) as u32, event.b as u32);
        match event.kind {
            Kind::MessageQueued
            | Kind::MessageLeft
            | Kind::MessageArrived
            | Kind::MessageReceived
            | Kind::MessageSent => {
                Some(Message { kind: event.kind, number: event.a, ranks, about })
            }
            _ => None,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let what = self.size();
        let peer = self.ranks.1;
        match self.kind {
            Kind::MessageQueued => format!("{what} to rank {peer} must wait"),
            Kind::MessageLeft if self.is_announced() => format!("announces {what} to rank {peer}"),
            Kind::MessageLeft => format!("sends {what} to rank {peer}"),
            Kind::MessageArrived if self.is_announced() => {
                format!("{what} from rank {peer} announced")
            }
            Kind::MessageArrived => format!("{what} from rank {peer} kept"),
            Kind::MessageReceived => format!("received {what} from rank {peer}"),
            _ => format!("{what} to rank {peer} is gone"),
        }
    }

    /// How long it is.
    pub(crate) fn size(&self) -> String {
        self.about.map_or_else(|| "a message".into(), |(_, len)| quantity::size(len))
    }

    /// It waits with its sender until it is asked for.
    pub(crate) fn is_announced(&self) -> bool {
        self.number >> 63 == 1
    }

    /// The ranks that sent and received it, and its number.
    pub(super) fn key(&self) -> Option<(u32, u32, u64)> {
        let (own, peer) = self.ranks;
        match self.kind {
            Kind::MessageLeft => Some((own, peer, self.number)),
            Kind::MessageArrived | Kind::MessageReceived => Some((peer, own, self.number)),
            _ => None,
        }
    }
}
