//! A gate: the path to one peer process, its queues, and its end. All ranks of the two processes share it ([`ranks`]).
//!
//! ```text
//! Alive --Bye--> Left --end of connection--> Dead(Left)
//!   \------- end of connection, malformed packet, error -------> Dead(cause)
//! ```
//! When a peer has *left*, receives that wait for it and messages that it never asked for end with an error;
//! what it already asked for goes on. When it is *dead*, everything that needs it ends.
//!
//! A gate has at most one link per rail. None is open at first: sends queue up and receives are posted, and the first
//! send to a peer, or the first receive that names it, asks the connection manager ([`signals::Signals::want`]) for all
//! its links. The connection manager opens them, or says that it cannot be done.
//!
//! *Lent memory.* The buffer of a send that was announced may be read by the peer, and that of a receive whose address
//! was given may be written, at any time until the peer has told its end (`Fin`). So that neither is its owner's again
//! too early:
//! - a `Bye` says also: I read no memory of yours any more. It is sent when no copy with that peer is left, and a
//!   receive that finds an announced message later ends with an error. The peer takes its announced buffers back on
//!   hearing it.
//! - A rank that closes keeps what it lent until each peer has said `Bye` or is dead; and what a peer may write until
//!   that has told its end, whatever else it said.
//! - Ranks of one process do not wait for each other's `Bye`: they withdraw what they lent.
//! - A gate's links are closed before what it lent is given back.

pub(crate) mod absence;
pub(crate) mod config;
pub(crate) mod credit;
pub(crate) mod gates;
pub(crate) mod lease;
pub(crate) mod pace;
pub(crate) mod rail;
pub(crate) mod ranks;
pub(crate) mod route;
pub(crate) mod signals;

use core::ops::Range;
use std::sync::Arc;

use crate::collect::lease::Lessor;
use crate::error::Cause;
use crate::gate::credit::Credit;
use crate::gate::lease::InlineLease;
use crate::gate::pace::Pace;
use crate::gate::route::Route;
use crate::matching::pool::NONE;
use crate::net::reliable::Reliability;
use crate::request::queue::Queue;
use crate::request::{Owes, Place, Ref};
use crate::strategy::default;
use crate::strategy::selection::Selection;
use crate::wire::MAX_RAILS;

/// Whether a peer can be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    /// It sends no messages any more, and still receives some: see `proto/quiet.rs`.
    Quiet,
    Left,
    Dead(Cause),
}

impl Life {
    /// Whether it may still receive.
    pub(crate) fn is_listening(self) -> bool {
        matches!(self, Life::Alive | Life::Quiet)
    }
}

/// The small track goes over no link.
pub(crate) const NO_RAIL: usize = usize::MAX;

/// The numbers of the bits that are set.
#[inline]
pub(crate) fn rails(mut bits: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let rail = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(rail)
    })
}

/// The eager message of several packets that is coming in.
#[derive(Clone, Copy)]
pub(crate) enum Assembly {
    Nothing,
    Request { request: Ref, got: usize, total: usize },
    Cell(u32),
}

/// The piece of a large message that is coming in.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    /// Where it belongs; `None`: that is over, and the piece is thrown away.
    pub(crate) request: Option<Ref>,
    /// Its place in the message.
    pub(crate) start: usize,
    pub(crate) got: usize,
    pub(crate) len: usize,
    /// Checksums: of what has come of it, and of all of it.
    pub(crate) sums: Option<(u32, u32)>,
}

/// See the module.
pub(crate) struct Gate {
    /// The peer's first rank, and the number of its ranks.
    first: u32,
    count: u32,
    /// Changed by [`Gate::end`].
    pub(crate) life: Life,
    pub(crate) tx_seq: u32,
    pub(crate) rx_seq: u32,
    pub(crate) sends: Queue,
    pub(crate) control: Queue,
    pub(crate) fragments: Queue,
    /// Cells of announcements that the peer has taken back and was not told of: the first of a list by `next[0]`.
    pub(crate) taken_back: u32,
    pub(crate) assembly: Assembly,
    /// Where the rest of the `Pack` begins that could not be taken whole.
    pub(crate) unpacked: usize,
    /// By rail: the piece that is coming in, and the message of which a piece has left in part.
    pub(crate) arrivals: [Option<Arrival>; MAX_RAILS],
    pub(crate) mid_pieces: [Option<Ref>; MAX_RAILS],
    /// Links that can be used: bit by rail.
    pub(crate) open: u8,
    /// Receives from there are of interest: no link is open, where they are made decides on a route, or it is not alive. This
    /// process's own gate has no links.
    notes_receives: bool,
    /// Links were asked for.
    wanted: bool,
    /// The rail of the small track, or [`NO_RAIL`].
    pub(crate) small: usize,
    /// Which of an adapter's virtual rails each side receives over.
    pub(crate) route: Route,
    /// Packets of the small track need more than to be posted.
    pub(crate) reliable: bool,
    /// Messages below this length may go inline. 0: inline sending is off, since the gate is reliable, leased or
    /// ending, or its strategy wants a say ([`gates::Gates::consider`]).
    pub(crate) inline: usize,
    /// How often of late a message was there, or came soon, when a receive looked for it ([`crate::proto::inline`]).
    pub(crate) hits: u8,
    /// Most payload bytes of a packet that can go over any open link.
    pub(crate) mtu: usize,
    pub(crate) reliability: Reliability,
    pub(crate) credit: Credit,
    /// Receives whose message comes, or may come, over the large track.
    pub(crate) large_expected: usize,
    /// By which way long messages came fastest.
    pub(crate) pace: Pace,
    /// What short messages need that leave beside the engine.
    pub(crate) lease: Lessor<InlineLease>,
    /// What decides about its packets.
    pub(crate) strategy: Selection,
    /// So many messages stay in `sends` until the next look.
    pub(crate) held: u32,
    /// Our goodbye is on its way: nothing more is asked of the peer, or read from its memory.
    pub(crate) bye_sent: bool,
    /// The peer was told that no message comes to it any more.
    pub(crate) quiet_sent: bool,
    /// So much of the news about this process's ranks the peer was told ([`crate::proto::departures`]); whether the next waits
    /// for room.
    pub(crate) told: usize,
    untold: bool,
}

