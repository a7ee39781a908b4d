//! InfiniBand and RoCE by libibverbs, which is opened at run time (`ibv/`).
//!
//! A link is a reliable connection of two queue pairs ([`peer`]). Both tracks go over it, in packets that the receiving
//! adapter puts into buffers of a receive queue that all links share; [`flow`] says how many may be under way. The
//! connection manager's handshake carries the addresses, and its socket stays open: by its end the peer's is noticed,
//! also while nothing is sent.
//!
//! ```text
//!  caller   makes a queue pair ─ Hello(address) ─▶ called   makes one, connects it
//!           connects its own   ◀─ Verdict(address) ─┘
//!           writes a byte to the socket  ─────────▶ sends from now on
//! ```
//! Short packets may go another way, too: into slots of the receiver's memory ([`channels`]). Long messages may be read
//! by the receiver's adapter from the sender's memory ([`pieces`]). Packets, writes and reads share a link's send queue.
//!
//! *Sleeping*: a thread arms both completion queues, and polls them after that, since of what was over before there is
//! no notice. The queue of requests to send tells of failures only, unless one of them is waited for: by a packet that
//! found no slot, by the message of a read, or by the end of the session.
//!
//! *Failures*: a request that fails, an event of the adapter (the connection manager reads them), the end of the socket.
//! Each ends the link; the connection manager makes a new one, as over TCP.
//!
//! Rejected: a receive queue for each link (memory grows with the links, used or not); the connection manager of
//! librdmacm (a second handshake beside the job's own, which proves the key, and another library).

pub(crate) mod channels;
pub(crate) mod connect;
mod eager;
mod flow;
pub(crate) mod ibv;
mod mail;
#[cfg(test)]
mod messages;
mod peer;
mod pieces;
mod registrar;
mod supply;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::error::{Cause, Error};
use crate::memory::span::Span;
use crate::net::driver::Driver;
use crate::net::packet::Peek;
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::net::ready::{NO_BITS, Ready};
use crate::net::rings::Rings;
use crate::sys;
use crate::wire::{Header, LONG};

use channels::{Charge, Count, DriverCounts, OUTPOLLED, Route, Settings, TAIL, decide};
use supply::{Order, Supply};

pub(crate) use crate::driver::Track;
#[cfg(any(test, fuzzing))]
pub(crate) use channels::hostile as hostile_channels;
#[cfg(any(test, fuzzing))]
pub(crate) use flow::hostile as hostile_words;
pub(crate) use ibv::Event;
use ibv::{Adapter, Completion, Which};
pub(crate) use peer::Peer;
use pieces::{PLACES, Pieces, READS_OF_LINK, ticket_of};
use registrar::{Memory, Registrar};

/// Completions taken at once.
const BATCH: usize = 16;
/// And so often in a round.
const ROUNDS: usize = 8;
/// Rounds without a look at the sockets: a system call.
const SOCKETS: u32 = 256;
const EDGES: libc::c_int = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;

/// The links, by peer and by queue pair.
struct Links {
    peers: Box<[Option<Peer>]>,
    /// Numbers of queue pairs, in order, and whose they are.
    routes: Vec<(u32, u32)>,
    /// Peers whose receive buffers are posted. A link that comes to nothing before it is installed posts none.
    supplied: Box<[bool]>,
}

impl Links {
    #[inline]
    fn peer(&mut self, rank: u32) -> Option<&mut Peer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    /// The link with this queue pair.
    #[inline]
    fn route(&mut self, number: u32) -> Option<&mut Peer> {
        let place = self.routes.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        self.peer(self.routes[place].1)
    }

    /// A receive is over. True: its buffer stays with its link.
    #[inline]
    fn received(&mut self, adapter: &Adapter, completion: &Completion) -> bool {
        match (self.route(completion.queue_pair()), completion.outcome()) {
            (Some(peer), Ok(())) => {
                let (len, word) = completion.received();
                peer.receive(adapter, (completion.number() as u32, len), word)
            }
            (Some(peer), Err(errno)) => {
                peer.fail(Cause::Broken(errno));
                false
            }
            // Of a link that there was.
            (None, _) => false,
        }
    }
}

