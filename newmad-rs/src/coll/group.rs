//! Groups: ordered sets of ranks that do collectives together.
//!
//! # Contexts
//! The messages of a group have tags of their own: `1 << 63 | 1 << 56 | id (40 bits) << 16 | number (16 bits)`. The
//! number counts the collectives of the group, so several may be outstanding; members start them in the same order.
//! (After 65 533 collectives numbers come again. By then the older one is over at the receiver, since no more than half
//! of that may be outstanding; and messages of one tag do not overtake each other.)
//!
//! A collective in a *series* has the series in the place of the number, and another mark in the upper bits. All
//! collectives of a series have one tag: members start these in the same order, whatever they start beside them, and
//! messages of one tag do not overtake each other.
//!
//! Members have to agree on the id, and do so without a message: it is a hash of what they all know. For a group made
//! from the session: its members, and how many groups of just these members were made before; so members make groups of
//! the same members in the same order (with the same key of their own, where they name one). For a part or a duplicate of a group: the id of that group, how many were made
//! of it before, and the colour. 39 bits make a collision of two of a thousand groups a matter of one in a million
//! runs; it is checked, at every member of both groups, and is an error. A key of one's own
//! ([`Session::group_with_key`]) is the way out; and a layer that gives out numbers already, none twice, makes groups
//! of these ([`Session::group_with_id`]): the other half of all ids.
//!
//! Rejected: agreeing by a collective (needs a group); a counter of the session (all ranks would have to make all
//! groups).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::coll::algo::choose::Choices;
use crate::coll::context::{Context, GIVEN, Groups, ID_BITS};
use crate::coll::failure::Failure;
use crate::coll::unwinding;
use crate::error::Error;
use crate::session::{Inner, Session};

/// The own rank in the group.
fn check(session: &Inner, members: &[u32]) -> Result<u32, Error> {
    let (own, size) = (session.rank(), session.size());
    if let Some(&rank) = members.iter().find(|&&rank| rank >= size) {
        return Err(Error::BadRank { rank, size });
    }
    let mut seen = vec![false; size as usize];
    let is_twice = |&&rank: &&u32| std::mem::replace(&mut seen[rank as usize], true);
    if let Some(twice) = members.iter().find(is_twice) {
        return Err(Error::BadGroup(format!("rank {twice} is a member twice: name each once")));
    }
    let place = members.iter().position(|&rank| rank == own);
    place.map(|place| place as u32).ok_or_else(|| {
        Error::BadGroup(format!(
            "rank {own}, which makes it, is no member: only members make a group"
        ))
    })
}

