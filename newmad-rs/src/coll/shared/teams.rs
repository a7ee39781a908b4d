//! Groups of several processes of which some hold several members: the members of a process are a *team*.
//!
//! | operation | first | then the leaders | last |
//! |---|---|---|---|
//! | barrier | each team meets | a barrier | each team meets |
//! | bcast | the root's team has it | a bcast | the other teams have it |
//! | allreduce | each leader has its team's | an allreduce | each team has it |
//!
//! The other operations go by messages. When the leaders' part fails, the leader revokes the group, and its team learns of it
//! at the meeting. When a meeting fails, or the group is over for a leader, the leaders' group is revoked, and the other leaders
//! learn of it there. But members that are done may leave in order while the leaders give on what others need (`bcast`): of
//! that the leaders' group hears when the leader's next collective fails.
//!
//! Rejected: all operations (gathering and scattering by teams takes memory for what belongs to the team, and most of the
//! bytes still go between processes).

use std::sync::Arc;

use crate::coll::board::{Hears, Meeting, Stage};
use crate::coll::context::{Context, Teams};
use crate::coll::failure::Failure;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::Operator;
use crate::coll::shared::meet::Meetings;
use crate::coll::task::Task;
use crate::error::Error;

/// How a group's members are divided.
pub(super) struct Division {
    /// Team and seat of each rank.
    of: Box<[(u32, u32)]>,
    /// The first rank of each team.
    leaders: Vec<u32>,
}

impl Division {
    /// By the processes of the members, in the order of ranks. `None`: each is alone.
    fn new(homes: impl Iterator<Item = u32>) -> Option<Division> {
        let (mut teams, mut leaders) = (Vec::<(u32, u32)>::new(), Vec::new());
        let mut member = |(rank, home): (u32, u32)| {
            let team = teams.iter().position(|&(other, _)| other == home).unwrap_or_else(|| {
                leaders.push(rank);
                teams.push((home, 0));
                teams.len() - 1
            });
            teams[team].1 += 1;
            (team as u32, teams[team].1 - 1)
        };
        let of = (0..).zip(homes).map(&mut member).collect();
        teams.iter().any(|&(_, members)| members > 1).then_some(Division { of, leaders })
    }
}

impl Teams {
    /// Whether a task is done in teams.
    pub(in crate::coll) fn can(&self, task: &Task, operator: Option<&Operator>) -> bool {
        match task {
            Task::Barrier | Task::Bcast { .. } => true,
            Task::Allreduce { .. } => {
                self.in_order || operator.is_some_and(|operator| operator.commutative)
            }
            _ => false,
        }
    }
}

impl Hears for Context {
    fn hears(&self, failure: Failure) {
        self.revoke(failure);
    }
}

impl Group {
    /// The teams, if a process holds several members.
    pub(super) fn division(&self) -> Option<Division> {
        let ranks = self.context.session.engine.ranks();
        Division::new(self.members().iter().map(|&member| ranks.home(member)))
    }

    /// Each leader makes its team's meeting, and tells all its number.
    ///
    /// # Errors
    /// As of a collective.
    pub(super) fn set_up_teams(&self, Division { of, leaders }: Division) -> Result<Stage, Error> {
        let (team, seat) = of[self.rank() as usize];
        let named = |rank: &u32| self.members()[*rank as usize];
        let mates = (0..self.size()).filter(|&rank| of[rank as usize].0 == team);
        let mates: Vec<u32> = mates.map(|rank| named(&rank)).collect();
        let of_leaders: Vec<u32> = leaders.iter().map(named).collect();
        let meetings = Meetings::of(&self.context.session);
        let made = (seat == 0).then(|| meetings.make(&mates));
        // Its id may be another group's by chance.
        let group = (seat == 0).then(|| self.of_leaders(&of_leaders).ok()).flatten();
        let can = seat > 0 || group.is_some();
        let number = made.as_ref().map_or(0, |(number, _)| *number);
        let offers = self.tell_all([number, u64::from(can)])?;
        if offers.iter().any(|&[_, can]| can == 0) {
            return Ok(Stage::Off);
        }
        let leader = leaders[team as usize] as usize;
        let found = made.map(|(_, meeting)| meeting).or_else(|| meetings.find(offers[leader][0]));
        // As in `agree_on_meeting`.
        let Some(meeting) = found else { return Ok(Stage::Off) };
        let leaders = group.map(Group::kept);
        if let Some(leaders) = &leaders {
            let hearer: Arc<dyn Hears> = leaders.clone();
            meeting.tells(Arc::downgrade(&hearer));
        }
        let in_order = of.is_sorted();
        let _ = self.context.teams.set(Teams { of, leaders, in_order });
        self.meets_at(meeting, seat == 0);
        Ok(Stage::Teams)
    }

    /// Does one collective in teams, which [can](Teams::can) be.
    ///
    /// # Safety
    /// As [`Group::meet`].
    pub(in crate::coll) unsafe fn meet_in_teams(
        &self,
        (meeting, teams): (&Meeting, &Teams),
        task: &Task,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<(), Error> {
        let (team, seat) = teams.of[self.rank() as usize];
        let result = Memory { input: &[], output: memory.output };
        // SAFETY: the caller's promise, for the same lengths.
        let meet = |task: &Task| unsafe { self.meet((meeting, seat), task, None, &result, true) };
        // SAFETY: as above.
        let lead = |task: &Task, operator| unsafe { self.lead(teams, task, operator, result) };
        match *task {
            Task::Barrier => {
                meet(task)?;
                lead(task, None)?;
                meet(task)
            }
            Task::Bcast { root, len } => {
                let (of_root, at) = teams.of[root as usize];
                let between = Task::Bcast { root: of_root, len };
                if team == of_root {
                    meet(&Task::Bcast { root: at, len })?;
                    return lead(&between, None);
                }
                lead(&between, None)?;
                meet(&Task::Bcast { root: 0, len })
            }
            Task::Allreduce { len } => {
                let own = Task::Reduce { root: 0, len };
                // SAFETY: the leader's result is as long as a contribution.
                unsafe { self.meet((meeting, seat), &own, operator, memory, in_place)? };
                lead(task, operator)?;
                meet(&Task::Bcast { root: 0, len })
            }
            _ => Ok(()),
        }
    }

    /// The leaders' part; nothing for other members.
    ///
    /// # Safety
    /// As [`Group::meet`], in place.
    unsafe fn lead(
        &self,
        teams: &Teams,
        task: &Task,
        operator: Option<&Operator>,
        memory: Memory,
    ) -> Result<(), Error> {
        let Some(leaders) = &teams.leaders else { return Ok(()) };
        let group = Group::of(leaders.clone());
        // SAFETY: the caller's promise.
        let complete = || unsafe { group.complete(task, operator, memory, true) };
        let done = self.context.or_give_up(complete);
        if let Err(error) = &done {
            self.context.revoke(Failure::of_part(error));
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_process_are_a_team_in_the_order_of_ranks() {
        assert!(Division::new([3, 1, 2].into_iter()).is_none());
        let Division { of, leaders } = Division::new([5, 2, 5, 7, 2].into_iter()).unwrap();
        assert_eq!(*of, [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)]);
        assert_eq!(leaders, [0, 1, 3]);
        assert!(!of.is_sorted());
        assert!(Division::new([4, 4, 9, 9, 2].into_iter()).unwrap().of.is_sorted());
    }
}
