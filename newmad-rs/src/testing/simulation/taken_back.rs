//! Sends that are taken back (`proto/take_back`): cancelled or received, and never both.

use super::*;
use crate::error::{Cause, Error};
use crate::wire::TO_SENDER;

/// Rank 0, with a peer that the test plays.
struct Side {
    core: Core<Virtual>,
    world: World,
    seq: u32,
}

impl Side {
    fn new() -> Side {
        let world = World::new(1, Nature { room: 4, ..USUAL });
        Side { core: world.one(), world, seq: 0 }
    }

    /// The peer says this.
    fn hear(&mut self, header: Header) {
        let seq = self.seq;
        self.seq += 1;
        self.world.way((0, 1, 0), |way| way.say(Header { seq, ..header }, &[]));
        while self.core.progress() {}
    }

    /// What this side has said since the last call.
    fn said(&mut self) -> Vec<(Kind, u8, u64)> {
        let packets = self.world.way((0, 0, 1), Way::heard);
        packets.iter().map(|(header, _)| (header.kind, header.flags, header.id)).collect()
    }

    /// A send that is announced.
    fn send(&mut self) -> Asked {
        let send = Asked::send(&mut self.core, (1, 0), [7; 500]);
        while self.core.progress() {}
        send
    }
}

fn back(id: u64, flags: u8) -> Header {
    Header { id, flags, ..Header::new(Kind::Back) }
}

#[test]
fn a_sender_asks_and_is_told() {
    let mut side = Side::new();
    let send = side.send();
    send.take_back(&mut side.core);
    send.take_back(&mut side.core); // asks once
    assert!(matches!(side.said()[..], [(Kind::Rts, _, 1), (Kind::Back, 0, 1)]));
    assert!(!send.is_finished());
    side.hear(back(1, TO_SENDER));
    assert!(matches!(send.result(), Err(Error::Cancelled)));
}

#[test]
fn what_a_receive_has_matched_goes_on() {
    for asks in [true, false] {
        let mut side = Side::new();
        let send = side.send();
        send.take_back(&mut side.core);
        side.said();
        if asks {
            side.hear(Header { tag: 5, len: 500, id: 1, ..Header::new(Kind::Cts) });
            for _ in 0..500 {
                side.world.way((0, 0, 1), Way::lose_pieces);
                side.core.progress();
            }
        } else {
            side.hear(Header { id: 1, ..Header::new(Kind::Fin) });
        }
        assert_eq!(send.result().unwrap().len, 500, "asks: {asks}");
        // Its number means nothing any more.
        side.hear(back(1, TO_SENDER));
        assert!(!side.core.gates[1].is_open());
    }
}

/// The small track has no room for the question before the receiver acts.
#[test]
fn a_question_that_has_not_left_is_dropped() {
    let mut side = Side::new();
    let send = side.send();
    let mut others = Vec::new();
    while side.core.gates[1].sends.is_empty() {
        others.push(Asked::send(&mut side.core, (1, 1), [1; 8]));
    }
    send.take_back(&mut side.core);
    side.hear(Header { id: 1, ..Header::new(Kind::Fin) });
    assert!(send.result().is_ok());
    let mut said = side.said();
    while side.core.progress() {
        said.extend(side.said());
    }
    assert!(said.iter().all(|(kind, ..)| *kind != Kind::Back), "{said:?}");
    assert!(others.iter().all(Asked::is_finished));
}

#[test]
fn an_announcement_that_has_not_left_is_the_senders_at_once() {
    let mut side = Side::new();
    let mut others = Vec::new();
    while side.core.gates[1].sends.is_empty() {
        others.push(Asked::send(&mut side.core, (1, 1), [1; 8]));
    }
    let send = Asked::send(&mut side.core, (1, 0), [7; 500]);
    send.take_back(&mut side.core);
    assert!(matches!(send.result(), Err(Error::Cancelled)));
    let mut said = side.said();
    while side.core.progress() {
        said.extend(side.said());
    }
    assert_eq!(said.len(), others.len());
    assert!(others.iter().all(|other| other.result().is_ok()));
}

