//! The deadlines that are still to come: a binary heap of pointers to nodes, each of which knows its place.
//!
//! Inserting may allocate; taking out never does, so that the progress path can. Memory follows the number of
//! timers: it is given back, by removals, when three quarters are unused.

use std::cell::Cell;

use crate::completion::one_shot::Completion;

/// Not in the heap.
const NOWHERE: usize = usize::MAX;

/// A deadline, and what is completed at it. In place while it is in a heap; touched under the heap's lock.
pub(crate) struct Node {
    deadline: Cell<u64>,
    place: Cell<usize>,
    target: Cell<*const Completion>,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node {
            deadline: Cell::new(0),
            place: Cell::new(NOWHERE),
            target: Cell::new(std::ptr::null()),
        }
    }
}

/// Earliest first. Pointers in it are to nodes in place.
#[derive(Default)]
pub(crate) struct Heap(Vec<*const Node>);

// SAFETY: the nodes that it points to are touched by the holder of the heap only.
unsafe impl Send for Heap {}

impl Heap {
    /// The earliest deadline.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.0.first().map(|&node| self.deadline(node))
    }

    fn deadline(&self, node: *const Node) -> u64 {
        // SAFETY: in the heap, so in place.
        unsafe { &*node }.deadline.get()
    }

    fn put(&mut self, place: usize, node: *const Node) {
        self.0[place] = node;
        // SAFETY: as above.
        unsafe { &*node }.place.set(place);
    }

    /// # Safety
    /// `node` and `target` stay in place until the node is out of the heap again. It is in none now.
    pub(crate) unsafe fn insert(&mut self, node: &Node, deadline: u64, target: *const Completion) {
        debug_assert_eq!(node.place.get(), NOWHERE);
        node.deadline.set(deadline);
        node.target.set(target);
        self.0.push(node);
        self.up(self.0.len() - 1, node);
    }

    /// Takes a node out; false if it is not in.
    pub(crate) fn remove(&mut self, node: &Node) -> bool {
        let place = node.place.get();
        if place == NOWHERE {
            return false;
        }
        self.take(place);
        if self.0.capacity() > 64 && self.0.capacity() / 4 > self.0.len() {
            self.0.shrink_to(self.0.capacity() / 2);
        }
        true
    }

    /// Takes out the earliest, if its time has come by `now`: what is to be completed. Progress path.
    pub(crate) fn due(&mut self, now: u64) -> Option<*const Completion> {
        let first = *self.0.first()?;
        if self.deadline(first) > now {
            return None;
        }
        self.take(0);
        // SAFETY: in place until its target is complete.
        Some(unsafe { &*first }.target.get())
    }

    fn take(&mut self, place: usize) {
        let node = self.0.swap_remove(place);
        // SAFETY: was in the heap until now, under the lock, so in place.
        unsafe { &*node }.place.set(NOWHERE);
        if let Some(&moved) = self.0.get(place) {
            self.up(place, moved);
            // SAFETY: in the heap.
            self.down(unsafe { &*moved }.place.get(), moved);
        }
    }

    fn up(&mut self, mut place: usize, node: *const Node) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.deadline(self.0[parent]) <= self.deadline(node) {
                break;
            }
            self.put(place, self.0[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    fn down(&mut self, mut place: usize, node: *const Node) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let Some(&first) = self.0.get(left) else { break };
            let child = match self.0.get(right) {
                Some(&second) if self.deadline(second) < self.deadline(first) => right,
                _ => left,
            };
            if self.deadline(self.0[child]) >= self.deadline(node) {
                break;
            }
            self.put(place, self.0[child]);
            place = child;
        }
        self.put(place, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(usize, u64),
        Remove(usize),
        Due(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..300, 0u64..100).prop_map(|(i, d)| Step::Insert(i, d)),
            1 => (0usize..300).prop_map(Step::Remove),
            1 => (0u64..100).prop_map(Step::Due),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_heap_is_a_sorted_list(steps in prop::collection::vec(step(), 1..1200)) {
            let nodes: Vec<Node> = (0..300).map(|_| Node::new()).collect();
            let targets: Vec<Completion> = (0..300).map(|_| Completion::new()).collect();
            let mut heap = Heap::default();
            let mut model: Vec<Option<u64>> = vec![None; 300];
            for step in steps {
                match step {
                    Step::Insert(i, deadline) if model[i].is_none() => {
                        // SAFETY: in place until the end.
                        unsafe { heap.insert(&nodes[i], deadline, &targets[i]) };
                        model[i] = Some(deadline);
                    }
                    Step::Insert(..) => {}
                    Step::Remove(i) => {
                        prop_assert_eq!(heap.remove(&nodes[i]), model[i].take().is_some());
                    }
                    Step::Due(now) => {
                        let least = model.iter().flatten().min().copied();
                        match heap.due(now) {
                            None => prop_assert!(least.is_none_or(|l| l > now)),
                            Some(target) => {
                                let i = targets.iter().position(|t| std::ptr::eq(t, target));
                                let deadline = model[i.unwrap()].take();
                                prop_assert!(deadline == least && deadline <= Some(now));
                            }
                        }
                    }
                }
                prop_assert_eq!(heap.earliest(), model.iter().flatten().min().copied());
                prop_assert!(heap.0.capacity() <= 64.max(8 * heap.0.len().max(16)).max(600));
            }
        }
    }
}
