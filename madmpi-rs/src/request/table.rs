//! The table of requests: slots that exist for ever and are reused, with the memory that newmad needs for a message.
//!
//! A slot has a lock of its own, which no thread holds while it waits. Each thread, green ones included, keeps some free
//! slots and reuses the last freed first: making and ending a request takes no lock but the slot's. (Slots that the ranks of
//! a kernel thread had in common came from one rank to the next, and newmad's memory in them is of one rank's session: it was
//! freed and allocated for each message.)
//!
//! Rejected: [`crate::handle::Table`] (two more locks and an allocation for each message).

use std::cell::RefCell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::state::State;
use crate::abi::*;
use crate::error::Fault;
use crate::slots::{self, Slots};
use marcel::plumbing::KernelMutex;

/// The first handle: those below are the ABI's constants and the two handles without a slot.
const FIRST: u32 = 4098;
/// The handle of every send that left at once.
pub(crate) const SENT: MPI_Request = MPI_Request(4096);
/// The handle of every message to or from `MPI_PROC_NULL`.
pub(crate) const PROC_NULL: MPI_Request = MPI_Request(4097);
/// Free slots that a thread keeps.
const CACHE: usize = 64;
/// Once so many slots exist, a thread keeps only these: what threads keep, others cannot have.
const PLENTY: u32 = 1 << 17;
const FEW: usize = 4;

/// A slot for a request.
pub(super) struct Slot(KernelMutex<State>);

type RequestSlots = Slots<Slot, FIRST>;

static SLOTS: RequestSlots = Slots::new();
static FREE: KernelMutex<FreeSlots> = KernelMutex::new(FreeSlots { freed: Vec::new(), fresh: 0 });

/// How many slots exist: `FreeSlots::fresh`, for threads without that lock.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Free slots that a thread keeps now.
#[inline]
fn most() -> usize {
    if MADE.load(Relaxed) < PLENTY { CACHE } else { FEW }
}

struct FreeSlots {
    freed: Vec<u32>,
    fresh: u32,
}

/// The free slots of a thread; at its end they go to the others.
struct Cache(RefCell<Vec<u32>>);

marcel::thread_local! {
    static OWN: Cache = Cache(RefCell::new(Vec::new()));
}

impl Cache {
    /// Keeps free slots; false: there are enough.
    #[inline]
    fn keep(&self, slots: &[u32]) -> bool {
        let mut own = self.0.borrow_mut();
        let room = own.len() + slots.len() <= most();
        if room {
            own.extend_from_slice(slots);
        }
        room
    }

    /// Gives all but half a cache of free slots to the others.
    fn share(&self) {
        let mut own = self.0.borrow_mut();
        let kept = own.len().min(most() / 2);
        FREE.lock().freed.extend(own.drain(kept..));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        FREE.lock().freed.append(self.0.get_mut());
    }
}

/// Takes a free slot.
fn take() -> Option<u32> {
    let own = OWN.try_with(|own| own.0.borrow_mut().pop()).ok().flatten();
    own.or_else(more)
}

#[cold]
fn more() -> Option<u32> {
    let mut spare = FREE.lock();
    if let Some(index) = spare.freed.pop() {
        return Some(index);
    }
    let made = SLOTS.grow(&mut spare.fresh, || Slot(KernelMutex::new(State::free())));
    MADE.store(spare.fresh, Relaxed);
    made
}

fn give_back(slots: &[u32]) {
    if !OWN.try_with(|own| own.keep(slots)).unwrap_or(false) {
        give_to_others(slots);
    }
}

/// The thread keeps enough free slots, or ends.
#[cold]
fn give_to_others(slots: &[u32]) {
    let _ends = OWN.try_with(Cache::share);
    FREE.lock().freed.extend(slots);
}

/// Slots that a call frees, which are given back together: to find the thread's own free slots costs as much as to free one.
pub(super) struct Freed {
    slots: [u32; Freed::MOST],
    count: usize,
}

impl Freed {
    const MOST: usize = CACHE / 2;

    pub(super) fn new() -> Freed {
        Freed { slots: [0; Freed::MOST], count: 0 }
    }

    /// As [`SlotGuard::free`].
    #[inline(always)]
    pub(super) fn free(&mut self, slot: SlotGuard) {
        if self.count == Freed::MOST {
            self.give_back();
        }
        self.slots[self.count] = slot.end();
        self.count += 1;
    }

    fn give_back(&mut self) {
        give_back(&self.slots[..self.count]);
        self.count = 0;
    }
}

impl Drop for Freed {
    #[inline]
    fn drop(&mut self) {
        if self.count > 0 {
            self.give_back();
        }
    }
}

