//! The engine: all protocol state of a session, run by one thread at a time (whoever holds the lock).
//!
//! No locks, no system calls but the driver's, nothing allocated or freed: so it runs inside a signal handler,
//! and under proptest with a virtual driver. This file holds the state and its life (submission, rounds,
//! finishing); `transfer.rs` sends, `incoming.rs` treats what arrives, `rendezvous.rs` moves large messages,
//! `gate.rs` knows about deaths and the end.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::collect::Submissions;
use crate::error::{Cause, Error};
use crate::gate::{Gate, NO_RAIL, rails};
use crate::matching::Matching;
use crate::memory::span::Span;
use crate::net::{Driver, Peek, Rings};
use crate::request::queue::Queue;
use crate::request::{ANY_SOURCE, Op, Outcome, Place, Ref, Request};
use crate::sampling::{self, Pace};
use crate::strategy::Chunks;
use crate::strategy::next::Stage;
use crate::sys;
use crate::transfer::careful::Taken;
use crate::transfer::rendezvous::Table;
use crate::wire::MAX_RAILS;
use crate::wire::{CHECKSUM, Header, Kind, Malformed};

/// Most packets taken from one gate before the others have their turn.
const BATCH: usize = 64;
/// Most rounds of one call of [`Core::progress`]; more than one only while large copies go on.
const ROUNDS: usize = 256;
/// Every so many glances are a look at everything.
const SELDOM: u8 = 8;
/// Bytes that are thrown away at once.
const WASTE: usize = 16 * 1024;

/// What the engine shares with those who do not hold its lock.
pub(crate) struct Signals {
    /// Where requests are left for the lock's holder.
    pub(crate) submissions: Submissions<Request>,
    /// Requests that are not over. Written by the lock's holder only.
    pub(crate) outstanding: AtomicUsize,
    /// Whether peers are to ring while no thread polls: not if the owners of all requests ask for their ends, and no peer
    /// needs an answer before. The lock's holder alone writes it.
    unattended: AtomicBool,
    /// How often a sleep was ended because there was more to do than one call may.
    pub(crate) self_wakes: AtomicU64,
    /// Threads that wait for a large message.
    pub(crate) waiters: AtomicUsize,
    /// Messages stay with the senders for lack of cells: somebody who may allocate should help.
    pub(crate) starved: AtomicBool,
    /// Links that the porter should open or repair: bit `rail * size + peer`.
    wanted: Box<[AtomicU64]>,
    /// Something is unacknowledged or broken: `Core::tick` is to be called.
    pub(crate) restless: AtomicBool,
    size: usize,
    /// Written when something is wanted.
    bell: OwnedFd,
    /// Messages are held until the next look.
    pub(crate) held: AtomicBool,
    /// Short messages may be sent beside the engine.
    pub(crate) fine: AtomicBool,
    /// This process will want nothing more: the others may be told.
    leaves: AtomicBool,
}

impl Signals {
    pub(crate) fn new(size: u32, rails: usize) -> Result<Arc<Signals>, Error> {
        let size = size as usize;
        Ok(Arc::new(Signals {
            submissions: Submissions::new(),
            outstanding: AtomicUsize::new(0),
            unattended: AtomicBool::new(false),
            self_wakes: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            starved: AtomicBool::new(false),
            wanted: (0..(size * rails).div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            restless: AtomicBool::new(false),
            size,
            bell: sys::eventfd()?,
            held: AtomicBool::new(false),
            fine: AtomicBool::new(false),
            leaves: AtomicBool::new(false),
        }))
    }

    /// Whether something is outstanding whose event has to be found while nobody polls.
    #[inline]
    pub(crate) fn is_unattended(&self) -> bool {
        self.unattended.load(Ordering::Relaxed)
    }

    /// Asks the porter for a link. Progress path.
    #[cold]
    pub(crate) fn want(&self, rail: usize, peer: u32) {
        let bit = rail * self.size + peer as usize;
        if let Some(word) = self.wanted.get(bit / 64) {
            word.fetch_or(1 << (bit % 64), Ordering::Release);
        }
        sys::ring(self.bell.as_raw_fd());
    }

    /// Something is unacknowledged: the porter, if it does not know, is told to call `tick`. Progress path.
    #[inline]
    pub(crate) fn unrest(&self) {
        if !self.restless.load(Ordering::Relaxed) {
            self.restless.store(true, Ordering::Relaxed);
            sys::ring(self.bell.as_raw_fd());
        }
    }

    /// Readable when [`Signals::restless`] was set, or when there is something for the porter in [`Signals::take_wanted`].
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Everything has been sent, and the session closes. Progress path.
    #[cold]
    pub(crate) fn leave(&self) {
        if !self.leaves.swap(true, Ordering::Relaxed) {
            sys::ring(self.bell.as_raw_fd());
        }
    }

    /// Whether this process will want nothing more.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// Gives every link that was wanted since the last call to `each`, as (rail, peer). For the porter, which
    /// empties the bell first.
    pub(crate) fn take_wanted(&self, mut each: impl FnMut(usize, u32)) {
        for (index, word) in self.wanted.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                let bit = index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                each(bit / self.size, (bit % self.size) as u32);
            }
        }
    }
}

