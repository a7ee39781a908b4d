//! What the handles of a group and its collectives under way share: members, tags, plans, failure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use crate::coll::algo::choose::{Algorithm, Choices};
use crate::coll::algo::record;
use crate::coll::board::{Places, Shared};
use crate::coll::failure::Failure;
use crate::coll::plan::Plan;
use crate::coll::recorder::Recorder;
use crate::coll::scratch::Spare;
use crate::coll::task::Task;
use crate::error::Error;
use crate::request::tag::{COLLECTIVES, SERIES};
use crate::session::Inner;
use marcel::plumbing::KernelMutex;

pub(super) const ID_BITS: u32 = 40;
/// The bit of ids that are no hash.
pub(super) const GIVEN: u64 = 1 << (ID_BITS - 1);
const NUMBER_BITS: u32 = 16;
/// The last number: that of notices that the group is over because a member is gone. Its bits are those of numbers.
pub(super) const LAST: u64 = (1 << NUMBER_BITS) - 1;
/// The number of notices that it is over for another reason: one bit apart, so that one receive with a mask takes both.
const UNFIT: u64 = LAST & !NOTICES;
const NOTICES: u64 = 2;
/// The one before: that of messages that wake members (`coll::shared`).
pub(super) const WAKE: u64 = LAST - 1;
/// Most plans that a group keeps.
const PLANS: usize = 8;
/// Most collectives of a group that are outstanding.
const MOST: usize = 1 << (NUMBER_BITS - 1);

/// What a session knows of its groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    known: KernelMutex<Known>,
    choices: OnceLock<Choices>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Ids in use.
    pub(super) ids: HashSet<u64>,
    /// Origins of groups that were made, and how often.
    pub(super) made: HashMap<u64, u64>,
}

impl Groups {
    /// Those of a session.
    pub(super) fn of(session: &Inner) -> &Groups {
        session.extensions.get()
    }

    /// How collectives are to be done, by the knobs.
    pub(super) fn choices(&self) -> Result<Choices, Error> {
        if let Some(choices) = self.choices.get() {
            return Ok(choices.clone());
        }
        let choices = Choices::read()?;
        Ok(self.choices.get_or_init(|| choices).clone())
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// A collective of the group that is under way.
pub(super) trait Member: Send + Sync {
    /// The group has failed: so has this.
    fn fail(&self);

    /// The group is revoked, and may have failed before: nobody may ask for what this sends.
    fn take_back(&self);

    /// Whether it is over, and its memory free.
    fn is_over(&self) -> bool;
}

/// What the handles of a group and its collectives share.
pub(crate) struct Context {
    pub(super) session: Arc<Inner>,
    /// Ranks in the session.
    pub(super) members: Box<[u32]>,
    /// The own rank in the group.
    pub(super) rank: u32,
    pub(super) id: u64,
    /// The program's.
    pub(super) handles: AtomicU32,
    /// Its id may be another group's.
    let_go: AtomicBool,
    number: AtomicU64,
    /// How many groups were made of it.
    pub(super) children: AtomicU32,
    pub(super) failure: OnceLock<Failure>,
    runs: KernelMutex<Vec<Weak<dyn Member>>>,
    choices: KernelMutex<Choices>,
    /// All members are of this process.
    pub(super) of_one: bool,
    pub(super) shared: Shared,
    /// Once members of one process meet, and there are others.
    pub(super) teams: OnceLock<Teams>,
    pub(super) spare: Spare,
    /// Short plans that were made last, the latest first.
    plans: KernelMutex<VecDeque<(Key, Arc<Plan>)>>,
}

/// How the members are spread over processes: those of one are a *team*, whose first is its *leader* (`coll::shared`).
pub(super) struct Teams {
    /// Team and seat of each rank.
    pub(super) of: Box<[(u32, u32)]>,
    /// The group of the leaders, at a leader.
    pub(super) leaders: Option<Arc<Context>>,
    /// The teams, one after the other, are the members in the order of ranks.
    pub(super) in_order: bool,
}

/// Forgets those that are over.
fn prune(runs: &mut Vec<Weak<dyn Member>>) {
    runs.retain(|run| run.upgrade().is_some_and(|run| !run.is_over()));
}

/// What a plan of a group hangs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) task: Task,
    pub(super) algorithm: Algorithm,
    /// Bytes of an element.
    pub(super) element: usize,
    pub(super) in_place: bool,
}

impl Context {
    /// A group whose id is not in use.
    pub(super) fn new(
        session: &Arc<Inner>,
        members: &[u32],
        rank: u32,
        id: u64,
        choices: Choices,
    ) -> Context {
        let own = session.engine.ranks().beside(session.rank());
        let of_one = members.iter().all(|member| own.contains(member));
        Context {
            session: session.clone(),
            members: members.into(),
            rank,
            id,
            handles: AtomicU32::new(0),
            let_go: AtomicBool::new(false),
            number: AtomicU64::new(0),
            children: AtomicU32::new(0),
            failure: OnceLock::new(),
            runs: KernelMutex::new(Vec::new()),
            of_one,
            shared: Shared::new(members.len() as u32, of_one, choices.shared),
            teams: OnceLock::new(),
            spare: Spare::default(),
            choices: KernelMutex::new(choices),
            plans: KernelMutex::default(),
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.members.len() as u32
    }

    pub(super) fn tag(&self, number: u64) -> u64 {
        COLLECTIVES | self.id << NUMBER_BITS | number
    }

    /// The tag of the collectives of a series.
    pub(super) fn series_tag(&self, series: u16) -> u64 {
        SERIES | self.id << NUMBER_BITS | u64::from(series)
    }

    /// All tags of the group: a value, and the bits of it that count.
    pub(super) fn all_tags(&self) -> (u64, u64) {
        (self.tag(0), !(LAST | COLLECTIVES ^ SERIES))
    }

    /// The tag of notices that the group is over, because a member is `gone` or not.
    pub(super) fn notice_tag(&self, gone: bool) -> u64 {
        self.tag(if gone { LAST } else { UNFIT })
    }

    /// The tags of both: a value, and the bits of it that count.
    pub(super) fn notice_tags(&self) -> (u64, u64) {
        (self.tag(LAST), !NOTICES)
    }

    /// The tag of messages that wake members.
    pub(super) fn wake_tag(&self) -> u64 {
        self.tag(WAKE)
    }

    /// The tag of the next collective, and whether it listens for notices from its start.
    pub(super) fn next(&self) -> (u64, bool) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        (self.tag(number % UNFIT), (number + 1).is_multiple_of(64))
    }