/// The lock of a slot.
pub(super) struct SlotGuard {
    state: MutexGuard<'static, State>,
    index: u32,
}

impl std::ops::Deref for SlotGuard {
    type Target = State;
    #[inline]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl std::ops::DerefMut for SlotGuard {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl SlotGuard {
    /// The request's handle.
    #[inline]
    pub(super) fn handle(&self) -> MPI_Request {
        MPI_Request(RequestSlots::handle(self.index, self.state.generation))
    }

    /// Ends the request: its handle stands for nothing from now on, and the slot is free.
    #[inline]
    pub(super) fn free(self) {
        give_back(&[self.end()]);
    }

    /// Ends the request; returns its slot, which is to be given back.
    #[inline(always)]
    fn end(mut self) -> u32 {
        self.state.generation = slots::next(self.state.generation);
        self.state.clear();
        self.index
    }
}

/// Makes a request without work.
///
/// # Errors
/// No slot is left.
#[inline]
pub(super) fn new() -> Result<SlotGuard, Fault> {
    let found = take().and_then(|index| Some((index, SLOTS.get(index)?)));
    let Some((index, slot)) = found else {
        return Err(Fault::new(MPI_ERR_OTHER, "two million requests exist already"));
    };
    Ok(SlotGuard { state: slot.0.lock(), index })
}

/// The request that a handle stands for, even if the program has freed it.
#[inline(always)]
pub(super) fn find(request: MPI_Request) -> Option<SlotGuard> {
    let (index, generation) = RequestSlots::named(request.0)?;
    let state = SLOTS.get(index)?.0.lock();
    let right = state.generation == generation && state.is_used();
    right.then_some(SlotGuard { state, index })
}

/// The request that a handle stands for, unless the program has freed it.
///
/// # Errors
/// The handle stands for none, or the program has freed it.
#[inline]
pub(super) fn get(request: MPI_Request) -> Result<SlotGuard, Fault> {
    find(request).filter(|locked| !locked.freed).ok_or_else(|| bad(request))
}

#[cold]
pub(super) fn bad(request: MPI_Request) -> Fault {
    let why = match request {
        MPI_REQUEST_NULL => "MPI_REQUEST_NULL is not a request",
        _ => "it is not a request, or was freed, or was completed before",
    };
    Fault::handle(MPI_ERR_REQUEST, "request", request.0, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::outcome::Outcome;
    use crate::request::state::Work;
    use proptest::prelude::*;

    fn over(tag: i32) -> MPI_Request {
        let mut locked = new().ok().unwrap();
        let status = MPI_Status { MPI_TAG: tag, ..MPI_Status::EMPTY };
        locked.work = Work::Over(Outcome { status, fault: None });
        locked.handle()
    }

    fn tag(handle: MPI_Request) -> Option<i32> {
        match &find(handle)?.work {
            Work::Over(outcome) => Some(outcome.status.MPI_TAG),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn a_handle_stands_for_its_request_until_that_is_freed(
            steps in proptest::collection::vec((any::<bool>(), any::<usize>()), 1..1000),
        ) {
            let (mut live, mut dead) = (std::collections::HashMap::new(), Vec::new());
            for (number, (insert, which)) in steps.into_iter().enumerate() {
                if insert || live.is_empty() {
                    let handle = over(number as i32);
                    prop_assert!((4098..1 << 31).contains(&handle.0));
                    prop_assert!(live.insert(handle, number as i32).is_none());
                } else {
                    let handle = *live.keys().nth(which % live.len()).unwrap();
                    live.remove(&handle);
                    find(handle).unwrap().free();
                    dead.push(handle);
                }
            }
            for (handle, number) in &live {
                prop_assert_eq!(tag(*handle), Some(*number));
            }
            for handle in dead.iter().filter(|handle| !live.contains_key(handle)) {
                prop_assert!(find(*handle).is_none());
            }
            for handle in live.into_keys() {
                find(handle).unwrap().free();
            }
        }
    }

    #[test]
    fn requests_made_here_and_ended_there_do_not_meet() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let ender = std::thread::spawn(move || {
            for (handle, number) in receiver {
                assert_eq!(tag(handle), Some(number));
                find(handle).unwrap().free();
            }
        });
        for number in 0..10_000 {
            sender.send((over(number), number)).unwrap();
        }
        drop(sender);
        ender.join().unwrap();
    }

    #[test]
    fn what_is_no_handle_is_nothing() {
        for handle in [0, 1, 0x180, 4095, 4096, 4097, 1 << 21, 1 << 31, usize::MAX] {
            assert!(find(MPI_Request(handle)).is_none());
        }
    }
}
