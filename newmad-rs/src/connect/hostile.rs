//! Strangers, and peers that know the key and say anything: for `crate::testing::fuzzing`.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::greeting::{self, CHALLENGE, HELLO, Hello, KEY, PROOF, Purpose, VERDICT, Verdict};
use super::handshake::{Handshake, Outcome};
use super::network::{Action as Done, Frame, Network, torus::Torus};
use super::rail::Offer;
use super::ring::{Action, NOTICE, Notice, Ring};
use super::socket;
use crate::net::details::{DETAILS, Details};
use crate::net::segment::Geometry;
use crate::net::shm::connect::Own;
use crate::sys;
use crate::testing::fuzzing::Input;

fn details(input: &mut Input<'_>) -> Details {
    let slots = [64, 4, 2, 0, 3, u32::MAX][input.below(6)];
    let slot_size = [8256, 128, 192, 0, 100, u32::MAX][input.below(6)];
    let mut bytes = [0; DETAILS];
    bytes[16..].fill_with(|| input.byte());
    let queue_pair = Details::decode(&bytes).and_then(|details| details.queue_pair);
    Details { probe: input.word(), slots, slot_size, queue_pair }
}

fn hello(input: &mut Input<'_>) -> Hello {
    let purpose = match input.below(3) {
        0 => Purpose::Control,
        _ => Purpose::Link { rail: input.byte(), track: input.byte() },
    };
    let (from, to, generation) = (input.byte().into(), 0, input.word() as u32);
    Hello { from, to, purpose, generation, nonce: [1; 16], details: details(input) }
}

/// What a peer may give instead of its memory and its bell.
fn given(input: &mut Input<'_>, real: &Own) -> Vec<OwnedFd> {
    let mut given = Vec::new();
    for _ in 0..input.below(4) {
        let [memory, bell] = real.descriptors();
        let fd = match input.below(4) {
            0 => memory.try_clone().ok(),
            1 => bell.try_clone().ok(),
            2 => sys::epoll().ok(),
            _ => rustix::fs::memfd_create("hostile", MemfdFlags::CLOEXEC).ok(),
        };
        given.extend(fd);
    }
    given
}

/// A greeting in either role, and the link that comes of it.
pub(crate) fn greet(input: &mut Input<'_>) {
    let geometry = Geometry { ranks: 2, slots: 4, slot_size: 192 };
    let (Ok((own, _driver)), Ok((real, _))) =
        (Own::open(0, geometry, false), Own::open(1, geometry, false))
    else {
        return;
    };
    let Ok((ours, mut theirs)) = UnixStream::pair() else { return };
    if ours.set_nonblocking(true).and_then(|()| theirs.set_nonblocking(true)).is_err() {
        return;
    }
    let (until, key) = (sys::deadline(Duration::from_secs(5)), [7; KEY]);
    let known = if input.below(8) == 0 { [8; KEY] } else { key };
    let calls = input.below(2) == 1;
    let mine = Hello { from: 0, to: 1, ..hello(input) };
    let mut handshake = match calls {
        true => Handshake::call(ours.into(), until, key, &mine, 0, Offer::Shm(own.descriptors())),
        false => Handshake::answer(ours.into(), until, key, 0),
    };
    let (mut said, mut heard) = ([0; HELLO], Vec::new());
    for step in 0..8 {
        // What they were told so far.
        let _ = theirs.read_to_end(&mut heard);
        let mut message = match (calls, step) {
            (false, 0) => {
                said = hello(input).encode();
                said.to_vec()
            }
            (false, _) => {
                let challenge = heard.get(..CHALLENGE).and_then(|bytes| bytes.try_into().ok());
                let proof = challenge.and_then(|it| greeting::answer(&known, &said, &it));
                proof.unwrap_or([0; PROOF]).to_vec()
            }
            (true, 0) => {
                let hello = heard.get(..HELLO).and_then(|bytes| bytes.try_into().ok());
                let of = |it: [u8; HELLO]| greeting::challenge(&known, &it, [3; 16]);
                let challenge = hello.and_then(of);
                challenge.unwrap_or([0; CHALLENGE]).to_vec()
            }
            (true, _) => {
                let verdict = match input.below(6) {
                    0 => Verdict::Crossing,
                    1 => Verdict::Stale(input.word() as u32),
                    2 => Verdict::Expelled,
                    _ => Verdict::Accepted(details(input)),
                };
                verdict.encode().to_vec()
            }
        };
        match input.below(8) {
            0 => message = input.take(VERDICT).to_vec(),
            1 => message.truncate(input.below(64)),
            2 => {
                let at = input.below(message.len());
                message[at] ^= 1 << input.below(8);
            }
            _ => {}
        }
        let shown = given(input, &real);
        let shown: Vec<Arc<OwnedFd>> = shown.into_iter().map(Arc::new).collect();
        let sent = match shown.is_empty() {
            true => theirs.write_all(&message),
            false => {
                let Ok(socket) = theirs.try_clone() else { return };
                socket::send(&socket.into(), &message, &shown)
            }
        };
        if sent.is_err() && input.below(2) == 0 {
            return;
        }
        let (details, given) = match handshake.go_on() {
            Err(_) => return,
            Ok(None) => continue,
            Ok(Some(Outcome::Verdict(Verdict::Accepted(details), given))) => (details, given),
            Ok(Some(Outcome::Verdict(..))) => return,
            Ok(Some(Outcome::Request(hello, given))) => (hello.details, given),
        };
        assert!(known == key, "a process came in that does not know the key");
        let _ = own.link(1, handshake.socket, details, given);
        return;
    }
}