/// See the module.
pub(crate) struct Verbs {
    // Before the pieces: a queue pair that is gone touches no memory.
    links: Links,
    /// Memory that is registered; none, until there is a link, where no message is read.
    pieces: Option<Box<Pieces>>,
    /// Messages may be read.
    reads: bool,
    adapter: Arc<Adapter>,
    ready: Arc<Ready>,
    /// For waking oneself; edge-triggered, so never emptied.
    wake: Arc<OwnedFd>,
    timer: OwnedFd,
    /// Requests to send that are under way.
    under_way: usize,
    /// A packet found no slot since requests to send were looked at.
    starved: bool,
    /// The session closes: the end of requests to send is waited for.
    closes: Cell<bool>,
    channels: Settings,
    supply: Option<Arc<Supply>>,
    counts: Arc<DriverCounts>,
    /// Wakes a sleeper that looks for slots: the timer, and for when it is set.
    nap: OwnedFd,
    nap_at: u64,
    /// Counts released packets: which channel was used last.
    clock: u64,
    /// Links on which words may be due.
    due: bool,
    /// Links whose socket has ended.
    ends: bool,
    /// Links that wait for the caller's byte.
    waiting: usize,
    rounds: u32,
}

impl Verbs {
    /// A driver over this adapter for so many processes, without any link.
    fn new(
        ranks: u32,
        adapter: Arc<Adapter>,
        (channels, supply): (Settings, Option<Arc<Supply>>),
        reads: bool,
    ) -> Result<Verbs, Error> {
        let (ready, wake, timer) = (Ready::new(ranks as usize)?, sys::eventfd()?, sys::timerfd()?);
        let nap = sys::timerfd()?;
        for own in [wake.as_raw_fd(), timer.as_raw_fd(), nap.as_raw_fd(), adapter.notices()] {
            ready.watch(own, libc::EPOLLIN | libc::EPOLLET, NO_BITS)?;
        }
        Ok(Verbs {
            links: Links {
                peers: (0..ranks).map(|_| None).collect(),
                routes: Vec::new(),
                supplied: vec![false; ranks as usize].into_boxed_slice(),
            },
            pieces: None,
            reads,
            adapter,
            ready: Arc::new(ready),
            wake: Arc::new(wake),
            timer,
            under_way: 0,
            starved: false,
            closes: Cell::new(false),
            channels,
            supply,
            counts: DriverCounts::new(),
            nap,
            nap_at: 0,
            clock: 0,
            due: false,
            ends: false,
            waiting: 0,
            rounds: 0,
        })
    }

    /// Uses `link` for that peer from now on, and closes the one that there was. Callers' context.
    pub(crate) fn install(&mut self, rank: u32, link: Peer) -> Result<(), Error> {
        self.prepare_pieces();
        let Some(place) = self.links.peers.get_mut(rank as usize) else { return Ok(()) };
        if let Some(mut old) = place.take() {
            let adapter = &self.adapter;
            old.close(|buffer| adapter.post_buffer(buffer));
            old.pair.fail();
            self.under_way -= old.under_way();
            self.links.routes.retain(|&(_, peer)| peer != rank);
            // Nothing of the old queue pair stays in the completion queues.
            self.take_receives(usize::MAX);
            self.take_sends();
            let number = old.pair.number();
            if let Some(pieces) = &mut self.pieces {
                pieces.settle();
                drop(old);
                self.under_way -= pieces.destroyed(number);
            }
        }
        if !std::mem::replace(&mut self.links.supplied[rank as usize], true) {
            link.buffers.clone().for_each(|buffer| self.adapter.post_buffer(buffer));
        }
        if let Some(socket) = &link.socket {
            self.ready.watch(socket.as_raw_fd(), EDGES, u64::from(rank))?;
        }
        self.waiting += usize::from(!link.may_send);
        self.links.routes.push((link.pair.number(), rank));
        self.links.routes.sort_unstable();
        self.links.peers[rank as usize].insert(link).is_installed();
        Ok(())
    }

    /// The adapter has told something. Callers' context.
    pub(crate) fn on_event(&mut self, event: Event) {
        match event {
            Event::QueuePair(number) => {
                if let Some(peer) = self.links.route(number) {
                    peer.fail(Cause::Broken(libc::ECONNABORTED));
                }
            }
            Event::Port => {
                for peer in self.links.peers.iter_mut().flatten() {
                    peer.fail(Cause::Broken(libc::ENETDOWN));
                }
            }
            Event::Supply => self.supply_channels(),
            Event::Other => {}
        }
    }

