//! A peer that sends anything at any time: to the engine in every state, over the real drivers.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Input;
use crate::Cause;
use crate::gate::config::Config;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::memory::span::Span;
use crate::net::shm::Shm;
use crate::net::tcp::{self, Tcp};
use crate::net::virtual_rails::VirtualRails;
use crate::net::{Driver, Peek, local};
use crate::nodes::Nodes;
use crate::proto::core::Core;
use crate::proto::pieces::Wanted;
use crate::request::{ANY_SOURCE, Request};
use crate::testing::asked::{Asked, How};
use crate::wire::entries;
use crate::wire::{Header, Kind, LONG, READ, SHORT, TO_RECEIVER};

const THRESHOLD: usize = 120;
const SLOTS: usize = 4;
const SLOT_SIZE: usize = 192;
/// Requests of one run.
const MOST: usize = 100;

/// Starts something with the peer.
fn ask<D: Driver>(core: &mut Core<D>, input: &mut Input<'_>) -> Asked {
    let len = [0, 1, 100, 130, 145, 1000, 70_000][input.below(7)];
    let tag = input.below(3) as u64;
    let kind = input.byte();
    let waits = kind & 8 != 0;
    let how = How { waits, spread: 0 };
    let plain = |request| request;
    let announced = |request: Request| {
        request.announce();
        request
    };
    match kind & 3 {
        0 => Asked::send_with(core, (1, tag), vec![kind; len], how, plain),
        1 => Asked::send_with(core, (1, tag), vec![kind; len], how, announced),
        2 => Asked::recv_with(core, (1, tag), len, how, plain),
        _ => Asked::recv_with(core, (ANY_SOURCE, tag), len, how, plain),
    }
}

/// What the peer knows of the conversation: enough to say what fits in it, or nearly.
#[derive(Default)]
struct Talk {
    seq: u32,
    /// Of the message that is being sent in parts: what has gone, and all of it.
    parts: (u64, u64),
    /// Announcements made so far; their numbers are their ids.
    announced: u64,
    /// The last announcement that came: its id and length.
    offered: (u64, u64),
    /// The last message that was asked for: the receiver's id, its length, and what has gone of it.
    wanted: (u64, u64, u64),
}

impl Talk {
    /// The engine has said this.
    fn heard(&mut self, header: &Header) {
        match header.kind {
            Kind::Rts => self.offered = (header.id, header.len),
            Kind::Cts => self.wanted = (header.tag, header.len, 0),
            _ => {}
        }
    }

