//! All gates of a session and the rails under them: packets that arrive once and in order, over links that may break.
//!
//! The layer between the protocol, which knows messages, and the drivers, which know links. It numbers packets, keeps
//! what a reliable rail may lose until it is acknowledged, counts credit, leases the sending ends, and chooses the
//! link of each gate's small track. It ends no request: what a broken link or a dead peer means for messages is told to
//! the caller.

mod links;
mod packets;

use core::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::error::Cause;
use crate::gate::config::Config;
use crate::gate::rail::Rail;
use crate::gate::ranks::Ranks;
use crate::gate::signals::{Signals, TICK_MS};
use crate::gate::{Arrival, Gate, rails};
use crate::memory::span::Span;
use crate::net::reliable::{PATIENCE_MS, PROBE};
use crate::net::virtual_rails::VirtualRails;
use crate::net::{Driver, Rings};
use crate::request::{ANY_SOURCE, Place, Ref};
use crate::strategy::Rail as RailView;
use crate::strategy::selection::Selection;
use crate::wire::{Header, MAX_RAILS};

/// What a packet of a reliable gate is to its receiver.
pub(crate) enum Admitted {
    /// The next one: the protocol takes it, without its checksum.
    Next(Header, Span),
    /// A word between the gates, or here already. Nothing is left to be done with it.
    Done,
    /// It shows that its link has lost something.
    Broken(Cause),
}

/// What time has brought for a gate.
pub(crate) enum Verdict {
    /// Nothing is to be done.
    Rest,
    /// The peer is asked for news.
    Ask,
    /// No news came over this rail for too long.
    Broken(usize, Cause),
    /// No link could be made again in time.
    Dead(Cause),
}

/// See the module.
pub(crate) struct Gates<D> {
    pub(crate) process: u32,
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) rails: Box<[Rail<D>]>,
    all: Box<[Gate]>,
    /// Processes with an open link: those that a round looks at. As long as the number of processes from the start.
    pub(crate) connected: Vec<u32>,
    pub(crate) config: Config,
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
    /// Messages from this length on are read by an adapter, where one can.
    pub(crate) reads_from: usize,
    /// Whether a link of any rail can break although the peer lives.
    pub(crate) fragile: bool,
    /// Whatever waits to be sent: requests in the gates' queues, and words that are due.
    pub(crate) backlog: usize,
    /// Processes that are neither dead nor gone, this one included.
    pub(crate) living: usize,
    /// No short message is sent beside the protocol any more.
    pub(crate) ending: bool,
    /// The process that failed last, if any did.
    pub(crate) last_failed: Option<(u32, Cause)>,
    /// Ranks that have failed or left, in the order in which this process has learnt it; one that has left before its process
    /// is there twice. Room for all of them is there from the start.
    pub(crate) ended: Vec<(u32, Cause)>,
    /// The layer above looks after receives from any rank when ranks fail.
    pub(crate) tolerant: bool,
    signals: Arc<Signals>,
    /// `None`: no rail is virtual.
    pub(crate) routes: Option<Arc<VirtualRails>>,
}

impl<D> Index<usize> for Gates<D> {
    type Output = Gate;
    #[inline(always)]
    fn index(&self, peer: usize) -> &Gate {
        &self.all[peer]
    }
}

impl<D> IndexMut<usize> for Gates<D> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut Gate {
        &mut self.all[peer]
    }
}

impl<D: Driver> Gates<D> {
    /// Gates of process `process` without any link, over at most [`MAX_RAILS`] drivers.
    pub(crate) fn new(
        process: u32,
        ranks: Arc<Ranks>,
        drivers: Vec<D>,
        config: Config,
        signals: Arc<Signals>,
    ) -> Gates<D> {
        let rail = |driver| Rail::new(driver, &config);
        let room = 2 * ranks.all() as usize;
        let mut all: Box<[_]> =
            (0..ranks.processes()).map(|process| Gate::new(ranks.of(process))).collect();
        all[process as usize].notes_receives = false;
        Gates {
            process,
            fragile: config.repairs && drivers.iter().any(|driver| driver.can_break()),
            rails: drivers.into_iter().take(MAX_RAILS).map(rail).collect(),
            all,
            connected: Vec::with_capacity(ranks.processes() as usize),
            config,
            threshold: config.threshold,
            reads_from: usize::MAX,
            backlog: 0,
            living: ranks.processes() as usize,
            ending: false,
            ranks,
            last_failed: None,
            ended: Vec::with_capacity(room),
            tolerant: false,
            signals,
            routes: None,
        }
    }

