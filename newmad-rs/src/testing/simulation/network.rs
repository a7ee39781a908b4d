//! The virtual network: connections in virtual time, and the driver over one rail of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use super::adapter::Adapter;
use crate::error::Cause;
use crate::memory::span::Span;
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::net::ready::Ready;
use crate::net::{Driver, Peek, Refused, Rings};
use crate::proto::fragments::CHECKED_PIECE;
use crate::wire::{CHECKED, Header, Kind, LONG};

/// What a rail is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    pub(super) breaks: bool,
    pub(super) copies: bool,
    pub(super) mtu: usize,
    /// Packets, and bytes of the large track, that are on the way at most.
    pub(super) room: usize,
    pub(super) delay: u64,
    pub(super) piece: usize,
    /// Most bytes that are copied at once from or to a peer's memory.
    pub(super) copy: usize,
    /// The adapter can read messages, and does so at best from this length on.
    pub(super) reads: Option<usize>,
    /// In a thousand copies, and pieces of memory that are registered.
    pub(super) refusals: u64,
    /// In a thousand packets.
    pub(super) drops: u64,
    pub(super) doubles: u64,
    pub(super) corrupts: u64,
}

/// From which length on a rank reads messages over rails of these natures.
pub(super) fn reads_from(natures: &[Nature]) -> usize {
    natures.iter().filter_map(|nature| nature.reads).min().unwrap_or(usize::MAX)
}

/// Nothing fails, nothing takes time, and no memory can be reached.
pub(super) const USUAL: Nature = Nature {
    breaks: false,
    copies: false,
    reads: None,
    mtu: 50,
    room: 9,
    delay: 0,
    piece: 64,
    copy: 33,
    refusals: 0,
    drops: 0,
    doubles: 0,
    corrupts: 0,
};

/// A small generator of random numbers (splitmix64), so that a seed means the same for ever.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}

pub(super) enum Large {
    Begin(Header),
    Bytes(VecDeque<u8>),
}

/// What is on the way to one end of a connection.
#[derive(Default)]
pub(super) struct Way {
    pub(super) small: VecDeque<(u64, Vec<u8>)>,
    large: VecDeque<(u64, Large)>,
    bytes: usize,
    last: u64,
}

impl Way {
    /// Something that arrives now, whatever it is.
    pub(super) fn say(&mut self, header: Header, payload: &[u8]) {
        let header = Header { payload: payload.len() as u32, ..header };
        self.small.push_back((0, packet(&header, payload)));
    }

    /// A piece of which so much arrives now.
    pub(super) fn begin(&mut self, header: Header, came: &[u8]) {
        self.bytes += LONG;
        self.large.push_back((0, Large::Begin(header)));
        self.go_on(came);
    }

    /// More of the piece.
    pub(super) fn go_on(&mut self, came: &[u8]) {
        self.bytes += came.len();
        self.large.push_back((0, Large::Bytes(came.iter().copied().collect())));
    }

    /// Takes the packets that are on the way.
    pub(super) fn heard(&mut self) -> Vec<(Header, Vec<u8>)> {
        let packets = self.small.drain(..).map(|(_, packet)| {
            let header = Header::decode(&packet).unwrap();
            (header, packet[header.kind.header_len()..].to_vec())
        });
        packets.collect()
    }

    /// How many packets of that kind are on the way.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.small.iter().filter(|packet| Header::decode(&packet.1).unwrap().kind == kind).count()
    }

    /// The pieces that are on the way: where each begins, and its length.
    pub(super) fn pieces(&self) -> Vec<(usize, usize)> {
        let piece = |large: &(u64, Large)| match &large.1 {
            Large::Begin(header) => Some((header.len as usize, header.payload as usize)),
            Large::Bytes(_) => None,
        };
        self.large.iter().filter_map(piece).collect()
    }

    /// The pieces that are on the way are lost.
    pub(super) fn lose_pieces(&mut self) {
        self.large.clear();
        self.bytes = 0;
    }
}

fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut raw = [0; LONG];
    header.encode(&mut raw);
    [&raw[..header.kind.header_len()], payload].concat()
}

struct Connection {
    ends: [u32; 2],
    rail: usize,
    to: [Way; 2],
    closed: [bool; 2],
    cut: bool,
}

/// See the module.
pub(super) struct Network {
    pub(super) now: u64,
    pub(super) random: Random,
    /// No more faults by chance.
    pub(super) calm: bool,
    pub(super) counts: [u64; 3],
    /// Memory that is registered: where, and how long.
    pub(super) keys: BTreeMap<u32, (usize, usize)>,
    pub(super) last_key: u32,
    /// When something happens in an adapter.
    pub(super) moments: Vec<u64>,
    /// The ranks that show their peers that they wait for a large message, where that is known.
    pub(super) waiters: Option<Vec<u32>>,
    connections: BTreeMap<u64, Connection>,
    last: u64,
}

