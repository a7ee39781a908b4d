//! A link breaks under a message that goes as fragments: only what did not arrive is sent again.

use super::*;
use crate::error::Cause;

const LEN: usize = 2000;

/// Rank 0, over two links that can break, with a peer that the test plays.
struct Side {
    core: Core<Virtual>,
    world: World,
    seq: u32,
}

impl Side {
    fn new() -> Side {
        let world = World::new(2, Nature { breaks: true, ..USUAL });
        Side { core: world.one(), world, seq: 0 }
    }

    /// What is on the way over a rail, from that rank.
    fn way<T>(&self, rail: usize, from: u32, f: impl FnOnce(&mut Way) -> T) -> T {
        self.world.way((rail, from, 1 - from), f)
    }

    /// The link is made again.
    fn repair(&mut self, rail: usize) {
        attach(&mut self.core, rail, self.world.connect(rail));
    }

    /// The peer says this over a rail.
    fn hear(&mut self, rail: usize, header: Header, payload: &[u8]) {
        let (seq, ack) = (self.seq, self.core.gates[1].tx_seq);
        self.seq += 1;
        self.way(rail, 1, |way| way.say(Header { seq, ack, ..header }, payload));
        while self.core.progress() {}
    }

    /// What this side has said since the last call, of one kind.
    fn said(&mut self, kind: Kind) -> Vec<(Header, Vec<u8>)> {
        let mut packets = Vec::new();
        for rail in 0..2 {
            packets.extend(self.way(rail, 0, Way::heard));
        }
        packets.retain(|(header, _): &(Header, _)| header.kind == kind);
        packets
    }

    /// The pieces that this side sends over a rail, until no more come: where each begins, and its length.
    fn pieces(&mut self, rail: usize) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        loop {
            let pieces = self.way(rail, 0, |way| {
                let pieces = way.pieces();
                way.lose_pieces();
                pieces
            });
            if pieces.is_empty() {
                return all;
            }
            all.extend(pieces);
            self.core.progress();
        }
    }
}

fn ranges(of: &[(u64, u64)]) -> Vec<u8> {
    of.iter().flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()].concat()).collect()
}

/// A message streams over rail 0, which breaks when nine pieces of 64 bytes were given to it.
fn cut() -> (Side, Asked) {
    let mut side = Side::new();
    let send = Asked::send(&mut side.core, (1, 0), [7; LEN]);
    let rts = side.said(Kind::Rts)[0].0;
    let cts = Header { tag: 5, len: LEN as u64, id: rts.id, ..Header::new(Kind::Cts) };
    side.hear(0, cts, &[]);
    side.core.broke(0, 1, Cause::Broken(libc::ECONNRESET));
    (side, send)
}

#[test]
fn the_sender_of_what_was_lost_asks_and_sends_the_gaps() {
    let (mut side, send) = cut();
    let asks = side.said(Kind::Ask);
    assert_eq!(asks.len(), 1);
    assert_eq!(asks[0].0.id, 5);
    assert_eq!(side.pieces(1), [], "it waits for the answer");
    let have = Header { id: 1, ..Header::new(Kind::Have) };
    side.hear(1, have, &ranges(&[(0, 300)]));
    let pieces = side.pieces(1);
    let mut at = 300;
    for (start, len) in pieces {
        assert_eq!(start, at, "each byte once");
        at += len;
    }
    assert_eq!(at, LEN);
    side.hear(1, Header { id: 1, ..Header::new(Kind::Fin) }, &[]);
    assert_eq!(side.core.gates.backlog, 0);
    assert!(send.result().is_ok());
}

#[test]
fn a_second_break_is_asked_for_again_and_any_answer_will_do() {
    let (mut side, send) = cut();
    assert_eq!(side.said(Kind::Ask).len(), 1);
    side.repair(0);
    let have = Header { id: 1, ..Header::new(Kind::Have) };
    side.hear(1, have, &ranges(&[(0, 100)]));
    assert!(side.core.gates[1].open == 3);
    // Some of it goes over each; both break.
    side.core.broke(0, 1, Cause::Broken(libc::ECONNRESET));
    side.core.broke(1, 1, Cause::Broken(libc::ECONNRESET));
    side.said(Kind::Ask); // lost
    side.repair(1);
    assert_eq!(side.said(Kind::Ask).len(), 1);
    side.hear(1, have, &ranges(&[(0, 400), (1900, 2000)]));
    // A late one, of before.
    side.hear(1, have, &ranges(&[(0, 100)]));
    let pieces = side.pieces(1);
    assert_eq!(pieces[0].0, 400);
    assert_eq!(pieces.iter().map(|piece| piece.1).sum::<usize>(), 1500);
    side.hear(1, Header { id: 1, ..Header::new(Kind::Fin) }, &[]);
    assert!(send.result().is_ok());
}

#[test]
fn a_receiver_says_what_it_has_and_pieces_count_as_far_as_they_came() {
    let mut side = Side::new();
    let receive = Asked::recv(&mut side.core, (1, 0), LEN);
    side.hear(0, Header { len: LEN as u64, id: 5, ..Header::new(Kind::Rts) }, &[]);
    let piece = |start: usize, len: usize| {
        let header = Header { id: 1, len: start as u64, ..Header::new(Kind::Data) };
        Header { payload: len as u32, ..header }
    };
    let ask = Header { id: 1, ..Header::new(Kind::Ask) };
    side.way(0, 1, |way| way.begin(piece(0, 64), &[7; 64]));
    side.way(0, 1, |way| way.begin(piece(64, 500), &[7; 100]));
    side.way(1, 1, |way| way.begin(piece(1000, 50), &[7; 50]));
    // The question overtakes them on the other link.
    side.hear(1, ask, &[]);
    let said = side.said(Kind::Have);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0.id, 5);
    assert_eq!(said[0].1, ranges(&[(1000, 1050), (0, 164)]));
    // The rest comes, but for a piece whose end is not needed any more: the end is the answer.
    side.core.broke(0, 1, Cause::Broken(libc::ECONNRESET));
    side.repair(0);
    side.way(0, 1, |way| way.begin(piece(164, 1836), &[7; 850]));
    side.way(1, 1, |way| way.begin(piece(1050, 950), &[7; 950]));
    while side.core.progress() {}
    assert!(side.said(Kind::Fin).is_empty());
    side.hear(1, ask, &[]);
    assert_eq!(side.said(Kind::Fin).len(), 1);
    assert_eq!(receive.message(), [7; LEN]);
    assert_eq!((side.core.gates.backlog, side.core.gates[1].large_expected), (0, 0));
    // It is over, and the sender may still ask.
    side.hear(1, ask, &[]);
    assert!(side.core.gates[1].is_open());
}
