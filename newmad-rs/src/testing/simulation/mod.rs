//! The engine against a simple oracle, over a virtual network whose tracks fill up, split pieces and refuse copies
//! at random; no threads, no system calls, so every failure shrinks and repeats.

mod checked;
mod chunks;
mod faults;
mod inline;
mod late;
mod lent;
mod missing;
mod poll_once;
mod quiet;
mod strategies;
mod twice;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use crate::gate::config::Config;
use crate::gate::signals::Signals;
use crate::memory::layout::Layout;
use crate::memory::span::Span;
use crate::net::ready::Ready;
use crate::net::{Driver, Peek, Refused, Rings};
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Ref, Request};
use crate::wire::{Header, LONG};

const RANKS: u32 = 3;
const MTU: usize = 50;
const THRESHOLD: usize = 120;

/// What is on the way from one rank to another.
#[derive(Default)]
struct Wire {
    small: VecDeque<(Vec<u8>, Vec<u8>)>,
    large: VecDeque<(Header, Vec<u8>)>,
}

/// By rail, sender and receiver.
type Wires = Arc<Mutex<HashMap<(usize, u32, u32), Wire>>>;

#[derive(Clone, Copy, Debug)]
struct World {
    rails: usize,
    fragile: bool,
    capacity: usize,
    copies: bool,
    refuses: bool,
    piece: usize,
    /// Seed of the whims by which strategies answer; 0: the default strategy.
    whims: u64,
}

struct Virtual {
    rank: u32,
    rail: usize,
    wires: Wires,
    world: World,
    shown: HashMap<u32, (Vec<u8>, Vec<u8>)>,
    piece: HashMap<u32, VecDeque<u8>>,
    copies: usize,
}

impl Virtual {
    fn wire<T>(&self, from: u32, to: u32, f: impl FnOnce(&mut Wire) -> T) -> T {
        f(self.wires.lock().unwrap().entry((self.rail, from, to)).or_default())
    }

    fn refuses(&mut self) -> bool {
        self.copies += 1;
        self.world.refuses && self.copies.is_multiple_of(3)
    }
}

fn driver(rank: u32, rail: usize, wires: &Wires, world: World) -> Virtual {
    let (shown, piece) = (HashMap::new(), HashMap::new());
    Virtual { rank, rail, wires: wires.clone(), world, shown, piece, copies: 0 }
}

fn config(world: World) -> Config {
    Config { repairs: world.fragile, retransmit: 1000, ..Config::new(THRESHOLD, 1 << 20) }
}

/// The connection manager: opens the links that are wanted.
fn connect(cores: &mut [Core<Virtual>]) -> bool {
    let mut wanted = Vec::new();
    for core in cores.iter() {
        crate::sys::unring(core.signals.bell().as_raw_fd());
        core.signals.take_wanted(|rail, peer| wanted.push((core.rank, rail, peer)));
    }
    for &(rank, rail, peer) in &wanted {
        for (here, there) in [(rank, peer), (peer, rank)] {
            if cores[here as usize].gates[there as usize].open & 1 << rail == 0 {
                cores[here as usize].attach(rail, there, |_| ());
            }
        }
    }
    !wanted.is_empty()
}

fn bytes(span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len()];
    // SAFETY: the vector has the span's length.
    unsafe { span.copy_to(bytes.as_mut_ptr()) };
    bytes
}