    /// Decides on requests for eager channels, orders memory for them, and takes what was made. Callers' context.
    #[cold]
    fn supply_channels(&mut self) {
        let Some(supply) = self.supply.clone() else { return };
        let made = supply.take();
        let (mut wanted, mut waste) = (Vec::new(), Vec::new());
        for (order, ring) in made {
            let peer = self.links.peer(order.peer);
            match peer.filter(|peer| peer.is_open && peer.pair.number() == order.pair) {
                Some(Peer { eager: Some(eager), .. }) => {
                    self.counts.add(if ring.is_some() { Count::Opened } else { Count::Ended });
                    eager.made(order.shape, ring);
                }
                // The link is another one now.
                _ => waste.extend(ring),
            }
        }
        for rank in 0..self.links.peers.len() as u32 {
            self.decide(rank);
        }
        for rank in 0..self.links.peers.len() as u32 {
            let Some(peer) = self.links.peer(rank) else { continue };
            let (pair, is_open) = (peer.pair.number(), peer.is_open);
            let Some(eager) = &mut peer.eager else { continue };
            if !is_open {
                waste.extend(eager.take_ring());
            } else if let Some(shape) = eager.come.wish() {
                waste.extend(eager.take_ring());
                if shape.is_none() {
                    self.counts.add(Count::Ended);
                    eager.made(shape, None);
                } else {
                    wanted.push(Order { peer: rank, pair, shape });
                }
            }
        }
        if !wanted.is_empty() || !waste.is_empty() {
            supply.order(wanted, waste);
            supply.ring();
        }
        let memory = self.links.peers.iter().flatten().map(Peer::bytes_of_channels).sum();
        self.counts.memory(memory);
        self.due = true;
    }

    /// Decides on the request of that peer, if there is one.
    fn decide(&mut self, rank: u32) {
        let asked = self.links.peer(rank).filter(|peer| peer.is_open);
        let Some(Peer { eager: Some(eager), .. }) = asked else { return };
        let Some((shape, _)) = eager.come.request() else { return };
        let old = eager.come.charge();
        let charges = self.links.peers.iter().enumerate().filter_map(|(peer, link)| {
            let link = link.as_ref().filter(|link| link.is_open && peer != rank as usize)?;
            Some(link.eager.as_ref()?.charge(peer as u32))
        });
        let charges: Vec<Charge> = charges.collect();
        let Settings { limit, shrink, .. } = self.channels;
        let (accepted, shrunk) = decide(limit, shrink, (shape, old), &charges);
        if let Some(eager) = self.links.peer(rank).and_then(|peer| peer.eager.as_mut()) {
            match accepted {
                Some(shape) => eager.come.accept(shape),
                None => {
                    self.counts.add(Count::Declines);
                    eager.come.decline();
                }
            }
        }
        for (other, shape) in shrunk {
            if let Some(eager) = self.links.peer(other).and_then(|peer| peer.eager.as_mut()) {
                self.counts.add(Count::Shrunk);
                eager.come.shrink(shape);
            }
        }
    }

    /// Has the connection manager look, if there is something for it to do for the channels of that peer.
    #[inline]
    fn wish(&mut self, rank: u32) {
        let wishes = self.links.peer(rank).is_some_and(|peer| peer.has_wish());
        if let Some(supply) = self.supply.as_ref().filter(|_| wishes) {
            supply.ring();
        }
    }

    /// A poll of the channels begins.
    fn poll_channels(&mut self) {
        let Links { peers, routes, .. } = &mut self.links;
        let mut awake = false;
        for &(_, rank) in routes.iter() {
            if let Some(Some(peer)) = peers.get_mut(rank as usize) {
                awake |= peer.poll_channels();
                self.due |= peer.is_due();
            }
        }
        if awake {
            self.nap_at = sys::now_ns() + OUTPOLLED;
            sys::expire_at(&self.nap, self.nap_at);
        }
    }

    /// This process may sleep: the senders of channels are told, and a timer is set, since a slot that was written
    /// before they know wakes nothing.
    fn arm_channels(&mut self) {
        let now = sys::now_ns();
        let Links { peers, .. } = &mut self.links;
        let open = peers.iter_mut().flatten().filter(|peer| peer.is_open);
        let until = open.filter_map(|peer| peer.eager.as_mut()?.come.arm(now)).min();
        let until = until.unwrap_or(0);
        if until != self.nap_at {
            if self.nap_at != 0 && self.nap_at <= now {
                self.counts.add(Count::Naps);
            }
            self.nap_at = until;
            sys::expire_at(&self.nap, until);
        }
        self.tell();
    }

