//! What comes twice, over two links at once, because its sender gave one of them up before the receiver did.

use super::*;
use crate::net::reliable::checksum;
use crate::proto::fragments::seal;
use crate::wire::{CHECKED, CHECKSUM, Kind};

/// Rank 0, over two links that can break, with a peer that the test plays.
struct Receiver {
    core: Core<Virtual>,
    wires: Wires,
    checked: bool,
    seq: u32,
}

impl Receiver {
    fn new(checked: bool) -> Receiver {
        let wires = Wires::default();
        let (copies, refuses, fragile) = (false, false, true);
        let world = World { rails: 2, fragile, capacity: 9, copies, refuses, piece: 64, whims: 0 };
        let signals = Signals::new(2, 2).unwrap();
        let drivers = (0..2).map(|rail| driver(0, rail, &wires, world)).collect();
        let config = Config { checksum: checked, ..config(world) };
        let mut core = Core::new(0, 2, drivers, config, signals);
        // One of them has been repaired.
        for rail in [0, 1, 1] {
            core.attach(rail, 1, |_| ());
        }
        Receiver { core, wires, checked, seq: 0 }
    }

    /// A receive of a message that is announced, of so many bytes.
    fn receive(&mut self, buffer: &mut [u8]) -> NonNull<Request> {
        let len = buffer.len() as u64;
        // SAFETY: the caller keeps the buffer until the request is finished.
        let request = ask(&mut self.core, unsafe { Request::recv(1, 0, buffer, false) });
        self.small(Header { len, id: 5, ..Header::new(Kind::Rts) });
        self.core.progress();
        request
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
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let head = raw[..header.kind.header_len()].to_vec();
        self.wires.lock().unwrap().entry((0, 1, 0)).or_default().small.push_back((head, payload));
    }

    /// The peer begins a piece of the message; `came` of it arrives.
    fn begin(&mut self, rail: usize, at: usize, piece: &[u8], came: &[u8]) {
        let mut header = Header { id: 1, len: at as u64, ..Header::new(Kind::Data) };
        header.payload = piece.len() as u32;
        if self.checked {
            // SAFETY: the slice outlives the call.
            seal(&mut header, unsafe { Span::new(piece.as_ptr(), piece.len()) });
        }
        let mut wires = self.wires.lock().unwrap();
        wires.entry((rail, 1, 0)).or_default().large.push_back((header, came.to_vec()));
        drop(wires);
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
        let wires = self.wires.lock().unwrap();
        let heads = wires.iter().filter(|(key, _)| key.1 == 0).flat_map(|(_, wire)| &wire.small);
        heads.filter(|(head, _)| Header::decode(head).unwrap().kind == kind).count()
    }

    fn is_finished(request: NonNull<Request>) -> bool {
        // SAFETY: freed by `end` only.
        unsafe { request.as_ref() }.is_finished()
    }

    fn end(request: NonNull<Request>) {
        // SAFETY: boxed by `ask`, finished.
        let request = unsafe { Box::from_raw(request.as_ptr()) };
        assert!(request.result().is_ok());
    }
}

/// The sender is told once, even when there is no room to tell it before the second copy is there.
#[test]
fn a_message_that_comes_twice_has_one_end() {
    let mut peer = Receiver::new(false);
    let (data, mut buffer) = ([7; 100], vec![0; 100]);
    let request = peer.receive(&mut buffer);
    assert_eq!(peer.sent(Kind::Cts), 1);
    peer.begin(0, 0, &data, &data[..50]);
    for rail in &mut peer.core.gates.rails {
        rail.driver.world.capacity = 0;
    }
    peer.begin(1, 0, &data, &data);
    peer.go_on(0, &data[50..]);
    assert!(!Receiver::is_finished(request));
    for rail in &mut peer.core.gates.rails {
        rail.driver.world.capacity = 9;
    }
    peer.core.progress();
    assert!(Receiver::is_finished(request));
    assert_eq!(buffer, data);
    assert_eq!(peer.sent(Kind::Fin), 1);
    assert_eq!((peer.core.gates.backlog, peer.core.gates[1].large_expected), (0, 0));
    Receiver::end(request);
}

/// With checksums, what was found right stays so when it comes again and is wrong.
#[test]
fn a_corrupt_repetition_spoils_nothing() {
    let mut peer = Receiver::new(true);
    let (data, mut buffer) = ([7; 200], vec![0; 200]);
    let request = peer.receive(&mut buffer);
    peer.begin(0, 0, &data[..100], &data[..100]);
    peer.begin(1, 0, &data[..120], &[0; 120]);
    assert_eq!(peer.core.gates[1].open, 1, "the peer did not see that it was wrong");
    peer.begin(0, 100, &data[100..], &data[100..]);
    assert!(Receiver::is_finished(request));
    assert_eq!(buffer, data);
    Receiver::end(request);
}

/// Nor does a corrupt piece spoil one that comes in at the same time.
#[test]
fn corrupt_bytes_do_not_mix_with_right_ones() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut peer = Receiver::new(true);
        let (data, mut buffer) = ([7; 100], vec![0; 100]);
        let request = peer.receive(&mut buffer);
        peer.begin(first, 0, &data, &data[..50]);
        peer.begin(second, 20, &data[20..], &[0; 30]);
        peer.go_on(first, &data[50..]);
        peer.go_on(second, &data[50..]);
        if !Receiver::is_finished(request) {
            assert_eq!(peer.core.gates[1].open, 0);
            peer.core.attach(0, 1, |_| ());
            peer.begin(0, 0, &data, &data);
        }
        assert!(Receiver::is_finished(request));
        assert_eq!(buffer, data);
        Receiver::end(request);
    }
}