impl Driver for Virtual {
    fn name(&self) -> &'static str {
        "virtual"
    }
    fn mtu(&self, _: u32) -> usize {
        MTU
    }
    fn can_copy(&self, _: u32) -> bool {
        self.world.copies
    }
    fn copies_too(&self, _: u32, _: bool) -> bool {
        // Sometimes: it is a hint.
        self.copies % 3 == 1
    }
    fn begin(&mut self) -> bool {
        false
    }
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let payload: Vec<u8> = parts.iter().flat_map(|&part| bytes(part)).collect();
        assert!(payload.len() <= MTU);
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let (head, capacity) = (raw[..header.kind.header_len()].to_vec(), self.world.capacity);
        self.wire(self.rank, to, |wire| {
            if wire.small.len() >= capacity {
                return false;
            }
            wire.small.push_back((head, payload));
            true
        })
    }
    fn peek_small(&mut self, from: u32) -> Peek {
        if !self.shown.contains_key(&from) {
            let Some(packet) = self.wire(from, self.rank, |wire| wire.small.pop_front()) else {
                return Peek::Empty;
            };
            self.shown.insert(from, packet);
        }
        let (head, payload) = &self.shown[&from];
        // SAFETY: kept until `release`.
        let span = unsafe { Span::new(payload.as_ptr(), payload.len()) };
        Peek::Packet(Header::decode(head).unwrap(), span)
    }
    fn release(&mut self, from: u32) {
        self.shown.remove(&from).unwrap();
    }
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let World { capacity, piece, .. } = self.world;
        self.wire(self.rank, to, |wire| {
            let mut sent = 0;
            while sent < data.len() && wire.large.len() < capacity {
                let part = bytes(data.part(sent, piece));
                let header =
                    Header { len: header.len + sent as u64, payload: part.len() as u32, ..*header };
                sent += part.len();
                wire.large.push_back((header, part));
            }
            sent
        })
    }
    fn can_break(&self) -> bool {
        self.world.fragile
    }
    fn peek_large(&mut self, from: u32) -> Peek {
        match self.wire(from, self.rank, |wire| wire.large.pop_front()) {
            None => Peek::Empty,
            Some((header, data)) => {
                self.piece.insert(from, data.into());
                Peek::Packet(header, Span::EMPTY)
            }
        }
    }
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let piece = self.piece.get_mut(&from).unwrap();
        let count = len.min(piece.len()).min(7);
        for (index, byte) in piece.drain(..count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(index).write(byte) };
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
        if self.refuses() {
            return Err(Refused::Unable);
        }
        let len = len.min(33);
        // SAFETY: the test keeps every buffer until its request is finished.
        unsafe { core::ptr::copy_nonoverlapping(remote as *const u8, to, len) };
        Ok(len)
    }
    unsafe fn put(&mut self, _: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        if self.refuses() {
            return Err(Refused::Unable);
        }
        let data = data.part(0, 33);
        // SAFETY: as in `get`.
        unsafe { data.copy_to(remote as *mut u8) };
        Ok(data.len())
    }
    fn close(&mut self, _: u32) {}
    fn arm(&mut self, _: Rings) -> bool {
        true
    }
    fn wake_oneself(&mut self) {}
    fn ready(&self) -> Option<&Arc<Ready>> {
        None
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        from: u32,
        to: u32,
        tag: u64,
        len: usize,
        waits: bool,
        synchronous: bool,
        spread: usize,
    },
    /// Data lies in pieces of `spread` bytes; 0: in one.
    Recv {
        rank: u32,
        from: Option<u32>,
        tag: u64,
        room: usize,
        waits: bool,
        spread: usize,
    },
    Round {
        rank: u32,
    },
    Connect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = || prop_oneof![0usize..8, 45usize..55, 95usize..160, 110usize..130, 300usize..2000];
    let spread = || prop_oneof![4 => Just(0usize), 1 => 1usize..70];
    let step = prop_oneof![
        4 => (0..RANKS, 0..RANKS, 0u64..3, len(), any::<bool>(), any::<bool>(), spread())
            .prop_map(|(from, to, tag, len, waits, synchronous, spread)| Step::Send {
                from, to, tag, len, waits, synchronous, spread
            }),
        4 => (0..RANKS, proptest::option::of(0..RANKS), 0u64..3, len(), any::<bool>(), any::<bool>(), spread()).prop_map(
            |(rank, from, tag, len, exact, waits, spread)| Step::Recv {
                rank, from, tag, room: if exact { 2000 } else { len }, waits, spread
            }
        ),
        3 => (0..RANKS).prop_map(|rank| Step::Round { rank }),
        1 => Just(Step::Connect),
    ];
    proptest::collection::vec(step, 1..80)
}

/// A request, its buffer, and what was asked.
struct Asked {
    request: NonNull<Request>,
    buffer: Vec<u8>,
    /// What it is received into, or sent from, if that is scattered.
    pieces: Pieces,
    rank: u32,
    tag: u64,
}

