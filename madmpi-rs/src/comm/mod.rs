//! Communicators: a group, and a context in which its messages are its own.
//!
//! # Tags on the wire
//! `context (31 bits) << 32 | internal (1 bit) << 31 | tag (31 bits)`. Tags of programs have 30 bits. No receive of a
//! program matches an internal tag. The highest of its 31 bits is set if the rest is a tag of the program.
//!
//! | file | what |
//! |---|---|
//! | `circle` | the processes that one session of newmad connects |
//! | `context` | giving out contexts |
//! | `agreement` | how the processes that make a communicator agree on a context |
//! | `create`, `inter` | communicators made of others, and those with two sides |
//! | `kinds` | parts by the resources that processes share |
//! | `failures` | processes that are gone, and revocation; `registry`: which communicator a word of these is about |
//! | `hints` | what the program promises |
//! | `series` | which collectives meet, where the order of their starts does not say it |
//! | `topology` | communicators with a topology |

mod agreement;
pub(crate) mod circle;
mod context;
mod create;
mod disconnect;
pub(crate) mod failures;
mod hints;
pub(crate) mod inter;
pub(crate) mod kinds;
mod making;
mod registry;
mod series;
pub(crate) mod topology;

use core::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, OnceLock};

use crate::abi::*;
use crate::attribute::Attributes;
use crate::buffer::Buffer;
use crate::errhandler;
use crate::errhandler::Errhandler;
use crate::error::{Fault, HandlesErrors};
use crate::group::Group;
use crate::handle::{Ref, Table};
use crate::job;
use crate::per_rank::{own_place, per_rank};
use crate::topology::Topology;
use marcel::plumbing::KernelMutex;

pub(crate) use agreement::Agreement;
pub(crate) use circle::Circle;
pub(crate) use context::WORLD as CONNECTED;
pub(crate) use create::SplitKey;
pub(crate) use hints::Hints;
pub(crate) use series::{KeptSeries, Series};

static COMMS: Table<Comm> = Table::new();

/// The largest tag.
pub(crate) const TAG_UB: c_int = (1 << 30) - 1;
const INTERNAL: u64 = 1 << 31;
/// Internal tags, beside those that hold a tag of the program.
pub(crate) const AGREEMENT: u32 = 0;
/// Announcements of partitioned messages; their units have the numbers from `1 << 29` on.
pub(crate) const PARTITIONED: u32 = 1;

/// A communicator.
pub(crate) struct Comm {
    handle: OnceLock<MPI_Comm>,
    /// The session of its circle.
    pub(crate) session: newmad::Session,
    pub(crate) circle: Arc<Circle>,
    context: u32,
    pub(crate) group: Arc<Group>,
    /// The other side of an intercommunicator.
    pub(crate) remote: Option<Arc<Group>>,
    rank: u32,
    pub(crate) attributes: Attributes,
    settings: KernelMutex<Settings>,
    topology: OnceLock<Arc<Topology>>,
    pub(crate) buffer: Buffer,
    collectives: OnceLock<newmad::coll::Group>,
    union: OnceLock<newmad::coll::Group>,
    checking: OnceLock<newmad::coll::Group>,
    /// Groups that a call makes for itself and a revocation ends. The lock is held while one of the three above is made.
    making: KernelMutex<Vec<making::Making>>,
    numbers: Arc<series::Numbers>,
    /// Tags of programs are below this: [`TAG_UB`] and one, and 0 once the communicator is revoked.
    tags: AtomicU32,
    failures: registry::Failures,
    pub(crate) hints: Hints,
}

/// What the program sets.
pub(crate) struct Settings {
    pub(crate) errhandler: Errhandler,
    errhandler_was_set: bool,
    pub(crate) name: Vec<u8>,
}

/// The parts that a communicator is made of.
pub(crate) struct Parts {
    pub(crate) circle: Arc<Circle>,
    pub(crate) context: u32,
    pub(crate) group: Arc<Group>,
    pub(crate) remote: Option<Arc<Group>>,
    pub(crate) errhandler: Errhandler,
}

per_rank! {
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    static PREDEFINED: OnceLock<[Arc<Comm>; 2]> = OnceLock::new();
}

/// A communicator that newmad may tell of.
fn registered(comm: Comm) -> Arc<Comm> {
    let comm = Arc::new(comm);
    comm.circle.registry.add(comm.context, &comm);
    comm.was_made();
    comm
}

/// Makes the predefined communicators.
///
/// # Errors
/// None that are known.
pub(crate) fn make_predefined(session: &newmad::Session) -> Result<(), Fault> {
    // All ranks of the process have it in common.
    static WORLD: OnceLock<Arc<Group>> = OnceLock::new();
    let world = WORLD.get_or_init(|| Group::new((0..session.size()).collect())).clone();
    let own = Group::new(vec![session.rank()]);
    let circle = circle::begin(session);
    let world = Comm::predefined(MPI_COMM_WORLD, &circle, world)?;
    let own = Comm::predefined(MPI_COMM_SELF, &circle, own)?;
    PREDEFINED.get_or_init(|| [world, own]);
    Ok(())
}

