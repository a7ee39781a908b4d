//! Collectives of ranks that share memory: each member shows what it gives on its board, and reads what the
//! others show. No message is sent, and the engine is not locked.
//!
//! Members agree by two rounds of messages (`set_up`): which place on its board each has, and whether each sees all
//! the others'. All count alike, since all wait for the same collectives; a group that does few is never set up. When a
//! group goes, each member leaves its place, and uses it for another group when all have left
//! (`coll::board`).
//!
//! # One collective
//! All members do the same number at the same time (`net::segment::notice` has the protocol). What is too long for a sheet
//! goes in pieces, each with a number of its own: reductions, and what goes from one to all or from all to one. What all
//! give to all is read where it lies (`lent`). What is longer still, or has an algorithm that the program chose, goes by
//! messages. A member then *passes* the number, so that one that does something else is found out: [`Error::Mismatch`].
//! (`exchange` has the operations.)
//!
//! # Waiting
//! A member looks at the words of the others, then polls for messages as well, gives its core to others that want it,
//! and after a while (`BUDGET` to `LONG`) sleeps: it leaves a mark on the place that it waits for, and receives an empty
//! message that the owner sends when it has shown something. So it hears of deaths and failures as of any message, and
//! a collective that has many late members costs no more than one by messages. (`wait`)
//!
//! # Ranks of one process
//! When all members are of one process they meet instead (`coll::board::meeting`): collectives of any length, from buffer
//! to buffer. One round of messages tells them where. (`meet`) When some are of one process and others not, barriers,
//! broadcasts and allreduces are done in teams: those of a process meet, and their first members do the rest among
//! themselves, by boards or messages. (`teams`)
//!
//! Rejected: a segment for each group (descriptors would have to be passed again, and room found for it; the segments
//! that carry messages are mapped already); a tree (with as many ranks as a node has cores each reads some tens of lines
//! once; the reads overlap, the levels of a tree do not).
//!
//! [`Error::Mismatch`]: crate::Error::Mismatch

mod exchange;
mod lent;
mod meet;
#[cfg(test)]
mod meet_tests;
mod set_up;
mod teams;
#[cfg(test)]
mod tests;
mod wait;

pub(super) use exchange::fits;
pub(super) use lent::is_lent;
pub(crate) use wait::BUDGET;
