//! Matching against an oracle that looks through lists: which was posted first, what arrived first.

use std::ptr::NonNull;

use proptest::prelude::*;

use super::Matching;
use crate::matching::pool::{Content, NONE};
use crate::request::tag::{EXACT, RESERVED};
use crate::request::{ANY_SOURCE, Ref, Request};

/// What a receive asks for.
#[derive(Clone, Copy, Debug)]
struct Wish {
    from: u32,
    tag: u64,
    mask: u64,
}

impl Wish {
    fn takes(&self, source: u32, tag: u64) -> bool {
        (self.from == ANY_SOURCE || self.from == source) && tag & self.mask == self.tag & self.mask
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(Wish),
    Arrive {
        source: u32,
        tag: u64,
    },
    /// Takes back one of the posted receives.
    Cancel(usize),
    /// Takes hold of a message.
    Hold(Wish),
    /// Puts one of those back.
    PutBack(usize),
    /// Everything from there that was not received is dropped.
    Drop(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mask = prop_oneof![3 => Just(EXACT), 1 => Just(RESERVED), 1 => Just(RESERVED | 1), 1 => Just(RESERVED | 6)];
    let from = prop_oneof![2 => 0u32..3, 1 => Just(ANY_SOURCE)];
    let wish = (from, 0u64..4, mask).prop_map(|(from, tag, mask)| Wish { from, tag, mask });
    let step = prop_oneof![
        8 => wish.clone().prop_map(Step::Post),
        8 => (0u32..3, 0u64..4).prop_map(|(source, tag)| Step::Arrive { source, tag }),
        2 => (0usize..8).prop_map(Step::Cancel),
        2 => wish.prop_map(Step::Hold),
        2 => (0usize..4).prop_map(Step::PutBack),
        1 => (0u32..3).prop_map(Step::Drop),
    ];
    proptest::collection::vec(step, 1..120)
}

/// The real tables, and lists in order beside them: receives with their number, messages with theirs.
struct Both {
    matching: Matching,
    #[allow(clippy::vec_box, reason = "requests stay where they are while the vector grows")]
    requests: Vec<Box<Request>>,
    posted: Vec<(usize, Wish)>,
    messages: Vec<(usize, u32, u64)>,
    held: Vec<(u32, (usize, u32, u64))>,
    arrived: usize,
}

impl Both {
    fn new() -> Both {
        Both {
            matching: Matching::new(1, 64, 1 << 20),
            requests: Vec::new(),
            posted: Vec::new(),
            messages: Vec::new(),
            held: Vec::new(),
            arrived: 0,
        }
    }

    /// Which receive that is.
    fn number(&self, request: Ref) -> usize {
        self.requests.iter().position(|other| std::ptr::eq(&**other, &*request)).unwrap()
    }

    fn post(&mut self, wish: Wish) {
        let expected = self.messages.iter().position(|&(_, source, tag)| wish.takes(source, tag));
        let Wish { from, tag, mask } = wish;
        let nothing: *mut [u8] = std::ptr::slice_from_raw_parts_mut(std::ptr::dangling_mut(), 0);
        // SAFETY: nothing is ever received into it.
        let request = unsafe { Request::recv(from, tag, nothing, false) }.masked(mask);
        let found = self.matching.find_unexpected(0, from, request.tag, mask);
        let message = expected.map(|at| self.messages.remove(at));
        assert_eq!(found.map(|cell| self.matching.pool.get(cell).len), message.map(|m| m.0));
        match found {
            Some(cell) => {
                self.matching.remove_unexpected(cell);
                self.matching.pool.put(cell);
            }
            None => {
                let number = self.requests.len();
                self.requests.push(Box::new(request));
                // SAFETY: boxed until the end of the test.
                let request = unsafe { Ref::new(NonNull::from(&*self.requests[number])) };
                self.matching.post(request);
                self.posted.push((number, wish));
            }
        }
    }

    /// Which receive takes it, if any; both ways.
    fn take(&mut self, source: u32, tag: u64) -> bool {
        let expected = self.posted.iter().position(|(_, wish)| wish.takes(source, tag));
        let expected = expected.map(|at| self.posted.remove(at).0);
        let found = self.matching.take_posted(0, source, tag);
        assert_eq!(found.map(|request| self.number(request)), expected);
        assert!(found.is_none_or(|request| request.matched.get() == tag));
        found.is_some()
    }

    fn arrive(&mut self, source: u32, tag: u64) {
        let number = self.arrived;
        self.arrived += 1;
        if self.take(source, tag) {
            return;
        }
        let index = self.matching.pool.take(0).unwrap();
        let cell = self.matching.pool.get_mut(index);
        // The length stands for the message's number.
        (cell.source, cell.tag, cell.len, cell.content) = (source, tag, number, Content::Eager);
        self.matching.add_unexpected(index);
        self.messages.push((number, source, tag));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Post(wish) => self.post(wish),
            Step::Arrive { source, tag } => self.arrive(source, tag),
            Step::Cancel(at) => {
                if at < self.posted.len() {
                    let number = self.posted.remove(at).0;
                    // SAFETY: as in `post`.
                    let request = unsafe { Ref::new(NonNull::from(&*self.requests[number])) };
                    self.matching.unpost(request);
                }
            }
            Step::Hold(wish) => {
                let takes = |&(_, source, tag): &(usize, u32, u64)| wish.takes(source, tag);
                let Some(at) = self.messages.iter().position(takes) else { return };
                let message = self.messages.remove(at);
                let Wish { from, tag, mask } = wish;
                let cell = self.matching.find_unexpected(0, from, tag & mask, mask).unwrap();
                assert_eq!(self.matching.pool.get(cell).len, message.0);
                self.matching.remove_unexpected(cell);
                self.held.push((cell, message));
            }
            Step::PutBack(at) => {
                if at < self.held.len() {
                    let (cell, (number, source, tag)) = self.held.remove(at);
                    if self.take(source, tag) {
                        self.matching.pool.put(cell);
                        return;
                    }
                    self.matching.readd_unexpected(cell);
                    let place = self.messages.partition_point(|message| message.0 < number);
                    self.messages.insert(place, (number, source, tag));
                }
            }
            Step::Drop(from) => {
                self.matching.drop_unexpected(|cell| cell.source == from);
                self.messages.retain(|&(_, source, _)| source != from);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn exact_any_and_masked_receives_match_in_the_order_of_posting_and_arrival(steps in steps()) {
        let mut both = Both::new();
        for step in steps {
            both.run(step);
        }
        // Whatever is left comes out in order.
        while let Some(cell) = both.matching.find_unexpected(0, ANY_SOURCE, 0, RESERVED) {
            let number = both.messages.remove(0).0;
            prop_assert_eq!(both.matching.pool.get(cell).len, number);
            both.matching.remove_unexpected(cell);
        }
        prop_assert!(both.messages.is_empty());
        let Both { matching, posted, .. } = &mut both;
        for _ in 0..posted.len() {
            let request = matching.find_posted(|_| true).unwrap();
            matching.unpost(request);
        }
        prop_assert!(matching.find_posted(|_| true).is_none());
        prop_assert_eq!(matching.first.wild, 0);
        prop_assert_eq!(matching.first.count, 0);
        prop_assert!(matching.first.unexpected.iter().flatten().all(|ends| ends.head == NONE && ends.tail == NONE));
    }
}
