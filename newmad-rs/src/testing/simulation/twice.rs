//! What comes twice, over two links at once, because its sender gave one of them up before the receiver did.

use super::*;
use crate::net::reliable::checksum;
use crate::proto::fragments::seal;
use crate::wire::{CHECKED, CHECKSUM};

/// Rank 0, over two links that can break, with a peer that the test plays.
struct Receiver {
    core: Core<Virtual>,
    wires: Wires,
    checked: bool,
    seq: u32,
}

impl Receiver {
    fn new(checked: bool) -> Receiver {
        let world = World { rails: 2, fragile: true, checksum: checked, ..World::USUAL };
        let (mut core, wires) = world.one();
        // One of them has been repaired.
        core.attach(1, 1, |_| ());
        Receiver { core, wires, checked, seq: 0 }
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
        self.wires.say((0, 1, 0), header, &payload);
    }

    /// The peer begins a piece of the message; `came` of it arrives.
    fn begin(&mut self, rail: usize, at: usize, piece: &[u8], came: &[u8]) {
        let mut header = Header { id: 1, len: at as u64, ..Header::new(Kind::Data) };
        header.payload = piece.len() as u32;
        if self.checked {
            // SAFETY: the slice outlives the call.
            seal(&mut header, unsafe { Span::new(piece.as_ptr(), piece.len()) });
        }
        self.wires.with((rail, 1, 0), |wire| wire.large.push_back((header, came.to_vec())));
        self.core.progress();
    }

    /// More of the piece arrives, if the link is still there.
    fn go_on(&mut self, rail: usize, came: &[u8]) {
        if self.core.gates[1].open & 1 << rail != 0 {
            self.core.gates.rails[rail].driver.piece.get_mut(&1).unwrap().extend(came);
            self.core.progress();
        }
    }

    /// Packets of that kind that rank 0 has sent.
    fn sent(&self, kind: Kind) -> usize {
        let wires = self.wires.0.lock().unwrap();
        let small = wires.iter().filter(|(key, _)| key.1 == 0).flat_map(|(_, wire)| &wire.small);
        small.filter(|(header, _)| header.kind == kind).count()
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
        rail.driver.world.capacity = 0;
    }
    peer.begin(1, 0, &data, &data);
    peer.go_on(0, &data[50..]);
    assert!(!receive.is_finished());
    for rail in &mut peer.core.gates.rails {
        rail.driver.world.capacity = 9;
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
            peer.core.attach(0, 1, |_| ());
            peer.begin(0, 0, &data, &data);
        }
        assert!(receive.is_finished());
        assert_eq!(receive.message(), data);
    }
}