    /// Takes what has come; at most so many batches.
    #[inline]
    fn take_receives(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let mut room = [const { MaybeUninit::uninit() }; BATCH];
            let got = self.adapter.poll(Which::Receives, &mut room);
            let mut controls = false;
            for completion in got {
                if !self.links.received(&self.adapter, completion) {
                    self.adapter.post_buffer(completion.number() as u32);
                    controls = true;
                }
            }
            if controls && let Some(supply) = &self.supply {
                let wishes = |peer: &Peer| peer.is_open && peer.has_wish();
                if self.links.peers.iter().flatten().any(wishes) {
                    supply.ring();
                }
            }
            if got.len() < BATCH {
                return;
            }
        }
    }

    /// Takes requests to send that are over. True: there were some.
    fn take_sends(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut room = [const { MaybeUninit::uninit() }; BATCH];
            let got = self.adapter.poll(Which::Sends, &mut room);
            for completion in got {
                if let Some(ticket) = ticket_of(completion.number()) {
                    any |= self.read_is_over(ticket, completion);
                    continue;
                }
                let Some(peer) = self.links.route(completion.queue_pair()) else { continue };
                peer.sent();
                if let Err(errno) = completion.outcome() {
                    peer.fail(Cause::Broken(errno));
                }
                self.under_way -= 1;
                any = true;
            }
            if got.len() < BATCH {
                return any;
            }
        }
    }

    /// A request to read is over. True: it was not known before.
    fn read_is_over(&mut self, ticket: Ticket, completion: &Completion) -> bool {
        let outcome = completion.outcome();
        if let Some(peer) = self.links.route(completion.queue_pair()) {
            peer.has_read();
            if let Err(errno) = outcome {
                peer.fail(Cause::Broken(errno));
            }
        }
        let event = if outcome.is_ok() { RdmaEvent::Read } else { RdmaEvent::Broken };
        let known = self.pieces.as_mut().is_some_and(|pieces| pieces.over(ticket, event));
        self.under_way -= usize::from(known);
        known
    }

    /// Posts the reads that wait: those whose memory is registered, as far as there is room, and a few of each link.
    fn post_reads(&mut self) {
        let Some(pieces) = &mut self.pieces else { return };
        let (before, mut behind) = (pieces.reads(), 0);
        while let Some((peer, read)) = pieces.next_read(behind) {
            behind = read.place + 1;
            let link = self.links.peer(peer).filter(|peer| peer.can_read());
            if link.as_ref().is_some_and(|peer| peer.reads() >= READS_OF_LINK) {
                continue;
            }
            if link.is_some() && self.under_way >= self.adapter.capacity() {
                // As in `room`.
                if !std::mem::replace(&mut self.starved, true) {
                    sys::ring(self.wake.as_raw_fd());
                }
                break;
            }
            let posts = |peer: &mut Peer| {
                // SAFETY: `Driver::read`'s caller has lent the memory until the event.
                unsafe { peer.read(&read) }.then(|| peer.pair.number())
            };
            match link.and_then(posts) {
                Some(queue_pair) => {
                    self.under_way += 1;
                    pieces.posted(read.place, queue_pair);
                }
                None => pieces.broken(read.place),
            }
        }
        if before == 0 && pieces.reads() > 0 {
            // What was armed last tells of failures only.
            sys::ring(self.wake.as_raw_fd());
        }
    }

    /// Makes room for registered memory, when there is a link. Callers' context. Where the kernel refuses a thread, nothing
    /// is read.
    fn prepare_pieces(&mut self) {
        if self.pieces.is_some() || !self.reads {
            return;
        }
        match Registrar::start(self.adapter.clone(), self.wake.clone(), PLACES) {
            Ok(registrar) => self.pieces = Some(Box::new(Pieces::new(registrar))),
            Err(_) => self.reads = false,
        }
    }

    /// How many requests to send to `to` may be posted.
    #[inline]
    fn room(&mut self, to: u32) -> usize {
        let capacity = self.adapter.capacity();
        let free = |verbs: &mut Verbs| {
            let left = capacity - verbs.under_way;
            verbs.links.peer(to).map_or(0, |peer| peer.free().min(left))
        };
        match free(self) {
            0 => {
                self.take_sends();
                let room = free(self);
                if room == 0 && !std::mem::replace(&mut self.starved, true) {
                    // As in `is_flushed`.
                    sys::ring(self.wake.as_raw_fd());
                }
                room
            }
            room => room,
        }
    }

    /// How many packets may be sent to `to` on that track now.
    #[inline]
    fn granted(&mut self, to: u32, track: Track) -> usize {
        match self.links.peer(to).map_or(0, |peer| peer.granted(track)) {
            0 => 0,
            granted => granted.min(self.room(to)),
        }
    }

    /// Sends words that are due. One that finds no room is due in the next round, too.
    fn tell(&mut self) {
        self.due = false;
        for rank in 0..self.links.peers.len() as u32 {
            let Some(peer) = self.links.peer(rank).filter(|peer| peer.is_due()) else { continue };
            if !peer.may_tell() {
                self.due = true;
            } else {
                self.tell_peer(rank);
            }
        }
    }

    /// Sends to that peer what is due.
    fn tell_peer(&mut self, rank: u32) {
        while let Some(true) = self.links.peer(rank).map(|peer| peer.is_due()) {
            if self.room(rank) == 0 {
                self.due = true;
                return;
            }
            let Some(peer) = self.links.peer(rank) else { return };
            let (taken, wakes) = peer.tell();
            self.under_way += taken;
            if wakes {
                self.counts.add(Count::Wakes);
            }
            if taken == 0 {
                return;
            }
        }
    }

    /// Looks at the sockets on which something has happened.
    fn look_around(&mut self) {
        let Verbs { ready, links, ends, .. } = self;
        ready.take(|rank, _| {
            if let Some(peer) = links.peer(rank as u32) {
                peer.look();
                *ends |= peer.ends;
            }
        });
        let waits = |peer: &&Peer| peer.is_open && !peer.may_send;
        self.waiting = self.links.peers.iter().flatten().filter(waits).count();
    }

    /// Links whose sockets have ended do, now that all that came before was taken.
    fn end(&mut self) {
        self.ends = false;
        for peer in self.links.peers.iter_mut().flatten().filter(|peer| peer.ends) {
            peer.fail(Cause::Vanished);
        }
    }
}

