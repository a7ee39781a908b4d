//! Making and freeing windows. Members tell each other what they have; then, where they can share memory, the first one
//! makes the segment and the others map it. Each step ends with an answer of all, so that all take the same way.

use core::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use marcel::plumbing::KernelMutex;

use super::attributes::{APART, hints};
use super::epoch::Epochs;
use super::memory::{Allocated, Exposed};
use super::processes::Processes;
use super::remote::Remote;
use super::segment::{PAGE, Segment};
use super::{Member, Own, Reach, Settings, WINDOWS, Way, Win, foreign, insert};
use crate::abi::*;
use crate::attribute::Attributes;
use crate::comm::{Agreement, Comm, kinds};
use crate::errhandler::Errhandler;
use crate::error::Fault;
use crate::handle::Ref;

/// The arguments of a call that makes a window.
pub(crate) struct Wanted {
    pub(crate) flavor: c_int,
    pub(crate) base: usize,
    pub(crate) size: i64,
    pub(crate) unit: i64,
    pub(crate) info: MPI_Info,
}

/// A member's description of itself, which all get.
#[derive(Clone, Copy)]
struct Card {
    base: usize,
    size: usize,
    unit: usize,
    pid: u64,
    /// Members with the same number can share memory; 0: this one does not.
    memory: u64,
    probe: usize,
    /// The members' parts of shared memory need not touch.
    apart: bool,
}

const WORDS: usize = 7;

impl Card {
    fn words(self) -> [u64; WORDS] {
        let Card { base, size, unit, pid, memory, probe, apart } = self;
        [base as u64, size as u64, unit as u64, pid, memory, probe as u64, apart.into()]
    }

    fn of([base, size, unit, pid, memory, probe, apart]: [u64; WORDS]) -> Card {
        Card {
            base: base as usize,
            size: size as usize,
            unit: unit as usize,
            pid,
            memory,
            probe: probe as usize,
            apart: apart != 0,
        }
    }
}

