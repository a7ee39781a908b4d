//! What a group knows of its members' boards, where short collectives go without messages (`coll::shared`), and of the
//! meeting of members that share a process.

mod meeting;
mod members;
mod places;
mod stage;

pub(super) use meeting::{Deposit, Ended, Hears, Meeting};
pub(super) use members::{Board, Member};
pub(super) use places::Places;
#[cfg(test)]
pub(super) use stage::SOME;
pub(super) use stage::{MOST, Shared, Stage};