    /// Some of the rails are virtual. Before there is any link.
    pub(crate) fn are_virtual(&mut self, rails: Arc<VirtualRails>) {
        self.routes = Some(rails);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Gate> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Gate> {
        self.all.iter_mut()
    }

    #[inline]
    pub(crate) fn get(&self, peer: usize) -> Option<&Gate> {
        self.all.get(peer)
    }

    /// A rail and a gate.
    #[inline(always)]
    pub(crate) fn pair(&mut self, rail: usize, peer: u32) -> Option<(&mut Rail<D>, &mut Gate)> {
        Some((self.rails.get_mut(rail)?, &mut self.all[peer as usize]))
    }

    /// Whether nothing can come from that rank any more: which rank has failed, and why.
    #[inline(always)]
    pub(crate) fn hopeless(&self, from: u32) -> Option<(u32, Cause)> {
        if from == ANY_SOURCE {
            // Another thread of this process could still send, but when every peer is gone and one of them
            // crashed, an error serves better than a wait that only this process could end.
            let (process, cause) =
                self.last_failed.filter(|_| self.living == 1 && !self.tolerant)?;
            return Some((self.ranks.of(process).start, cause));
        }
        self.all[self.ranks.home(from) as usize].silence().map(|cause| (from, cause))
    }

    /// The rank at this place of this process.
    #[inline]
    pub(crate) fn own(&self, mine: u16) -> u32 {
        self.all[self.process as usize].first + u32::from(mine)
    }

    /// The two ranks of a message, by their places here and at the peer.
    #[inline]
    fn names(&self, mine: u16, peer: u32, theirs: u16) -> (u32, u32) {
        (self.own(mine), self.all[peer as usize].first + u32::from(theirs))
    }

    /// What strategies are shown of the open rails, at `now`: so many, and their numbers. `quiet`: no large message is
    /// on its way.
    pub(crate) fn view(
        &mut self,
        peer: u32,
        now: u64,
        quiet: bool,
    ) -> ([RailView; MAX_RAILS], usize) {
        let nothing = RailView { number: 0, latency_ns: 0, mib_ns: 0, busy_ns: 0, copies: false };
        let (mut shown, mut count) = ([nothing; MAX_RAILS], 0);
        let (open, route) = (self.all[peer as usize].open, self.all[peer as usize].route.theirs());
        for number in rails(open) {
            if self.on_route(open, number, route) != number {
                continue;
            }
            let rail = &mut self.rails[number];
            if quiet {
                rail.free_ns = now;
            }
            shown[count] = RailView {
                number,
                latency_ns: rail.pace.latency_ns,
                mib_ns: rail.pace.mib_ns,
                busy_ns: rail.free_ns.saturating_sub(now),
                copies: rail.copies,
            };
            count += 1;
        }
        (shown, count)
    }

    /// Changes the strategy for this peer. The one that there was is given back, to be dropped without the lock.
    pub(crate) fn set_strategy(&mut self, peer: u32, chosen: Selection) -> Option<Selection> {
        let gate = self.all.get_mut(peer as usize)?;
        let before = core::mem::replace(&mut gate.strategy, chosen);
        self.consider(peer);
        Some(before)
    }

    /// Takes over what is known of the rails: the pace of each by its name, where it was sampled.
    pub(crate) fn learn(&mut self, pace: impl Fn(&str) -> Option<crate::sampling::Pace>) {
        let names = crate::sampling::rail_names(self.rails.iter().map(|rail| rail.driver.name()));
        for (rail, name) in self.rails.iter_mut().zip(names) {
            if let Some(pace) = pace(&name) {
                rail.pace = pace;
                rail.copies =
                    !rail.driver.calls_the_kernel() || pace.mib_ns < crate::sampling::FED_NS;
            }
        }
    }

    // What waits to be sent.

    /// A request waits to be sent.
    #[inline]
    pub(crate) fn enqueue(&mut self, to: u32, request: Ref, place: Place) {
        self.all[to as usize].queue(place).push(request, place);
        self.backlog += 1;
    }

    /// Takes out a request that waits to be sent.
    #[inline]
    pub(crate) fn dequeue(&mut self, to: u32, request: Ref) {
        let gate = &mut self.all[to as usize];
        gate.queue(request.place.get()).remove(request);
        if gate.sends.is_empty() {
            gate.held = 0; // else later messages would be held with it, for which nobody looks
        }
        self.backlog -= 1;
    }

    /// Parts of a message went over a link that is closed. Whether they arrived, the peer is to be asked.
    pub(crate) fn lose(&mut self, request: Ref, rail: usize) {
        let peer = request.gate.get();
        self.all[peer as usize].reliability.asks |= request.parts.mark_lost(rail as u8);
        if request.place.get() == Place::Nowhere {
            self.enqueue(peer, request, Place::Fragments);
        }
    }

    // Pieces in.

    /// The link that has to go before this piece, which comes over `rail`, can be read.
    pub(crate) fn in_the_way(&self, rail: usize, from: u32, new: &Arrival) -> Option<usize> {
        let arrivals = &self.all[from as usize].arrivals;
        let stale = (0..self.rails.len()).find(|&other| {
            arrivals[other].is_some_and(|old| {
                new.request.is_some()
                    && old.request == new.request
                    && old.start < new.start + new.len
                    && new.start < old.start + old.len
                    && (old.sums.is_some() || new.sums.is_some())
            })
        })?;
        // What cannot break cannot have been given up.
        Some(if self.rails[stale].breaks { stale } else { rail })
    }

    // Time.

    /// What is to be done for a gate as time goes on (`now` in milliseconds). Asks for another call of `tick` while packets are not
    /// acknowledged.
    pub(crate) fn tick(&mut self, peer: u32, now: u64) -> Verdict {
        let gate = &mut self.all[peer as usize];
        if gate.open == 0 && gate.reliability.broken != 0 {
            let since = *gate.reliability.alone_since.get_or_insert(now);
            return match now.saturating_sub(since) >= self.config.repair_ms {
                true => Verdict::Dead(gate.reliability.cause),
                false => Verdict::Rest,
            };
        }
        let buffer = gate.reliability.retransmit.as_ref().filter(|buffer| !buffer.is_empty());
        // After a repair, too, something has to come back: so both sides ask, and look for the other's word.
        let asked = gate.reliability.unheard.then_some(gate.tx_seq);
        let Some(oldest) = buffer.map(|buffer| buffer.first()).or(asked) else {
            gate.reliability.news = None;
            return Verdict::Rest;
        };
        match gate.reliability.news {
            Some((before, since)) if before == oldest => {
                let breaks = self.rails.get(gate.small).is_some_and(|way| way.breaks);
                if now.saturating_sub(since) >= PATIENCE_MS && breaks {
                    gate.reliability.news = None;
                    return Verdict::Broken(gate.small, Cause::Broken(libc::ETIMEDOUT));
                }
            }
            _ => gate.reliability.wait_for_news(oldest, now),
        }
        let asks = gate.reliability.asks_at(now);
        // A thread that sleeps for events is woken by the answer, and by a link that ends. Without one this is the only look.
        self.signals.call_again_in(match self.signals.is_unattended() {
            true => gate.reliability.asks_in(now),
            false => TICK_MS,
        });
        if !asks {
            return Verdict::Rest;
        }
        self.owe_word(peer, PROBE);
        Verdict::Ask
    }

    // Sleep.

    /// Asks the peers to ring for these packets. True: the caller must look for packets that came before.
    pub(crate) fn arm(&mut self, rings: Rings) -> bool {
        self.rails.iter_mut().fold(false, |looks, rail| rail.driver.arm(rings) | looks)
    }
}