/// One network. Rails have the same order in all processes, the one of lowest latency first.
pub(crate) struct Rail<D> {
    pub(crate) driver: D,
    /// How fast it is, as sampled.
    pub(crate) pace: Pace,
    /// It is as fast as a core feeds it, as far as is known.
    pub(crate) copies: bool,
    /// When it will be free of the large messages that it carries, as predicted.
    pub(crate) free_ns: u64,
    /// Its links can break although the peer lives, and somebody repairs them.
    pub(crate) breaks: bool,
    /// Its packets have checksums.
    pub(crate) checked: bool,
    /// Either of these.
    pub(crate) careful: bool,
}

impl<D: Driver> Rail<D> {
    /// Name of its driver.
    pub(crate) fn driver_name(&self) -> &'static str {
        self.driver.name()
    }

    fn new(driver: D, config: &Config) -> Rail<D> {
        let (pace, copies) = (sampling::built_in(driver.calls_the_kernel()), true);
        let breaks = config.repairs && driver.can_break();
        let checked = config.checksum && driver.can_break();
        Rail { driver, pace, copies, free_ns: 0, breaks, checked, careful: breaks || checked }
    }

    /// Bytes behind the payload of a small packet.
    pub(crate) fn trailer(&self) -> usize {
        if self.checked { CHECKSUM } else { 0 }
    }
}

/// What an engine is told when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
    /// Bound of the memory for unexpected messages.
    pub(crate) unexpected_max: usize,
    /// Bytes of unacknowledged packets that are kept for each peer; at least four times the longest packet.
    pub(crate) kept: usize,
    /// Somebody repairs links that break, and calls `tick`; otherwise their end is the peer's.
    pub(crate) repairs: bool,
    /// How long a gate may be without any link, in milliseconds.
    pub(crate) repair_ms: u64,
    /// Packets over rails that can break have checksums.
    pub(crate) checksum: bool,
    /// Bytes of eager messages that a peer may send before somebody receives them.
    pub(crate) credit: u64,
}

impl Config {
    /// With these; otherwise what is usual, and no repairs.
    pub(crate) fn new(threshold: usize, unexpected_max: usize) -> Config {
        Config {
            threshold,
            unexpected_max,
            kept: 512 * 1024,
            repairs: false,
            repair_ms: 1500,
            checksum: false,
            credit: 64 << 20,
        }
    }
}

