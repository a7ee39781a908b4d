//! Communicators made of others.

use core::ffi::c_int;
use std::sync::Arc;

use super::agreement::Agreement;
use super::{Comm, Parts};
use crate::abi::*;
use crate::error::Fault;
use crate::group::Group;

/// A process's arguments of a split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitKey {
    /// Processes of one colour are one part; 0: the process is in none.
    pub(crate) colour: u64,
    /// The order in the part; processes of the same key are ordered as before.
    pub(crate) key: i32,
}

/// The kind of context that a process offers in a split.
const FRESH: u64 = 0;
const AGAIN: u64 = 1;
const NONE_LEFT: u64 = 2;

impl Comm {
    /// A communicator of the same processes, without attributes.
    ///
    /// # Errors
    /// A member has failed; no handle or context is left.
    pub(crate) fn twin(&self) -> Result<Arc<Comm>, Fault> {
        let context = Agreement::of_comm(self)?.agree()?;
        Comm::new(self.parts_of_twin(context))
    }

    /// A communicator of the same processes that the program has no handle of.
    ///
    /// # Errors
    /// As [`Comm::twin`].
    pub(crate) fn hidden_twin(&self) -> Result<Arc<Comm>, Fault> {
        let context = Agreement::of_comm(self)?.agree()?;
        Comm::hidden(self.parts_of_twin(context))
    }

    pub(crate) fn parts_of_twin(&self, context: u32) -> Parts {
        Parts {
            circle: self.circle.clone(),
            context,
            group: self.group.clone(),
            remote: self.remote.clone(),
            errhandler: self.errhandler(),
        }
    }

    /// A duplicate, with the attributes whose functions copy them.
    ///
    /// # Errors
    /// As [`Comm::twin`]; an attribute's function has failed.
    pub(crate) fn duplicate(&self) -> Result<Arc<Comm>, Fault> {
        let new = self.twin()?;
        if let Some(topology) = self.share_topology() {
            new.set_topology(topology);
        }
        match self.attributes.copy_to(self.handle().0, &new.attributes) {
            Ok(()) => Ok(new),
            Err(fault) => {
                // The program learns of its first failure.
                let _ = new.free();
                Err(fault)
            }
        }
    }

    /// Divides the communicator; returns the part that this process is in.
    ///
    /// # Errors
    /// As [`Comm::twin`].
    pub(crate) fn split(&self, own: SplitKey) -> Result<Option<Arc<Comm>>, Fault> {
        let agreement = Agreement::of_comm(self)?;
        let contexts = &self.circle.contexts;
        // As in `Agreement::agree`.
        let mut fresh = agreement.two;
        loop {
            // Every process offers a context; that of the part's leader is taken.
            let offer = if own.colour == 0 { None } else { Some(contexts.offer_one(fresh)) };
            let (context, kind) = match &offer {
                Some(Ok(offer)) if offer.again => (offer.context, AGAIN),
                Some(Ok(offer)) => (offer.context, FRESH),
                Some(Err(_)) => (0, NONE_LEFT),
                None => (0, FRESH),
            };
            let key = i64::from(own.key) - i64::from(i32::MIN);
            let [here, there] = agreement.gather([own.colour, key as u64, context.into(), kind])?;
            let offer = offer.transpose()?;
            let all = || here.iter().chain(&there);
            if all().any(|says| says[3] == NONE_LEFT) {
                offer.into_iter().for_each(|offer| contexts.withdraw(offer));
                return Err(Fault::new(
                    MPI_ERR_OTHER,
                    "a process has no contexts left to give out",
                ));
            }
            let group = part(&here, own.colour, &self.group);
            let remote = self.remote.as_ref().map(|remote| part(&there, own.colour, remote));
            let sides =
                [Some((&here, &self.group)), self.remote.as_ref().map(|remote| (&there, remote))];
            let taken =
                taken(&sides, own.colour, group.first(), remote.as_ref().map(|side| side.first()));
            if let Some(offer) = offer.filter(|offer| Some(offer.context) != taken) {
                contexts.withdraw(offer);
            }
            // If any context was used before, all check theirs: all see that there is one.
            let again = all().any(|says| says[3] == AGAIN);
            let known = taken.is_some_and(|context| contexts.is_used(context));
            if again && agreement.any(known)? {
                if let Some(offer) = offer.filter(|offer| Some(offer.context) == taken) {
                    contexts.withdraw(offer);
                }
                fresh = true;
                continue;
            }
            let Some(context) = taken else { return Ok(None) };
            let parts = Parts {
                circle: self.circle.clone(),
                context,
                group: self.group.with(group),
                remote: remote.map(|members| self.group.with(members)),
                errhandler: self.errhandler(),
            };
            return Comm::new(parts).map(Some);
        }
    }

