//! Shared memory between processes of one machine; and, with the same rings, between the ranks of one process.
//!
//! Small packets go through slotted rings ([`ring`](crate::net::segment::ring)); large messages are copied straight
//! from one process's memory to the other's ([`cma`]), or through rings of larger slots where the kernel refuses. A
//! receiver that sleeps is woken by its doorbell ([`bell`]): it sets a word in its segment and looks at its rings once
//! more; a sender that has published looks at the word, and the sender that clears it writes the event counter. A ring
//! for what has time, or goes to a process that is about to look, is owed until this side has waited in vain ([`Owed`]). The
//! socket on which two processes met stays open: its end tells of a peer's death.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use crate::error::{Cause, Error};
use crate::memory::span::Span;
use crate::net::driver::Driver;
use crate::net::lease::SendLease;
use crate::net::packet::{Peek, Refused};
use crate::net::ready::Ready;
use crate::net::rings::Rings;
use crate::net::segment::bell::{self, Bell};
use crate::net::segment::peer_bell::PeerBell;
use crate::net::segment::track::{Receiver, Sender};
use crate::net::segment::{Geometry, Segment};
use crate::sys::{self, now_ns};
use crate::wire::{Envelope, Header, Kind};

pub(crate) mod cma;
pub(crate) mod connect;
pub(crate) mod loan;
mod owed;

use loan::Loan;
use owed::Owed;

/// Every so many rounds the driver looks for deaths, even if nothing has woken its thread.
const DEATH_CHECK: u32 = 256;
/// Every so many rounds, some tens of microseconds of polling, it pays the rings that it owes for room. (A ring that wakes a
/// thread beside one that polls takes up to 20 µs from both.)
const PAY: u32 = 4 * DEATH_CHECK;
/// How memory of the peer can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not at all.
    None,
    /// By the kernel, as this process.
    Process(i32),
    /// It is in this process.
    Direct,
}

/// By what a peer's death is seen.
pub(crate) enum Life {
    /// A socket that ends.
    Line(OwnedFd),
    /// What the rank, which is in this process, lends: it is withdrawn at its end.
    Here(Arc<Loan>),
}

/// One gate.
pub(crate) struct Peer {
    /// `None` while it is lent.
    small_tx: Option<Sender>,
    /// Most payload bytes of a small packet.
    mtu: usize,
    small_rx: Receiver,
    large_tx: Sender,
    large_rx: Receiver,
    /// What is left of the piece being read, and where.
    piece: Span,
    segment: Arc<Segment>,
    bell: Arc<PeerBell>,
    reach: Reach,
    life: Option<Life>,
    gone: bool,
    /// A short message found the small track full, and the peer was not rung for it.
    full: bool,
    /// Nor for something that needs its answer.
    owed: Option<Owed>,
}

impl Peer {
    /// The gate between `rank` (whose segment is `mine`) and `peer`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        rank: u32,
        mine: (&Arc<Segment>, &Geometry),
        peer: u32,
        theirs: (Arc<Segment>, &Geometry),
        bell: PeerBell,
        reach: Reach,
        life: Life,
    ) -> Result<Peer, Error> {
        let small_tx = Sender::new(&theirs.0, &theirs.1.small(rank))?;
        Ok(Peer {
            mtu: small_tx.mtu(),
            small_tx: Some(small_tx),
            small_rx: Receiver::small(mine.0, &mine.1.small(peer))?,
            large_tx: Sender::new(&theirs.0, &theirs.1.large(rank))?,
            large_rx: Receiver::large(mine.0, &mine.1.large(peer))?,
            piece: Span::EMPTY,
            segment: theirs.0,
            bell: Arc::new(bell),
            reach,
            life: Some(life),
            gone: false,
            full: false,
            owed: None,
        })
    }

    /// Copies from or to the memory of a rank of this process, if it still lends it.
    fn enter(&mut self, copy: impl FnOnce() -> usize) -> Result<usize, Refused> {
        let Some(Life::Here(lent)) = &self.life else { return Err(Refused::Gone) };
        if !lent.enter() {
            self.gone = true;
            return Err(Refused::Gone);
        }
        let copied = copy();
        if lent.leave() {
            self.bell.ring();
        }
        Ok(copied)
    }
}

/// See the module.
pub(crate) struct Shm {
    name: &'static str,
    bell: Arc<Bell>,
    ready: Arc<Ready>,
    peers: Box<[Option<Peer>]>,
    rounds: u32,
    /// Whether the peers are other processes.
    processes: bool,
    /// What this rank lends to the others of its process.
    lent: Arc<Loan>,
}

