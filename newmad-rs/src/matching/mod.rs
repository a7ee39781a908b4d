//! Matching: which receive gets which message.
//!
//! Receives and messages are matched by (source, tag), in the order in which receives were posted and messages
//! arrived. Posted receives from one source and from any source live in separate tables; when both could take
//! a message the one posted first does, by its posting number. Unexpected messages are in two lists each: by
//! (source, tag) for receives from one source, by tag (in order of arrival) for the others. Tables are hashed,
//! their lists run through the requests and the pool's cells: constant time, nothing allocated.

pub(crate) mod pool;

use crate::collect::queue::Queue;
use crate::matching::pool::{Cell, NONE, Pool};
use crate::request::{ANY_SOURCE, Place, Ref};

const BUCKETS: usize = 1024;
const ANY_BUCKETS: usize = 128;

#[inline]
fn hash(source: u32, tag: u64, buckets: usize) -> usize {
    let mixed = (tag ^ (u64::from(source) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (buckets - 1)
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
    any_count: usize,
    order: u64,
    unexpected: [Box<[Ends]>; 2],
    count: usize,
    pub(crate) pool: Pool,
}

impl Matching {
    /// `largest`: longest eager message; `max`: bound of the memory for unexpected ones.
    pub(crate) fn new(largest: usize, max: usize) -> Matching {
        Matching {
            posted: (0..BUCKETS).map(|_| Queue::default()).collect(),
            posted_any: (0..ANY_BUCKETS).map(|_| Queue::default()).collect(),
            any_count: 0,
            order: 0,
            unexpected: [
                vec![NOTHING; BUCKETS].into_boxed_slice(),
                vec![NOTHING; ANY_BUCKETS].into_boxed_slice(),
            ],
            count: 0,
            pool: Pool::new(largest, max),
        }
    }

    #[inline]
    fn bucket(&mut self, request: Ref) -> &mut Queue {
        if request.peer == ANY_SOURCE {
            &mut self.posted_any[hash(0, request.tag, ANY_BUCKETS)]
        } else {
            &mut self.posted[hash(request.peer, request.tag, BUCKETS)]
        }
    }

    /// Adds a receive for which no message is there.
    #[inline]
    pub(crate) fn post(&mut self, request: Ref) {
        request.order.set(self.order);
        self.order += 1;
        self.any_count += usize::from(request.peer == ANY_SOURCE);
        self.bucket(request).push(request, Place::Posted);
    }

    /// Takes back a posted receive.
    #[inline]
    pub(crate) fn unpost(&mut self, request: Ref) {
        self.any_count -= usize::from(request.peer == ANY_SOURCE);
        self.bucket(request).remove(request);
    }

    /// Takes the receive that a message from `source` with `tag` goes to.
    #[inline]
    pub(crate) fn take_posted(&mut self, source: u32, tag: u64) -> Option<Ref> {
        let mut found = self.posted[hash(source, tag, BUCKETS)].front();
        while let Some(request) = found {
            if request.peer == source && request.tag == tag {
                break;
            }
            found = request.next.get();
        }
        if self.any_count > 0 {
            let mut any = self.posted_any[hash(0, tag, ANY_BUCKETS)].front();
            while let Some(request) = any {
                if request.tag == tag {
                    if found.is_none_or(|found| request.order.get() < found.order.get()) {
                        found = any;
                    }
                    break;
                }
                any = request.next.get();
            }
        }
        let request = found?;
        self.unpost(request);
        Some(request)
    }

    /// The unexpected message that a receive gets, if there is one; it stays in its lists.
    #[inline]
    pub(crate) fn find_unexpected(&self, from: u32, tag: u64) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let (list, bucket) = match from {
            ANY_SOURCE => (1, hash(0, tag, ANY_BUCKETS)),
            _ => (0, hash(from, tag, BUCKETS)),
        };
        let mut index = self.unexpected[list][bucket].head;
        while index != NONE {
            let cell = self.pool.get(index);
            if cell.tag == tag && (from == ANY_SOURCE || cell.source == from) {
                return Some(index);
            }
            index = cell.next[list];
        }
        None
    }

    /// Adds an unexpected message; its cell's source and tag are set.
    pub(crate) fn add_unexpected(&mut self, index: u32) {
        let (source, tag) = (self.pool.get(index).source, self.pool.get(index).tag);
        for (list, bucket) in [(0, hash(source, tag, BUCKETS)), (1, hash(0, tag, ANY_BUCKETS))] {
            let ends = &mut self.unexpected[list][bucket];
            let cell = self.pool.get_mut(index);
            cell.next[list] = NONE;
            cell.prev[list] = ends.tail;
            match ends.tail {
                NONE => ends.head = index,
                tail => self.pool.get_mut(tail).next[list] = index,
            }
            ends.tail = index;
        }
        self.count += 1;
    }

    /// Takes an unexpected message out of its lists; its cell stays taken.
    pub(crate) fn remove_unexpected(&mut self, index: u32) {
        let (source, tag) = (self.pool.get(index).source, self.pool.get(index).tag);
        for (list, bucket) in [(0, hash(source, tag, BUCKETS)), (1, hash(0, tag, ANY_BUCKETS))] {
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
        for bucket in 0..ANY_BUCKETS {
            let mut index = self.unexpected[1][bucket].head;
            while index != NONE {
                let next = self.pool.get(index).next[1];
                if which(self.pool.get(index)) {
                    self.remove_unexpected(index);
                    self.pool.put(index);
                }
                index = next;
            }
        }
    }

    /// A posted receive that `which` points at. Walks everything: for rare events.
    pub(crate) fn find_posted(&self, which: impl Fn(Ref) -> bool) -> Option<Ref> {
        for queue in self.posted.iter().chain(self.posted_any.iter()) {
            let mut at = queue.front();
            while let Some(request) = at {
                if which(request) {
                    return at;
                }
                at = request.next.get();
            }
        }
        None
    }
}