    /// The next thing to say, and whether on the large track.
    fn next(&mut self, input: &mut Input<'_>, mtu: usize) -> (Header, Vec<u8>, bool) {
        let (tag, seq) = (input.below(3) as u64, self.seq);
        let payload = vec![7; 1 + input.below(mtu)];
        let len = payload.len();
        let of = |kind, payload: &[u8]| Header {
            seq,
            tag,
            payload: payload.len() as u32,
            ..Header::new(kind)
        };
        let (mut header, payload, large) = match input.below(17) {
            0 | 1 => (Header { len: len as u64, ..of(Kind::Eager, &payload) }, payload, false),
            2 => (of(Kind::Eager, &[]), Vec::new(), false),
            3 | 4 => {
                let total = (len + 1 + input.below(250)) as u64;
                self.parts = (len as u64, total);
                (Header { len: total, ..of(Kind::First, &payload) }, payload, false)
            }
            5 | 6 => {
                let (gone, total) = self.parts;
                let left = usize::try_from(total.saturating_sub(gone)).unwrap_or(0);
                let payload = vec![7; left.clamp(1, len)];
                self.parts.0 = gone + payload.len() as u64;
                (Header { len: gone, ..of(Kind::Next, &payload) }, payload, false)
            }
            7 | 8 => {
                self.announced += 1;
                let len = [130, 1000, 70_000, 10, u64::MAX >> 1][input.below(5)];
                let flags = input.below(2) as u8;
                let header = of(Kind::Rts, &[]);
                (Header { flags, len, id: self.announced, addr: 4096, ..header }, Vec::new(), false)
            }
            9 => {
                let (id, len) = self.offered;
                let tag = 1 + input.below(3) as u64;
                (Header { tag, len, id, ..of(Kind::Cts, &[]) }, Vec::new(), false)
            }
            10 => {
                let header = of(Kind::Fin, &[]);
                (Header { tag: 0, id: self.offered.0, ..header }, Vec::new(), false)
            }
            11 => {
                let header = Header { tag: 0, flags: TO_RECEIVER, ..of(Kind::Fin, &[]) };
                (Header { id: self.wanted.0, ..header }, Vec::new(), false)
            }
            12 | 13 => {
                let (id, total, gone) = self.wanted;
                let most = if input.below(2) == 0 { 60_000 } else { len as u64 };
                let payload = vec![7; total.saturating_sub(gone).clamp(1, most) as usize];
                self.wanted.2 += payload.len() as u64;
                let header = of(Kind::Data, &payload);
                (Header { tag: 0, len: gone, id, ..header }, payload, true)
            }
            14 => {
                let mut payload = Vec::new();
                for _ in 0..1 + input.below(4) {
                    let kind = if input.below(3) == 0 { Kind::Rts } else { Kind::Eager };
                    let size = if kind == Kind::Eager { input.below(12) } else { 0 };
                    let mut head = [0; entries::ANNOUNCED];
                    let entry = Header { tag, len: size as u64, id: 99, ..Header::new(kind) };
                    let used = entries::encode(&entry, &mut head);
                    payload.extend_from_slice(&head[..used]);
                    payload.resize(payload.len() + size, 7);
                }
                payload.truncate(mtu);
                let header = of(Kind::Pack, &payload);
                (Header { tag: 0, len: payload.len() as u64, ..header }, payload, false)
            }
            15 => (Header { tag: 0, ..of(Kind::Quiet, &[]) }, Vec::new(), false),
            _ => (Header { tag: 0, ..of(Kind::Bye, &[]) }, Vec::new(), false),
        };
        // Now and then one thing in it is wrong.
        match input.below(64) {
            0 => header.tag = input.word(),
            1 => header.len = input.word(),
            2 => header.id = input.below(5) as u64,
            3 => header.addr = input.word(),
            4 => header.flags = input.byte(),
            5 => header.payload = input.byte().into(),
            6 => header.seq = input.byte().into(),
            7 => return (header, payload, !large),
            8 => header.ack = input.byte().into(),
            9 => header.ack = input.word() as u32,
            10 => {
                // A word of its own: what it has received, how much of that was eager, and over which virtual rail it receives.
                let kind = if input.below(2) == 0 { Kind::Ack } else { Kind::Probe };
                let (ack, tag) = (u32::from(input.byte()), input.word() >> input.below(64));
                let id = match input.below(8) {
                    0..=4 => 0,
                    5 => input.word(),
                    _ => input.word() & 0x0301,
                };
                return (Header { ack, tag, id, ..of(kind, &[]) }, Vec::new(), false);
            }
            11 => {
                // A question about what it sends, or an answer about what it gets.
                let id = if input.below(2) == 0 { self.wanted.0 } else { self.offered.0 };
                if input.below(2) == 0 {
                    return (Header { tag: 0, id, ..of(Kind::Ask, &[]) }, Vec::new(), false);
                }
                let words = (0..2 * input.below(4)).map(|_| input.word() >> input.below(64));
                let payload: Vec<u8> = words.flat_map(u64::to_le_bytes).take(mtu).collect();
                return (Header { tag: 0, id, ..of(Kind::Have, &payload) }, payload, false);
            }
            12 => {
                // It takes an announcement back, or says that it has given one back.
                let (flags, id) = match input.below(2) {
                    0 => (0, self.announced),
                    _ => (1, self.offered.0),
                };
                return (Header { tag: 0, flags, id, ..of(Kind::Back, &[]) }, Vec::new(), false);
            }
            14 => {
                // It wants to read a piece, or tells a key for one.
                let (at, lane) = (input.below(200) as u64, input.below(3));
                let piece = Wanted { at: 0, len: input.below(300), lane, rail: input.below(2) };
                let header = match input.below(3) {
                    0 => {
                        Header { flags: input.byte() & 1, id: self.wanted.0, ..of(Kind::Key, &[]) }
                    }
                    _ => {
                        let header =
                            Header { flags: READ, id: self.offered.0, ..of(Kind::Cts, &[]) };
                        Header { addr: piece.word(), ..header }
                    }
                };
                return (Header { len: at, ..header }, Vec::new(), false);
            }
            13 => {
                let tag = input.word() >> input.below(64);
                let flags = input.byte() & 1;
                return (Header { tag, flags, ..of(Kind::Leave, &[]) }, Vec::new(), false);
            }
            _ => {}
        }
        (header, payload, large)
    }
}