#[test]
fn a_receiver_gives_back_what_nothing_has_matched() {
    let mut side = Side::new();
    side.hear(Header { tag: 3, len: 500, id: 1, ..Header::new(Kind::Rts) });
    side.hear(Header { tag: 3, len: 500, id: 2, ..Header::new(Kind::Rts) });
    side.hear(back(1, 0));
    assert!(matches!(side.said()[..], [(Kind::Back, TO_SENDER, 1)]));
    // The other one is what a receive finds; it is taken back too late.
    let receive = Asked::recv(&mut side.core, (1, 3), 500);
    side.hear(back(2, 0));
    assert!(matches!(side.said()[..], [(Kind::Cts, _, 2)]));
    // The answer waits for room; a peer that is gone hears none.
    side.hear(Header { tag: 4, len: 500, id: 3, ..Header::new(Kind::Rts) });
    let mut others = Vec::new();
    while side.core.gates[1].sends.is_empty() {
        others.push(Asked::send(&mut side.core, (1, 1), [1; 8]));
    }
    side.hear(back(3, 0));
    assert_eq!(side.core.gates.backlog, 2);
    side.core.fail_peer(1, Cause::Vanished);
    assert_eq!(side.core.gates.backlog, 0);
    assert!(receive.is_finished() && others.iter().all(Asked::is_finished));
}

#[test]
fn a_peer_that_leaves_ends_what_was_to_be_taken_back() {
    for room in [true, false] {
        let mut side = Side::new();
        let send = side.send();
        side.said();
        let mut others = Vec::new();
        while !room && side.core.gates[1].sends.is_empty() {
            others.push(Asked::send(&mut side.core, (1, 1), [1; 8]));
        }
        send.take_back(&mut side.core);
        side.hear(Header::new(Kind::Bye));
        assert!(matches!(send.result(), Err(Error::PeerDied { .. })), "room: {room}");
        side.core.fail_peer(1, Cause::Vanished);
        assert!(others.iter().all(Asked::is_finished));
    }
}

proptest! {
    /// Both ranks send, receive and take back; each looks now and then.
    #[test]
    fn cancelled_or_received_and_never_both(
        steps in proptest::collection::vec((0usize..2, 0u8..5, any::<proptest::sample::Index>()), 1..120),
        copies: bool,
    ) {
        let world = World::new(1, Nature { copies, room: 4, ..USUAL });
        let mut cores = world.pair();
        let (mut sends, mut receives) = ([vec![], vec![]], [vec![], vec![]]);
        for (rank, step, which) in steps {
            let (core, peer) = (&mut cores[rank], 1 - rank as u32);
            match step {
                0 => {
                    let number = sends[rank].len() as u8;
                    let data = vec![number; 200 + usize::from(number)];
                    sends[rank].push(Asked::send(core, (peer, 0), data));
                }
                1 => receives[rank].push(Asked::recv(core, (peer, 0), 1000)),
                2 if !sends[rank].is_empty() => {
                    let send: &Asked = which.get(&sends[rank]);
                    send.take_back(core);
                }
                _ => drop(core.progress()),
            }
        }
        settle(&mut cores);
        // What is not over waits for a receive, or for a message.
        for rank in 0..2 {
            for send in sends[rank].iter().filter(|send| !send.is_finished()) {
                send.take_back(&mut cores[rank]);
            }
        }
        settle(&mut cores);
        for rank in 0..2 {
            for receive in receives[rank].iter().filter(|receive| !receive.is_finished()) {
                prop_assert!(receive.cancel(&mut cores[rank]));
            }
            let arrived = receives[rank].iter().filter(|receive| receive.result().is_ok());
            let arrived: Vec<Vec<u8>> = arrived.map(Asked::message).collect();
            let mut sent = Vec::new();
            for (number, send) in sends[1 - rank].iter().enumerate() {
                prop_assert!(send.is_finished(), "it is neither received nor the sender's again");
                match send.result() {
                    Ok(_) => sent.push(vec![number as u8; 200 + number]),
                    Err(error) => prop_assert!(matches!(error, Error::Cancelled), "{}", error),
                }
            }
            prop_assert_eq!(arrived, sent);
            prop_assert_eq!(cores[rank].gates.backlog, 0);
        }
    }
}