/// See the module.
pub(crate) struct Core<D> {
    pub(crate) rank: u32,
    pub(crate) rails: Box<[Rail<D>]>,
    pub(crate) gates: Box<[Gate]>,
    /// Ranks with an open link: those that a round looks at. As long as the number of ranks from the start.
    pub(crate) connected: Vec<u32>,
    pub(crate) matching: Matching,
    pub(crate) table: Table,
    pub(crate) copies: Queue,
    /// Rounds to pass before the next piece is copied.
    pub(crate) grace: u32,
    pub(crate) config: Config,
    pub(crate) threshold: usize,
    /// Whether messages with different tags may overtake each other.
    pub(crate) reorder: bool,
    /// Where packets of several messages are made.
    pub(crate) stage: Stage,
    /// Sends are only queued: what others left on the submission list is to leave together.
    pub(crate) gathering: bool,
    /// Whether somebody looks after what is held: a kernel thread that sleeps on behalf of the session.
    pub(crate) patient: bool,
    /// The sleeper was woken because messages are held.
    pub(crate) called: bool,
    /// How many cores are idle, where strategies want to know: with several rails.
    pub(crate) idle: Option<Box<dyn Fn() -> usize + Send>>,
    /// How many parts of a large message are wanted.
    pub(crate) chunks: Chunks,
    glances: u8,
    /// How often who has the lock still looks for others.
    pub(crate) favours: u32,
    /// Gates that have something to send.
    pub(crate) backlog: usize,
    /// Ranks that are neither dead nor gone, this one included.
    pub(crate) living: usize,
    /// The rank that died last, if any did.
    pub(crate) casualty: Option<(u32, Cause)>,
    pub(crate) closing: Option<Ref>,
    pub(crate) closed: bool,
    /// Every other rank has left or is dead, as far as the porter knows; where there is none, always.
    pub(crate) parted: bool,
    pub(crate) signals: Arc<Signals>,
    /// Whether a link of any rail can break although the peer lives.
    pub(crate) fragile: bool,
    /// Where pieces go that nobody needs any more.
    pub(crate) waste: Box<[u8]>,
    outstanding: usize,
    /// Of these, those whose owners ask for their ends, and of those the receives of short messages.
    attended: usize,
    short: usize,
    /// Whether the peers of a rail tell apart for what they ring.
    tells_apart: bool,
    spell: u64,
    /// For what peers ring, or will when whoever watches in this spell sleeps.
    watched_for: Rings,
}

// SAFETY: the engine's pointers lead to requests, which are `Sync`, and to its own memory.
unsafe impl<D: Send> Send for Core<D> {}

impl<D: Driver> Core<D> {
    /// An engine for rank `rank` of `size` over these drivers (at most [`MAX_RAILS`]), without any link.
    pub(crate) fn new(
        rank: u32,
        size: u32,
        drivers: Vec<D>,
        config: Config,
        signals: Arc<Signals>,
    ) -> Core<D> {
        let tells_apart = drivers.iter().any(|driver| driver.tells_apart());
        let rail = |driver| Rail::new(driver, &config);
        Core {
            rank,
            fragile: config.repairs && drivers.iter().any(|driver| driver.can_break()),
            waste: vec![0; WASTE].into_boxed_slice(),
            rails: drivers.into_iter().take(MAX_RAILS).map(rail).collect(),
            gates: (0..size).map(|_| Gate::new()).collect(),
            connected: Vec::with_capacity(size as usize),
            matching: Matching::new(config.threshold, config.unexpected_max),
            table: Table::new(),
            copies: Queue::default(),
            grace: 0,
            config,
            threshold: config.threshold,
            reorder: true,
            stage: Stage::new(),
            gathering: false,
            patient: false,
            called: false,
            idle: None,
            chunks: Chunks::Rails,
            glances: 0,
            favours: 0,
            backlog: 0,
            living: size as usize,
            casualty: None,
            closing: None,
            closed: false,
            parted: true,
            signals,
            outstanding: 0,
            attended: 0,
            short: 0,
            tells_apart,
            spell: 0,
            watched_for: Rings::NONE,
        }
    }

    /// Requests that are not over.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The number of this spell ([`crate::engine::cover`]): a new one begins with a request while no other is outstanding,
    /// and when peers are to ring for more than before.
    pub(crate) fn spell(&mut self) -> u64 {
        let rings = self.rings();
        if !self.watched_for.has(rings) {
            self.spell += 1;
            self.watched_for = self.watched_for.and(rings);
        }
        self.spell
    }