impl Network {
    pub(super) fn new(random: Random) -> Arc<Mutex<Network>> {
        let connections = BTreeMap::new();
        Arc::new(Mutex::new(Network {
            now: 0,
            random,
            calm: false,
            counts: [0; 3],
            keys: BTreeMap::new(),
            last_key: 0,
            moments: Vec::new(),
            waiters: None,
            connections,
            last: 0,
        }))
    }

    /// A new connection between two ranks; each end is to be installed with its driver.
    pub(super) fn connect(&mut self, rail: usize, ends: [u32; 2]) -> u64 {
        self.last += 1;
        let connection =
            Connection { ends, rail, to: Default::default(), closed: [false; 2], cut: false };
        self.connections.insert(self.last, connection);
        self.last
    }

    /// Whether both ends have it open.
    pub(super) fn is_whole(&self, id: u64) -> bool {
        self.connections.get(&id).is_some_and(|it| !it.cut && it.closed == [false; 2])
    }

    /// Cuts connections; what is on the way is lost.
    pub(super) fn cut(&mut self, which: impl Fn(usize, [u32; 2]) -> bool) -> u64 {
        let mut count = 0;
        for connection in self.connections.values_mut() {
            if !connection.cut && which(connection.rail, connection.ends) {
                connection.cut = true;
                connection.to = Default::default();
                count += 1;
            }
        }
        count
    }

    /// Nothing arrives over these before `until`, and no side is told.
    pub(super) fn swallow(&mut self, until: u64, which: impl Fn(usize, [u32; 2]) -> bool) {
        for connection in self.connections.values_mut() {
            if which(connection.rail, connection.ends) {
                for way in &mut connection.to {
                    way.last = way.last.max(until);
                }
            }
        }
    }

    /// When the next thing arrives.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        let ways = self.connections.values().flat_map(|connection| &connection.to);
        let first = |way: &Way| {
            let small = way.small.front().map(|packet| packet.0);
            small.into_iter().chain(way.large.front().map(|piece| piece.0)).min()
        };
        let moments = self.moments.iter().copied();
        ways.filter_map(first).chain(moments).filter(|&at| at > self.now).min()
    }

    /// What is on the way from one rank to another, over the last connection of a rail.
    pub(super) fn way(&mut self, (rail, from, to): (usize, u32, u32)) -> &mut Way {
        let fits = |it: &Connection| it.rail == rail && same(it.ends, [from, to]);
        let connections = self.connections.iter_mut().filter(|(_, it)| fits(it));
        let (_, last) = connections.max_by_key(|(id, _)| **id).expect("a connection");
        let side = usize::from(last.ends[1] == to);
        &mut last.to[side]
    }

    /// A moment soon in which something happens in an adapter.
    pub(super) fn moment(&mut self, delay: u64) -> u64 {
        let at = self.now + if delay > 0 { 1 + self.random.below(delay) } else { 0 };
        let now = self.now;
        self.moments.retain(|&at| at > now);
        self.moments.push(at);
        at
    }

    pub(super) fn arrival(&mut self, id: u64, end: usize, delay: u64) -> u64 {
        // Without a delay at once.
        let at = self.now + if delay > 0 { 1 + self.random.below(delay) } else { 0 };
        let Some(connection) = self.connections.get_mut(&id) else { return at };
        connection.to[end].last = at.max(connection.to[end].last);
        connection.to[end].last
    }
}

/// The end of a connection that a driver has.
struct End {
    id: u64,
    /// Which of the two.
    side: usize,
    shown: Option<Vec<u8>>,
    /// Bytes that are missing of the piece that is being sent.
    left: usize,
}

/// One rail of one rank.
pub(super) struct Virtual {
    rail: usize,
    pub(super) nature: Nature,
    /// Copies that were asked for.
    pub(super) copies: usize,
    /// What happens elsewhere during the first copy.
    pub(super) meanwhile: Option<Box<dyn FnOnce() + Send>>,
    /// Bytes that went over the large track.
    pub(super) streamed: usize,
    /// The moment at which it would wake its process, in nanoseconds; 0: none.
    pub(super) alarm: u64,
    pub(super) adapter: Adapter,
    network: Arc<Mutex<Network>>,
    ends: BTreeMap<u32, End>,
}

impl Virtual {
    pub(super) fn new(rail: usize, nature: Nature, network: &Arc<Mutex<Network>>) -> Virtual {
        Virtual {
            rail,
            nature,
            copies: 0,
            meanwhile: None,
            streamed: 0,
            alarm: 0,
            adapter: Adapter::new(nature.refusals),
            network: network.clone(),
            ends: BTreeMap::new(),
        }
    }

