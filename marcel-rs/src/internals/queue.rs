//! The lists that runnable threads are in.

use crossbeam_deque::{Steal, Stealer};

use crate::list;
use crate::sched::spawned::Spawned;
use crate::tcb::block::Tcb;

/// A thread's control block that is in no list. Blocks are immortal: dropped, it is lost until the process ends.
pub struct Block(&'static Tcb);

impl Block {
    /// A new one.
    #[allow(clippy::new_without_default, reason = "it takes a block from the process")]
    pub fn new() -> Block {
        Block(Tcb::allocate(None))
    }
}

/// What a virtual processor's own threads wait in.
#[derive(Default)]
pub struct RunQueue(list::RunQueue<Tcb>);

impl RunQueue {
    /// At the end.
    #[inline]
    pub fn push(&mut self, block: Block) {
        self.0.push(block.0);
    }

    /// The oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<Block> {
        self.0.pop().map(Block)
    }
}

/// Where others put what they wake.
#[derive(Default)]
pub struct Inbox(list::Inbox<Tcb>);

impl Inbox {
    /// Adds one.
    #[inline]
    pub fn push(&self, block: Block) {
        self.0.push(block.0);
    }

    /// Gives everything to `put`, oldest first.
    #[inline]
    pub fn drain(&self, mut put: impl FnMut(Block)) {
        self.0.drain(|tcb| put(Block(tcb)));
    }
}

/// What a virtual processor has spawned: its owner's end.
pub struct Deque(Spawned);

impl Deque {
    /// `alone`: no thief.
    pub fn new(alone: bool) -> Deque {
        Deque(Spawned::new(alone, false))
    }

    /// As the newest.
    #[inline]
    pub fn push(&mut self, block: Block) {
        self.0.push(block.0);
    }

    /// The newest.
    #[inline]
    pub fn pop(&mut self) -> Option<Block> {
        self.0.pop().map(Block)
    }

    /// A thief's end.
    pub fn thief(&self) -> Thief {
        Thief(self.0.stealer())
    }
}

/// See [`Deque::thief`].
pub struct Thief(Stealer<&'static Tcb>);

impl Thief {
    /// The oldest; tries again when another was faster, as a virtual processor does.
    #[inline]
    pub fn steal(&self) -> Option<Block> {
        loop {
            match self.0.steal() {
                Steal::Success(tcb) => return Some(Block(tcb)),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}
