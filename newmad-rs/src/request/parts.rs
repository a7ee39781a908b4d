//! How a large message is divided: what the sender gave to which rail, and what the receiver has.
//!
//! The sender's parts follow each other and cover what is not known to have arrived. Each is sent from its beginning to
//! its end over one rail; when that rail's link breaks the part belongs to no rail, and what was given to that rail is
//! *lost* until the receiver has said what it has (`proto/missing.rs`). What it has is a beginning of each part, and as
//! many ranges as parts are always enough for it.

use core::cell::Cell;
use core::mem::MaybeUninit;

use crate::wire::MAX_RAILS;

/// Most parts of one message.
pub(crate) const SPLIT_MAX: usize = MAX_RAILS;

/// The sender's part: `from..at` has been given to the rail, `at..to` not yet. The receiver's range: `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) from: usize,
    pub(crate) at: usize,
    pub(crate) to: usize,
    /// The sender's: by which rail it goes; none yet.
    pub(crate) rail: Option<u8>,
    /// The sender's: what became of `from..at` is not known.
    lost: Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    No,
    /// The receiver is to be asked.
    Yes,
    /// It was asked.
    Asked,
}

/// The parts of one message. Making one costs nothing: most messages are short and have none. The count comes first, on the
/// line of what is written for each message.
#[repr(C)]
pub(crate) struct Parts {
    count: Cell<u8>,
    parts: [Cell<MaybeUninit<Part>>; SPLIT_MAX],
}

impl Parts {
    #[inline]
    pub(crate) fn new() -> Parts {
        Parts {
            count: Cell::new(0),
            parts: [const { Cell::new(MaybeUninit::uninit()) }; SPLIT_MAX],
        }
    }

    pub(crate) fn clear(&self) {
        self.count.set(0);
    }

    /// Whether the message was divided, or pieces of it have come.
    pub(crate) fn are_there(&self) -> bool {
        self.len() > 0
    }

    fn len(&self) -> usize {
        usize::from(self.count.get())
    }

    fn get(&self, index: usize) -> Option<Part> {
        // SAFETY: the first `count` parts have been written by `put`, and a part is plain data.
        (index < self.len()).then(|| unsafe { self.parts[index].get().assume_init() })
    }

    fn put(&self, index: usize, part: Part) {
        self.parts[index].set(MaybeUninit::new(part));
    }

    /// Divides a message of `total` bytes: so many for each rail, and the last gets what is left over.
    pub(crate) fn divide(&self, shares: &[usize; MAX_RAILS], total: usize) {
        self.clear();
        let mut from = 0;
        for (rail, &share) in shares.iter().enumerate() {
            let to = if rail + 1 == MAX_RAILS { total } else { total.min(from + share) };
            if from < to {
                let rail = (share > 0).then_some(rail as u8);
                self.put(self.len(), Part { from, at: from, to, rail, lost: Lost::No });
                self.count.set(self.count.get() + 1);
                from = to;
            }
        }
    }

    /// The part that a rail is to go on with; takes one that belongs to no rail if there is none.
    pub(crate) fn next_for(&self, rail: u8) -> Option<(usize, Part)> {
        let parts = || (0..self.len()).filter_map(|index| Some((index, self.get(index)?)));
        let unsent = |part: &Part| part.at < part.to;
        if let Some(found) = parts().find(|(_, part)| part.rail == Some(rail) && unsent(part)) {
            return Some(found);
        }
        let free = |part: &Part| part.rail.is_none() && part.lost == Lost::No && unsent(part);
        let (index, part) = parts().find(|(_, part)| free(part))?;
        let part = Part { rail: Some(rail), ..part };
        self.put(index, part);
        Some((index, part))
    }

    /// So many bytes more of a part have been given to its rail. True: all parts are sent.
    pub(crate) fn sent(&self, index: usize, bytes: usize) -> bool {
        if let Some(part) = self.get(index) {
            self.put(index, Part { at: (part.at + bytes).min(part.to), ..part });
        }
        self.are_sent()
    }

    fn are_sent(&self) -> bool {
        let sent = |part: Part| part.at == part.to && part.lost == Lost::No;
        (0..self.len()).filter_map(|index| self.get(index)).all(sent)
    }

    /// Whether something was given to that rail, or was to be.
    pub(crate) fn went_by(&self, rail: u8) -> bool {
        (0..self.len()).any(|index| self.get(index).is_some_and(|part| part.rail == Some(rail)))
    }

    /// What was given to that rail may not have arrived: it belongs to no rail. Whether there is something to ask for.
    pub(crate) fn mark_lost(&self, rail: u8) -> bool {
        for index in 0..self.len() {
            if let Some(part) = self.get(index).filter(|part| part.rail == Some(rail)) {
                let lost = if part.from < part.at { Lost::Yes } else { Lost::No };
                self.put(index, Part { rail: None, lost, ..part });
            }
        }
        self.to_ask()
    }