    /// Gives it its end of a connection with `peer`.
    pub(super) fn install(&mut self, peer: u32, id: u64, side: usize) {
        self.ends.insert(peer, End { id, side, shown: None, left: 0 });
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap()
    }

    /// Closes everything: the process has died.
    pub(super) fn die(&mut self) {
        for peer in self.ends.keys().copied().collect::<Vec<_>>() {
            self.close(peer);
        }
    }
}

fn bytes(span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len()];
    // SAFETY: the vector has the span's length.
    unsafe { span.copy_to(bytes.as_mut_ptr()) };
    bytes
}

pub(super) fn same(a: [u32; 2], b: [u32; 2]) -> bool {
    a == b || a == [b[1], b[0]]
}

fn flip(random: &mut Random, bytes: &mut [u8]) {
    let at = random.below(bytes.len() as u64 * 8) as usize;
    bytes[at / 8] ^= 1 << (at % 8);
}

impl Driver for Virtual {
    fn name(&self) -> &'static str {
        "virtual"
    }
    fn mtu(&self, _: u32) -> usize {
        self.nature.mtu
    }
    fn can_copy(&self, _: u32) -> bool {
        self.nature.copies
    }
    fn copies_too(&self, peer: u32, waits: bool) -> bool {
        self.nature.copies
            && match &self.network().waiters {
                // A hint: sometimes.
                None => self.copies % 3 == 1,
                Some(waiters) => waits || waiters.contains(&peer),
            }
    }
    fn can_break(&self) -> bool {
        self.nature.breaks
    }
    fn begin(&mut self) -> bool {
        false
    }
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let Nature { room, delay, drops, doubles, corrupts, .. } = self.nature;
        let payload: Vec<u8> = parts.iter().flat_map(|&part| bytes(part)).collect();
        assert!(payload.len() <= self.nature.mtu, "{header:?}");
        assert_eq!(payload.len(), header.payload as usize);
        let Some(&End { id, side, .. }) = self.ends.get(&to) else { return false };
        let mut packet = packet(header, &payload);
        let mut network = self.network();
        let network = &mut *network;
        if !network.is_whole(id) || network.connections[&id].to[1 - side].small.len() >= room {
            return false;
        }
        let mut copies = 1;
        if !network.calm {
            if network.random.chance(drops) {
                copies = 0;
                network.counts[0] += 1;
            } else if network.random.chance(doubles) {
                copies = 2;
                network.counts[1] += 1;
            } else if network.random.chance(corrupts) {
                flip(&mut network.random, &mut packet);
                network.counts[2] += 1;
            }
        }
        for _ in 0..copies {
            let at = network.arrival(id, 1 - side, delay);
            if let Some(connection) = network.connections.get_mut(&id) {
                connection.to[1 - side].small.push_back((at, packet.clone()));
            }
        }
        true
    }
    fn peek_small(&mut self, from: u32) -> Peek {
        let Some(End { id, side, shown, .. }) = self.ends.get_mut(&from) else {
            return Peek::Empty;
        };
        if shown.is_none() {
            let mut network = self.network.lock().unwrap();
            let now = network.now;
            let Some(connection) = network.connections.get_mut(id) else { return Peek::Empty };
            let way = &mut connection.to[*side];
            match way.small.front() {
                Some((at, _)) if *at <= now => {
                    *shown = way.small.pop_front().map(|packet| packet.1)
                }
                None if connection.cut || connection.closed[1 - *side] => {
                    return Peek::Gone(Cause::Vanished);
                }
                _ => return Peek::Empty,
            }
        }
        let Some(packet) = shown else { return Peek::Empty };
        let Ok(header) = Header::decode(packet) else { return Peek::Gone(Cause::Malformed) };
        let payload = &packet[header.kind.header_len()..];
        if payload.len() != header.payload as usize {
            return Peek::Gone(Cause::Malformed);
        }
        // SAFETY: kept until `release`.
        Peek::Packet(header, unsafe { Span::new(payload.as_ptr(), payload.len()) })
    }
    fn release(&mut self, from: u32) {
        self.ends.get_mut(&from).unwrap().shown.take().unwrap();
    }
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let Nature { room, delay, piece, corrupts, .. } = self.nature;
        let room = room * 40;
        let Some(end) = self.ends.get_mut(&to) else { return 0 };
        let mut network = self.network.lock().unwrap();
        let network = &mut *network;
        let mut sent = 0;
        while sent < data.len() && network.is_whole(end.id) {
            let used = network.connections[&end.id].to[1 - end.side].bytes;
            if used >= room {
                break;
            }
            let at = network.arrival(end.id, 1 - end.side, delay);
            let lie = !network.calm && network.random.chance(corrupts);
            let take = network.random.range(1, 60) as usize;
            let mut random = network.random.clone();
            network.random.next();
            let Some(connection) = network.connections.get_mut(&end.id) else { break };
            let way = &mut connection.to[1 - end.side];
            if end.left == 0 {
                let most = if header.flags & CHECKED != 0 { CHECKED_PIECE } else { piece };
                end.left = most.min(data.len() - sent);
                let header =
                    Header { len: header.len + sent as u64, payload: end.left as u32, ..*header };
                way.large.push_back((at, Large::Begin(header)));
                way.bytes += LONG;
                continue;
            }
            let mut part = bytes(data.part(sent, end.left.min(take).min(room - used)));
            sent += part.len();
            end.left -= part.len();
            if lie {
                flip(&mut random, &mut part);
                network.counts[2] += 1;
            }
            way.bytes += part.len();
            way.large.push_back((at, Large::Bytes(part.into())));
        }
        self.streamed += sent;
        sent
    }
    fn mid_piece(&self, to: u32) -> usize {
        self.ends.get(&to).map_or(0, |end| end.left)
    }
    fn peek_large(&mut self, from: u32) -> Peek {
        let Some(End { id, side, .. }) = self.ends.get(&from) else { return Peek::Empty };
        let mut network = self.network();
        let now = network.now;
        let Some(connection) = network.connections.get_mut(id) else { return Peek::Empty };
        let over = connection.cut || connection.closed[1 - side];
        let way = &mut connection.to[*side];
        match way.large.front() {
            Some((at, Large::Begin(header))) if *at <= now => {
                let header = *header;
                way.large.pop_front();
                way.bytes -= LONG;
                Peek::Packet(header, Span::EMPTY)
            }
            Some((at, Large::Bytes(_))) if *at <= now => panic!("bytes that belong to no piece"),
            None if over => Peek::Gone(Cause::Vanished),
            _ => Peek::Empty,
        }
    }
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let Some(End { id, side, .. }) = self.ends.get(&from) else { return 0 };
        let mut network = self.network();
        let now = network.now;
        let Some(connection) = network.connections.get_mut(id) else { return 0 };
        let way = &mut connection.to[*side];
        let Some((at, Large::Bytes(piece))) = way.large.front_mut() else { return 0 };
        if *at > now {
            return 0;
        }
        let count = len.min(piece.len()).min(17);
        for (index, byte) in piece.drain(..count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(index).write(byte) };
        }
        let empty = piece.is_empty();
        way.bytes -= count;
        if empty {
            way.large.pop_front();
        }
        count
    }
    unsafe fn get(
        &mut self,
        _: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused> {
        self.copies += 1;
        if self.network().random.chance(self.nature.refusals) {
            return Err(Refused::Unable);
        }
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        let len = len.min(self.nature.copy);
        // SAFETY: the world keeps every buffer to its end.
        unsafe { core::ptr::copy_nonoverlapping(remote as *const u8, to, len) };
        Ok(len)
    }
    unsafe fn put(&mut self, _: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        self.copies += 1;
        if self.network().random.chance(self.nature.refusals) {
            return Err(Refused::Unable);
        }
        let data = data.part(0, self.nature.copy);
        // SAFETY: as in `get`.
        unsafe { data.copy_to(remote as *mut u8) };
        Ok(data.len())
    }
    fn can_read(&self, peer: u32) -> bool {
        self.nature.reads.is_some() && self.ends.contains_key(&peer)
    }
    unsafe fn register(
        &mut self,
        peer: u32,
        at: *mut u8,
        len: usize,
        access: Access,
    ) -> Option<Ticket> {
        self.adapter.register(&self.network, (peer, at, len, access), self.nature.delay)
    }
    unsafe fn read(&mut self, target: Ticket, remote: u64, key: u32) {
        self.adapter.read(target, remote, key);
    }
    fn unregister(&mut self, memory: Ticket) {
        self.adapter.unregister(&self.network, memory);
    }
    fn rdma_event(&mut self) -> Option<(Ticket, RdmaEvent)> {
        let link = |peer| self.ends.get(&peer).map(|end| (end.id, end.side));
        self.adapter.event(&self.network, link, self.nature.delay)
    }
    fn is_flushed(&self, to: u32) -> bool {
        self.ends.get(&to).is_none_or(|end| end.left == 0)
    }
    fn close(&mut self, peer: u32) {
        let Some(end) = self.ends.remove(&peer) else { return };
        let mut network = self.network();
        let Some(connection) = network.connections.get_mut(&end.id) else { return };
        debug_assert_eq!(connection.rail, self.rail);
        connection.closed[end.side] = true;
        if connection.closed == [true; 2] {
            network.connections.remove(&end.id);
        }
    }
    fn arm(&mut self, _: Rings) -> bool {
        true
    }
    fn wake_oneself(&mut self) {}
    fn wake_oneself_at(&mut self, ns: u64) -> bool {
        self.alarm = ns;
        true
    }
    fn ready(&self) -> Option<&Arc<Ready>> {
        None
    }
}