/// Every request ends when the peer is gone.
fn end<D: Driver>(mut core: Core<D>, asked: Vec<Asked>) {
    core.fail_peer(1, Cause::Vanished);
    for asked in &asked {
        // Only a receive from any rank is left: this rank itself could still send.
        assert!(asked.is_finished() || asked.cancel(&mut core), "a request that never ends");
        let _ = asked.result();
    }
    assert_eq!((core.pending.count(), core.gates.backlog), (0, 0));
}

/// Through the rings of shared memory, whose words and slots are changed meanwhile.
pub(super) fn over_shm(input: &[u8]) {
    let mut input = Input(input);
    let Ok(mut world) = local::world(2, SLOTS, SLOT_SIZE, false) else { return };
    let (Some(mut hostile), Some(driver)) = (world.pop(), world.pop()) else { return };
    let Ok(signals) = Signals::new(2, 1) else { return };
    let mut core =
        Core::new(0, Ranks::one_each(2), vec![driver], Config::new(THRESHOLD, 1 << 20), signals);
    core.attach(0, 1, |_| ());
    let (mut asked, mut talk) = (Vec::new(), Talk::default());
    while !input.is_over() {
        match input.below(16) {
            0..=3 if asked.len() < MOST => asked.push(ask(&mut core, &mut input)),
            0..=9 => say(&mut hostile, &mut talk, &mut input),
            10 => {
                for _ in 0..input.below(4) {
                    let (large, at, byte) = (input.below(2) == 1, input.word(), input.byte());
                    hostile.scribble(0, large, at as usize, byte);
                }
            }
            11 if core.signals.starved.load(Ordering::Relaxed) => {
                core.grow();
            }
            _ => {
                core.progress();
            }
        }
        while let Peek::Packet(header, _) = hostile.peek_small(0) {
            talk.heard(&header);
            hostile.release(0);
        }
        if input.below(4) > 0
            && let Peek::Packet(header, _) = hostile.peek_large(0)
        {
            let mut room = vec![0; header.payload as usize];
            // SAFETY: the vector has that many bytes.
            unsafe { hostile.read_large(0, room.as_mut_ptr(), room.len()) };
        }
    }
    core.progress();
    end(core, asked);
}

/// Says one thing through the rings, if there is room.
fn say(hostile: &mut Shm, talk: &mut Talk, input: &mut Input<'_>) {
    let (header, payload, large) = talk.next(input, hostile.mtu(0));
    // SAFETY: the payload lives through the calls below.
    let data = unsafe { Span::new(payload.as_ptr(), payload.len()) };
    match large {
        true => {
            hostile.post_large(0, &header, data);
        }
        false if hostile.post_small(0, &header, &[data.part(0, hostile.mtu(0))]) => {
            talk.seq = talk.seq.wrapping_add(1);
        }
        false => {}
    }
}

/// Two sockets: the link over them, and their other ends.
fn connection() -> Option<(tcp::Peer, [UnixStream; 2])> {
    let (small, large) = (UnixStream::pair().ok()?, UnixStream::pair().ok()?);
    for socket in [&small.0, &large.0, &small.1, &large.1] {
        socket.set_nonblocking(true).ok()?;
    }
    let link = tcp::connect::link(1, vec![small.0.into(), large.0.into()]).ok()?;
    Some((link, [small.1, large.1]))
}