/// The predefined communicator that a handle stands for. The caller has looked whether the world model is up.
#[inline]
pub(crate) fn predefined_at(place: usize, comm: MPI_Comm) -> Option<Ref<Comm>> {
    let [world, own] = PREDEFINED.of(place).get()?;
    match comm {
        MPI_COMM_WORLD => Some(Ref::Fixed(world)),
        MPI_COMM_SELF => Some(Ref::Fixed(own)),
        _ => None,
    }
}

/// `MPI_COMM_WORLD`.
pub(crate) fn world() -> Option<&'static Arc<Comm>> {
    PREDEFINED.get().filter(|_| !job::is_over()).map(|[world, _]| world)
}

/// `MPI_COMM_SELF`.
pub(crate) fn own() -> Option<&'static Arc<Comm>> {
    PREDEFINED.get().filter(|_| !job::is_over()).map(|[_, own]| own)
}

/// The communicator whose error handler is invoked for faults that concern no object: `MPI_COMM_SELF`, as MPI 4 has it;
/// `MPI_COMM_WORLD`, as MPI 3 had it, as long as the program has given `MPI_COMM_SELF` no handler.
pub(crate) fn of_no_object() -> Option<&'static Arc<Comm>> {
    let [world, own] = PREDEFINED.get().filter(|_| !job::is_over())?;
    Some(if own.settings().errhandler_was_set { own } else { world })
}

/// The group of `MPI_COMM_WORLD` (0) or `MPI_COMM_SELF` (1), which sessions have too.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn predefined_group(number: usize) -> Result<&'static Arc<Group>, Fault> {
    let comm = PREDEFINED.get().and_then(|all| all.get(number));
    comm.map(|comm| &comm.group).ok_or_else(|| Fault::new(MPI_ERR_OTHER, "MPI is not initialised"))
}

/// The communicator that a handle stands for.
///
/// # Errors
/// The handle stands for none.
#[inline]
pub(crate) fn get(comm: MPI_Comm) -> Result<Ref<Comm>, Fault> {
    get_at(own_place(), comm)
}

/// As [`get`], for a caller that knows the place of its rank in the process.
///
/// # Errors
/// As [`get`].
#[inline]
pub(crate) fn get_at(place: usize, comm: MPI_Comm) -> Result<Ref<Comm>, Fault> {
    if job::is_world_up_at(place)
        && let Some(comm) = predefined_at(place, comm)
    {
        return Ok(comm);
    }
    COMMS.get(comm.0).map(Ref::Shared).ok_or_else(|| bad(comm))
}

/// The number of communicators that the program has made and not freed.
pub(crate) fn count() -> usize {
    COMMS.len()
}

#[cold]
fn bad(comm: MPI_Comm) -> Fault {
    let why = match comm {
        MPI_COMM_NULL => "MPI_COMM_NULL is not a communicator",
        MPI_COMM_WORLD | MPI_COMM_SELF => "it exists between MPI_Init and MPI_Finalize only",
        _ => "it is not a communicator, or was freed",
    };
    Fault::handle(MPI_ERR_COMM, "comm", comm.0, why)
}

#[cold]
pub(crate) fn bad_tag(tag: c_int, or: &str) -> Fault {
    Fault::argument(MPI_ERR_TAG, "tag", tag, &format!("tags are 0 to {TAG_UB}{or}"))
}

impl HandlesErrors for Comm {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        errhandler::invoke(&self.errhandler(), self.handle().0, class, text)
    }
}

impl Comm {
    fn predefined(
        handle: MPI_Comm,
        circle: &Arc<Circle>,
        group: Arc<Group>,
    ) -> Result<Arc<Comm>, Fault> {
        let (context, name) = match handle {
            MPI_COMM_WORLD => (context::WORLD, "MPI_COMM_WORLD"),
            // Each process has one, and none of them sends to another.
            _ => (context::OWN, "MPI_COMM_SELF"),
        };
        let (circle, errhandler) = (circle.clone(), Errhandler::Fatal);
        let comm = Comm::of(Parts { circle, context, group, remote: None, errhandler })?;
        comm.settings().name = name.into();
        let _ = comm.handle.set(handle);
        Ok(registered(comm))
    }