    /// For what peers are to ring while nobody polls. Where all owners ask for the ends of their requests, that is only what
    /// its sender needs an answer to: to be woken for a message, and to wake for one, costs more than to find it later.
    fn rings(&self) -> Rings {
        if self.outstanding > self.attended {
            return Rings::ALL;
        }
        if self.outstanding == 0 || self.outstanding == self.short && !self.tells_apart {
            return Rings::NONE;
        }
        if self.backlog > 0 { Rings::CONTROL.and(Rings::ROOM) } else { Rings::CONTROL }
    }

    /// Counts a request that begins, or ends.
    #[inline]
    fn count(&mut self, request: Ref, begins: bool) {
        let by = |number: usize, counts: bool| match begins {
            true => number + usize::from(counts),
            false => number - usize::from(counts),
        };
        let attended = request.attended.get();
        let short = attended && request.is_short_receive();
        self.outstanding = by(self.outstanding, true);
        self.attended = by(self.attended, attended);
        self.short = by(self.short, short);
        self.publish();
    }

    #[inline]
    fn publish(&self) {
        self.signals.outstanding.store(self.outstanding, Ordering::Relaxed);
        let ignorable = if self.tells_apart { 0 } else { self.short };
        self.signals.unattended.store(self.outstanding > ignorable, Ordering::Relaxed);
    }

    /// Somebody is to be told of the end of this request, which is not over: its owner does not ask for it any more.
    pub(crate) fn unattend(&mut self, request: Ref) {
        if request.attended.replace(false) {
            self.attended -= 1;
            self.short -= usize::from(request.is_short_receive());
            self.publish();
        }
    }

    /// Treats what others left on the submission list.
    #[inline]
    pub(crate) fn drain(&mut self) -> bool {
        if self.signals.submissions.is_empty() {
            return false;
        }
        self.drain_slowly();
        true
    }

    #[cold]
    fn drain_slowly(&mut self) {
        self.gathering = true;
        let mut to = None;
        for request in self.signals.submissions.take() {
            // SAFETY: whoever pushed it promised (`Shared::submit`) that it stays until it is finished.
            let request = unsafe { Ref::new(request) };
            to = (request.op == Op::Send).then_some(request.peer).or(to);
            self.start(request);
        }
        self.signals.submissions.arrived();
        self.gathering = false;
        if self.backlog > 0 {
            self.flush_all();
        }
        if self.signals.fine.load(Ordering::Relaxed)
            && let Some(to) = to
        {
            // Its sender found the engine held.
            self.lend(to);
        }
    }

    /// Begins a request. It may be finished, and gone, when this returns.
    #[inline]
    pub(crate) fn start(&mut self, request: Ref) {
        if self.outstanding == 0 {
            self.spell += 1;
            self.watched_for = Rings::NONE;
        }
        self.count(request, true);
        if self.closed {
            return self.finish(request, Outcome::Closed);
        }
        match request.op {
            Op::Send => self.start_send(request),
            Op::Recv => self.start_recv(request),
            Op::Probe { .. } => self.start_probe(request),
            Op::Close => self.start_close(request),
        }
    }

    /// Ends a request: the last touch.
    #[inline]
    pub(crate) fn finish(&mut self, request: Ref, outcome: Outcome) {
        debug_assert_eq!(request.place.get(), Place::Nowhere);
        self.count(request, false);
        request.finish(outcome);
    }

    /// Finds and treats events until none is left, or enough is done for one call. True: state has changed that may let a
    /// thread go on. A message that only waits for its peer is no such change.
    pub(crate) fn progress(&mut self) -> bool {
        let mut any = self.drain();
        for _ in 0..ROUNDS {
            let did = self.round();
            any |= did;
            let goes_on = did || self.grace > 0;
            if !goes_on || self.copies.is_empty() {
                break;
            }
        }
        any
    }

    /// As `progress`, by somebody who waits for a message from there and looks again at once: where there are several links,
    /// mostly at the one over which it has to come. To ask a second network each time costs as much as the first.
    #[inline]
    pub(crate) fn glance(&mut self, from: u32) -> bool {
        match self.rails.len() {
            0 | 1 => self.progress(),
            _ => self.glance_at_one(from),
        }
    }

