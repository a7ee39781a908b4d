//! The shared-memory ring of small messages, in one process.

use std::sync::Arc;

use crate::Error;
use crate::memory::span::Span;
use crate::net::Peek;
use crate::net::segment::track;
use crate::net::segment::{Geometry, Segment};
use crate::wire::Envelope;

/// A ring of so many slots of so many bytes; its two ends.
///
/// # Errors
/// The sizes are not ones that the knobs take; no memory.
pub fn ring(slots: usize, slot_size: usize) -> Result<(Sender, Receiver), Error> {
    let geometry = Geometry { ranks: 1, slots, slot_size };
    if !geometry.is_sound() {
        let why = format!(
            "a ring of {slots} slots of {slot_size} bytes: a power of two from 2 to 4096, of multiples of 64 from \
             128 to 1048576 bytes"
        );
        return Err(Error::Bootstrap(why));
    }
    let segment = Arc::new(Segment::create(&geometry)?.0);
    let place = geometry.small(0);
    let sender = track::Sender::new(&segment, &place)?;
    Ok((Sender(sender), Receiver(track::Receiver::small(&segment, &place)?)))
}

/// The sending end.
pub struct Sender(track::Sender);

impl Sender {
    /// Most bytes of a message.
    pub fn mtu(&self) -> usize {
        self.0.mtu()
    }

    /// Sends `data`, or what of it fits a slot. False: there is no slot.
    #[inline]
    pub fn send(&mut self, tag: u64, data: &[u8]) -> bool {
        // SAFETY: borrowed for the call, which copies it.
        let data = unsafe { Span::new(data.as_ptr(), data.len()) }.part(0, self.0.mtu());
        self.0.post_eager((0, 0), Envelope { tag, ..Envelope::default() }, data)
    }
}

/// The receiving end.
pub struct Receiver(track::Receiver);

impl Receiver {
    /// Receives a message, or what of it fits `buffer`: its tag, and bytes copied. `None`: nothing is there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Option<(u64, usize)> {
        let Peek::Packet(header, data) = self.0.peek() else { return None };
        let data = data.part(0, buffer.len());
        // SAFETY: not more than there is room for; the slot is ours until it is released.
        unsafe { data.copy_to(buffer.as_mut_ptr()) };
        self.0.release();
        Some((header.tag, data.len()))
    }
}