/// Over two sockets, on which bytes come in pieces of any length.
pub(super) fn over_tcp(input: &[u8]) {
    let mut input = Input(input);
    let Some((link, mut theirs)) = connection() else { return };
    let Ok(driver) = Tcp::new((0..2).map(|_| None).collect()) else { return };
    let Ok(signals) = Signals::new(2, 1) else { return };
    // With repairs of links, what is sent is kept, and the peer's words count.
    let choice = input.byte();
    let config = Config {
        repairs: choice & 1 != 0,
        checksum: choice & 6 == 6,
        credit: if choice & 8 != 0 { 500 } else { 1 << 20 },
        ..Config::new(THRESHOLD, 1 << 20)
    };
    let mut core = Core::new(0, Ranks::one_each(2), vec![driver], config, signals);
    if choice & 16 != 0 {
        // The first of several, of which the others are not there.
        let rails = VirtualRails::new(Nodes::default(), 3, [true], 2);
        core.gates.are_virtual(Arc::new(rails));
    }
    core.attach(0, 1, |driver| drop(driver.install(1, link)));
    let (mut asked, mut talk) = (Vec::new(), Talk::default());
    let (mut heard, mut unread) = (Vec::new(), vec![0; 4096]);
    while !input.is_over() {
        match input.below(16) {
            0..=3 if asked.len() < MOST => asked.push(ask(&mut core, &mut input)),
            0..=9 => {
                let (header, payload, large) = talk.next(&mut input, 300);
                let mut raw = [0; LONG];
                header.encode(&mut raw);
                let mut bytes = raw[..header.kind.header_len()].to_vec();
                bytes.extend_from_slice(&payload);
                match input.below(64) {
                    0 => bytes.truncate(input.below(64)),
                    1 => bytes[input.below(SHORT)] ^= 1 << input.below(8),
                    2 => drop(theirs[usize::from(large)].shutdown(Shutdown::Write)),
                    _ => {}
                }
                let socket = &mut theirs[usize::from(large)];
                // All at once, or in two pieces with a look between them.
                let cut = if input.below(3) == 0 { input.below(bytes.len() + 1) } else { 0 };
                let mut gone = socket.write(&bytes[..cut]).unwrap_or(0);
                if cut > 0 {
                    core.progress();
                }
                gone += socket.write(&bytes[cut..]).unwrap_or(0);
                talk.seq = talk.seq.wrapping_add(u32::from(!large && gone > 0));
            }
            10 if core.signals.starved.load(Ordering::Relaxed) => {
                core.grow();
            }
            12 => core.gates.receive_on(1, input.below(3)),
            11 if input.below(4) == 0 => {
                // The connection is made anew, whether it had broken or not.
                let Some((link, ends)) = connection() else { return };
                theirs = ends;
                heard.clear();
                core.attach(0, 1, |driver| drop(driver.install(1, link)));
            }
            _ => {
                core.progress();
            }
        }
        if input.below(4) > 0 {
            let _ = theirs[1].read(&mut unread);
        }
        let got = theirs[0].read(&mut unread).unwrap_or(0);
        heard.extend_from_slice(&unread[..got]);
        while let Ok(header) = Header::decode(&heard) {
            let len = header.kind.header_len() + header.payload as usize;
            if heard.len() < len {
                break;
            }
            talk.heard(&header);
            heard.drain(..len);
        }
    }
    core.progress();
    end(core, asked);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer in another thread writes to slots, headers and words while they are being read.
    #[test]
    fn slots_may_change_while_they_are_read() {
        for seed in 1..=200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let mut world = local::world(2, SLOTS, SLOT_SIZE, false).unwrap();
            let (mut hostile, driver) = (world.pop().unwrap(), world.pop().unwrap());
            let signals = Signals::new(2, 1).unwrap();
            let mut core = Core::new(
                0,
                Ranks::one_each(2),
                vec![driver],
                Config::new(THRESHOLD, 1 << 20),
                signals,
            );
            core.attach(0, 1, |_| ());
            let choices: Vec<u8> = (0..60).map(|_| next() as u8).collect();
            let mut input = Input(&choices);
            let asked: Vec<_> = (0..30).map(|_| ask(&mut core, &mut input)).collect();
            let scribbler = std::thread::spawn(move || {
                let mut talk = Talk::default();
                for _ in 0..500 {
                    let choices: Vec<u8> = (0..16).map(|_| next() as u8).collect();
                    say(&mut hostile, &mut talk, &mut Input(&choices));
                    while let Peek::Packet(header, _) = hostile.peek_small(0) {
                        talk.heard(&header);
                        hostile.release(0);
                    }
                    // Of a slot's first line mostly what follows the word: kind, lengths, entries of a pack.
                    if next() & 15 == 0 {
                        let at = next() as usize % SLOTS * SLOT_SIZE + 8 + next() as usize % 80;
                        hostile.scribble(0, next() & 1 == 1, at, next() as u8 & 15);
                    }
                }
            });
            while !scribbler.is_finished() {
                core.progress();
            }
            scribbler.join().unwrap();
            core.progress();
            end(core, asked);
        }
    }
}
