//! One track of a gate over shared memory: packets in the slots of a ring.
//!
//! A slot is its state word (8 bytes), the packet's header, its payload: what fits into the rest of their line is
//! there, and more begins with the next line, so that the copies in and out are of whole lines. Before the slots is a
//! line with the count of those given back.

use std::ptr::NonNull;
use std::sync::Arc;

use super::ring::{Consumer, Producer, Words};
use super::{LINE, Place, Segment};
use crate::error::{Cause, Error};
use crate::memory::span::Span;
use crate::net::packet::Peek;
use crate::sync::AtomicU64;
use crate::wire::{Envelope, Header, LONG, SHORT};

const WORD: usize = 8;
/// The sender asks for the line of a slot so many packets before it writes to it.
const AHEAD: usize = 3;

/// Where the payload of a packet is in its slot.
#[inline]
fn start(header: &Header) -> usize {
    let behind = WORD + header.kind.header_len();
    if behind + header.payload as usize <= LINE { behind } else { LINE }
}

/// The slots of a ring.
struct Slots {
    base: NonNull<u8>,
    slots: usize,
    size: usize,
    _segment: Arc<Segment>,
}

// SAFETY: shared memory, kept mapped by the segment, accessed through atomics and raw copies only.
unsafe impl Send for Slots {}

impl Slots {
    fn new(segment: &Arc<Segment>, place: &Place) -> Result<Slots, Error> {
        let base = segment.ring(place).ok_or_else(|| {
            Error::Bootstrap("a shared-memory ring lies outside its segment".into())
        })?;
        Ok(Slots { base, slots: place.slots, size: place.slot_size, _segment: segment.clone() })
    }

    #[inline]
    fn slot(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.slots);
        // SAFETY: inside the ring, which is inside the segment.
        unsafe { self.base.as_ptr().add(LINE + index * self.size) }
    }
}

impl Words for Slots {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: slots are aligned to 64 bytes and start with their word, only ever accessed as an atomic.
        unsafe { &*self.slot(index).cast() }
    }

    #[inline]
    fn given(&self) -> &AtomicU64 {
        // SAFETY: the ring begins with this word, aligned, which is only ever accessed as an atomic.
        unsafe { self.base.cast().as_ref() }
    }
}

/// The sending end.
pub(crate) struct Sender {
    slots: Slots,
    producer: Producer,
}

impl Sender {
    pub(crate) fn new(segment: &Arc<Segment>, place: &Place) -> Result<Sender, Error> {
        Ok(Sender { slots: Slots::new(segment, place)?, producer: Producer::new(place.slots) })
    }

    /// Most payload bytes of a packet, whatever its kind.
    #[inline]
    pub(crate) fn mtu(&self) -> usize {
        self.slots.size - LINE
    }

    /// Puts a packet into the next slot. False: there is none.
    #[inline]
    pub(crate) fn post(&mut self, header: &Header, parts: &[Span]) -> bool {
        debug_assert!(parts.iter().map(|part| part.len()).sum::<usize>() <= self.mtu());
        let Some(index) = self.producer.acquire(&self.slots) else { return false };
        let slot = self.slots.slot(index);
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        let (start, mut used) = (start(header), 0);
        // SAFETY: word and longest header fit the slot, which is ours until it is published.
        unsafe { slot.add(WORD).cast::<[u8; LONG]>().write_unaligned(raw) };
        for part in parts {
            let part = part.part(0, self.mtu() - used);
            // SAFETY: `used` never exceeds the room behind the header, so all parts fit the slot.
            unsafe { part.copy_to(slot.add(start + used)) };
            used += part.len();
        }
        self.publish();
        true
    }

    /// As [`Sender::post`], of a whole message.
    #[inline(always)]
    pub(crate) fn post_eager(
        &mut self,
        numbers: (u32, u32),
        envelope: Envelope,
        data: Span,
    ) -> bool {
        debug_assert!(data.len() <= self.mtu());
        let Some(index) = self.producer.acquire(&self.slots) else { return false };
        let slot = self.slots.slot(index);
        let data = data.part(0, self.mtu());
        let words = Header::encode_eager(numbers, envelope, data.len());
        let start = if WORD + SHORT + data.len() <= LINE { WORD + SHORT } else { LINE };
        // SAFETY: the header fits the slot, and so does the payload behind it; the slot is aligned, and ours until it
        // is published.
        unsafe {
            for (at, word) in words.into_iter().enumerate() {
                slot.add(WORD).cast::<u64>().add(at).write(word.to_le());
            }
            data.copy_to(slot.add(start));
        }
        self.publish();
        true
    }
}

impl Sender {
    /// The slot is written. Asks for the line of one that follows: the next message is given up to a thread that
    /// synchronises, and that waits until what was written is there for all to see.
    #[inline(always)]
    fn publish(&mut self) {
        self.producer.publish(&self.slots);
        if let Some(index) = self.producer.ahead(AHEAD) {
            claim(self.slots.slot(index));
        }
    }
}

#[cfg(any(test, fuzzing))]
impl Sender {
    /// Writes a byte anywhere into the ring, as a hostile process can at any time.
    pub(crate) fn scribble(&self, at: usize, byte: u8) {
        let at = at % (self.slots.slots * self.slots.size);
        // SAFETY: inside the ring.
        unsafe { self.slots.slot(0).add(at).write_volatile(byte) };
    }
}