/// # Errors
/// An argument is not acceptable; a member has died; there is no memory; members cannot share memory, and were asked
/// to.
pub(crate) fn create(comm: &Comm, wanted: &Wanted) -> Result<MPI_Win, Fault> {
    let &Wanted { flavor, base, size, unit, info } = wanted;
    comm.check_intra()?;
    let Ok(size) = usize::try_from(size) else {
        return Err(Fault::argument(MPI_ERR_SIZE, "size", size, "it must not be negative"));
    };
    if unit <= 0 || unit > i64::from(c_int::MAX) {
        return Err(Fault::argument(MPI_ERR_DISP, "disp_unit", unit, "it must be positive"));
    }
    if flavor == MPI_WIN_FLAVOR_CREATE && base == 0 && size > 0 {
        let why = "the window has bytes";
        return Err(Fault::argument(MPI_ERR_BASE, "base", "null", why));
    }
    let hints = hints(info, flavor)?;
    let comm = Ref::Shared(comm.hidden_twin()?);
    let shares = flavor == MPI_WIN_FLAVOR_SHARED || comm.session.driver().contains("shm");
    let card = Card {
        base,
        size,
        unit: unit as usize,
        pid: std::process::id().into(),
        memory: if shares || comm.group.size() == 1 { kinds::memory() } else { 0 },
        probe: foreign::probe_address(),
        apart: hints.get(APART) == Some(b"true"),
    };
    let [cards, _] = Agreement::of_comm(&comm)?.gather(card.words())?;
    let cards: Vec<Card> = cards.into_iter().map(Card::of).collect();
    let segment = segment(&comm, flavor, &cards)?;
    if segment.is_none() && flavor == MPI_WIN_FLAVOR_SHARED {
        let why =
            "the members cannot share memory: see MPI_Comm_split_type with MPI_COMM_TYPE_SHARED";
        return Err(Fault::new(MPI_ERR_RMA_SHARED, why));
    }
    let rank = comm.rank() as usize;
    let (allocated, bases) = match segment {
        None if flavor == MPI_WIN_FLAVOR_ALLOCATE => {
            let (memory, bases) = allocate(&comm, size)?;
            (Some(memory), bases)
        }
        _ => (None, cards.iter().map(|card| card.base).collect()),
    };
    let base = allocated.as_ref().map_or(base, Allocated::address);
    let places = places(flavor, &cards);
    let mapped = flavor == MPI_WIN_FLAVOR_ALLOCATE || flavor == MPI_WIN_FLAVOR_SHARED;
    let member = |number: usize| {
        let (card, there) = (&cards[number], bases[number]);
        let reach = match &segment {
            Some(segment) if mapped => Reach::Here(segment.memory() + places[number]),
            _ if number == rank => Reach::Here(there),
            Some(_) => Reach::Foreign(there, card.pid as i32),
            None => Reach::Messages(there),
        };
        let process = comm.group.process(number as u32).unwrap_or_default();
        Member { process, reach, size: card.size, unit: card.unit }
    };
    let members: Box<[Member]> = (0..cards.len()).map(member).collect();
    let base = match members[rank].reach {
        Reach::Here(at) => at,
        _ => base,
    };
    let way = match segment {
        Some(segment) => {
            let pids = cards.iter().enumerate();
            let pids = pids.map(|(number, card)| if number == rank { 0 } else { card.pid });
            Way::Memory { segment, processes: Processes::new(pids) }
        }
        None => {
            let exposed = match flavor {
                MPI_WIN_FLAVOR_DYNAMIC => Exposed::Attached(KernelMutex::default()),
                _ => Exposed::Fixed(base, size),
            };
            Way::Messages(Remote::new(&comm.share(), exposed, allocated))
        }
    };
    // Where members share memory this is for the program's mistakes only.
    let shown = match flavor {
        MPI_WIN_FLAVOR_DYNAMIC => Exposed::Attached(KernelMutex::default()),
        _ => Exposed::Fixed(base, size),
    };
    let epochs = Epochs::new(cards.len());
    let everyone = (0..cards.len()).collect();
    let own =
        Own { base, size: size as MPI_Aint, unit: unit as c_int, flavor, model: MPI_WIN_UNIFIED };
    let settings = Settings { errhandler: Errhandler::Fatal, name: Vec::new(), info: hints };
    insert(Win {
        handle: OnceLock::new(),
        comm,
        members,
        everyone,
        way,
        own,
        attributes: Attributes::default(),
        settings: KernelMutex::new(settings),
        epochs,
        calls: AtomicU32::new(0),
        exposure: KernelMutex::new(None),
        shown,
    })
}

/// Allocates this member's memory, which is not shared; with the addresses of all.
///
/// # Errors
/// At all members: one of them has no memory.
fn allocate(comm: &Comm, size: usize) -> Result<(Allocated, Vec<usize>), Fault> {
    let own = Allocated::new(size);
    let base = own.as_ref().map_or(0, Allocated::address) as u64;
    let [said, _] = Agreement::of_comm(comm)?.gather([base, own.is_ok().into()])?;
    let own = own?;
    if let Some(without) = said.iter().position(|&[_, ok]| ok == 0) {
        let why = format!("rank {without} has no memory for its part of the window");
        return Err(Fault::new(MPI_ERR_NO_MEM, why));
    }
    Ok((own, said.into_iter().map(|[base, _]| base as usize).collect()))
}

/// Where the members' parts begin in the memory of the segment.
fn places(flavor: c_int, cards: &[Card]) -> Vec<usize> {
    let touch = flavor == MPI_WIN_FLAVOR_SHARED && !cards[0].apart;
    let unit = if touch { 1 } else { PAGE };
    let next = |end: &mut usize, card: &Card| {
        let begin = *end;
        *end = begin.saturating_add(card.size).checked_next_multiple_of(unit).unwrap_or(usize::MAX);
        Some(begin)
    };
    cards.iter().scan(0, next).collect()
}

