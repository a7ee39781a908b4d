//! Lock-free stacks of immortal nodes, linked through the nodes: nothing to allocate, and never full.
//!
//! A pop reads the link of the top node, which may have been taken and put back meanwhile (ABA); so the top word holds
//! a tag beside the pointer, which changes with every pop. Nodes live forever, hence a link that is read too late is a
//! wrong number, never a wild access, and the exchange that follows fails. They are aligned to 256 bytes, which
//! leaves 24 bits for the tag: a popper would have to be away for exactly a multiple of 16.7 million pops, half a
//! second of nothing else at the least, and find the same node on top.
//!
//! A [`Lane`] makes a queue of two of them: what is new goes on `fresh`, and when `ready` is empty the next popper
//! takes all of `fresh` and puts it there the other way round. So a lane is first in, first out, but for what two
//! poppers turn around at the same time. There is no lock, and so no holder to wait for.
//!
//! Rejected: rings (they are full one day, and then a submitter spins); one list under a try-lock (a
//! holder that is descheduled hides the tasks from all others, and a push may not wait either); the queue of
//! Michael and Scott (the node that was popped stays in the queue, so it cannot be queued again at once).

use std::marker::PhantomData;
use std::ptr::null;

use crate::shim::{AtomicU64, Ordering::*};

/// What can be in a stack, in one at a time.
pub(crate) trait Linked: Sync + 'static {
    fn link(&self) -> &AtomicU64;
}

/// A node with nothing but a value, for tests and benches.
#[cfg(any(test, feature = "bench-internals"))]
#[derive(Debug, Default)]
#[repr(align(256))]
pub(crate) struct Bare<T = ()> {
    link: AtomicU64,
    #[cfg_attr(not(test), expect(dead_code, reason = "benches need none"))]
    value: T,
}

#[cfg(any(test, feature = "bench-internals"))]
impl<T: Sync + 'static> Linked for Bare<T> {
    fn link(&self) -> &AtomicU64 {
        &self.link
    }
}

#[cfg(any(test, feature = "bench-internals"))]
impl<T> Bare<T> {
    /// A new one, which is never freed, as blocks of tasks are.
    pub(crate) fn leak(value: T) -> &'static Bare<T> {
        Box::leak(Box::new(Bare { link: AtomicU64::new(0), value }))
    }
}

/// See the module's description.
pub(crate) struct Stack<T: 'static> {
    top: AtomicU64,
    _nodes: PhantomData<&'static T>,
}

const TAG_BITS: u32 = 24;
const TAG: u64 = (1 << TAG_BITS) - 1;
const ALIGN_BITS: u32 = 8;

fn pack<T>(node: *const T, tag: u64) -> u64 {
    (node.expose_provenance() as u64) << (TAG_BITS - ALIGN_BITS) | tag & TAG
}

/// # Safety
/// `word` was packed from a node that lives forever, or null.
unsafe fn unpack<T>(word: u64) -> Option<&'static T> {
    let address = (word >> TAG_BITS << ALIGN_BITS) as usize;
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance::<T>(address).as_ref() }
}

impl<T: Linked> Stack<T> {
    const ALIGNED: () = assert!(align_of::<T>() >= 1 << ALIGN_BITS);

    #[cfg(not(loom))]
    pub(crate) const fn new() -> Stack<T> {
        Stack { top: AtomicU64::new(0), _nodes: PhantomData }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Stack<T> {
        Stack { top: AtomicU64::new(0), _nodes: PhantomData }
    }

    /// Whether a node's address leaves room for the tag: so it is on every machine known, whose user addresses have
    /// 48 bits at the most unless a program asks for more.
    pub(crate) fn fits(node: &T) -> bool {
        (node as *const T).addr() as u64 >> (64 - TAG_BITS + ALIGN_BITS) == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(Acquire) & !TAG == 0
    }

    /// Anywhere, signal handlers included. The node is in no stack.
    pub(crate) fn push(&self, node: &'static T) {
        self.push_chain(node, node);
    }

    /// `first` to `last` are linked already, and the caller's.
    fn push_chain(&self, first: &'static T, last: &'static T) {
        let () = Self::ALIGNED;
        debug_assert!(Self::fits(first));
        let mut top = self.top.load(Relaxed);
        loop {
            last.link().store(top & !TAG, Relaxed);
            match self.top.compare_exchange_weak(top, pack(first, top), Release, Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    pub(crate) fn pop(&self) -> Option<&'static T> {
        let mut top = self.top.load(Acquire);
        loop {
            // SAFETY: only nodes are pushed, and they are `'static`.
            let node = unsafe { unpack::<T>(top) }?;
            let next = node.link().load(Relaxed) | top.wrapping_add(1) & TAG;
            match self.top.compare_exchange_weak(top, next, AcqRel, Acquire) {
                Ok(_) => return Some(node),
                Err(seen) => top = seen,
            }
        }
    }

    /// Takes all, newest first: the chain is the caller's.
    fn take(&self) -> Option<&'static T> {
        let mut top = self.top.load(Relaxed);
        while top & !TAG != 0 {
            let empty = pack(null::<T>(), top.wrapping_add(1));
            match self.top.compare_exchange_weak(top, empty, AcqRel, Relaxed) {
                // SAFETY: as in `pop`.
                Ok(_) => return unsafe { unpack(top) },
                Err(seen) => top = seen,
            }
        }
        None
    }
}

/// A queue; see the module's description.
pub(crate) struct Lane<T: 'static> {
    fresh: Stack<T>,
    ready: Stack<T>,
}

impl<T: Linked> Lane<T> {
    pub(crate) fn new() -> Lane<T> {
        Lane { fresh: Stack::new(), ready: Stack::new() }
    }