/// Mixes a number into a hash; the same in every process.
fn mix(hash: u64, value: u64) -> u64 {
    let mut mixed = (hash ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn hash_members(kind: u64, members: &[u32]) -> u64 {
    members.iter().fold(mix(kind, members.len() as u64), |hash, &rank| mix(hash, u64::from(rank)))
}

/// The id that a hash makes.
fn hashed(origin: u64) -> u64 {
    origin >> (64 - ID_BITS + 1)
}

const BY_MEMBERS: u64 = 1;
const BY_KEY: u64 = 2;
const DUPLICATE: u64 = 3;
const PART: u64 = 4;
const LEADERS: u64 = 5;

/// An ordered set of ranks of a session, with which they do collectives. Clones are the same group; a group of its own
/// with the same members is a [`Group::dup`].
///
/// All members call the same operations in the same order. Some may be waited for and others started, but what one member
/// waits for (`wait`), all do, and what one starts, all start. Several threads of a process use a group each.
///
/// ```
/// use newmad::coll::Op;
/// newmad::run(|session| {
///     let world = session.world()?;
///     let mut counts = [u64::from(session.rank()), 1];
///     world.allreduce(&mut counts, &Op::sum()).wait()?;
///     assert_eq!(counts[1], u64::from(session.size()));
///
///     // One that goes on while this rank computes.
///     let sum = world.allreduce(vec![0.5; 1000], &Op::sum()).start()?;
///     let computed: f64 = (1..1000).map(f64::from).sum();
///     assert_eq!(sum.wait()?[0], 0.5 * f64::from(session.size()));
/// #   assert!(computed > 0.0);
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
///
/// # Failures
/// When a member dies, or what members call does not fit together, the collective ends with an error at every member
/// that waits for it, and the group is over: all its collectives under way, and later ones, end with an error too. The
/// survivors may make a new group of themselves. A collective that a member had finished before stays finished for that
/// one.
pub struct Group {
    pub(super) context: Arc<Context>,
}

impl Clone for Group {
    fn clone(&self) -> Group {
        Group::of(self.context.clone())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.context.handle_gone();
    }
}

impl Group {
    /// One more handle.
    pub(super) fn of(context: Arc<Context>) -> Group {
        context.handles.fetch_add(1, Ordering::Relaxed);
        Group { context }
    }

    /// What the handle stands for, which keeps its id for as long as it is there.
    pub(super) fn kept(self) -> Arc<Context> {
        self.context.handles.fetch_add(1, Ordering::Relaxed);
        self.context.clone()
    }

    fn make(
        session: &Arc<Inner>,
        members: &[u32],
        id: u64,
        choices: Choices,
    ) -> Result<Group, Error> {
        let rank = check(session, members)?;
        if !Groups::of(session).known().ids.insert(id) {
            return Err(Error::BadGroup(format!(
                "its id {id:#x} belongs to another group of this process. If it follows from members and \
                 history: make it with Session::group_with_key and a key that all members choose"
            )));
        }
        let context = Context::new(session, members, rank, id, choices);
        Ok(Group::of(Arc::new(context)))
    }

    /// The own rank in the group.
    pub fn rank(&self) -> u32 {
        self.context.rank
    }

    /// How many members it has.
    pub fn size(&self) -> u32 {
        self.context.size()
    }

    /// Its members: ranks in the session, in the order of their ranks in the group.
    pub fn members(&self) -> &[u32] {
        &self.context.members
    }

    /// Ends the group for this member: its collectives fail with [`Error::ContextRevoked`], those under way and later ones. The
    /// other members are not told: [`Session::revoke`] does that.
    pub fn revoke(&self) {
        self.context.revoke(Failure::Context);
        unwinding::go_on();
    }

    /// Whether its collectives fail with [`Error::ContextRevoked`]: since [`Group::revoke`] was called, or since a rank of the
    /// process for which it was called has told the others.
    pub fn is_revoked(&self) -> bool {
        self.context.failure.get() == Some(&Failure::Context)
    }

    /// Ends the group, since this member cannot do its part of what the others wait for, and tells them: their collectives fail
    /// with [`Error::Revoked`]. `gone`: because a process is gone.
    pub fn give_up(&self, gone: bool) {
        let by = self.context.members[self.context.rank as usize];
        self.context.revoke(Failure::Revoked { by, gone });
        unwinding::go_on();
    }

    /// Whether it is over for this member: a collective has failed, or the group was revoked. Its id is not free again.
    pub fn has_failed(&self) -> bool {
        self.context.failure.get().is_some()
    }

    fn child(&self, kind: u64, colour: u64, members: &[u32], number: u32) -> Result<Group, Error> {
        let origin = [u64::from(number), colour].into_iter().fold(mix(kind, self.context.id), mix);
        let choices = self.context.choices().clone();
        Group::make(&self.context.session, members, hashed(origin), choices)
    }

    /// The group of the first member of each process, made by those. There is one.
    pub(super) fn of_leaders(&self, members: &[u32]) -> Result<Group, Error> {
        self.child(LEADERS, 0, members, 0)
    }

    fn next_child(&self) -> u32 {
        self.context.children.fetch_add(1, Ordering::Relaxed)
    }

    /// A group of its own of the same members. No message is needed: all members call it, in the same order as other
    /// calls of [`Group::dup`] and [`Group::split`] of this group.
    ///
    /// # Errors
    /// [`Error::BadGroup`]: two ids are the same by chance.
    pub fn dup(&self) -> Result<Group, Error> {
        self.child(DUPLICATE, 0, self.members(), self.next_child())
    }

    /// Divides the group: those of one colour are a group of their own, ordered by their keys and, where these are the
    /// same, as they are here. `None`: in no part.
    ///
    /// # Blocking
    /// The calling thread, until all members have called it.
    /// # Errors
    /// As of other collectives; [`Error::BadGroup`]: two ids are the same by chance.
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Group>, Error> {
        let number = self.next_child();
        let own = [u32::from(colour.is_some()), colour.unwrap_or(0), key];
        let mut all = vec![[0; 3]; self.members().len()];
        self.allgather(&[own], &mut all).wait()?;
        let Some(colour) = colour else { return Ok(None) };
        let mut part: Vec<(u32, usize)> = (0..all.len())
            .filter(|&rank| all[rank][..2] == [1, colour])
            .map(|rank| (all[rank][2], rank))
            .collect();
        part.sort_unstable();
        let members: Vec<u32> = part.iter().map(|&(_, rank)| self.members()[rank]).collect();
        self.child(PART, u64::from(colour), &members, number).map(Some)
    }

    /// Chooses the algorithm of an operation, as the knobs `NMAD_COLL_…` do (`allreduce`, `ring`; `auto` for the
    /// library's choice). All members have to choose the same. Groups that are made of this one later take the choice
    /// over.
    ///
    /// # Errors
    /// [`Error::BadGroup`]: there is no such operation, or no such algorithm of it.
    pub fn set_algorithm(&self, operation: &str, algorithm: &str) -> Result<(), Error> {
        if self.context.choices().force(operation, algorithm) {
            return Ok(());
        }
        Err(Error::BadGroup(format!(
            "there is no algorithm {algorithm:?} of {operation:?}: `mad knobs` lists them as NMAD_COLL_..."
        )))
    }
}

impl Session {
    /// The group of all ranks of the session. Each call makes a group of its own.
    ///
    /// # Errors
    /// As [`Session::group`].
    pub fn world(&self) -> Result<Group, Error> {
        let all: Vec<u32> = (0..self.size()).collect();
        self.group(&all)
    }

    /// A group of these ranks, in this order. All of them call it; groups of the same members are made in the same
    /// order everywhere. No message is needed.
    ///
    /// # Errors
    /// [`Error::BadRank`]; [`Error::BadGroup`]: a rank is there twice, or the own one is not there, or two ids are the
    /// same by chance.
    pub fn group(&self, members: &[u32]) -> Result<Group, Error> {
        self.group_of(hash_members(BY_MEMBERS, members), members)
    }

    /// A group of that origin, beside those that were made of it before.
    fn group_of(&self, origin: u64, members: &[u32]) -> Result<Group, Error> {
        check(self.inner(), members)?;
        let groups = Groups::of(self.inner());
        let choices = groups.choices()?;
        let mut known = groups.known();
        let count = known.made.entry(origin).or_default();
        let origin = mix(origin, *count);
        *count += 1;
        drop(known);
        Group::make(self.inner(), members, hashed(origin), choices)
    }

    /// As [`Session::group`]; members that name the same key meet, in whatever order they make other groups. Those with
    /// the same members and key are made in the same order everywhere; the session counts them for each pair.
    ///
    /// # Errors
    /// As [`Session::group`].
    pub fn group_with_key(&self, members: &[u32], key: u64) -> Result<Group, Error> {
        self.group_of(mix(hash_members(BY_KEY, members), key), members)
    }

    /// As [`Session::group`]; the members name an id below 2^39, which no other group has that shares a process with
    /// this one: for layers above that give out such numbers themselves. These ids never meet those of groups made in
    /// other ways.
    ///
    /// # Errors
    /// [`Error::BadRank`]; [`Error::BadGroup`]: as of [`Session::group`]; the id is too large, or that of another
    /// group.
    pub fn group_with_id(&self, members: &[u32], id: u64) -> Result<Group, Error> {
        if id >= GIVEN {
            return Err(Error::BadGroup(format!(
                "its id {id:#x} has more than {} bits",
                ID_BITS - 1
            )));
        }
        Group::make(self.inner(), members, GIVEN | id, Groups::of(self.inner()).choices()?)
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {:?})", self.rank(), self.members())
    }
}
