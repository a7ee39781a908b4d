//! A gate: the path to one peer, its queues, and its end.
//!
//! ```text
//! Alive --Bye--> Left --end of connection--> Dead(Left)
//!   \------- end of connection, malformed packet, error -------> Dead(cause)
//! ```
//! When a peer has *left*, receives that wait for it and messages that it never asked for end with an error;
//! what it already asked for goes on. When it is *dead*, everything that needs it ends.
//!
//! A gate has one [`Link`] per rail. None is open at first: sends queue up and receives are posted, and the first
//! send to a peer, or the first receive that names it, asks the porter (`Signals::want`) for all its links. The
//! porter opens them ([`Core::attach`]) or says that it cannot be done ([`Core::unreachable`]).
//!
//! *Lent memory.* The buffer of a send that was announced may be read by the peer, and that of a receive whose address
//! was given may be written, at any time until the peer has told its end (`Fin`). So that neither is its owner's again
//! too early:
//! - a `Bye` says also: I read no memory of yours any more. It is sent when no copy with that peer is left, and a receive
//!   that finds an announced message later ends with an error. The peer takes its announced buffers back on hearing it.
//! - A rank that closes keeps what it lent until each peer has said `Bye` or is dead; and what a peer may write until that
//!   has told its end, whatever else it said.
//! - Ranks of one process do not wait for each other's `Bye`: they [withdraw](Driver::withdraw) what they lent.
//! - A gate's links are closed before what it lent is given back.

pub(crate) mod credit;
pub(crate) mod kept;
pub(crate) mod links;

use std::sync::Arc;

use crate::collect::lane::Lender;
use crate::engine::core::Core;
use crate::error::Cause;
use crate::gate::credit::Credit;
use crate::gate::links::Care;
use crate::matching::pool::Content;
use crate::net::Driver;
use crate::request::queue::Queue;
use crate::request::{ANY_SOURCE, Op, Outcome, Owes, Place, Ref};
use crate::strategy::{self, next::Chosen};
use crate::transfer::lane::Way;
use crate::wire::{Header, Kind, MAX_RAILS};

/// Whether a peer can be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Left,
    Dead(Cause),
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
    pub(crate) life: Life,
    pub(crate) tx_seq: u32,
    pub(crate) rx_seq: u32,
    pub(crate) sends: Queue,
    pub(crate) control: Queue,
    pub(crate) streams: Queue,
    pub(crate) assembly: Assembly,
    /// Where the rest of the `Pack` begins that could not be taken whole.
    pub(crate) unpacked: usize,
    /// By rail: the piece that is coming in, and the message of which a piece has left in part.
    pub(crate) arrivals: [Option<Arrival>; MAX_RAILS],
    pub(crate) halves: [Option<Ref>; MAX_RAILS],
    /// Links that can be used: bit by rail.
    pub(crate) open: u8,
    /// Links were asked for.
    wanted: bool,
    /// The rail of the small track, or [`NO_RAIL`].
    pub(crate) small: usize,
    /// Packets of the small track need more than to be posted.
    pub(crate) careful: bool,
    /// Messages shorter than this are given to the small track's driver at once when none is before them: those that fit a
    /// packet; none when more is to be done than that ([`Core::consider`]).
    pub(crate) straight: usize,
    /// How often of late a message was there, or came soon, when a receive looked for it ([`crate::transfer::straight`]).
    pub(crate) luck: u8,
    /// Most payload bytes of a packet that can go over any open link.
    pub(crate) mtu: usize,
    pub(crate) care: Care,
    pub(crate) credit: Credit,
    /// Receives whose message comes, or may come, over the large track.
    pub(crate) large_expected: usize,
    /// What short messages need, for who sends them beside the engine.
    pub(crate) lane: Lender<Way>,
    /// What decides about its packets.
    pub(crate) chosen: Chosen,
    /// So many messages stay in `sends` until the next look.
    pub(crate) held: u32,
    /// Our goodbye is on its way: nothing more is asked of the peer, or read from its memory.
    pub(crate) bye_sent: bool,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            life: Life::Alive,
            tx_seq: 0,
            rx_seq: 0,
            sends: Queue::default(),
            control: Queue::default(),
            streams: Queue::default(),
            assembly: Assembly::Nothing,
            unpacked: 0,
            arrivals: [None; MAX_RAILS],
            halves: [None; MAX_RAILS],
            open: 0,
            wanted: false,
            small: NO_RAIL,
            careful: false,
            straight: 0,
            luck: 0,
            mtu: usize::MAX,
            care: Care::new(),
            credit: Credit::default(),
            large_expected: 0,
            lane: Lender::new(),
            chosen: Chosen::new(Arc::new(strategy::default::Default)),
            held: 0,
            bye_sent: false,
        }
    }

    /// Whether its tracks are worth looking at.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.life, Life::Dead(_))
    }

    /// Why nothing can be sent to it.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Cause> {
        match self.life {
            Life::Alive => None,
            Life::Left => Some(Cause::Left),
            Life::Dead(cause) => Some(cause),
        }
    }
}