    fn of(parts: Parts) -> Result<Comm, Fault> {
        let Parts { circle, context, group, remote, errhandler } = parts;
        let rank = group.rank(circle.session.rank());
        let rank = rank.ok_or_else(|| Fault::new(MPI_ERR_INTERN, "not a member"))?;
        let settings = Settings { errhandler, errhandler_was_set: false, name: Vec::new() };
        circle.enter();
        Ok(Comm {
            handle: OnceLock::new(),
            session: circle.session.clone(),
            circle,
            context,
            group,
            remote,
            rank,
            attributes: Attributes::default(),
            settings: KernelMutex::new(settings),
            topology: OnceLock::new(),
            buffer: Buffer::new(),
            collectives: OnceLock::new(),
            union: OnceLock::new(),
            checking: OnceLock::new(),
            making: KernelMutex::default(),
            numbers: Arc::default(),
            tags: AtomicU32::new(TAG_UB as u32 + 1),
            failures: registry::Failures::default(),
            hints: Hints::default(),
        })
    }

    /// Makes a communicator with a handle, once its members have agreed on the context.
    ///
    /// # Errors
    /// No handle is left.
    pub(crate) fn new(parts: Parts) -> Result<Arc<Comm>, Fault> {
        let comm = Comm::hidden(parts)?;
        let handle = COMMS.insert(comm.clone());
        let handle =
            handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many communicators exist"))?;
        let _ = comm.handle.set(MPI_Comm(handle));
        Ok(comm)
    }

    /// Makes a communicator without a handle, once its members have agreed on the context.
    ///
    /// # Errors
    /// None that are known.
    fn hidden(parts: Parts) -> Result<Arc<Comm>, Fault> {
        if !parts.circle.contexts.take(parts.context) {
            return Err(Fault::new(MPI_ERR_INTERN, "two communicators have the same context"));
        }
        // From here on dropping the communicator gives the context back.
        Ok(registered(Comm::of(parts)?))
    }