    fn glance_at_one(&mut self, from: u32) -> bool {
        let any = self.drain();
        self.glances = self.glances.wrapping_add(1);
        let gate = self.gates.get(from as usize);
        let several = gate.filter(|gate| gate.open.count_ones() > 1 && gate.large_expected == 0);
        let small = several.map_or(NO_RAIL, |gate| gate.small);
        let everything = self.glances.is_multiple_of(SELDOM) || !self.copies.is_empty();
        let Some(rail) = self.rails.get_mut(small).filter(|_| !everything) else {
            return self.progress() || any;
        };
        self.called = false;
        let mut any = rail.driver.begin() || any;
        any |= self.take_from(small, from);
        if self.backlog > 0 {
            any |= self.flush_all();
        }
        any
    }

    /// Asks the peers to ring. True: the caller must look for packets that came before.
    pub(crate) fn arm(&mut self) -> bool {
        let rings = self.rings();
        self.watched_for = rings;
        self.rails.iter_mut().fold(false, |looks, rail| rail.driver.arm(rings) | looks)
    }

    /// Arms, then looks until a look finds nothing or no request is outstanding, at most `most` times: packets that a look
    /// leaves to be sent may need a ring, too. Messages for which peers would not ring stay in the driver until their
    /// receiver calls, which then copies them once. False: more is to be done.
    pub(crate) fn settle(&mut self, most: usize) -> bool {
        for _ in 0..most {
            self.drain();
            if !self.arm() && self.copies.is_empty() {
                return true;
            }
            self.rails.iter_mut().for_each(|rail| rail.driver.look_at_all());
            let more = self.progress();
            if !more && !self.signals.starved.load(Ordering::Relaxed) {
                return true;
            }
            self.rails.iter_mut().for_each(|rail| rail.driver.leave_some());
            if !more || self.outstanding == 0 {
                return true;
            }
        }
        false
    }

    /// Ends the sleep of whoever armed.
    pub(crate) fn wake_oneself(&mut self) {
        self.signals.self_wakes.fetch_add(1, Ordering::Relaxed);
        marcel::trace::record(marcel::trace::Kind::SelfWake, 0, 0);
        if let Some(rail) = self.rails.first_mut() {
            rail.driver.wake_oneself();
        }
    }

    /// When messages are held: instead of a look, which would send them one by one, ends the sleep for which the
    /// caller has armed. False: nothing is held.
    pub(crate) fn call_for_held(&mut self) -> bool {
        if !self.signals.held.load(Ordering::Relaxed) {
            return false;
        }
        if !self.called {
            self.called = true;
            self.arm();
            self.wake_oneself();
        }
        true
    }

    /// One look at everything.
    pub(crate) fn round(&mut self) -> bool {
        self.called = false;
        let mut any = false;
        for rail in &mut self.rails {
            any |= rail.driver.begin();
        }
        let mut at = 0;
        while let Some(&peer) = self.connected.get(at) {
            for rail in rails(self.gates[peer as usize].open) {
                any |= self.take_from(rail, peer);
            }
            // Unless it was buried, and another is in its place.
            at += usize::from(self.connected.get(at) == Some(&peer));
        }
        if !self.copies.is_empty() {
            any |= self.copy_some();
        }
        if self.backlog > 0 {
            any |= self.flush_all();
        }
        if self.closing.is_some() {
            self.try_close();
        }
        any
    }