impl<D: Driver> Core<D> {
    /// Closes every link to `peer`.
    fn hang_up(&mut self, peer: u32) {
        self.fetch(peer);
        let gate = &mut self.gates[peer as usize];
        for rail in rails(core::mem::take(&mut gate.open)) {
            self.rails[rail].driver.bury(peer);
        }
        gate.small = NO_RAIL;
        gate.straight = 0;
        gate.care.broken = 0;
        self.disconnected(peer);
    }

    /// The rail over which the memory of `peer` can be reached, if there is one.
    pub(crate) fn reach(&self, peer: u32) -> Option<usize> {
        rails(self.gates[peer as usize].open).find(|&rail| self.rails[rail].driver.can_copy(peer))
    }

    /// Whether nothing can come from `peer` any more: who is to blame.
    pub(crate) fn hopeless(&self, peer: u32) -> Option<(u32, Cause)> {
        if peer == ANY_SOURCE {
            // Another thread of this rank could still send, but when every peer is gone and one of them
            // crashed, an error serves better than a wait that only this rank could end.
            return self.casualty.filter(|_| self.living == 1);
        }
        self.gates[peer as usize].refusal().map(|cause| (peer, cause))
    }

    /// `peer` said goodbye: ends what it will never take part in.
    pub(crate) fn goodbye(&mut self, peer: u32) {
        if self.gates[peer as usize].life != Life::Alive {
            return;
        }
        self.gates[peer as usize].life = Life::Left;
        self.consider(peer);
        self.living -= 1;
        let outcome = Outcome::Died(peer, Cause::Left);
        self.fail_posted(|request| request.peer == peer, outcome);
        while let Some(request) = self.gates[peer as usize].sends.pop() {
            self.backlog -= 1;
            self.fail(request, outcome);
        }
        self.fail_numbered(
            |request| {
                request.source.get() == peer
                    && request.op == Op::Send
                    && request.place.get() == Place::Nowhere
            },
            outcome,
        );
        self.fail_any_if_alone();
    }

    /// Ends the gate and everything that needs it.
    pub(crate) fn bury(&mut self, peer: u32, cause: Cause) {
        let gate = &mut self.gates[peer as usize];
        let cause = match gate.life {
            Life::Dead(_) => return,
            Life::Left => Cause::Left,
            Life::Alive => {
                self.living -= 1;
                self.casualty = Some((peer, cause));
                cause
            }
        };
        gate.life = Life::Dead(cause);
        self.hang_up(peer);
        self.clear(peer, Outcome::Died(peer, cause));
        self.fail_any_if_alone();
        if self.closing.is_some() {
            self.try_close();
        }
    }

    /// Ends everything that needs `peer`.
    fn clear(&mut self, peer: u32, outcome: Outcome) {
        let gate = &mut self.gates[peer as usize];
        gate.arrivals = [None; MAX_RAILS];
        // The links are closed: nothing is read from these buffers any more.
        for rail in 0..MAX_RAILS {
            self.drop_half(rail, peer);
        }
        let gate = &mut self.gates[peer as usize];
        self.backlog -= usize::from(core::mem::replace(&mut gate.care.due, 0) != 0);
        self.backlog -= usize::from(core::mem::replace(&mut gate.care.resending, false));
        if let Some(kept) = &mut gate.care.kept {
            kept.clear();
        }
        gate.large_expected = 0;
        match core::mem::replace(&mut gate.assembly, Assembly::Nothing) {
            Assembly::Nothing => {}
            Assembly::Request { request, .. } => self.fail(request, outcome),
            Assembly::Cell(cell) => {
                if let Some(request) = self.matching.pool.get_mut(cell).claimed.take() {
                    self.matching.pool.put(cell);
                    self.fail(request, outcome);
                }
            }
        }
        self.matching.drop_unexpected(|cell| {
            cell.source == peer && (cell.content != Content::Eager || cell.got < cell.len)
        });
        loop {
            let gate = &mut self.gates[peer as usize];
            let queued =
                gate.control.pop().or_else(|| gate.sends.pop()).or_else(|| gate.streams.pop());
            let Some(request) = queued else { break };
            self.backlog -= 1;
            if request.op == Op::Recv && request.owes.get() == Owes::FinToSender {
                // Everything is here; only the sender was not told.
                self.end_rendezvous(request);
            } else {
                self.fail(request, outcome);
            }
        }
        let mut copies = core::mem::take(&mut self.copies);
        while let Some(request) = copies.pop() {
            if request.source.get() == peer {
                self.fail(request, outcome);
            } else {
                self.copies.push(request, Place::Copies);
            }
        }
        self.fail_numbered(|request| request.source.get() == peer, outcome);
        self.fail_posted(|request| request.peer == peer, outcome);
    }