    /// Ends the handle; messages under way come to their end.
    ///
    /// # Errors
    /// The function of an attribute has failed.
    pub(crate) fn free(&self) -> Result<(), Fault> {
        let handle = self.handle();
        if matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) {
            let why = "MPI_COMM_WORLD and MPI_COMM_SELF are there until MPI_Finalize";
            return Err(Fault::handle(MPI_ERR_COMM, "comm", handle.0, why));
        }
        self.attributes.delete_all(handle.0)?;
        COMMS.remove(handle.0);
        Ok(())
    }

    pub(crate) fn handle(&self) -> MPI_Comm {
        self.handle.get().copied().unwrap_or(MPI_COMM_NULL)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.settings().errhandler.clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        let mut settings = self.settings();
        settings.errhandler_was_set = true;
        let old = std::mem::replace(&mut settings.errhandler, handler);
        drop(settings);
        drop(old); // not under the lock
    }

    pub(crate) fn topology(&self) -> Option<&Topology> {
        self.topology.get().map(|topology| &**topology)
    }

    /// The topology, to give it to another communicator.
    pub(crate) fn share_topology(&self) -> Option<Arc<Topology>> {
        self.topology.get().cloned()
    }

    /// Sets the topology, once, before the program has the communicator.
    pub(crate) fn set_topology(&self, topology: Arc<Topology>) {
        let _ = self.topology.set(topology);
    }

    /// The group of the own side for collectives, made on first use.
    ///
    /// # Errors
    /// None that are known: the context makes the group's id unique.
    pub(crate) fn coll_group(&self) -> Result<&newmad::coll::Group, Fault> {
        self.members(&self.collectives, 0, || self.group.members().to_vec())
    }

    /// The group of all processes, of both sides if there are two; the side with the lower first process comes first.
    ///
    /// # Errors
    /// As [`Comm::coll_group`].
    pub(crate) fn union_group(&self) -> Result<&newmad::coll::Group, Fault> {
        let Some(remote) = &self.remote else { return self.coll_group() };
        self.members(&self.union, 1, || {
            let mut sides = [self.group.members(), remote.members()];
            sides.sort_by_key(|side| side.first().copied());
            sides.concat()
        })
    }

    /// The own side once more, for collectives that are apart from those of [`Comm::coll_group`].
    ///
    /// # Errors
    /// As [`Comm::coll_group`].
    pub(crate) fn checking_group(&self) -> Result<&newmad::coll::Group, Fault> {
        self.members(&self.checking, 2, || self.group.members().to_vec())
    }

    fn members<'a>(
        &self,
        place: &'a OnceLock<newmad::coll::Group>,
        number: u8,
        members: impl FnOnce() -> Vec<u32>,
    ) -> Result<&'a newmad::coll::Group, Fault> {
        if let Some(group) = place.get() {
            return Ok(group);
        }
        let _one = self.making.lock();
        if let Some(group) = place.get() {
            return Ok(group);
        }
        let group = self.session.group_with_id(&members(), self.collectives_id(number))?;
        if self.is_revoked() {
            group.revoke();
        }
        Ok(place.get_or_init(|| group))
    }

    /// The id of a group for collectives that belongs to this communicator alone. 0 is that of [`Comm::coll_group`], 1
    /// that of [`Comm::union_group`], 2 that of [`Comm::checking_group`].
    pub(crate) fn collectives_id(&self, number: u8) -> u64 {
        u64::from(self.context) << 8 | u64::from(number)
    }

    /// A tag on the wire that no program uses. `number` has 30 bits; the constants above are those in use.
    #[inline]
    pub(crate) fn internal_tag(&self, number: u32) -> u64 {
        u64::from(self.context) << 32 | INTERNAL | u64::from(number)
    }

    /// An internal tag that holds a tag of the program.
    pub(crate) fn internal_tag_of(&self, tag: c_int) -> u64 {
        self.internal_tag(1 << 30 | tag as u32)
    }

    /// A tag for messages of an exchange. Messages of the same lane between two processes match in order.
    pub(crate) fn exchange_tag(&self, series: Option<Series>, lane: u32) -> u64 {
        self.internal_tag(series::lane_tag(series, lane))
    }

    /// The series of a call between two groups.
    pub(crate) fn series_of_call(&self) -> Series {
        self.numbers.of_call()
    }

    /// The series of a persistent collective that is being made.
    ///
    /// # Errors
    /// The one that had the number before exists still.
    pub(crate) fn series_of_persistent(&self) -> Result<KeptSeries, Fault> {
        self.numbers.of_persistent()
    }

    /// # Errors
    /// It is an intercommunicator.
    pub(crate) fn check_intra(&self) -> Result<(), Fault> {
        match self.remote {
            None => Ok(()),
            Some(_) => Err(Fault::new(MPI_ERR_COMM, "argument comm is an intercommunicator")),
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The processes that messages go to and come from: the other side, if there is one.
    #[inline]
    pub(crate) fn peers(&self) -> &Group {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// The process that a message goes to, and its tag on the wire. `None`: `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// There is no such rank, or the tag is out of range.
    #[inline]
    pub(crate) fn destination(&self, dest: c_int, tag: c_int) -> Result<Option<(u32, u64)>, Fault> {
        if tag as u32 >= self.tags.load(Relaxed) {
            return Err(self.refused(tag, ""));
        }
        if dest == MPI_PROC_NULL {
            return Ok(None);
        }
        let process = u32::try_from(dest).ok().and_then(|rank| self.peers().process(rank));
        let process = process.ok_or_else(|| self.bad_rank("dest", dest))?;
        Ok(Some((process, u64::from(self.context) << 32 | tag as u64)))
    }

    /// The process to receive from, and the tags on the wire. `None`: `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// There is no such rank, or the tag is out of range.
    #[inline]
    pub(crate) fn origin(
        &self,
        source: c_int,
        tag: c_int,
    ) -> Result<Option<(newmad::Origin, newmad::Tag)>, Fault> {
        let context = u64::from(self.context) << 32;
        let tag = match tag {
            _ if self.is_revoked() => return Err(self.refused(tag, "")),
            MPI_ANY_TAG => {
                self.hints.check(hints::NO_ANY_TAG, "tag", tag)?;
                newmad::Tag { value: context, mask: !0 << 31 }
            }
            0..=TAG_UB => (context | tag as u64).into(),
            _ => return Err(bad_tag(tag, ", or MPI_ANY_TAG")),
        };
        let origin = match source {
            MPI_PROC_NULL => return Ok(None),
            MPI_ANY_SOURCE => {
                self.hints.check(hints::NO_ANY_SOURCE, "source", source)?;
                newmad::ANY
            }
            _ => {
                let process =
                    u32::try_from(source).ok().and_then(|rank| self.peers().process(rank));
                process.ok_or_else(|| self.bad_rank("source", source))?.into()
            }
        };
        Ok(Some((origin, tag)))
    }

    #[cold]
    pub(crate) fn bad_rank(&self, name: &str, rank: c_int) -> Fault {
        let why = format!("the communicator has ranks 0 to {}", self.peers().size() as i64 - 1);
        Fault::argument(MPI_ERR_RANK, name, rank, &why)
    }

    /// The status of a message that came.
    #[inline]
    pub(crate) fn status(&self, status: newmad::Status) -> MPI_Status {
        let source = self.peers().rank(status.source).map_or(MPI_UNDEFINED, |rank| rank as c_int);
        MPI_Status::of(source, (status.tag & 0x7fff_ffff) as c_int, status.len)
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // The groups end before the context: its next owner makes groups with the same ids.
        let failed = self.groups().any(newmad::coll::Group::has_failed);
        self.collectives.take();
        self.checking.take();
        self.union.take();
        self.give_back_context(failed);
        self.circle.leave();
    }
}