/// A message in pieces, and their list; none at all if it is not scattered.
struct Pieces {
    bytes: Vec<Vec<u8>>,
    list: Vec<libc::iovec>,
    scattered: bool,
}

impl Pieces {
    fn of(data: &[u8], spread: usize) -> Pieces {
        let mut bytes: Vec<Vec<u8>> = match spread {
            0 => Vec::new(),
            spread => data.chunks(spread).map(<[u8]>::to_vec).collect(),
        };
        let list = bytes
            .iter_mut()
            .map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() })
            .collect();
        Pieces { bytes, list, scattered: spread > 0 }
    }

    fn layout(&self) -> Layout {
        let len = self.list.iter().map(|piece| piece.iov_len).sum();
        Layout::list(self.list.as_ptr(), self.list.len(), len)
    }
}

impl Asked {
    fn bytes(&self) -> Vec<u8> {
        if self.pieces.scattered { self.pieces.bytes.concat() } else { self.buffer.clone() }
    }

    fn get(&self) -> &Request {
        // SAFETY: freed by `drop` only.
        unsafe { self.request.as_ref() }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        assert!(self.get().is_finished() || std::thread::panicking());
        if self.get().is_finished() {
            // SAFETY: boxed by `ask`, finished.
            drop(unsafe { Box::from_raw(self.request.as_ptr()) });
        }
    }
}

fn ask(core: &mut Core<Virtual>, request: Request) -> NonNull<Request> {
    let request = NonNull::from(Box::leak(Box::new(request)));
    // SAFETY: freed by `Asked` after its end.
    core.look_and_start(unsafe { Ref::new(request) });
    request
}

/// The byte at `index` of message `number` from `from`.
fn content(from: u32, number: usize, index: usize) -> u8 {
    (from as usize * 31 + number * 17 + index * 7 + index / 256) as u8
}

fn settle(cores: &mut [Core<Virtual>]) {
    let mut quiet = 0;
    for _ in 0..200_000 {
        let mut any = connect(cores);
        for core in cores.iter_mut() {
            any |= core.progress();
            if core.signals.starved.load(std::sync::atomic::Ordering::Relaxed) {
                any |= core.grow();
            }
        }
        quiet = if any { 0 } else { quiet + 1 };
        if quiet == 2 {
            return;
        }
    }
    panic!("the network never settles");
}