impl Gate {
    /// The gate to the process that holds these ranks.
    pub(crate) fn new(ranks: Range<u32>) -> Gate {
        Gate {
            first: ranks.start,
            count: ranks.end - ranks.start,
            life: Life::Alive,
            tx_seq: 0,
            rx_seq: 0,
            sends: Queue::default(),
            control: Queue::default(),
            fragments: Queue::default(),
            taken_back: NONE,
            assembly: Assembly::Nothing,
            unpacked: 0,
            arrivals: [None; MAX_RAILS],
            mid_pieces: [None; MAX_RAILS],
            open: 0,
            notes_receives: true,
            wanted: false,
            small: NO_RAIL,
            route: Route::default(),
            reliable: false,
            inline: 0,
            hits: 0,
            mtu: usize::MAX,
            reliability: Reliability::new(),
            credit: Credit::default(),
            large_expected: 0,
            pace: Pace::default(),
            lease: Lessor::new(),
            strategy: Selection::new(Arc::new(default::Default)),
            held: 0,
            bye_sent: false,
            quiet_sent: false,
            told: 0,
            untold: false,
        }
    }

    /// The peer's ranks.
    pub(crate) fn ranks(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    /// The rank at this place of the peer; `None`: it has fewer.
    #[inline(always)]
    pub(crate) fn rank(&self, place: u16) -> Option<u32> {
        (u32::from(place) < self.count).then_some(self.first + u32::from(place))
    }

    /// The queue of requests that wait there.
    #[inline]
    fn queue(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Control => &mut self.control,
            Place::Fragments => &mut self.fragments,
            place => {
                debug_assert_eq!(place, Place::Sends);
                &mut self.sends
            }
        }
    }

    /// A request that waits to be sent, the most urgent kind first.
    pub(crate) fn waiting(&self) -> Option<Ref> {
        [&self.control, &self.sends, &self.fragments].into_iter().find_map(Queue::front)
    }

    /// A receive expects data over the large track no more.
    pub(crate) fn unexpect_data(&mut self, request: Ref) {
        if matches!(request.owes.get(), Owes::CtsFragments | Owes::CtsPut | Owes::Have) {
            self.large_expected -= 1;
        }
    }

    /// What still comes of a message that is here is thrown away: it was sent twice.
    pub(crate) fn ignore_arrivals(&mut self, request: Ref) {
        for arrival in self.arrivals.iter_mut().flatten() {
            if arrival.request == Some(request) {
                arrival.request = None;
            }
        }
    }

    /// Notes what has come of the piece that is coming in over a link.
    pub(crate) fn note_arrival(&self, rail: usize) {
        if let Some(arrival) = self.arrivals[rail]
            && let Some(request) = arrival.request
            && arrival.sums.is_none()
            && arrival.got > 0
            && let Some(have) =
                request.parts.add_received(arrival.start, arrival.start + arrival.got)
        {
            request.moved.set(have);
        }
    }

    /// A message, or a part of it, has left: whether it overtook the oldest one.
    pub(crate) fn overtaken_by(&mut self, request: Ref) {
        let oldest = self.sends.front() == Some(request);
        self.strategy.overtaken = if oldest { 0 } else { self.strategy.overtaken + 1 };
    }

    /// Polling for a message from there was in vain.
    pub(crate) fn miss(&mut self) {
        self.hits = self.hits.saturating_sub(1);
    }

    /// It is not alive any more.
    pub(crate) fn end(&mut self, life: Life) {
        self.life = life;
        self.notes_receives = true;
    }

    /// Whether its tracks are worth looking at.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.life, Life::Dead(_))
    }

    /// Why nothing comes from it any more.
    #[inline]
    pub(crate) fn silence(&self) -> Option<Cause> {
        match self.life {
            Life::Quiet => Some(Cause::Left),
            _ => self.refusal(),
        }
    }

    /// Why nothing can be sent to it.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Cause> {
        match self.life {
            Life::Alive | Life::Quiet => None,
            Life::Left => Some(Cause::Left),
            Life::Dead(cause) => Some(cause),
        }
    }
}