    fn list(&self) -> MutexGuard<'_, Vec<Weak<dyn Member>>> {
        self.runs.lock()
    }

    /// One handle less. The last one gives the id and the place back, if nothing is under way: threads that have carried
    /// collectives on may hold the context for a moment longer, and the program may make a group with this id again at once.
    pub(super) fn handle_gone(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1
            && self.failure.get().is_none()
            && self.runs().iter().all(|run| run.is_over())
        {
            self.let_go();
        }
    }

    fn let_go(&self) {
        if !self.let_go.swap(true, Ordering::AcqRel) {
            self.shared.leave(Places::of(&self.session));
            Groups::of(&self.session).known().ids.remove(&self.id);
            // Whose id follows from this one's.
            if let Some(leaders) = self.teams.get().and_then(|teams| teams.leaders.as_ref()) {
                leaders.let_go();
            }
        }
    }

    /// What may be under way.
    pub(super) fn runs(&self) -> Vec<Arc<dyn Member>> {
        self.list().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether one more may be under way.
    pub(super) fn admit(&self) -> Result<(), Error> {
        let mut runs = self.list();
        if runs.len() >= MOST {
            prune(&mut runs);
        }
        if runs.len() >= MOST {
            return Err(Error::BadGroup(format!(
                "{MOST} collectives of it are outstanding: wait for some of them first"
            )));
        }
        Ok(())
    }

    /// Another one is under way.
    pub(super) fn add(&self, run: Arc<dyn Member>) {
        let mut runs = self.list();
        if runs.len() >= 64 && runs.len().is_power_of_two() {
            prune(&mut runs);
        }
        runs.push(Arc::downgrade(&run));
    }

    /// The plan for that, which is kept if it is short: programs do the same again and again.
    pub(super) fn plan(&self, key: Key) -> Arc<Plan> {
        let mut plans = self.plans.lock();
        if let Some((_, plan)) = plans.iter().find(|(known, _)| *known == key) {
            return plan.clone();
        }
        let recorder = Recorder::new(self.rank, self.size(), key.element, key.in_place);
        let plan = Arc::new(record(recorder, &key.task, key.algorithm));
        if plan.is_short() {
            plans.truncate(PLANS - 1);
            plans.push_front((key, plan.clone()));
        }
        plan
    }

    pub(super) fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // After a failure the janitor goes on: no other group may have the id. And members do not tell when they leave: the
        // place is not used again.
        if self.failure.get().is_none() {
            self.let_go();
        }
    }
}
