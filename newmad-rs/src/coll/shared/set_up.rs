//! The members of a group agree on its places.

use std::cell::Cell;
use std::time::Duration;

use pioman::plumbing::CoreHandle;
use pioman::policy::Limit;

use crate::coll::algo::choose::Algorithm;
use crate::coll::board::{Board, Member, Places, Stage};
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::{as_bytes, as_bytes_mut};
use crate::coll::shared::wait::BUDGET;
use crate::coll::task::{Blocks, Task};
use crate::error::Error;
use crate::net::driver::Driver;
use crate::net::segment::board::Place;

/// What members tell each other first: whether they have a place, which, and its base.
type Offer = [u64; 3];

impl Group {
    /// By messages, from each to each: after that all links are there.
    pub(super) fn tell_all<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>, Error> {
        let mut all = vec![[0; N]; self.size() as usize];
        all[self.rank() as usize] = own;
        let task = Task::Allgather { blocks: Blocks::Even(size_of_val(&own)) };
        let output = as_bytes_mut(&mut all) as *mut [u8];
        let memory = Memory { input: as_bytes::<u64>(&[]), output };
        let plan = self.plan(&task, Algorithm::Linear, None, &memory, true)?;
        // SAFETY: the memory is here until this returns, has the length that the task says, and any bytes are numbers.
        unsafe { self.by_messages(plan, None, memory)? };
        Ok(all)
    }

    /// The group's first stage after it has counted: [`Stage::On`] at all members, or at none.
    ///
    /// # Errors
    /// As of a collective.
    pub(in crate::coll) fn set_up(&self) -> Result<Stage, Error> {
        if self.context.of_one {
            return self.agree_on_meeting();
        }
        if let Some(teams) = self.division() {
            return self.set_up_teams(teams);
        }
        let engine = &self.context.session.engine;
        // All have the same rails. Where none has memory to share, to tell each from each would only make links.
        if !engine.with(|core| core.gates.rails.iter().any(|rail| rail.driver.has_segments())) {
            return Ok(Stage::Off);
        }
        let places = Places::of(&self.context.session);
        let taken = places.take();
        let (index, base) = taken.unwrap_or_default();
        let board =
            self.tell_all([u64::from(taken.is_some()), index as u64, base]).and_then(|offers| {
                let board = self.board(&offers, index);
                let all = self.tell_all([
                    u64::from(board.is_some()),
                    u64::from(marcel::topology::is_oversubscribed()),
                    u64::from(board.as_ref().is_some_and(|board| board.lends)),
                ])?;
                let crowded = all.iter().any(|&[_, crowded, _]| crowded == 1);
                let lends = all.iter().all(|&[.., lends]| lends == 1);
                let board = board.filter(|_| all.iter().all(|&[can, ..]| can == 1));
                Ok(board.map(|board| Board { crowded, lends, ..board }))
            });
        match board {
            Ok(Some(board)) => Ok(Stage::On(board)),
            Ok(None) => {
                if taken.is_some() {
                    places.give_back(index, base);
                }
                Ok(Stage::Off)
            }
            // Others may have agreed, and read there: it is not used again.
            Err(error) => Err(error),
        }
    }

    /// The places of all members, if this one sees them.
    fn board(&self, offers: &[Offer], index: usize) -> Option<Board> {
        let me = self.rank() as usize;
        let other = self.members()[usize::from(me == 0)];
        let engine = &self.context.session.engine;
        let segments = |peer: u32| {
            engine.with(|core| {
                let peer = core.gates.ranks.home(peer);
                let mut rails = core.gates.rails.iter();
                rails.find_map(|rail| rail.driver.segments(peer))
            })
        };
        let process = |peer: u32| {
            engine.with(|core| {
                let peer = core.gates.ranks.home(peer);
                core.gates.rails.iter().find_map(|rail| rail.driver.readable_process(peer))
            })
        };
        let [mine, _] = segments(other)?;
        let member = |rank: usize| {
            let [can, index, base] = offers[rank];
            let own = rank == me;
            let segment = match own {
                true => mine.clone(),
                false => segments(self.members()[rank])?[1].clone(),
            };
            let place = Place::new(&segment, index as usize).filter(|_| can == 1)?;
            let process = if own { None } else { process(self.members()[rank]) };
            Some(Member { place, base, process, own })
        };
        let members: Option<Box<[Member]>> = (0..offers.len()).map(member).collect();
        let members = members?;
        // A member of an earlier group may have left a mark, and has withdrawn it or is gone.
        members[me].place.words().clear_marks();
        let limit = match CoreHandle::of(&self.context.session.manager).snapshot().limit {
            Limit::For(limit) => limit,
            Limit::Auto | Limit::Never => Duration::MAX,
        };
        let budget = Cell::new(BUDGET.min(limit));
        let lends = members.iter().all(|member| member.own || member.process.is_some());
        let crowded = true;
        Some(Board { members, number: 0, all_came: 0, limit, budget, crowded, lends, index })
    }
}