    /// Takes what has come from a peer over one rail.
    #[inline(always)]
    pub(crate) fn take_from(&mut self, rail: usize, from: u32) -> bool {
        let mut any = false;
        let waited = self.outstanding > 0;
        for _ in 0..BATCH {
            match self.rails[rail].driver.peek_small(from) {
                Peek::Empty => break,
                Peek::Packet(header, payload) => match self.take(rail, from, &header, payload) {
                    Ok(Taken::Lost) => return true,
                    Ok(Taken::Yes) => {
                        self.rails[rail].driver.release(from);
                        any = true;
                        if waited && self.outstanding == 0 {
                            // That was what somebody waited for; what else has come can stay where it is.
                            break;
                        }
                    }
                    Ok(Taken::No) => {
                        self.starve();
                        break;
                    }
                    Err(_) => {
                        self.bury(from, Cause::Malformed);
                        return true;
                    }
                },
                Peek::Gone(cause) => {
                    // What it sent on the large track before may still be there.
                    let expected = self.gates[from as usize].large_expected > 0;
                    if !(expected && self.take_large(rail, from)) {
                        self.ended(rail, from, cause);
                    }
                    return true;
                }
            }
        }
        let gate = &self.gates[from as usize];
        if gate.large_expected > 0 || gate.care.late {
            any |= self.take_large(rail, from);
        }
        any
    }

    #[inline]
    pub(crate) fn take(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Taken, Malformed> {
        let gate = &mut self.gates[from as usize];
        // What was sent again may come over a rail that never breaks.
        if self.rails[rail].careful || gate.careful || header.seq != gate.rx_seq {
            return self.take_careful(rail, from, header, payload);
        }
        if header.kind == Kind::Eager
            && payload.len() == header.payload as usize
            && let Some(request) = self.matching.take_posted(from, header.tag)
        {
            // Most packets, in short.
            gate.rx_seq = gate.rx_seq.wrapping_add(1);
            self.get(request, from, payload, header.seq.into());
            return Ok(Taken::Yes);
        }
        let taken = self.incoming(from, header, payload)?;
        Ok(if taken { Taken::Yes } else { Taken::No })
    }

    /// The driver says that a link has ended.
    pub(crate) fn ended(&mut self, rail: usize, peer: u32, cause: Cause) {
        match cause {
            Cause::Malformed if self.rails[rail].checked => {
                self.broke(rail, peer, Cause::Broken(libc::EBADMSG));
            }
            Cause::Malformed => self.bury(peer, cause),
            _ => self.broke(rail, peer, cause),
        }
    }

    /// A message stays where it is because no cell is left: makes one blocked caller come and allocate.
    #[cold]
    pub(crate) fn starve(&mut self) {
        if self.signals.starved.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.matching.find_posted(|request| request.nudge()).is_some() {
            return;
        }
        if self.table.find(|request| request.nudge()).is_some() {
            return;
        }
        for gate in &self.gates {
            let mut at = gate.sends.front();
            while let Some(request) = at {
                if request.nudge() {
                    return;
                }
                at = request.next.get();
            }
        }
        if let Some(request) = self.closing {
            request.nudge();
        }
    }

    /// Makes room for unexpected messages. Callers' context only: allocates. False: the bound is reached.
    pub(crate) fn grow(&mut self) -> bool {
        if self.matching.pool.grow() {
            self.signals.starved.store(false, Ordering::SeqCst);
            return true;
        }
        false
    }

    /// Takes a receive or a probe back if no message has matched it; whether that was so.
    ///
    /// Only for a request that is not finished.
    pub(crate) fn cancel(&mut self, request: Ref) -> bool {
        let waits = matches!(request.place.get(), Place::Posted | Place::Probes);
        if waits {
            self.matching.unpost(request);
            self.finish(request, Outcome::Cancelled);
        }
        waits
    }

    #[inline]
    fn start_recv(&mut self, request: Ref) {
        if let Some(cell) = request.held.take() {
            return self.receive_held(request, cell);
        }
        match self.matching.find_unexpected(request.peer, request.tag, request.mask) {
            None => {
                if let Some((rank, cause)) = self.hopeless(request.peer) {
                    return self.finish(request, Outcome::Died(rank, cause));
                }
                self.matching.post(request);
                self.want_source(request.peer);
            }
            Some(cell) => self.take_unexpected(cell, request),
        }
    }

    /// Somebody waits for a message from there.
    #[inline]
    pub(crate) fn want_source(&mut self, from: u32) {
        if from != ANY_SOURCE && self.gates[from as usize].open == 0 {
            self.want(from);
        }
    }

    fn start_close(&mut self, request: Ref) {
        self.closing = Some(request);
        self.try_close();
    }
}