    /// A link is closed: what is left of the piece that it held is not sent any more.
    fn drop_half(&mut self, rail: usize, peer: u32) {
        if let Some(request) = self.gates[peer as usize].halves[rail].take()
            && request.over.get()
        {
            self.end_if_whole(peer, request);
        }
    }

    /// Ends a request that is in no queue.
    fn fail(&mut self, request: Ref, outcome: Outcome) {
        self.table.remove(request);
        self.finish(request, outcome);
    }

    fn fail_posted(&mut self, which: impl Fn(Ref) -> bool, outcome: Outcome) {
        while let Some(request) = self.matching.find_posted(&which) {
            self.matching.unpost(request);
            self.finish(request, outcome);
        }
    }

    fn fail_numbered(&mut self, which: impl Fn(Ref) -> bool, outcome: Outcome) {
        while let Some(request) = self.table.find(&which) {
            debug_assert_eq!(request.place.get(), Place::Nowhere);
            self.fail(request, outcome);
        }
    }

    fn fail_any_if_alone(&mut self) {
        if let Some((rank, cause)) = self.hopeless(ANY_SOURCE) {
            self.fail_posted(|request| request.peer == ANY_SOURCE, Outcome::Died(rank, cause));
        }
    }

    /// The porter knows that every other rank has left or is dead. Callers' context.
    pub(crate) fn part(&mut self) {
        if !core::mem::replace(&mut self.parted, true) && self.closing.is_some() {
            self.try_close();
        }
    }

    /// Says goodbye where everything has been sent; ends the session when everybody has.
    pub(crate) fn try_close(&mut self) {
        let mut open = !self.parted;
        let mut silent = true;
        for peer in 0..self.gates.len() as u32 {
            let gate = &self.gates[peer as usize];
            if peer == self.rank || !gate.is_open() {
                continue;
            }
            let idle = gate.sends.is_empty()
                && gate.control.is_empty()
                && gate.streams.is_empty()
                && gate.halves == [None; MAX_RAILS]
                // The peer ends what waits for our word when it hears goodbye.
                && !(self.fragile && gate.large_expected > 0);
            silent &= idle && !self.copies_with(peer);
            let left = gate.life == Life::Left;
            if gate.open == 0 {
                // Nothing was ever sent here, or a link is being repaired. What waits to be sent waits for the link.
                let over = left && gate.bye_sent && gate.care.is_settled();
                open |= !idle || (gate.care.broken != 0 && !over);
                continue;
            }
            if !gate.bye_sent && idle && !self.copies_with(peer) {
                let sent = self.post(peer, &mut Header::new(Kind::Bye), &[]);
                self.gates[peer as usize].bye_sent = sent;
            }
            let mut heard = true;
            let mut flushed = true;
            for rail in rails(self.gates[peer as usize].open) {
                let driver = &self.rails[rail].driver;
                heard &= left || !driver.waits_for_goodbye();
                flushed &= driver.is_flushed(peer);
            }
            // A peer that was given the address of a buffer may be writing to it: the buffer is not its owner's
            // again before it has told its end, or its connection has ended.
            let lent = self.gates[peer as usize].large_expected > 0;
            let care = &self.gates[peer as usize].care;
            let settled = care.is_settled() && care.due == 0;
            open |= lent || !settled || !(self.gates[peer as usize].bye_sent && heard && flushed);
        }
        if silent {
            self.signals.leave();
        }
        if open {
            return;
        }
        let mut alone = true;
        for rail in &mut self.rails {
            alone &= rail.driver.withdraw();
        }
        if !alone {
            return;
        }
        let Some(request) = self.closing.take() else { return };
        self.closed = true;
        for peer in 0..self.gates.len() as u32 {
            if peer != self.rank && self.gates[peer as usize].is_open() {
                self.gates[peer as usize].life = Life::Dead(Cause::Left);
                self.hang_up(peer);
            }
            self.clear(peer, Outcome::Closed);
        }
        self.fail_posted(|_| true, Outcome::Closed);
        self.finish(request, Outcome::Done);
    }

    fn copies_with(&self, peer: u32) -> bool {
        let mut at = self.copies.front();
        while let Some(request) = at {
            if request.source.get() == peer {
                return true;
            }
            at = request.next.get();
        }
        false
    }
}