/// The receiving end.
pub(crate) struct Receiver {
    slots: Slots,
    consumer: Consumer,
    /// A quarter of the number of slots, less one.
    quarter: u64,
}

impl Receiver {
    /// The receiving end of small packets: slots are given back a quarter of the ring at once.
    pub(crate) fn small(segment: &Arc<Segment>, place: &Place) -> Result<Receiver, Error> {
        Receiver::new(segment, place, place.slots / 4)
    }

    /// That of large pieces: each slot is given back at once.
    pub(crate) fn large(segment: &Arc<Segment>, place: &Place) -> Result<Receiver, Error> {
        Receiver::new(segment, place, 1)
    }

    fn new(segment: &Arc<Segment>, place: &Place, batch: usize) -> Result<Receiver, Error> {
        let consumer = Consumer::new(place.slots, batch.max(1));
        let quarter = (place.slots as u64 / 4).max(1) - 1;
        Ok(Receiver { slots: Slots::new(segment, place)?, consumer, quarter })
    }

    /// The packet in the next slot.
    #[inline]
    pub(crate) fn peek(&self) -> Peek {
        self.ready().map_or(Peek::Empty, |index| self.read(index))
    }

    /// The next slot, if there is a packet in it.
    #[inline]
    pub(crate) fn ready(&self) -> Option<usize> {
        self.consumer.ready(&self.slots)
    }

    /// The caller has found nothing: the sender gets the slots back that were read.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        self.consumer.give_back(&self.slots);
    }

    /// The packet in this slot, which [`Receiver::ready`] gave. The header is copied out before it is checked.
    #[inline(always)]
    pub(crate) fn read(&self, index: usize) -> Peek {
        let slot = self.slots.slot(index);
        let word = |at: usize| {
            // SAFETY: inside the slot, whose smallest size is 128, and aligned as it is.
            u64::from_le(unsafe { slot.add(WORD + at).cast::<u64>().read() })
        };
        if let Some(header) = Header::decode_eager([word(0), word(8), word(16), word(24)]) {
            return self.packet(slot, header);
        }
        self.read_any(slot)
    }

    fn read_any(&self, slot: *const u8) -> Peek {
        // SAFETY: as in `read`.
        let raw = unsafe { slot.add(WORD).cast::<[u8; LONG]>().read_unaligned() };
        match Header::decode(&raw) {
            Ok(header) => self.packet(slot, header),
            Err(_) => Peek::Gone(Cause::Malformed),
        }
    }

    #[inline(always)]
    fn packet(&self, slot: *const u8, header: Header) -> Peek {
        let start = start(&header);
        if header.payload as usize > self.slots.size - start {
            return Peek::Gone(Cause::Malformed);
        }
        // SAFETY: inside the slot, as just checked against the copy of the length.
        Peek::Packet(header, unsafe { Span::new(slot.add(start), header.payload as usize) })
    }

    /// The packet that `peek` showed is done with. True, a few times per lap of the ring: ring the sender, which may be
    /// asleep because the ring was full (then a whole lap is here, so it will be rung).
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        self.consumer.finish(&self.slots) & self.quarter == 0
    }
}

/// Asks for a line that is to be written to, off the path of the message.
#[inline(always)]
fn claim(slot: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it does not access memory. (Processors without it do nothing.)
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slot;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::net::segment::Geometry;
    use crate::wire::Kind;

    /// Sends `data` in one packet of `kind` through `place` of a segment, and gives what arrives.
    fn through(place: fn(&Geometry) -> Place, kind: Kind, data: &[u8]) -> Vec<u8> {
        let geometry = Geometry { ranks: 1, slots: 2, slot_size: 256 };
        let segment = Arc::new(Segment::create(&geometry).unwrap().0);
        let mut sender = Sender::new(&segment, &place(&geometry)).unwrap();
        let receiver = Receiver::small(&segment, &place(&geometry)).unwrap();
        assert!(data.len() <= sender.mtu());
        let header =
            Header { len: data.len() as u64, payload: data.len() as u32, ..Header::new(kind) };
        // SAFETY: borrowed for the whole function.
        let parts = data.chunks(50).map(|part| unsafe { Span::new(part.as_ptr(), part.len()) });
        assert!(sender.post(&header, &parts.collect::<Vec<_>>()));
        let Peek::Packet(got, span) = receiver.peek() else { panic!("nothing came") };
        assert_eq!(got, header);
        let mut bytes = vec![0; span.len()];
        // SAFETY: the vector has the span's length.
        unsafe { span.copy_to(bytes.as_mut_ptr()) };
        bytes
    }

    #[test]
    fn payloads_of_every_length_arrive_whole() {
        for len in 0..=256 - LINE {
            let data: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            assert_eq!(through(|geometry| geometry.small(0), Kind::Eager, &data), data, "{len}");
        }
        for len in [1, 7, 8, 9, 4096, 16 * 1024] {
            let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(through(|geometry| geometry.large(0), Kind::Data, &data), data, "{len}");
        }
    }
}
