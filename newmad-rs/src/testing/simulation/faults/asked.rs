//! Requests with their memory, and what is counted.

use std::ptr::NonNull;

use crate::request::Request;
use crate::testing::simulation::Pieces;

/// What happened in schedules.
#[derive(Default, Debug)]
pub(super) struct Tally {
    pub(super) messages: u64,
    pub(super) cuts: u64,
    pub(super) crashes: u64,
    pub(super) partings: u64,
    pub(super) leaves: u64,
    pub(super) drops: u64,
    pub(super) doubles: u64,
    pub(super) corrupted: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.messages += other.messages;
        self.cuts += other.cuts;
        self.crashes += other.crashes;
        self.partings += other.partings;
        self.leaves += other.leaves;
        self.drops += other.drops;
        self.doubles += other.doubles;
        self.corrupted += other.corrupted;
    }
}

/// A request, its buffer, and what it is received into, or sent from, if that is scattered.
pub(super) struct Asked {
    pub(super) request: NonNull<Request>,
    pub(super) buffer: Vec<u8>,
    pub(super) pieces: Pieces,
    pub(super) rank: u32,
}

impl Asked {
    pub(super) fn get(&self) -> &Request {
        // SAFETY: freed by the world's end only.
        unsafe { self.request.as_ref() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        if self.pieces.scattered { self.pieces.bytes.concat() } else { self.buffer.clone() }
    }
}
