//! What comes twice, over two links at once, because its sender gave one of them up before the receiver did.

use super::*;
use crate::memory::span::Span;
use crate::net::reliable::checksum;
use crate::proto::fragments::seal;
use crate::wire::{CHECKED, CHECKSUM};

/// Rank 0, over two links that can break, with a peer that the test plays.
struct Receiver {
    core: Core<Virtual>,
    world: World,
    checked: bool,
    seq: u32,
}

impl Receiver {
    fn new(checked: bool) -> Receiver {
        let world = World::new(2, Nature { breaks: true, ..USUAL });
        let world = World { checksum: checked, ..world };
        let mut core = world.one();
        // One of them has been repaired.
        attach(&mut core, 1, world.connect(1));
        Receiver { core, world, checked, seq: 0 }
    }

    /// A receive of a message that is announced, of so many bytes.
    fn receive(&mut self, len: usize) -> Asked {
        let receive = Asked::recv(&mut self.core, (1, 0), len);
        self.small(Header { len: len as u64, id: 5, ..Header::new(Kind::Rts) });
        self.core.progress();
        receive
    }

    /// The peer sends a small packet.
    fn small(&mut self, header: Header) {
        let mut header = Header { seq: self.seq, ..header };
        let mut payload = Vec::new();
        if self.checked {
            header = Header { flags: header.flags | CHECKED, payload: CHECKSUM as u32, ..header };
            payload = checksum(&header, &[]).to_le_bytes().to_vec();
        }
        self.seq += 1;
        self.world.way((0, 1, 0), |way| way.say(header, &payload));
    }

    /// The peer begins a piece of the message; `came` of it arrives.
    fn begin(&mut self, rail: usize, at: usize, piece: &[u8], came: &[u8]) {
        let mut header = Header { id: 1, len: at as u64, ..Header::new(Kind::Data) };
        header.payload = piece.len() as u32;
        if self.checked {
            // SAFETY: the slice outlives the call.
            seal(&mut header, unsafe { Span::new(piece.as_ptr(), piece.len()) });
        }
        self.world.way((rail, 1, 0), |way| way.begin(header, came));
        self.core.progress();
    }

    /// More of the piece arrives, if the link is still there.
    fn go_on(&mut self, rail: usize, came: &[u8]) {
        if self.core.gates[1].open & 1 << rail != 0 {
            self.world.way((rail, 1, 0), |way| way.go_on(came));
            self.core.progress();
        }
    }

    /// Packets of that kind that rank 0 has sent.
    fn sent(&self, kind: Kind) -> usize {
        (0..2).map(|rail| self.world.way((rail, 0, 1), |way| way.count(kind))).sum()
    }
}

/// The sender is told once, even when there is no room to tell it before the second copy is there.
#[test]
fn a_message_that_comes_twice_has_one_end() {
    let mut peer = Receiver::new(false);
    let data = [7; 100];
    let receive = peer.receive(data.len());
    assert_eq!(peer.sent(Kind::Cts), 1);
    peer.begin(0, 0, &data, &data[..50]);
    for rail in &mut peer.core.gates.rails {
        rail.driver.nature.room = 0;
    }
    peer.begin(1, 0, &data, &data);
    peer.go_on(0, &data[50..]);
    assert!(!receive.is_finished());
    for rail in &mut peer.core.gates.rails {
        rail.driver.nature.room = 9;
    }
    peer.core.progress();
    assert!(receive.is_finished());
    assert_eq!(receive.message(), data);
    assert_eq!(peer.sent(Kind::Fin), 1);
    assert_eq!((peer.core.gates.backlog, peer.core.gates[1].large_expected), (0, 0));
}

/// With checksums, what was found right stays so when it comes again and is wrong.
#[test]
fn a_corrupt_repetition_spoils_nothing() {
    let mut peer = Receiver::new(true);
    let data = [7; 200];
    let receive = peer.receive(data.len());
    peer.begin(0, 0, &data[..100], &data[..100]);
    peer.begin(1, 0, &data[..120], &[0; 120]);
    assert_eq!(peer.core.gates[1].open, 1, "the peer did not see that it was wrong");
    peer.begin(0, 100, &data[100..], &data[100..]);
    assert!(receive.is_finished());
    assert_eq!(receive.message(), data);
}

/// Nor does a corrupt piece spoil one that comes in at the same time.
#[test]
fn corrupt_bytes_do_not_mix_with_right_ones() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut peer = Receiver::new(true);
        let data = [7; 100];
        let receive = peer.receive(data.len());
        peer.begin(first, 0, &data, &data[..50]);
        peer.begin(second, 20, &data[20..], &[0; 30]);
        peer.go_on(first, &data[50..]);
        peer.go_on(second, &data[50..]);
        if !receive.is_finished() {
            assert_eq!(peer.core.gates[1].open, 0);
            attach(&mut peer.core, 0, peer.world.connect(0));
            peer.begin(0, 0, &data, &data);
        }
        assert!(receive.is_finished());
        assert_eq!(receive.message(), data);
    }
}