impl Shm {
    /// A driver over these gates; the own rank's is `None`.
    pub(crate) fn new(
        name: &'static str,
        mine: Arc<Segment>,
        bell: OwnedFd,
        peers: Box<[Option<Peer>]>,
        lent: Arc<Loan>,
    ) -> Result<Shm, Error> {
        let ready = Arc::new(Ready::new(peers.len() + 1)?);
        let bell = Arc::new(Bell::new(mine, bell));
        ready.watch(bell.fd(), libc::EPOLLIN | libc::EPOLLET, peers.len() as u64)?;
        Ok(Shm { name, bell, ready, peers, rounds: 0, processes: false, lent })
    }

    /// Uses `link` for that peer from now on.
    pub(crate) fn install(&mut self, rank: u32, link: Peer) -> Result<(), Error> {
        let Some(place) = self.peers.get_mut(rank as usize) else { return Ok(()) };
        if let Some(Life::Line(line)) = &link.life {
            let events = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLONESHOT;
            self.ready.watch(line.as_raw_fd(), events, u64::from(rank))?;
            self.processes = true;
        }
        *place = Some(link);
        Ok(())
    }

    #[inline]
    fn peer(&mut self, rank: u32) -> Option<&mut Peer> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }

    /// After something was published: rings that peer, if it wants that for one of these.
    #[inline]
    fn ring(&mut self, rank: u32, rings: Rings) {
        if let Some(Some(peer)) = self.peers.get_mut(rank as usize)
            && self.bell.ring(rank, &peer.segment, &peer.bell, rings)
        {
            self.owes(rank, true);
        }
    }

    /// Owes that peer a ring. `comes`: it is about to look.
    fn owes(&mut self, rank: u32, comes: bool) {
        if let Some(peer) = self.peer(rank) {
            let now = now_ns();
            peer.owed.get_or_insert_with(|| Owed::new(now, comes)).again(now, comes);
            self.bell.set_owes(true);
        }
    }

    /// Rings the peers that have not looked since this side began to owe them that, of those that `which` is true of.
    #[inline(never)]
    fn pay(&mut self, mut which: impl FnMut(&mut Owed) -> bool) {
        let Shm { bell, peers, .. } = self;
        let mut owes = false;
        for (rank, peer) in (0..).zip(peers.iter_mut()) {
            let Some(peer) = peer else { continue };
            if peer.owed.is_some() && !bell::is_unseen(&peer.segment) {
                peer.owed = None; // it has looked
            }
            if peer.owed.take_if(&mut which).is_some() {
                bell.ring(rank, &peer.segment, &peer.bell, Rings::CONTROL_NOW);
            }
            owes |= peer.owed.is_some();
        }
        bell.set_owes(owes);
    }

    /// The outcome of a post on the small track, for a packet that rings like this.
    #[inline]
    fn posted(&mut self, to: u32, posted: bool, rings: Rings) -> bool {
        if posted || rings != Rings::MESSAGE {
            self.ring(to, rings);
        } else if let Some(peer) = self.peer(to) {
            peer.full = true;
        }
        posted
    }

    /// Rings the peers whose tracks are full, and those that wait for room on theirs: this process has polled in vain, or
    /// is about to sleep.
    fn pay_rings(&mut self) {
        let Shm { bell, peers, .. } = self;
        for (rank, peer) in (0..).zip(peers.iter_mut()) {
            let Some(peer) = peer else { continue };
            let full = std::mem::take(&mut peer.full);
            let rings = if full { Rings::CONTROL_NOW } else { Rings::NONE };
            bell.ring(rank, &peer.segment, &peer.bell, rings.and(Rings::ROOM_LATER));
        }
    }

    fn look_around(&mut self) {
        let Shm { ready, peers, .. } = self;
        ready.take(|rank, _| {
            if let Some(Some(peer)) = peers.get_mut(rank) {
                // Nothing is ever sent on this socket any more: whatever happens on it is its end.
                peer.gone = true;
            }
        });
        for peer in self.peers.iter_mut().flatten() {
            if let Some(Life::Here(lent)) = &peer.life {
                peer.gone |= lent.is_withdrawn();
            }
        }
        self.bell.keep_armed();
    }
}