impl Drop for Verbs {
    fn drop(&mut self) {
        if let Some(pieces) = &mut self.pieces {
            pieces.settle();
        }
    }
}

impl Verbs {
    /// As `post_small`, where there are eager channels.
    fn post_eagerly(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let len = parts.iter().fold(header.kind.header_len(), |len, part| len + part.len());
        let route = self.links.peer(to).map_or(Route::Closed, |peer| peer.route(len));
        let room = match route {
            Route::Ring => self.room(to),
            _ => self.granted(to, Track::Small),
        };
        let Some(peer) = self.links.peer(to).filter(|_| room > 0) else { return false };
        let taken = match route {
            Route::Ring => peer.write(len, header, parts),
            _ => peer.send_small(route, header, parts),
        };
        // An outgoing channel may want to say something.
        self.due |= peer.is_due();
        self.under_way += taken;
        self.counts.add(Count::of(route));
        taken > 0
    }
}

impl Driver for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    #[inline]
    fn mtu(&self, _to: u32) -> usize {
        self.adapter.plan.buffer - LONG - TAIL
    }

    #[inline]
    fn begin(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        if self.ready.has_bits() || self.waiting > 0 || self.rounds.is_multiple_of(SOCKETS) {
            self.look_around();
        }
        self.take_receives(ROUNDS);
        let mut any = false;
        if self.under_way > 0 && self.take_sends() {
            any = std::mem::take(&mut self.starved);
        }
        if self.supply.is_some() {
            self.poll_channels();
        }
        if self.due {
            self.tell();
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.look();
            self.post_reads();
        }
        if self.ends {
            self.take_receives(usize::MAX);
            self.end();
        }
        any
    }

    #[inline]
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        if self.supply.is_some() {
            return self.post_eagerly(to, header, parts);
        }
        if self.granted(to, Track::Small) == 0 {
            return false;
        }
        let Some(peer) = self.links.peer(to) else { return false };
        let taken = peer.send(Track::Small, header, parts);
        self.under_way += taken;
        taken > 0
    }

    #[inline]
    fn peek_small(&mut self, from: u32) -> Peek {
        match self.links.peer(from) {
            Some(peer) => peer.peek_small(&self.adapter),
            None => Peek::Empty,
        }
    }

    #[inline]
    fn release(&mut self, from: u32) {
        let Links { peers, .. } = &mut self.links;
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return };
        let buffer = peer.release_small(&mut self.clock);
        self.due |= peer.is_due();
        match buffer {
            Some(buffer) => self.adapter.post_buffer(buffer),
            // A slot: it may have been the last of a ring.
            None => self.wish(from),
        }
    }

    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let piece = self.longest_piece(to);
        let mut sent = 0;
        while sent < data.len() {
            let most = self.granted(to, Track::Large);
            let Some(peer) = self.links.peer(to).filter(|_| most > 0) else { break };
            let header = Header { len: header.len + sent as u64, ..*header };
            let (packets, bytes) =
                peer.send_pieces(&header, data.part(sent, usize::MAX), piece, most);
            self.under_way += packets;
            sent += bytes;
            if bytes == 0 {
                break;
            }
        }
        sent
    }

    fn longest_piece(&self, to: u32) -> usize {
        self.mtu(to)
    }

    fn can_break(&self) -> bool {
        true
    }

    fn peek_large(&mut self, from: u32) -> Peek {
        match self.links.peer(from) {
            Some(peer) => peer.peek_large(&self.adapter),
            None => Peek::Empty,
        }
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(peer) = self.links.peer(from) else { return 0 };
        let (part, done) = peer.read_large(&self.adapter, len);
        // SAFETY: writable by the caller's promise, for `len` bytes at least.
        unsafe { part.copy_to(to) };
        if let Some(buffer) = done {
            self.due |= peer.is_due();
            self.adapter.post_buffer(buffer);
        }
        part.len()
    }

    fn is_flushed(&self, to: u32) -> bool {
        let Some(Some(peer)) = self.links.peers.get(to as usize) else { return true };
        // What the peer's adapter has acknowledged is in its memory.
        let flushed = !peer.is_open || peer.under_way() == 0;
        if !flushed && !self.closes.replace(true) {
            // What was armed last tells of failures only. From now on every thread that sleeps arms for all.
            sys::ring(self.wake.as_raw_fd());
        }
        flushed
    }

    fn can_read(&self, peer: u32) -> bool {
        let link = self.links.peers.get(peer as usize).and_then(Option::as_ref);
        self.pieces.is_some() && link.is_some_and(Peer::can_read)
    }

    unsafe fn register(
        &mut self,
        peer: u32,
        at: *mut u8,
        len: usize,
        access: Access,
    ) -> Option<Ticket> {
        self.pieces.as_mut()?.register(peer, Memory { at, len, access })
    }

    unsafe fn read(&mut self, target: Ticket, remote: u64, key: u32) {
        if let Some(pieces) = &mut self.pieces {
            pieces.read(target, remote, key);
        }
        self.post_reads();
    }

    fn unregister(&mut self, memory: Ticket) {
        if let Some(pieces) = &mut self.pieces {
            pieces.unregister(memory);
        }
    }

    fn rdma_event(&mut self) -> Option<(Ticket, RdmaEvent)> {
        self.pieces.as_mut()?.event()
    }

    fn close(&mut self, peer: u32) {
        let Some(link) = self.links.peer(peer) else { return };
        link.close(|buffer| self.adapter.post_buffer(buffer));
        if let Some(pieces) = &mut self.pieces {
            pieces.closed(peer, link.pair.number(), || link.pair.failing());
        }
        self.wish(peer);
    }

    fn arm(&mut self, _: Rings) -> bool {
        self.look_around();
        self.adapter.take_notices();
        self.adapter.arm(Which::Receives, false);
        let reads = self.pieces.as_ref().is_some_and(|pieces| pieces.reads() > 0);
        self.adapter.arm(Which::Sends, !self.starved && !self.closes.get() && !reads);
        if self.supply.is_some() {
            self.arm_channels();
        }
        true
    }

    fn calls_the_kernel(&self) -> bool {
        self.adapter.is_soft()
    }

    fn wake_oneself(&mut self) {
        sys::ring(self.wake.as_raw_fd());
    }

    fn wake_oneself_at(&mut self, ns: u64) -> bool {
        sys::expire_at(&self.timer, ns)
    }

    fn ready(&self) -> Option<&Arc<Ready>> {
        Some(&self.ready)
    }
}
