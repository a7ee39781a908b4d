//! The places on the own board: which groups have them, and when one that was left is free.
//!
//! Members leave a group at different times, and a late one may still read what the others showed last. So a place is free
//! when each member has come to the number after the last one: the number that a member sets when it leaves.

use marcel::plumbing::KernelMutex;

use crate::coll::board::members::Board;
use crate::net::segment::PLACES;
use crate::net::segment::board::Place;
use crate::session::Inner;

/// Those of a process: its ranks share them.
#[derive(Default)]
pub(in crate::coll) struct Places(KernelMutex<[Use; PLACES]>);

enum Use {
    /// Numbers up to this were used.
    Free(u64),
    Taken,
    /// Left at this number, and free when the others have come to theirs.
    Left(u64, Vec<(Place, u64)>),
}

impl Default for Use {
    fn default() -> Use {
        Use::Free(0)
    }
}

impl Use {
    /// The number after which it may be used, if it may.
    fn free(&self) -> Option<u64> {
        match self {
            Use::Free(last) => Some(*last),
            Use::Taken => None,
            Use::Left(last, others) => {
                let gone = |(place, number): &(Place, u64)| place.words().has_come_to(*number);
                others.iter().all(gone).then_some(*last)
            }
        }
    }
}

impl Places {
    /// Those of the process of this rank.
    pub(in crate::coll) fn of(session: &Inner) -> &Places {
        session.process_extensions().get()
    }

    /// Takes one: its index, and the number that its collectives count from.
    pub(in crate::coll) fn take(&self) -> Option<(usize, u64)> {
        let mut places = self.0.lock();
        let free = |(index, place): (usize, &Use)| Some((index, place.free()?));
        let (index, last) = places.iter().enumerate().find_map(free)?;
        places[index] = Use::Taken;
        Some((index, last))
    }

    /// Gives one back that was not used.
    pub(in crate::coll) fn give_back(&self, index: usize, base: u64) {
        self.0.lock()[index] = Use::Free(base);
    }

    /// Leaves one.
    pub(in crate::coll) fn leave(&self, board: Board) {
        let Board { members, number, index, .. } = board;
        let Some(own) = members.iter().position(|member| member.own) else { return };
        let last = members[own].base + number + 1;
        members[own].place.words().leave(last);
        let others = members.into_iter().filter(|member| !member.own);
        let others = others.map(|member| (member.place, member.base + number + 1)).collect();
        self.0.lock()[index] = Use::Left(last, others);
    }
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Places")
    }
}