/// The segment, if all members can map it, and reach each other's other memory.
fn segment(comm: &Comm, flavor: c_int, cards: &[Card]) -> Result<Option<Segment>, Fault> {
    let memory = cards[0].memory;
    if memory == 0 || cards.iter().any(|card| card.memory != memory) {
        return Ok(None);
    }
    let (rank, count) = (comm.rank() as usize, cards.len());
    let own = match flavor {
        MPI_WIN_FLAVOR_ALLOCATE | MPI_WIN_FLAVOR_SHARED => {
            let last = cards.last().map_or(0, |card| card.size);
            places(flavor, cards).last().map_or(0, |begin| begin.saturating_add(last))
        }
        _ => 0,
    };
    let mut made = None;
    let mut words = [0; 3];
    if rank == 0 {
        // Others tell it from segments of other windows by this.
        let cookie = (cards[0].probe as u64).rotate_left(17) ^ clock() ^ cards[0].pid;
        made = Segment::create(count, own, cookie).ok();
        words = made.as_ref().map_or([0; 3], |(_, file)| [1, file.as_raw_fd() as u64, cookie]);
    }
    let [offers, _] = Agreement::of_comm(comm)?.gather(words)?;
    let [ok, fd, cookie] = offers[0];
    let segment = match made {
        _ if ok == 0 => None,
        Some((segment, file)) => Some((segment, Some(file))),
        None => Segment::open((cards[0].pid, fd), count, own, cookie).ok().map(|map| (map, None)),
    };
    let reaches = match flavor {
        MPI_WIN_FLAVOR_CREATE | MPI_WIN_FLAVOR_DYNAMIC => {
            let mut others = cards.iter().enumerate().filter(|(number, _)| *number != rank);
            others.all(|(_, card)| foreign::probe(card.pid, card.probe))
        }
        _ => true,
    };
    let able = segment.is_some() && reaches;
    // The file stays open until all have mapped it.
    let all_able = !Agreement::of_comm(comm)?.any(!able)?;
    Ok(segment.filter(|_| all_able).map(|(segment, _)| segment))
}

fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// Ends a window, at all members.
///
/// # Errors
/// An epoch is open, or the function of an attribute has failed: the window stays. An access has failed, or a member has died:
/// it is gone nevertheless.
pub(crate) fn free(win: &Win) -> Result<(), Fault> {
    win.epochs.check_no_lock()?;
    if win.exposure.lock().is_some() || !win.epochs.started().is_empty() {
        let why = "an epoch of a group is open: see MPI_Win_wait and MPI_Win_complete";
        return Err(Fault::new(MPI_ERR_RMA_SYNC, why));
    }
    win.attributes.delete_all(win.handle().0)?;
    WINDOWS.remove(win.handle().0);
    let flushed = win.remote().map_or(Ok(()), |remote| remote.flush(&win.everyone));
    let met = win.comm.coll_group()?.barrier().wait();
    if let Ok(remote) = win.remote() {
        match met {
            Ok(()) => remote.service.stop(),
            // Members that could not be waited for may still ask: they are answered.
            Err(_) => remote.service.close(),
        }
    }
    met?;
    flushed
}

impl Win {
    /// Shows memory to the others.
    ///
    /// # Errors
    /// The window is not dynamic; some of the memory is attached already.
    pub(crate) fn attach(&self, at: usize, size: MPI_Aint) -> Result<(), Fault> {
        let Ok(size) = usize::try_from(size) else {
            return Err(Fault::argument(MPI_ERR_SIZE, "size", size, "it must not be negative"));
        };
        self.exposed().attach(at, size)
    }

    /// Takes memory back that was attached.
    ///
    /// # Errors
    /// The window is not dynamic; the memory was not attached.
    pub(crate) fn detach(&self, at: usize) -> Result<(), Fault> {
        self.exposed().detach(at)
    }

    fn exposed(&self) -> &Exposed {
        match &self.way {
            Way::Messages(remote) => &remote.service.exposed,
            Way::Memory { .. } => &self.shown,
        }
    }
}