/// Notices on the control ring in any order, from links that come and go.
pub(crate) fn ring(input: &mut Input<'_>) {
    let size = 2 + input.below(6) as u32;
    let mut ring = Ring::new(input.below(size as usize) as u32, size);
    let (mut actions, mut events) = (0usize, 0usize);
    while !input.is_over() {
        events += 1;
        let (link, peer) = (input.below(8) as u64, input.below(size as usize) as u32);
        match input.below(8) {
            0 => ring.connected(link, peer),
            1 => ring.lost(link, input.below(2) == 0),
            2 => ring.unreachable(peer),
            3 => ring.leave(),
            4 => ring.expelled(),
            _ => {
                let mut bytes = [0; NOTICE];
                bytes[0] = input.byte();
                bytes[1] = input.byte() % 2;
                bytes[4] = input.byte();
                if let Some(notice) = Notice::decode(bytes, size) {
                    assert_eq!(notice.encode(), bytes);
                    ring.heard(link, notice);
                }
            }
        }
        while let Some(action) = ring.action() {
            actions += 1;
            assert!(!matches!(action, Action::Died(rank) | Action::Left(rank) if rank >= size));
        }
    }
    // A fact is told over each link once, and to each new link.
    assert!(actions <= (events + size as usize) * (3 * size as usize + 8));
}

/// Frames on the control network in any order and of any content, from links that come and go.
pub(crate) fn network(input: &mut Input<'_>) {
    let size = 2 + input.below(12) as u32;
    let rank = input.below(size as usize) as u32;
    let torus = Arc::new(Torus::new(size, 1 + input.below(3) as u32));
    let mut network = Network::new(rank, size, torus);
    let (mut actions, mut events) = (0usize, 0usize);
    while !input.is_over() {
        events += 1;
        let (link, peer) = (input.below(8) as u64, input.below(size as usize) as u32);
        match input.below(8) {
            0 => network.connected(link, peer),
            1 => network.lost(link, input.below(2) == 0),
            2 => network.unreachable(peer),
            3 => network.send(peer, super::network::Kind::User, input.take(3).to_vec()),
            4 if input.below(8) == 0 => network.leave(),
            _ => {
                let bytes = match input.below(4) {
                    0 => input.take(60).to_vec(),
                    // Nearly right: a message with small numbers.
                    kind => {
                        let numbers = [
                            input.below(14) as u32,
                            input.below(14) as u32,
                            input.below(40) as u32,
                            0,
                        ];
                        let mut bytes = vec![5, kind as u8, 0, 0];
                        bytes.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
                        bytes
                    }
                };
                if let Ok(Ok((frame, len))) = Frame::decode(&bytes, size) {
                    assert!(len <= bytes.len());
                    network.heard(link, frame);
                }
            }
        }
        while let Some(action) = network.action() {
            actions += 1;
            match action {
                Done::Deliver(message) => assert!(message.to == rank && message.from != rank),
                Done::Forward(_, message) => assert!(message.to != rank && message.to < size),
                Done::Ring(_) => {}
            }
        }
    }
    // What is kept goes out again for each fact, of which each event brings one at the most, and each of the ranks has two.
    let kept = 32 * size as usize;
    assert!(actions <= (events + size as usize) * (3 * size as usize + 8 + kept));
}