fn run(world: World, steps: Vec<Step>) {
    let wires = Wires::default();
    let mut cores: Vec<_> = (0..RANKS)
        .map(|rank| {
            let signals = Signals::new(RANKS, world.rails).unwrap();
            let drivers = (0..world.rails).map(|rail| driver(rank, rail, &wires, world)).collect();
            let mut core = Core::new(rank, RANKS, drivers, config(world), signals);
            strategies::whims(&mut core, world.whims, true);
            core
        })
        .collect();
    let mut sends: Vec<Asked> = Vec::new();
    let mut receives: Vec<Asked> = Vec::new();
    // Lengths of the messages of each (from, to, tag), in order, each with its number.
    let mut sent: HashMap<(u32, u32, u64), Vec<(usize, usize)>> = HashMap::new();
    let receive = |cores: &mut [Core<Virtual>],
                   rank: u32,
                   from: Option<u32>,
                   tag,
                   (room, spread): (usize, usize),
                   waits| {
        let mut buffer = vec![0; room];
        let pieces = Pieces::of(&buffer, spread);
        let from = from.unwrap_or(ANY_SOURCE);
        // SAFETY: buffer and pieces live in `Asked` until the request is finished; their heap memory does not move.
        let request = unsafe {
            match spread {
                0 => Request::recv(from, tag, &raw mut buffer[..], waits),
                _ => Request::recv_scattered(from, tag, pieces.layout(), waits),
            }
        };
        Asked { request: ask(&mut cores[rank as usize], request), buffer, pieces, rank, tag }
    };
    for step in steps {
        match step {
            Step::Send { from, to, tag, len, waits, synchronous, spread } => {
                let number = sends.len();
                let buffer: Vec<u8> = (0..len).map(|index| content(from, number, index)).collect();
                sent.entry((from, to, tag)).or_default().push((number, len));
                let pieces = Pieces::of(&buffer, spread);
                // SAFETY: as for receives.
                let request = unsafe {
                    match spread {
                        0 => Request::send(to, tag, &raw const buffer[..], waits),
                        _ => Request::send_scattered(to, tag, pieces.layout(), waits),
                    }
                };
                let request = if synchronous { request.synchronous() } else { request };
                let request = ask(&mut cores[from as usize], request);
                sends.push(Asked { request, buffer, pieces, rank: from, tag });
            }
            Step::Recv { rank, from, tag, room, waits, spread } => {
                receives.push(receive(&mut cores, rank, from, tag, (room, spread), waits));
            }
            Step::Round { rank } => {
                cores[rank as usize].progress();
            }
            Step::Connect => {
                connect(&mut cores);
            }
        }
    }
    settle(&mut cores);
    // Receives that nothing matched are taken back; then every message that is left gets one.
    for asked in &receives {
        if !asked.get().is_finished() {
            // SAFETY: not finished, and alive.
            let request = unsafe { Ref::new(asked.request) };
            cores[asked.rank as usize].cancel(request);
            assert!(asked.get().is_finished(), "matched, and yet nothing more happens");
        }
    }
    let taken = |receives: &[Asked], from: u32, to: u32, tag: u64| -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for (index, asked) in receives.iter().enumerate() {
            let source = match asked.get().result() {
                Ok(status) => status.source,
                Err(crate::Error::Truncated { from, .. }) => from,
                Err(crate::Error::Cancelled) => continue,
                Err(other) => panic!("{other}"),
            };
            if asked.rank == to && asked.tag == tag && source == from {
                all.push((index, asked.buffer.len()));
            }
        }
        all
    };
    for (&(from, to, tag), messages) in &sent {
        let missing = messages.len() - taken(&receives, from, to, tag).len();
        for _ in 0..missing {
            receives.push(receive(&mut cores, to, Some(from), tag, (2000, 0), true));
        }
        settle(&mut cores);
    }
    for asked in sends.iter().chain(&receives) {
        assert!(asked.get().is_finished(), "a request never ends");
    }
    // The n-th receive that got something from (from, tag) got the n-th message, whole or its beginning.
    for (&(from, to, tag), messages) in &sent {
        let taken = taken(&receives, from, to, tag);
        assert_eq!(taken.len(), messages.len());
        for (&(index, room), &(number, len)) in taken.iter().zip(messages) {
            let asked = &receives[index];
            match asked.get().result() {
                Ok(status) => {
                    assert_eq!(status.len, len);
                    assert!(len <= room);
                }
                Err(crate::Error::Truncated { message, capacity, .. }) => {
                    assert_eq!((message, capacity), (len, room));
                    assert!(len > room);
                }
                Err(other) => panic!("{other}"),
            }
            for (at, &byte) in asked.bytes().iter().enumerate() {
                let expected = if at < len { content(from, number, at) } else { 0 };
                assert_eq!(
                    byte, expected,
                    "byte {at} of message {number} ({len} bytes, room {room})"
                );
            }
        }
    }
    for core in &cores {
        assert_eq!(core.pending.count(), 0);
        assert_eq!(core.gates.backlog, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn every_message_reaches_its_receive_whole_and_in_order(
        rails in 1usize..4, fragile: bool, capacity in 1usize..6, copies: bool, refuses: bool, piece in 1usize..200,
        whims in 0u64..4, steps in steps(),
    ) {
        run(World { rails, fragile, capacity, copies, refuses, piece, whims }, steps);
    }
}

fn pair() -> (Vec<Core<Virtual>>, Wires) {
    let wires = Wires::default();
    let (copies, refuses, fragile) = (true, false, false);
    let world = World { rails: 1, fragile, capacity: 4, copies, refuses, piece: 64, whims: 0 };
    let cores = (0..2)
        .map(|rank| {
            let signals = Signals::new(2, 1).unwrap();
            let drivers = vec![driver(rank, 0, &wires, world)];
            let mut core = Core::new(rank, 2, drivers, config(world), signals);
            core.attach(0, 1 - rank, |_| ());
            core
        })
        .collect();
    (cores, wires)
}

proptest! {
    /// Sound headers that make no sense where they come: the gate ends, the engine does not.
    #[test]
    fn a_hostile_peer_ends_its_gate_and_nothing_else(
        packets in proptest::collection::vec(
            (1u8..9, any::<u8>(), 0u64..4, 0u64..300, 0usize..60, 0u64..6, any::<bool>()), 1..40),
    ) {
        let (mut cores, wires) = pair();
        let core = &mut cores[0];
        let mut buffers: Vec<Vec<u8>> = vec![vec![0; 100]; 3];
        let mut asked = Vec::new();
        for (tag, buffer) in buffers.iter_mut().enumerate() {
            // SAFETY: the buffers outlive the requests, which the gate's end finishes below.
            asked.push(ask(core, unsafe { Request::recv(1, tag as u64, &raw mut buffer[..], false) }));
        }
        let mut seq = 0;
        for (kind, flags, tag, len, payload, id, next) in packets {
            let payload = vec![1; payload.min(MTU)];
            let mut raw = [0; LONG];
            let kind = match kind {
                1 => crate::wire::Kind::Eager,
                2 => crate::wire::Kind::First,
                3 => crate::wire::Kind::Next,
                5 => crate::wire::Kind::Cts,
                6 => crate::wire::Kind::Fin,
                7 => crate::wire::Kind::Data,
                _ => crate::wire::Kind::Eager,
            };
            let len = if kind == crate::wire::Kind::Eager { payload.len() as u64 } else { len };
            Header { flags: flags & 1, seq, tag, len, payload: payload.len() as u32, id, ..Header::new(kind) }
                .encode(&mut raw);
            if Header::decode(&raw).is_err() {
                continue;
            }
            seq += u32::from(next);
            wires.lock().unwrap().entry((0, 1, 0)).or_default()
                .small.push_back((raw[..kind.header_len()].to_vec(), payload));
            core.progress();
        }
        core.fail_peer(1, crate::Cause::Vanished);
        for request in asked {
            // SAFETY: boxed by `ask`; finished, by a message or by the gate's end.
            let request = unsafe { Box::from_raw(request.as_ptr()) };
            prop_assert!(request.is_finished());
        }
        prop_assert_eq!(core.pending.count(), 0);
    }
}

/// A peer that streams a piece of a message and then says that it has pushed it: the request must not end while
/// the piece is still coming in.
#[test]
fn a_message_is_streamed_or_pushed_but_not_both() {
    use crate::wire::{Kind, SENDER_WAITS, TO_RECEIVER};
    let (mut cores, wires) = pair();
    let core = &mut cores[0];
    let mut buffer = vec![0; 1000];
    // SAFETY: the buffer outlives the request, which the gate's end finishes.
    let request = ask(core, unsafe { Request::recv(1, 0, &raw mut buffer[..], false) });
    let inject = |header: Header| {
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let head = raw[..header.kind.header_len()].to_vec();
        wires.lock().unwrap().entry((0, 1, 0)).or_default().small.push_back((head, Vec::new()));
    };
    inject(Header { flags: SENDER_WAITS, len: 1000, id: 5, addr: 1, ..Header::new(Kind::Rts) });
    core.progress();
    let data = Header { len: 0, payload: 1000, id: 1, ..Header::new(Kind::Data) };
    wires.lock().unwrap().entry((0, 1, 0)).or_default().large.push_back((data, vec![1; 1000]));
    core.progress();
    assert!(core.gates[1].arrivals[0].is_some());
    inject(Header { flags: TO_RECEIVER, seq: 1, id: 1, ..Header::new(Kind::Fin) });
    core.progress();
    // SAFETY: boxed by `ask`; finished by the gate's end.
    let request = unsafe { Box::from_raw(request.as_ptr()) };
    let ended = request.result();
    assert!(matches!(
        ended,
        Err(crate::Error::PeerDied { rank: 1, cause: crate::Cause::Malformed })
    ));
    assert!(core.gates[1].arrivals[0].is_none());
}

/// Sends to a rank that is not connected wait; they end with an error when it turns out that it cannot be.
#[test]
fn what_waits_for_a_link_ends_when_there_is_no_way() {
    let signals = Signals::new(3, 2).unwrap();
    let world = World {
        rails: 2,
        fragile: false,
        capacity: 4,
        copies: false,
        refuses: false,
        piece: 64,
        whims: 0,
    };
    let wires = Wires::default();
    let drivers = (0..2).map(|rail| driver(0, rail, &wires, world)).collect();
    let mut core = Core::new(0, 3, drivers, config(world), signals.clone());
    let (data, mut buffer) = (vec![1; 1000], vec![0; 10]);
    // SAFETY: the buffers outlive the requests, which end below.
    let asked = unsafe {
        [
            ask(&mut core, Request::send(1, 0, &raw const data[..10], false)),
            ask(&mut core, Request::send(1, 0, &raw const data[..], false)),
            ask(&mut core, Request::recv(2, 0, &raw mut buffer[..], false)),
            ask(&mut core, Request::recv(ANY_SOURCE, 1, &raw mut buffer[..], false)),
        ]
    };
    core.progress();
    let mut wanted = Vec::new();
    signals.take_wanted(|rail, peer| wanted.push((rail, peer)));
    assert_eq!(wanted, [(0, 1), (0, 2), (1, 1), (1, 2)]);
    core.fail_peer(1, crate::Cause::Vanished);
    let over = |core: &Core<Virtual>| {
        // SAFETY: freed below.
        let over = asked.map(|request| unsafe { request.as_ref() }.is_finished());
        (over, core.pending.count())
    };
    assert_eq!(over(&core), ([true, true, false, false], 2));
    core.fail_peer(2, crate::Cause::Vanished);
    assert_eq!(over(&core), ([true; 4], 0));
    assert_eq!(core.gates.backlog, 0);
    for request in asked {
        // SAFETY: boxed by `ask`, finished.
        let request = unsafe { Box::from_raw(request.as_ptr()) };
        assert!(matches!(request.result(), Err(crate::Error::PeerDied { .. })));
    }
}

/// A flood that is not received stays with its sender, but for the credit; what comes behind it is received; and in the
/// end all of it is, in order.
#[test]
fn a_flood_stays_with_its_sender_and_holds_up_no_other() {
    const CREDIT: u64 = 2000;
    let (mut cores, _) = pair();
    cores.iter_mut().for_each(|core| core.gates.config.credit = CREDIT);
    let flood: Vec<Vec<u8>> = (0..2000).map(|number| vec![number as u8; 40]).collect();
    let ask_all = |cores: &mut [Core<Virtual>], tag: u64, data: &Vec<u8>| {
        // SAFETY: the buffers outlive the requests, which end below.
        ask(&mut cores[0], unsafe { Request::send(1, tag, &raw const data[..], false) })
    };
    let mut asked: Vec<_> = flood.iter().map(|data| ask_all(&mut cores, 1, data)).collect();
    let word = vec![7; 10];
    asked.push(ask_all(&mut cores, 2, &word));
    settle(&mut cores);
    assert!(cores[0].gates[1].credit.out() <= CREDIT);
    // SAFETY: freed below.
    let over = asked.iter().filter(|request| unsafe { request.as_ref() }.is_finished()).count();
    assert!(over as u64 <= CREDIT / (40 + 64), "{over} messages of a flood have left");
    let mut buffer = vec![0; 10];
    // SAFETY: as above.
    let behind = ask(&mut cores[1], unsafe { Request::recv(0, 2, &raw mut buffer[..], false) });
    settle(&mut cores);
    // SAFETY: freed below.
    assert!(unsafe { behind.as_ref() }.is_finished());
    assert_eq!(buffer, word);
    asked.push(behind);
    for data in &flood {
        let mut buffer = vec![0; 40];
        // SAFETY: as above.
        let request =
            ask(&mut cores[1], unsafe { Request::recv(0, 1, &raw mut buffer[..], false) });
        settle(&mut cores);
        assert_eq!(&buffer, data);
        asked.push(request);
    }
    for request in asked {
        // SAFETY: boxed by `ask`, finished.
        let request = unsafe { Box::from_raw(request.as_ptr()) };
        assert!(request.result().is_ok());
    }
}
