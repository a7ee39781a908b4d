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
//!
//! Each rank of the process has tables of its own, smaller ones where there are several; the cells are the process's.

pub(crate) mod pool;
#[cfg(test)]
mod tests;

use crate::matching::pool::{Cell, Content, NONE, Pool};
use crate::request::queue::Queue;
use crate::request::tag::EXACT;
use crate::request::{ANY_SOURCE, Op, Place, Ref};
use crate::wire::{Header, Malformed};

/// Buckets of the tables of a process's only rank, and of each of several.
const BUCKETS: usize = 1024;
const FEW_BUCKETS: usize = 64;

#[inline]
fn hash(source: u32, tag: u64) -> usize {
    let mixed = (tag ^ (u64::from(source) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize
}

#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

const NOTHING: Ends = Ends { head: NONE, tail: NONE };

/// The tables of one rank. What a receive and the message that comes after it need is on the first cache line.
#[repr(C, align(64))]
struct Tables {
    posted: Box<[Queue]>,
    posted_any: Box<[Queue]>,
    /// Receives from any source, and those with a mask.
    wild: usize,
    /// One less than the number of buckets.
    mask: usize,
    order: u64,
    /// Unexpected messages.
    count: usize,
    posted_masked: Queue,
    probes: Queue,
    unexpected: [Box<[Ends]>; 3],
    arrivals: u64,
}

/// See the module.
pub(crate) struct Matching {
    /// Of the rank at place 0, which most processes hold alone, and of the others.
    first: Tables,
    others: Box<[Tables]>,
    pub(crate) pool: Pool,
}

impl Tables {
    fn new(buckets: usize) -> Tables {
        Tables {
            posted: (0..buckets).map(|_| Queue::default()).collect(),
            posted_any: (0..buckets).map(|_| Queue::default()).collect(),
            posted_masked: Queue::default(),
            wild: 0,
            mask: buckets - 1,
            order: 0,
            probes: Queue::default(),
            unexpected: [buckets, buckets, 1]
                .map(|buckets| vec![NOTHING; buckets].into_boxed_slice()),
            arrivals: 0,
            count: 0,
        }
    }

    /// The bucket of a receive from this source with this tag.
    #[inline]
    fn at(&self, source: u32, tag: u64) -> usize {
        hash(source, tag) & self.mask
    }

    #[inline]
    fn bucket(&mut self, request: Ref) -> &mut Queue {
        if request.mask != EXACT {
            &mut self.posted_masked
        } else if request.peer == ANY_SOURCE {
            &mut self.posted_any[hash(0, request.tag) & self.mask]
        } else {
            &mut self.posted[hash(request.peer, request.tag) & self.mask]
        }
    }

    #[inline]
    fn unpost(&mut self, request: Ref) {
        if request.place.get() == Place::Probes {
            return self.probes.remove(request);
        }
        self.wild -= usize::from(is_wild(request));
        self.bucket(request).remove(request);
    }

    #[inline]
    fn take_posted(&mut self, source: u32, tag: u64) -> Option<Ref> {
        if self.wild != 0 {
            return self.take_posted_of_all(source, tag);
        }
        let queue = &mut self.posted[hash(source, tag) & self.mask];
        let request = queue.find(|request| request.peer == source && request.tag == tag)?;
        queue.remove(request);
        Some(request)
    }

    /// As [`Tables::take_posted`], where there are receives from any source, or with a mask.
    #[inline(never)]
    fn take_posted_of_all(&mut self, source: u32, tag: u64) -> Option<Ref> {
        let queue = &self.posted[hash(source, tag) & self.mask];
        let mut found = queue.find(|request| request.peer == source && request.tag == tag);
        let any = &self.posted_any[hash(0, tag) & self.mask];
        found = earlier(found, first(any, source, tag));
        found = earlier(found, first(&self.posted_masked, source, tag));
        let request = found?;
        self.unpost(request);
        request.matched.set(tag);
        Some(request)
    }

    /// The list and bucket in which a receive looks for unexpected messages.
    #[inline]
    fn place(&self, from: u32, tag: u64, mask: u64) -> (usize, usize) {
        match (from, mask) {
            (ANY_SOURCE, EXACT) => (1, self.at(0, tag)),
            (from, EXACT) => (0, self.at(from, tag)),
            _ => (2, 0),
        }
    }

    /// The places of a message.
    fn places(&self, source: u32, tag: u64) -> [(usize, usize); 3] {
        [(0, self.at(source, tag)), (1, self.at(0, tag)), (2, 0)]
    }

    #[inline(always)]
    fn find_unexpected(&self, pool: &Pool, from: u32, tag: u64, mask: u64) -> Option<u32> {
        if self.count == 0 { None } else { self.search_unexpected(pool, from, tag, mask) }
    }

    fn search_unexpected(&self, pool: &Pool, from: u32, tag: u64, mask: u64) -> Option<u32> {
        let (list, bucket) = self.place(from, tag, mask);
        let mut index = self.unexpected[list][bucket].head;
        while index != NONE {
            let cell = pool.get(index);
            if cell.tag & mask == tag && (from == ANY_SOURCE || cell.source == from) {
                return Some(index);
            }
            index = cell.next[list];
        }
        None
    }

    fn find_announced(&self, pool: &Pool, which: impl Fn(&Cell, u64) -> bool) -> Option<u32> {
        let mut index = self.unexpected[2][0].head;
        while index != NONE {
            let cell = pool.get(index);
            if matches!(cell.content, Content::Announced { id, .. } if which(cell, id)) {
                return Some(index);
            }
            index = cell.next[2];
        }
        None
    }

    /// Puts a message into its lists, between the two that `between` says.
    #[inline]
    fn insert(
        &mut self,
        pool: &mut Pool,
        index: u32,
        between: impl Fn((&Pool, usize), Ends) -> (u32, u32),
    ) {
        let (source, tag) = (pool.get(index).source, pool.get(index).tag);
        for (list, bucket) in self.places(source, tag) {
            let ends = &mut self.unexpected[list][bucket];
            let (prev, next) = between((pool, list), *ends);
            let cell = pool.get_mut(index);
            (cell.prev[list], cell.next[list]) = (prev, next);
            match prev {
                NONE => ends.head = index,
                prev => pool.get_mut(prev).next[list] = index,
            }
            match next {
                NONE => ends.tail = index,
                next => pool.get_mut(next).prev[list] = index,
            }
        }
        self.count += 1;
    }

    fn remove_unexpected(&mut self, pool: &mut Pool, index: u32) {
        let (source, tag) = (pool.get(index).source, pool.get(index).tag);
        for (list, bucket) in self.places(source, tag) {
            let (next, prev) = (pool.get(index).next[list], pool.get(index).prev[list]);
            let ends = &mut self.unexpected[list][bucket];
            match prev {
                NONE => ends.head = next,
                prev => pool.get_mut(prev).next[list] = next,
            }
            match next {
                NONE => ends.tail = prev,
                next => pool.get_mut(next).prev[list] = prev,
            }
        }
        self.count -= 1;
    }

    fn find_posted(&self, which: &impl Fn(Ref) -> bool) -> Option<Ref> {
        let queues = self.posted.iter().chain(self.posted_any.iter());
        let mut queues = queues.chain([&self.posted_masked, &self.probes]);
        queues.find_map(|queue| queue.find(which))
    }

    fn drop_unexpected(&mut self, pool: &mut Pool, which: impl Fn(&Cell) -> bool) {
        let mut index = self.unexpected[2][0].head;
        while index != NONE {
            let next = pool.get(index).next[2];
            if which(pool.get(index)) {
                self.remove_unexpected(pool, index);
                pool.put(index);
            }
            index = next;
        }
    }
}

/// Those of the rank at this place.
#[inline(always)]
fn tables<'a>(first: &'a mut Tables, others: &'a mut [Tables], rank: u16) -> &'a mut Tables {
    match rank.checked_sub(1) {
        None => first,
        Some(other) => &mut others[usize::from(other)],
    }
}

impl Matching {
    /// Of so many ranks. `largest`: longest eager message; `max`: bound of the memory for unexpected ones.
    pub(crate) fn new(ranks: usize, largest: usize, max: usize) -> Matching {
        let buckets = if ranks == 1 { BUCKETS } else { FEW_BUCKETS };
        let others = (1..ranks).map(|_| Tables::new(buckets)).collect();
        Matching { first: Tables::new(buckets), others, pool: Pool::new(largest, max) }
    }

    #[inline(always)]
    fn of(&mut self, rank: u16) -> &mut Tables {
        tables(&mut self.first, &mut self.others, rank)
    }

    #[inline(always)]
    fn get(&self, rank: u16) -> &Tables {
        match rank.checked_sub(1) {
            None => &self.first,
            Some(other) => &self.others[usize::from(other)],
        }
    }

    /// Whether there is such a rank.
    #[inline(always)]
    pub(crate) fn has(&self, rank: u16) -> bool {
        usize::from(rank) <= self.others.len()
    }

    /// Adds a receive, or a probe, for which no message is there.
    #[inline(always)]
    pub(crate) fn post(&mut self, request: Ref) {
        let tables = self.of(request.mine.get());
        if let Op::Probe { .. } = request.op {
            return tables.probes.push(request, Place::Probes);
        }
        request.order.set(tables.order);
        tables.order += 1;
        if is_wild(request) {
            tables.wild += 1;
            tables.bucket(request).push(request, Place::Posted);
        } else {
            let bucket = tables.at(request.peer, request.tag);
            tables.posted[bucket].push(request, Place::Posted);
        }
    }

    /// Takes back a posted receive, or a probe.
    #[inline]
    pub(crate) fn unpost(&mut self, request: Ref) {
        self.of(request.mine.get()).unpost(request);
    }

    /// Whether more is to be looked at than the receives that are posted for this source and tag: such messages have
    /// come, or there are receives that take several.
    #[inline]
    pub(crate) fn has_more(&self, to: u16, source: u32, tag: u64) -> bool {
        let tables = self.get(to);
        tables.wild != 0 || tables.find_unexpected(&self.pool, source, tag, EXACT).is_some()
    }

    /// Whether a receive is posted for this source and tag.
    #[inline]
    pub(crate) fn is_posted(&self, to: u16, source: u32, tag: u64) -> bool {
        let tables = self.get(to);
        first(&tables.posted[tables.at(source, tag)], source, tag).is_some()
    }

    /// Takes the receive that a message from `source` with `tag` goes to; `None` also if there is no such rank.
    #[inline]
    pub(crate) fn take_posted(&mut self, to: u16, source: u32, tag: u64) -> Option<Ref> {
        self.has(to).then(|| self.of(to))?.take_posted(source, tag)
    }

    /// The unexpected message that a receive of that rank gets, if there is one; it stays in its lists.
    #[inline(always)]
    pub(crate) fn find_unexpected(&self, to: u16, from: u32, tag: u64, mask: u64) -> Option<u32> {
        self.get(to).find_unexpected(&self.pool, from, tag, mask)
    }

    /// An unexpected announcement that `which` points at by its cell, and its number at its process. Walks everything: for rare
    /// events.
    pub(crate) fn find_announced(&self, which: impl Fn(&Cell, u64) -> bool) -> Option<u32> {
        let mut all = core::iter::once(&self.first).chain(&self.others);
        all.find_map(|tables| tables.find_announced(&self.pool, &which))
    }

    /// The same, of those to one rank.
    pub(crate) fn find_announced_to(&self, to: u16, which: impl Fn(&Cell) -> bool) -> Option<u32> {
        self.get(to).find_announced(&self.pool, |cell, _| which(cell))
    }

    /// Puts a message that has come into a cell, and among the unexpected ones: the cell; `None`: there is none for it.
    /// `number`: what the trace calls the message.
    pub(crate) fn keep(
        &mut self,
        source: Source,
        header: &Header,
        content: Content,
        number: u64,
    ) -> Result<Option<u32>, Malformed> {
        let (tag, len) = (header.tag, header.len as usize);
        let bytes = if content == Content::Eager { len } else { 0 };
        if !self.pool.can_hold(bytes) || !self.has(header.ends.to()) {
            return Err(Malformed);
        }
        let Some(index) = self.pool.take(bytes) else { return Ok(None) };
        let cell = self.pool.get_mut(index);
        (cell.gate, cell.source, cell.to) = (source.gate, source.rank, header.ends.to());
        (cell.tag, cell.len, cell.got) = (tag, len, 0);
        (cell.content, cell.claimed, cell.number) = (content, None, number);
        self.add_unexpected(index);
        Ok(Some(index))
    }

    /// Adds an unexpected message; its cell's ranks and tag are set.
    pub(crate) fn add_unexpected(&mut self, index: u32) {
        let cell = self.pool.get_mut(index);
        let to = cell.to;
        let tables = tables(&mut self.first, &mut self.others, to);
        cell.arrival = tables.arrivals;
        tables.arrivals += 1;
        tables.insert(&mut self.pool, index, |_, ends| (ends.tail, NONE));
    }

    /// Adds an unexpected message again, where it was.
    pub(crate) fn readd_unexpected(&mut self, index: u32) {
        let (arrival, to) = (self.pool.get(index).arrival, self.pool.get(index).to);
        let tables = tables(&mut self.first, &mut self.others, to);
        tables.insert(&mut self.pool, index, |(pool, list), ends| {
            let (mut before, mut after) = (NONE, ends.head);
            while after != NONE && pool.get(after).arrival < arrival {
                (before, after) = (after, pool.get(after).next[list]);
            }
            (before, after)
        });
    }

    /// Takes an unexpected message out of its lists; its cell stays taken.
    pub(crate) fn remove_unexpected(&mut self, index: u32) {
        let to = self.pool.get(index).to;
        let tables = tables(&mut self.first, &mut self.others, to);
        tables.remove_unexpected(&mut self.pool, index);
    }

    /// Takes out and frees the unexpected messages that `which` points at. Walks everything: for rare events.
    pub(crate) fn drop_unexpected(&mut self, which: impl Fn(&Cell) -> bool) {
        for tables in core::iter::once(&mut self.first).chain(&mut self.others) {
            tables.drop_unexpected(&mut self.pool, &which);
        }
    }

    /// The same, of the messages for one rank.
    pub(crate) fn forget(&mut self, to: u16, which: impl Fn(&Cell) -> bool) {
        let tables = tables(&mut self.first, &mut self.others, to);
        tables.drop_unexpected(&mut self.pool, which);
    }

    /// A posted receive or a probe that `which` points at. Walks everything: for rare events.
    pub(crate) fn find_posted(&self, which: impl Fn(Ref) -> bool) -> Option<Ref> {
        let mut all = core::iter::once(&self.first).chain(&self.others);
        all.find_map(|tables| tables.find_posted(&which))
    }

    /// The same, of one rank's.
    pub(crate) fn find_posted_of(&self, rank: u16, which: impl Fn(Ref) -> bool) -> Option<Ref> {
        self.get(rank).find_posted(&which)
    }

    /// Whether a probe of that rank waits.
    #[inline]
    pub(crate) fn has_probes(&self, to: u16) -> bool {
        !self.get(to).probes.is_empty()
    }

    /// The probes of that rank.
    pub(crate) fn probes(&self, to: u16) -> impl Iterator<Item = Ref> + use<> {
        self.get(to).probes.iter()
    }
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The process.
    pub(crate) gate: u32,
    /// The rank.
    pub(crate) rank: u32,
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
