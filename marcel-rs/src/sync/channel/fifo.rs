//! A queue of messages in chunks, so that a push, which is made under the channel's lock, never moves messages.
//!
//! A channel that stays short uses one chunk as a ring and allocates nothing more.

use std::collections::{LinkedList, VecDeque};

/// Messages in a chunk.
const CHUNK: usize = 64;

pub(super) struct Fifo<T> {
    chunks: LinkedList<VecDeque<T>>,
    len: usize,
}

impl<T> Fifo<T> {
    pub(super) fn new() -> Self {
        Fifo { chunks: LinkedList::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, message: T) {
        self.len += 1;
        if self.chunks.back().is_none_or(|chunk| chunk.len() >= CHUNK) {
            self.chunks.push_back(VecDeque::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.push_back(message);
        }
    }

    /// Puts a message that comes back before all others.
    pub(super) fn push_front(&mut self, message: T) {
        self.len += 1;
        if self.chunks.front().is_none_or(|chunk| chunk.len() >= CHUNK) {
            self.chunks.push_front(VecDeque::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.push_front(message);
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let message = self.chunks.front_mut()?.pop_front()?;
        self.len -= 1;
        // The last chunk stays, for the next message.
        if self.chunks.front().is_some_and(VecDeque::is_empty) && self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        Some(message)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_their_order_across_chunks() {
        let mut fifo = Fifo::new();
        let mut expected = VecDeque::new();
        for round in 0..1000usize {
            for n in 0..round % 7 + 1 {
                fifo.push((round, n));
                expected.push_back((round, n));
            }
            if round % 50 == 0 {
                fifo.push_front((round, 99));
                expected.push_front((round, 99));
            }
            for _ in 0..round % 5 {
                assert_eq!(fifo.pop(), expected.pop_front());
            }
            assert_eq!(fifo.len(), expected.len());
        }
        while let Some(message) = expected.pop_front() {
            assert_eq!(fifo.pop(), Some(message));
        }
        assert_eq!((fifo.pop(), fifo.len()), (None, 0));
        assert_eq!(fifo.chunks.len(), 1);
    }
}
