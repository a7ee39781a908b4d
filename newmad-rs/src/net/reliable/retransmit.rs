//! Packets of a gate's small track that the peer has not acknowledged, in a ring of bytes: each its header, then its
//! payload. Of a fixed size: what does not fit has to wait for acknowledgements.

use crate::memory::span::Span;
use crate::wire::{Header, LONG, Malformed};

/// See the module. Positions only grow; a byte lies at its position modulo the size.
pub(crate) struct Retransmit {
    bytes: Box<[u8]>,
    head: usize,
    /// The first packet that has not been given to the link in use.
    cursor: usize,
    tail: usize,
    /// Sequence number of the packet at `head`, and how many there are.
    first: u32,
    count: u32,
    /// Longest payload since it was empty.
    longest: usize,
}

impl Retransmit {
    /// Room for `size` bytes, of which packets up to a quarter are to be kept. Allocates.
    pub(crate) fn new(size: usize) -> Retransmit {
        let bytes = vec![0; size].into_boxed_slice();
        Retransmit { bytes, head: 0, cursor: 0, tail: 0, first: 0, count: 0, longest: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sequence number of the oldest packet.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Longest payload that is kept.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether a packet with so much payload has room.
    pub(crate) fn fits(&self, payload: usize) -> bool {
        self.bytes.len() - (self.tail - self.head) >= LONG + payload
    }

    /// Keeps a packet that the link has taken. Everything before it was taken, and it [`fits`](Retransmit::fits).
    pub(crate) fn push(&mut self, header: &Header, parts: &[Span]) {
        if self.count == 0 {
            self.first = header.seq;
            self.longest = 0;
        }
        let mut raw = [0; LONG];
        header.encode(&mut raw);
        // SAFETY: a local.
        self.write(unsafe { Span::new(raw.as_ptr(), LONG) });
        for &part in parts {
            self.write(part);
        }
        self.longest = self.longest.max(header.payload as usize);
        self.count += 1;
        self.cursor = self.tail;
    }

    fn write(&mut self, data: Span) {
        let at = self.tail % self.bytes.len();
        let first = data.part(0, self.bytes.len() - at);
        let rest = data.part(first.len(), at);
        // SAFETY: `first` fits behind `at` and `rest` before it; packets never come from this memory.
        unsafe {
            first.copy_to(self.bytes.as_mut_ptr().add(at));
            rest.copy_to(self.bytes.as_mut_ptr());
        }
        self.tail += data.len();
    }

    /// Everything is to be sent again, over another link.
    pub(crate) fn rewind(&mut self) {
        self.cursor = self.head;
    }

    /// The first packet that the link has not taken.
    pub(crate) fn unsent(&self) -> Option<(Header, [Span; 2])> {
        let header = self.header(self.cursor)?;
        let at = (self.cursor + LONG) % self.bytes.len();
        let payload = header.payload as usize;
        let first = payload.min(self.bytes.len() - at);
        // SAFETY: inside the ring, which does not change while the packet is sent.
        let parts = unsafe {
            [
                Span::new(self.bytes.as_ptr().add(at), first),
                Span::new(self.bytes.as_ptr(), payload - first),
            ]
        };
        Some((header, parts))
    }

    /// The link has taken that packet. `surely`: it needs no acknowledgement.
    pub(crate) fn taken(&mut self, surely: bool) {
        if let Some(header) = self.header(self.cursor) {
            self.cursor += LONG + header.payload as usize;
        }
        if surely && self.count > 0 {
            self.drop_first();
        }
    }

    /// The peer has everything before `seq`. True: that is news.
    pub(crate) fn acknowledged(&mut self, seq: u32) -> Result<bool, Malformed> {
        let news = seq.wrapping_sub(self.first);
        if self.count == 0 || news as i32 <= 0 {
            return Ok(false);
        }
        if news > self.count {
            return Err(Malformed);
        }
        for _ in 0..news {
            self.drop_first();
        }
        Ok(true)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
        self.cursor = self.tail;
        self.count = 0;
    }

    fn drop_first(&mut self) {
        if let Some(header) = self.header(self.head) {
            self.head += LONG + header.payload as usize;
            self.cursor = self.cursor.max(self.head);
            self.first = self.first.wrapping_add(1);
            self.count -= 1;
        }
    }

    fn header(&self, at: usize) -> Option<Header> {
        if at == self.tail {
            return None;
        }
        let mut raw = [0; LONG];
        let (before, behind) = self.bytes.split_at(at % self.bytes.len());
        let (first, rest) = raw.split_at_mut(behind.len().min(LONG));
        first.copy_from_slice(&behind[..first.len()]);
        rest.copy_from_slice(&before[..rest.len()]);
        Header::decode(&raw).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn bytes(parts: [Span; 2]) -> Vec<u8> {
        let mut bytes = vec![0; parts[0].len() + parts[1].len()];
        // SAFETY: the vector has the parts' length.
        unsafe {
            parts[0].copy_to(bytes.as_mut_ptr());
            parts[1].copy_to(bytes.as_mut_ptr().add(parts[0].len()));
        }
        bytes
    }

    proptest! {
        #[test]
        fn keeps_what_is_not_acknowledged(start: u32, steps in proptest::collection::vec((0u8..4, 0usize..60), 1..200)) {
            let mut kept = Retransmit::new(400);
            let mut model = VecDeque::new();
            let mut next = start;
            for (what, number) in steps {
                match what {
                    0 | 1 if kept.fits(number) && kept.unsent().is_none() => {
                        let data = vec![number as u8; number];
                        let header = Header { seq: next, len: number as u64, payload: number as u32, ..Header::new(Kind::Eager) };
                        // SAFETY: the vector outlives the call.
                        kept.push(&header, &[unsafe { Span::new(data.as_ptr(), data.len()) }]);
                        model.push_back((header, data));
                        next = next.wrapping_add(1);
                    }
                    2 => {
                        let news = number % 8;
                        let known = kept.acknowledged(next.wrapping_sub(model.len() as u32).wrapping_add(news as u32));
                        prop_assert_eq!(known.is_err(), !model.is_empty() && news > model.len());
                        if news <= model.len() {
                            model.drain(..news);
                        }
                    }
                    3 => {
                        kept.rewind();
                        for (header, data) in &model {
                            let (again, parts) = kept.unsent().unwrap();
                            prop_assert_eq!(again, *header);
                            prop_assert_eq!(&bytes(parts), data);
                            kept.taken(false);
                        }
                        prop_assert!(kept.unsent().is_none());
                    }
                    _ => {}
                }
                prop_assert_eq!(kept.is_empty(), model.is_empty());
            }
            kept.rewind();
            while kept.unsent().is_some() {
                kept.taken(true);
            }
            prop_assert!(kept.is_empty());
        }
    }
}