    /// Whether the receiver is to be asked what it has.
    pub(crate) fn to_ask(&self) -> bool {
        (0..self.len()).any(|index| self.get(index).is_some_and(|part| part.lost == Lost::Yes))
    }

    /// It was asked.
    pub(crate) fn mark_asked(&self) {
        self.change_lost(|part| Part { lost: Lost::Asked, ..part });
    }

    /// Of what is lost the receiver has `from..to`.
    pub(crate) fn peer_has(&self, from: usize, to: usize) {
        self.change_lost(|part| match (from <= part.from, part.to <= to) {
            (true, _) => Part { from: part.from.max(to.min(part.to)), ..part },
            (false, true) => Part { to: part.to.min(from.max(part.from)), ..part },
            (false, false) => part,
        });
    }

    /// The receiver has said everything: what is left of the lost parts is to be sent. True: all parts are sent.
    pub(crate) fn resend_missing(&self) -> bool {
        self.change_lost(|part| Part { at: part.from, lost: Lost::No, ..part });
        self.are_sent()
    }

    fn change_lost(&self, change: impl Fn(Part) -> Part) {
        for index in 0..self.len() {
            if let Some(part) = self.get(index).filter(|part| part.lost != Lost::No) {
                self.put(index, change(part));
            }
        }
    }

    /// What the receiver has, as ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.len()).filter_map(|index| self.get(index)).map(|part| (part.from, part.to))
    }

    /// Whether the receiver has the byte at `at`, and of how many from there on the same is true.
    pub(crate) fn received_at(&self, at: usize) -> (bool, usize) {
        let mut gap = usize::MAX;
        for part in (0..self.len()).filter_map(|index| self.get(index)) {
            if part.from <= at && at < part.to {
                return (true, part.to - at);
            }
            if at < part.from {
                gap = gap.min(part.from - at);
            }
        }
        (false, gap)
    }

    /// Notes that the receiver has `from..to`. `None`: there are more ranges than an honest sender makes.
    /// Otherwise how much it has in all.
    pub(crate) fn add_received(&self, mut from: usize, mut to: usize) -> Option<usize> {
        // What touches the new range becomes part of it.
        let (mut kept, mut total) = (0, 0);
        for index in 0..self.len() {
            let Some(part) = self.get(index) else { continue };
            if part.from <= to && from <= part.to {
                from = from.min(part.from);
                to = to.max(part.to);
            } else {
                self.put(kept, part);
                kept += 1;
                total += part.to - part.from;
            }
        }
        if kept == SPLIT_MAX {
            return None;
        }
        self.put(kept, Part { from, at: to, to, rail: None, lost: Lost::No });
        self.count.set(kept as u8 + 1);
        Some(total + to - from)
    }
}

impl core::fmt::Debug for Parts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries((0..self.len()).filter_map(|index| self.get(index))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_count_each_byte_once(pieces in proptest::collection::vec((0usize..40, 1usize..20), 0..40)) {
            let parts = Parts::new();
            let mut bytes = [false; 64];
            for (from, len) in pieces {
                let mut with = bytes;
                with[from..from + len].fill(true);
                let ranges = with.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                match parts.add_received(from, from + len) {
                    Some(have) => {
                        bytes = with;
                        prop_assert_eq!(have, bytes.iter().filter(|byte| **byte).count());
                        let (has, run) = parts.received_at(from);
                        prop_assert!(has && bytes[from..from + run].iter().all(|byte| *byte));
                        prop_assert!(from + run == 64 || !bytes[from + run]);
                        let gap = bytes[..from].iter().rev().take_while(|byte| !**byte).count();
                        prop_assert!(gap == 0 || parts.received_at(from - gap) == (false, gap));
                    }
                    None => prop_assert!(ranges > SPLIT_MAX),
                }
            }
        }
    }

    #[test]
    fn what_no_rail_has_is_taken_by_the_next() {
        let parts = Parts::new();
        parts.divide(&[10, 0, 20, 0], 35);
        let (index, part) = parts.next_for(1).unwrap();
        assert_eq!((part.from, part.to), (30, 35));
        assert!(!parts.sent(index, 5));
        assert!(parts.next_for(1).is_none());
        let (index, part) = parts.next_for(2).unwrap();
        assert_eq!((part.from, part.to), (10, 30));
        assert!(!parts.sent(index, 20));
        assert!(parts.next_for(2).is_none());
        let (index, _) = parts.next_for(0).unwrap();
        assert!(parts.sent(index, 10));
    }
}
