//! Matching: which receive gets which message.
//!
//! A receive names a source or any, and a tag or, with a mask, several. Receives and messages are matched in the order
//! in which receives were posted and messages arrived.
//!
//! Posted receives lie in one of three places: a table by (source, tag); a table by tag for those from any source; a
//! list for those with a mask. When several could take a message the one posted first does, by its posting number. As
//! long as there are only receives from one source with one tag, one branch is all that the others cost.
//!
//! Unexpected messages are in three lists each: by (source, tag), by tag, and all; the last two in order of arrival.
//! Each kind of receive looks into its own. Tables are hashed, lists run through the requests and the pool's cells:
//! constant time up to some thousands of envelopes (tables do not grow), but for masks; nothing allocated. Measured by
//! `cargo bench --bench match`.

pub(crate) mod pool;
#[cfg(test)]
mod tests;

use crate::matching::pool::{Cell, Content, NONE, Pool};
use crate::request::queue::Queue;
use crate::request::tag::EXACT;
use crate::request::{ANY_SOURCE, Op, Place, Ref};
use crate::wire::{Header, Malformed};

const BUCKETS: usize = 1024;

#[inline]
fn hash(source: u32, tag: u64) -> usize {
    let mixed = (tag ^ (u64::from(source) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (BUCKETS - 1)
}

#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

const NOTHING: Ends = Ends { head: NONE, tail: NONE };

/// See the module.
pub(crate) struct Matching {
    posted: Box<[Queue]>,
    posted_any: Box<[Queue]>,
    posted_masked: Queue,
    /// Receives in the last two.
    wild: usize,
    order: u64,
    pub(crate) probes: Queue,
    unexpected: [Box<[Ends]>; 3],
    arrivals: u64,
    count: usize,
    pub(crate) pool: Pool,
}

impl Matching {
    /// `largest`: longest eager message; `max`: bound of the memory for unexpected ones.
    pub(crate) fn new(largest: usize, max: usize) -> Matching {
        Matching {
            posted: (0..BUCKETS).map(|_| Queue::default()).collect(),
            posted_any: (0..BUCKETS).map(|_| Queue::default()).collect(),
            posted_masked: Queue::default(),
            wild: 0,
            order: 0,
            probes: Queue::default(),
            unexpected: [BUCKETS, BUCKETS, 1]
                .map(|buckets| vec![NOTHING; buckets].into_boxed_slice()),
            arrivals: 0,
            count: 0,
            pool: Pool::new(largest, max),
        }
    }

    #[inline]
    fn bucket(&mut self, request: Ref) -> &mut Queue {
        if request.mask != EXACT {
            &mut self.posted_masked
        } else if request.peer == ANY_SOURCE {
            &mut self.posted_any[hash(0, request.tag)]
        } else {
            &mut self.posted[hash(request.peer, request.tag)]
        }
    }

    /// Adds a receive, or a probe, for which no message is there.
    #[inline]
    pub(crate) fn post(&mut self, request: Ref) {
        if let Op::Probe { .. } = request.op {
            return self.probes.push(request, Place::Probes);
        }
        request.order.set(self.order);
        self.order += 1;
        self.wild += usize::from(is_wild(request));
        self.bucket(request).push(request, Place::Posted);
    }

    /// Takes back a posted receive, or a probe.
    #[inline]
    pub(crate) fn unpost(&mut self, request: Ref) {
        if request.place.get() == Place::Probes {
            return self.probes.remove(request);
        }
        self.wild -= usize::from(is_wild(request));
        self.bucket(request).remove(request);
    }

    /// Whether more is to be looked at than the receives that are posted for this source and tag: such messages have
    /// come, or there are receives that take several.
    #[inline]
    pub(crate) fn has_more(&self, source: u32, tag: u64) -> bool {
        self.wild != 0 || self.find_unexpected(source, tag, EXACT).is_some()
    }

    /// Whether a receive is posted for this source and tag.
    #[inline]
    pub(crate) fn is_posted(&self, source: u32, tag: u64) -> bool {
        first(&self.posted[hash(source, tag)], source, tag).is_some()
    }

    /// Takes the receive that a message from `source` with `tag` goes to.
    #[inline]
    pub(crate) fn take_posted(&mut self, source: u32, tag: u64) -> Option<Ref> {
        let queue = &mut self.posted[hash(source, tag)];
        let mut found = queue.find(|request| request.peer == source && request.tag == tag);
        if self.wild == 0 {
            let request = found?;
            queue.remove(request);
            return Some(request);
        }
        let any = &self.posted_any[hash(0, tag)];
        found = earlier(found, first(any, source, tag));
        found = earlier(found, first(&self.posted_masked, source, tag));
        let request = found?;
        self.unpost(request);
        request.matched.set(tag);
        Some(request)
    }

    /// The list and bucket in which a receive looks for unexpected messages.
    #[inline]
    fn place(from: u32, tag: u64, mask: u64) -> (usize, usize) {
        match (from, mask) {
            (ANY_SOURCE, EXACT) => (1, hash(0, tag)),
            (from, EXACT) => (0, hash(from, tag)),
            _ => (2, 0),
        }
    }

    /// The unexpected message that a receive gets, if there is one; it stays in its lists.
    #[inline]
    pub(crate) fn find_unexpected(&self, from: u32, tag: u64, mask: u64) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let (list, bucket) = Matching::place(from, tag, mask);
        let mut index = self.unexpected[list][bucket].head;
        while index != NONE {
            let cell = self.pool.get(index);
            if cell.tag & mask == tag && (from == ANY_SOURCE || cell.source == from) {
                return Some(index);
            }
            index = cell.next[list];
        }
        None
    }

    /// The unexpected announcement that a peer gave that number. Walks everything: for rare events.
    pub(crate) fn find_announced(&self, from: u32, number: u64) -> Option<u32> {
        let mut index = self.unexpected[2][0].head;
        while index != NONE {
            let cell = self.pool.get(index);
            let found = matches!(cell.content, Content::Announced { id, .. } if id == number);
            if found && cell.source == from {
                return Some(index);
            }
            index = cell.next[2];
        }
        None
    }

    /// The places of a message.
    fn places(source: u32, tag: u64) -> [(usize, usize); 3] {
        [(0, hash(source, tag)), (1, hash(0, tag)), (2, 0)]
    }

    /// Puts a message that has come into a cell, and among the unexpected ones: the cell; `None`: there is none for it.
    /// `number`: what the trace calls the message.
    pub(crate) fn keep(
        &mut self,
        source: u32,
        header: &Header,
        content: Content,
        number: u64,
    ) -> Result<Option<u32>, Malformed> {
        let (tag, len) = (header.tag, header.len as usize);
        let bytes = if content == Content::Eager { len } else { 0 };
        if !self.pool.can_hold(bytes) {
            return Err(Malformed);
        }
        let Some(index) = self.pool.take(bytes) else { return Ok(None) };
        let cell = self.pool.get_mut(index);
        (cell.source, cell.tag, cell.len, cell.got) = (source, tag, len, 0);
        (cell.content, cell.claimed, cell.number) = (content, None, number);
        self.add_unexpected(index);
        Ok(Some(index))
    }

    /// Adds an unexpected message; its cell's source and tag are set.
    pub(crate) fn add_unexpected(&mut self, index: u32) {
        self.pool.get_mut(index).arrival = self.arrivals;
        self.arrivals += 1;
        self.insert(index, |_, ends| (ends.tail, NONE));
    }

    /// Adds an unexpected message again, where it was.
    pub(crate) fn readd_unexpected(&mut self, index: u32) {
        let arrival = self.pool.get(index).arrival;
        self.insert(index, |(pool, list), ends| {
            let (mut before, mut after) = (NONE, ends.head);
            while after != NONE && pool.get(after).arrival < arrival {
                (before, after) = (after, pool.get(after).next[list]);
            }
            (before, after)
        });
    }

    /// Puts a message into its lists, between the two that `between` says.
    #[inline]
    fn insert(&mut self, index: u32, between: impl Fn((&Pool, usize), Ends) -> (u32, u32)) {
        let (source, tag) = (self.pool.get(index).source, self.pool.get(index).tag);
        for (list, bucket) in Matching::places(source, tag) {
            let ends = &mut self.unexpected[list][bucket];
            let (prev, next) = between((&self.pool, list), *ends);
            let cell = self.pool.get_mut(index);
            (cell.prev[list], cell.next[list]) = (prev, next);
            match prev {
                NONE => ends.head = index,
                prev => self.pool.get_mut(prev).next[list] = index,
            }
            match next {
                NONE => ends.tail = index,
                next => self.pool.get_mut(next).prev[list] = index,
            }
        }
        self.count += 1;
    }

    /// Takes an unexpected message out of its lists; its cell stays taken.
    pub(crate) fn remove_unexpected(&mut self, index: u32) {
        let (source, tag) = (self.pool.get(index).source, self.pool.get(index).tag);
        for (list, bucket) in Matching::places(source, tag) {
            let (next, prev) = (self.pool.get(index).next[list], self.pool.get(index).prev[list]);
            let ends = &mut self.unexpected[list][bucket];
            match prev {
                NONE => ends.head = next,
                prev => self.pool.get_mut(prev).next[list] = next,
            }
            match next {
                NONE => ends.tail = prev,
                next => self.pool.get_mut(next).prev[list] = prev,
            }
        }
        self.count -= 1;
    }

    /// Takes out and frees the unexpected messages that `which` points at. Walks everything: for rare events.
    pub(crate) fn drop_unexpected(&mut self, which: impl Fn(&Cell) -> bool) {
        let mut index = self.unexpected[2][0].head;
        while index != NONE {
            let next = self.pool.get(index).next[2];
            if which(self.pool.get(index)) {
                self.remove_unexpected(index);
                self.pool.put(index);
            }
            index = next;
        }
    }

    /// A posted receive or a probe that `which` points at. Walks everything: for rare events.
    pub(crate) fn find_posted(&self, which: impl Fn(Ref) -> bool) -> Option<Ref> {
        let tables = self.posted.iter().chain(self.posted_any.iter());
        let mut queues = tables.chain([&self.posted_masked, &self.probes]);
        queues.find_map(|queue| queue.find(&which))
    }

    /// Whether a probe waits.
    #[inline]
    pub(crate) fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }
}

#[inline]
fn is_wild(request: Ref) -> bool {
    request.peer == ANY_SOURCE || request.mask != EXACT
}

/// Whether a message from `source` with `tag` is one that the request asks for.
#[inline]
pub(crate) fn takes(request: Ref, source: u32, tag: u64) -> bool {
    tag & request.mask == request.tag && (request.peer == ANY_SOURCE || request.peer == source)
}

/// The first in the queue that takes such a message.
#[inline]
fn first(queue: &Queue, source: u32, tag: u64) -> Option<Ref> {
    queue.find(|request| takes(request, source, tag))
}

/// Which of them was posted first.
#[inline]
fn earlier(one: Option<Ref>, other: Option<Ref>) -> Option<Ref> {
    match (one, other) {
        (Some(a), Some(b)) => Some(if a.order.get() < b.order.get() { a } else { b }),
        (one, other) => one.or(other),
    }
}