    /// A communicator of the processes of `group`. These call this with that group, the others with another one or
    /// none.
    ///
    /// # Errors
    /// The group has other processes too; as [`Comm::twin`].
    pub(crate) fn create(&self, group: &Group) -> Result<Option<Arc<Comm>>, Fault> {
        let rank = group.rank(self.session.rank());
        // Groups are disjoint, so their first members tell them apart. Each side of an intercommunicator has one
        // group.
        let colour = match (&self.remote, rank.and(group.process(0))) {
            (_, None) => 0,
            (Some(_), Some(_)) => 1,
            (None, Some(first)) => u64::from(first) + 1,
        };
        let place = SplitKey { colour, key: rank.map_or(0, |rank| rank as i32) };
        self.split(place)
    }

    /// A communicator of the processes of `group`, which alone call this. Several calls may go on at once, with
    /// different tags.
    ///
    /// # Errors
    /// As [`Comm::twin`]; the communicator is revoked.
    pub(crate) fn create_alone(&self, group: &Arc<Group>, tag: c_int) -> Result<Arc<Comm>, Fault> {
        let key = u64::from(self.context) << 32 | tag as u64;
        let members = self.end_with_this(self.session.group_with_key(group.members(), key)?)?;
        let context = Agreement::of_group(&members.group, &self.circle.contexts).agree()?;
        let (circle, errhandler) = (self.circle.clone(), self.errhandler());
        let group = self.group.with(group.members().to_vec());
        Comm::new(Parts { circle, context, group, remote: None, errhandler })
    }

    /// The group, named as the circle names processes.
    ///
    /// # Errors
    /// The group has processes that the own side here has not.
    pub(crate) fn part_of(&self, group: &Arc<Group>) -> Result<Arc<Group>, Fault> {
        let stranger = match group.called_in(&self.circle.naming) {
            Ok(group) => match group.members().iter().position(|&one| !self.group.contains(one)) {
                None => return Ok(group),
                Some(rank) => rank as u32,
            },
            Err(rank) => rank,
        };
        let why = format!("its process {stranger} is not in the communicator");
        Err(Fault::argument(MPI_ERR_GROUP, "group", "not a part of it", &why))
    }
}

/// The processes of a colour, in the order of their keys, then of their ranks.
fn part(says: &[[u64; 4]], colour: u64, group: &Group) -> Vec<u32> {
    if colour == 0 {
        return Vec::new();
    }
    let of_colour = says.iter().zip(group.members()).filter(|(says, _)| says[0] == colour);
    let mut part: Vec<(u64, u32)> = of_colour.map(|(says, &member)| (says[1], member)).collect();
    part.sort_by_key(|&(key, _)| key); // stable
    part.into_iter().map(|(_, member)| member).collect()
}

/// What the processes of a side said, and the side.
type Side<'a> = Option<(&'a Vec<[u64; 4]>, &'a Arc<Group>)>;

/// The context that the first member of a part offered; of two sides, the member with the lower process. `None`: the
/// process is in no part.
fn taken(
    sides: &[Side<'_>; 2],
    colour: u64,
    first: Option<&u32>,
    other: Option<Option<&u32>>,
) -> Option<u32> {
    if colour == 0 {
        return None;
    }
    let leader = match other {
        None => *first?,
        Some(other) => *first?.min(other?),
    };
    let said = |(says, group): (&Vec<[u64; 4]>, &Arc<Group>)| {
        group.rank(leader).and_then(|rank| says.get(rank as usize)).map(|says| says[2] as u32)
    };
    sides.iter().flatten().find_map(|&side| said(side))
}