    /// Whether nothing is in it, but for what a popper is turning around.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.fresh.is_empty()
    }

    pub(crate) fn push(&self, node: &'static T) {
        self.fresh.push(node);
    }

    /// The oldest; calls `turned` after others have become visible again that were not for a moment.
    pub(crate) fn pop(&self, turned: impl FnOnce()) -> Option<&'static T> {
        if let Some(node) = self.ready.pop() {
            return Some(node);
        }
        let last = self.fresh.take()?;
        let mut first = last;
        let mut newer = None;
        // SAFETY: a chain of nodes, which is ours since the exchange.
        while let Some(older) = unsafe { unpack::<T>(first.link().load(Relaxed)) } {
            first.link().store(newer.map_or(0, |node: &T| pack(node, 0)), Relaxed);
            newer = Some(first);
            first = older;
        }
        if let Some(second) = newer {
            self.ready.push_chain(second, last);
            turned();
        }
        Some(first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicUsize;

    /// Its number, and how often it is out.
    type Node = Bare<(usize, AtomicUsize)>;

    fn nodes(n: usize) -> Vec<&'static Node> {
        (0..n).map(|i| Bare::leak((i, AtomicUsize::new(0)))).collect()
    }

    proptest::proptest! {
        /// By one thread a lane is a queue.
        #[test]
        fn a_lane_is_first_in_first_out(acts in proptest::collection::vec(proptest::bool::ANY, 0..200)) {
            let nodes = nodes(200);
            let lane = Lane::new();
            let mut oracle = VecDeque::new();
            for (i, push) in acts.into_iter().enumerate() {
                if push {
                    lane.push(nodes[i]);
                    oracle.push_back(i);
                } else {
                    proptest::prop_assert_eq!(lane.pop(|| ()).map(|node| node.value.0), oracle.pop_front());
                }
                proptest::prop_assert_eq!(lane.is_empty(), oracle.is_empty());
            }
        }
    }

    /// Few nodes that go round and round, so that tags matter: none is ever out twice, none is lost.
    #[test]
    fn nodes_that_are_queued_again_at_once_are_never_out_twice() {
        let nodes = nodes(4);
        let lane = Lane::new();
        nodes.into_iter().for_each(|node| lane.push(node));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        if let Some(node) = lane.pop(|| ()) {
                            assert_eq!(node.value.1.fetch_add(1, AcqRel), 0);
                            node.value.1.store(0, Release);
                            lane.push(node);
                        }
                    }
                });
            }
        });
        let mut left: Vec<_> =
            std::iter::from_fn(|| lane.pop(|| ())).map(|node| node.value.0).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 3]);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// How often it is out.
    type Node = Bare<AtomicUsize>;

    fn node() -> &'static Node {
        Bare::leak(AtomicUsize::new(0))
    }

    fn take(lane: &Lane<Node>) -> Option<&'static Node> {
        let node = lane.pop(|| ())?;
        assert_eq!(node.value.fetch_add(1, AcqRel), 0, "out twice");
        Some(node)
    }

    fn rest(lane: &Lane<Node>) -> usize {
        std::iter::from_fn(|| take(lane)).count()
    }

    #[test]
    fn two_push_and_two_pop() {
        loom::model(|| {
            let lane = Arc::new(Lane::new());
            lane.push(node());
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let lane = lane.clone();
                    thread::spawn(move || {
                        lane.push(node());
                        take(&lane).is_some() as usize
                    })
                })
                .collect();
            let taken: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            assert_eq!(taken + rest(&lane), 3);
        });
    }

    /// One node goes round while another popper is about to take it.
    #[test]
    fn a_node_that_comes_back_at_once() {
        loom::model(|| {
            let lane = Arc::new(Lane::new());
            lane.push(node());
            lane.push(node());
            let other = {
                let lane = lane.clone();
                thread::spawn(move || {
                    let node = take(&lane)?;
                    let second = take(&lane);
                    node.value.store(0, Release);
                    lane.push(node);
                    Some(second.is_some())
                })
            };
            let mine = take(&lane).is_some() as usize;
            let theirs = matches!(other.join().unwrap(), Some(true)) as usize;
            assert_eq!(mine + theirs + rest(&lane), 2);
        });
    }
}