#[cfg(any(test, fuzzing))]
impl Shm {
    /// Writes a byte anywhere into a ring of that peer's.
    pub(crate) fn scribble(&mut self, to: u32, large: bool, at: usize, byte: u8) {
        let Some(peer) = self.peer(to) else { return };
        let small = peer.small_tx.as_ref();
        if let Some(track) = if large { Some(&peer.large_tx) } else { small } {
            track.scribble(at, byte);
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Driver for Shm {
    fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn mtu(&self, to: u32) -> usize {
        match self.peers.get(to as usize) {
            Some(Some(peer)) => peer.mtu,
            _ => 0,
        }
    }

    fn can_copy(&self, peer: u32) -> bool {
        matches!(self.peers.get(peer as usize), Some(Some(peer)) if peer.reach != Reach::None)
    }

    fn copies_too(&self, peer: u32, waits: bool) -> bool {
        let Some(Some(peer)) = self.peers.get(peer as usize) else { return false };
        peer.reach != Reach::Direct && (waits || bell::waits(&peer.segment))
    }

    #[inline]
    fn begin(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        let looks = self.bell.was_rung() || self.ready.has_bits();
        if looks || self.rounds.is_multiple_of(DEATH_CHECK) {
            self.look_around();
            if self.rounds.is_multiple_of(PAY) {
                self.pay_rings();
            }
        }
        if self.bell.owes() {
            let now = now_ns();
            self.pay(|owed| owed.is_due(now));
        }
        false
    }

    #[inline]
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let Some(peer) = self.peer(to) else { return false };
        let Some(track) = &mut peer.small_tx else { return false };
        // The answer may bring as many messages as the track has slots.
        peer.small_rx.give_back();
        let posted = track.post(header, parts);
        // A peer that computes is to make room for the end of a copy, as for what needs an answer.
        let makes_room = !posted && header.kind == Kind::Fin;
        self.posted(to, posted, if makes_room { Rings::CONTROL } else { Rings::of(header.kind) })
    }

    fn post_later(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let Some(peer) = self.peer(to) else { return false };
        let Some(track) = &mut peer.small_tx else { return false };
        peer.small_rx.give_back();
        if !track.post(header, parts) {
            return self.posted(to, false, Rings::CONTROL);
        }
        self.owes(to, false);
        self.posted(to, true, Rings::ANNOUNCED)
    }

    fn pay_owed(&mut self) {
        if self.bell.owes() {
            self.pay(|_| true);
        }
    }

    fn ring_ns(&self) -> u64 {
        self.bell.cost_ns()
    }

    #[inline(always)]
    fn post_eager(&mut self, to: u32, numbers: (u32, u32), envelope: Envelope, data: Span) -> bool {
        let Some(peer) = self.peer(to) else { return false };
        let Some(track) = &mut peer.small_tx else { return false };
        peer.small_rx.give_back();
        let posted = track.post_eager(numbers, envelope, data);
        self.posted(to, posted, Rings::MESSAGE)
    }

    fn lend(&mut self, to: u32) -> Option<SendLease> {
        let peer = self.peer(to)?;
        let (segment, bell) = (peer.segment.clone(), peer.bell.clone());
        let sender = peer.small_tx.take()?;
        Some(SendLease { sender, segment, bell, own: self.bell.clone(), to })
    }

    fn has_segments(&self) -> bool {
        true
    }

    fn segments(&self, peer: u32) -> Option<[Arc<Segment>; 2]> {
        let peer = self.peers.get(peer as usize)?.as_ref()?;
        Some([self.bell.segment().clone(), peer.segment.clone()])
    }

    fn readable_process(&self, peer: u32) -> Option<i32> {
        match self.peers.get(peer as usize)?.as_ref()?.reach {
            Reach::None => None,
            Reach::Process(process) => Some(process),
            // Of this process, if the kernel copies at all.
            Reach::Direct => cma::cma_works().ok().map(|()| std::process::id() as i32),
        }
    }

    fn take_back(&mut self, to: u32, lease: SendLease) {
        // Unless another link has taken the place of the one that it is of.
        if let Some(peer) = self.peer(to)
            && Arc::ptr_eq(&peer.segment, &lease.segment)
        {
            peer.small_tx = Some(lease.sender);
        }
    }

    #[inline(always)]
    fn peek_small(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        match peer.small_rx.ready() {
            Some(index) => {
                let packet = peer.small_rx.read(index);
                if peer.owed.is_some()
                    && matches!(packet, Peek::Packet(Header { kind: Kind::Cts | Kind::Fin, .. }, _))
                {
                    let owed = peer.owed.take().filter(|_| bell::is_unseen(&peer.segment));
                    peer.owed = owed.map(|owed| Owed::new(now_ns(), owed.comes));
                }
                packet
            }
            None if peer.gone => Peek::Gone(Cause::Vanished),
            None => {
                peer.small_rx.give_back();
                Peek::Empty
            }
        }
    }

    #[inline]
    fn release(&mut self, from: u32) {
        if let Some(peer) = self.peer(from)
            && peer.small_rx.release()
        {
            self.ring(from, Rings::ROOM);
        }
    }

    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let Some(peer) = self.peer(to) else { return 0 };
        let mut sent = 0;
        while sent < data.len() {
            let piece = data.part(sent, peer.large_tx.mtu());
            let header =
                Header { len: header.len + sent as u64, payload: piece.len() as u32, ..*header };
            if !peer.large_tx.post(&header, &[piece]) {
                break;
            }
            sent += piece.len();
        }
        self.ring(to, Rings::CONTROL);
        sent
    }

    fn can_break(&self) -> bool {
        false
    }

    fn peek_large(&mut self, from: u32) -> Peek {
        let Some(peer) = self.peer(from) else { return Peek::Empty };
        match peer.large_rx.peek() {
            Peek::Packet(header, payload) => {
                peer.piece = payload;
                Peek::Packet(header, Span::EMPTY)
            }
            Peek::Empty if peer.gone => Peek::Gone(Cause::Vanished),
            peek => peek,
        }
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(peer) = self.peer(from) else { return 0 };
        let part = peer.piece.part(0, len);
        // SAFETY: the caller's promise; slots never overlap user memory.
        unsafe { part.copy_to(to) };
        peer.piece = peer.piece.part(part.len(), usize::MAX);
        if peer.piece.len() == 0 && peer.large_rx.release() {
            // The sender may be asleep, or compute, until there is a slot.
            self.ring(from, Rings::ROOM.and(Rings::ROOM_LATER));
        }
        part.len()
    }

    unsafe fn get(
        &mut self,
        from: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused> {
        let Some(peer) = self.peer(from) else { return Err(Refused::Unable) };
        match peer.reach {
            Reach::None => Err(Refused::Unable),
            Reach::Process(pid) => {
                // SAFETY: the caller's promise.
                let copied = unsafe { cma::read(pid, remote, to, len) };
                peer.gone |= copied == Err(Refused::Gone);
                copied
            }
            Reach::Direct => peer.enter(|| {
                // SAFETY: the peer is another engine of this process: the address is its sender's buffer,
                // readable until it is told that the copy is over, or its rank ends, which waits for us.
                unsafe { core::ptr::copy_nonoverlapping(remote as *const u8, to, len) };
                len
            }),
        }
    }

    unsafe fn put(&mut self, to: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        let Some(peer) = self.peer(to) else { return Err(Refused::Unable) };
        match peer.reach {
            Reach::None => Err(Refused::Unable),
            Reach::Process(pid) => {
                // SAFETY: the caller's promise.
                let copied = unsafe { cma::write(pid, remote, data) };
                peer.gone |= copied == Err(Refused::Gone);
                copied
            }
            Reach::Direct => peer.enter(|| {
                // SAFETY: as in `get`, the other way round: the receiver's buffer is writable until it is
                // told.
                unsafe { data.copy_to(remote as *mut u8) };
                data.len()
            }),
        }
    }

    fn waits_for_goodbye(&self) -> bool {
        // Inside one process the rings outlive this side, and one thread may end several ranks in turn.
        self.processes
    }

    fn withdraw(&mut self) -> bool {
        let (new, alone) = self.lent.withdraw();
        let here = |peer: &&Peer| matches!(peer.life, Some(Life::Here(_)));
        for peer in self.peers.iter().flatten().filter(here).filter(|_| new) {
            peer.bell.ring();
        }
        alone
    }

    fn close(&mut self, peer: u32) {
        if let Some(Some(gate)) = self.peers.get_mut(peer as usize) {
            // Another rank of this process has to be told of our end, whatever became of it.
            if let Some(Life::Line(line)) = gate.life.take_if(|life| matches!(life, Life::Line(_)))
            {
                self.ready.unwatch(line.as_raw_fd());
            }
            gate.gone = true;
        }
    }

    fn arm(&mut self, rings: Rings) -> bool {
        if rings.has(Rings::ALL) {
            self.pay_owed();
            self.pay_rings(); // a thread sleeps; what this look gives back is paid for by the next
        }
        // Events that another thread has collected are treated by the thread that arms.
        self.bell.arm(rings) || self.ready.has_bits()
    }

    fn look_at_all(&mut self) {
        self.bell.clear_unseen();
    }

    fn leave_some(&mut self) {
        self.bell.set_unseen();
    }

    fn tells_apart(&self) -> bool {
        true
    }

    fn doorbell(&self) -> Option<&Arc<Bell>> {
        Some(&self.bell)
    }

    fn wake_oneself(&mut self) {
        sys::ring(self.bell.fd());
    }

    fn ready(&self) -> Option<&Arc<Ready>> {
        Some(&self.ready)
    }
}
