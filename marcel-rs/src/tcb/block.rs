//! Thread control blocks; how threads park and are unparked.
//!
//! One block per green thread, and one per plain kernel thread that ever waited. **Blocks are immortal**:
//! they are recycled, never freed. So any holder of a `&'static Tcb` may unpark it at any time; if the
//! thread has ended meanwhile, its successor sees a spurious wake-up, which every wait loop tolerates. That
//! is what lets a completion be the *last touch* of a request (rule 4 of the progress path) without reference counts,
//! whose last decrement would free memory on the progress path.
//!
//! The protocol of park and unpark: `park_word`.

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use crate::list::Chained;
use crate::os::KernelMutex;
use crate::os::sleeper::Sleeper;
use crate::os::stderr::to_stderr;
use crate::os::{AtomicPtr, AtomicU64};
use crate::recorder;
use crate::stack::{Context, Switch};
use crate::tcb::budget::Budget;
use crate::tcb::debug_info::DebugInfo;
use crate::tcb::interrupt_flag::InterruptFlag;
use crate::tcb::join_word::JoinWord;
use crate::tcb::locals::Locals;
use crate::tcb::park_word::ParkWord;
use crate::tcb::payload::{Payload, Unwinding, contain};
use crate::tcb::traits::{Panics, Traits};

/// Control block of one thread; see the module's description. Blocks are neighbours in memory, and their
/// threads run on different cores: hence the alignment.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tcb {
    pub(crate) park: ParkWord,
    /// The token of [`crate::Thread::unpark`], which the program's own `park` takes: any wait takes that of `park`, which is
    /// made available after this one. Nobody waits at this word.
    pub(crate) unparked: ParkWord,
    /// Whether the thread has been asked to stop.
    pub(crate) interrupt: InterruptFlag,
    /// Link in whichever intrusive list holds the thread: inbox or run queue. One at a time.
    pub(crate) next: AtomicPtr<Tcb>,
    /// Worker of a started green thread; null for a kernel thread and before the first run. Only `sched::worker`, which
    /// knows the type, stores and loads it.
    pub(crate) home: AtomicPtr<()>,
    /// Counts its waits, so that a stale timer is recognised. Written by the thread, or on its behalf.
    pub(crate) wait: AtomicU64,
    /// Its end, and the thread that joins it.
    pub(crate) join: JoinWord<Tcb>,
    /// Where a plain kernel thread sleeps.
    pub(crate) sleeper: Sleeper,
    /// What others see of the thread.
    pub(crate) info: DebugInfo,
    /// What only the thread itself, or the virtual processor that holds it, touches.
    pub(crate) own: Own,
}

/// The part of a control block that has one owner at a time: the spawner until the thread is queued, then the
/// virtual processor that took it. Hand-overs go through the queues' release/acquire.
#[derive(Default)]
pub(crate) struct Own {
    pub(crate) context: UnsafeCell<Option<Context>>,
    pub(crate) payload: Payload,
    pub(crate) name: UnsafeCell<Option<Box<str>>>,
    /// Why it got no stack.
    pub(crate) no_stack: Cell<Option<io::Error>>,
    pub(crate) stack_size: Cell<usize>,
    /// How it is to be run.
    pub(crate) traits: Cell<Traits>,
    /// Its runtime stops, and the thread is unwound: it does not park any more, see `sched::unwinding`.
    pub(crate) unwinding: Cell<bool>,
    /// Whether it is suspended in a panic of its own.
    pub(crate) panics: Cell<Panics>,
    /// The virtual processor whose policy, one of the program's own, has it. Only `sched::policy` stores and loads it.
    pub(crate) kept: AtomicPtr<()>,
    /// What is left of its turn.
    pub(crate) budget: Budget,
    /// Green-thread-local values.
    pub(crate) locals: Locals,
    /// Index in the virtual processor's list of living threads.
    pub(crate) place: Cell<usize>,
    /// Its name in a trace.
    pub(crate) traced: Cell<u32>,
}

// SAFETY: the shared fields are atomics; `own` has one owner at a time (see `Own`), handed over with
// release/acquire through the queues.
unsafe impl Sync for Tcb {}
// SAFETY: as above; a block is bound to no kernel thread until it is started.
unsafe impl Send for Tcb {}

// SAFETY: a field that nothing else touches.
unsafe impl Chained for Tcb {
    fn next(&self) -> &AtomicPtr<Tcb> {
        &self.next
    }
}

/// Blocks that no thread uses and no virtual processor keeps.
static POOL: KernelMutex<Pool> = KernelMutex::new(Pool { free: Vec::new(), made: 0 });

struct Pool {
    /// With room for all that were made: to give a block back needs no memory.
    free: Vec<&'static Tcb>,
    made: usize,
}

/// Blocks made at a time, moved at a time between the pool and a virtual processor, and half of what one keeps.
const BATCH: usize = 64;

/// Free blocks of one virtual processor, the last used one last.
pub(crate) struct TcbCache(Vec<&'static Tcb>);

impl Default for TcbCache {
    fn default() -> Self {
        TcbCache(Vec::with_capacity(2 * BATCH + 1))
    }
}

impl TcbCache {
    #[inline]
    fn take(&mut self) -> &'static Tcb {
        self.0.pop().unwrap_or_else(|| self.refill())
    }

    #[cold]
    fn refill(&mut self) -> &'static Tcb {
        let mut pool = POOL.lock();
        self.0.extend((1..BATCH).map(|_| pool.take()));
        pool.take()
    }

    #[inline]
    fn put(&mut self, tcb: &'static Tcb) {
        self.0.push(tcb);
        if self.0.len() > 2 * BATCH {
            self.spill(BATCH);
        }
    }

    /// Gives blocks back until `keep` are left.
    #[cold]
    pub(crate) fn spill(&mut self, keep: usize) {
        let most = self.0.len().saturating_sub(keep);
        POOL.lock().free.extend(self.0.drain(..most));
    }
}

impl Pool {
    fn take(&mut self) -> &'static Tcb {
        self.free.pop().unwrap_or_else(|| self.make())
    }

    #[cold]
    fn make(&mut self) -> &'static Tcb {
        let blocks: &'static [Tcb] = Vec::leak((0..BATCH).map(|_| Tcb::default()).collect());
        blocks.iter().for_each(enlist);
        self.made += BATCH;
        self.free.reserve(self.made);
        self.free.extend(&blocks[1..]);
        &blocks[0]
    }
}

impl Tcb {
    /// A block for a new thread, from `cache` if the caller has one.
    #[inline]
    pub(crate) fn allocate(cache: Option<&mut TcbCache>) -> &'static Tcb {
        let tcb = match cache {
            Some(cache) => cache.take(),
            None => POOL.lock().take(),
        };
        tcb.info.enter();
        tcb
    }

    /// Gives the block of an ended thread back, to `cache` if the caller has one. An unpark that is still to come wakes
    /// the next user.
    #[inline]
    pub(crate) fn recycle(&'static self, cache: Option<&mut TcbCache>) {
        debug_assert!(self.own.payload.is_empty());
        if cfg!(panic = "abort") && self.has_context() {
            return; // left behind: see `sched::unwinding`
        }
        self.home.store(null_mut(), Relaxed);
        self.interrupt.next_generation();
        self.unparked.take_token();
        self.join.reset();
        if let Some(why) = self.own.no_stack.take() {
            self.was_lost(&why);
        }
        self.own.stack_size.set(0);
        self.own.traits.set(Traits::default());
        self.own.budget.reset();
        self.set_name(None);
        self.info.leave();
        match cache {
            Some(cache) => cache.put(self),
            None => POOL.lock().free.push(self),
        }
    }

    /// The thread got no stack, and no join has asked: says so, of the first such thread of the process.
    #[cold]
    fn was_lost(&self, why: &io::Error) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Relaxed) {
            to_stderr(|out| {
                let name = self.name().map_or("<unnamed>".into(), |name| format!("'{name}'"));
                writeln!(
                    out,
                    "marcel: thread {name}, which is not joined, did not run: {why} (said once)"
                )
            });
        }
    }

    /// What tells its thread from other threads.
    pub(crate) fn id(&self) -> ThreadId {
        ThreadId::new(self, self.interrupt.generation())
    }

    /// Whether another kernel thread may run the suspended thread, where threads migrate: not one that is bound; nor
    /// one in a panic, which Rust counts for the kernel thread; nor one that is unwound. By its owner.
    pub(crate) fn may_migrate(&self) -> bool {
        self.own.traits.get().bound.is_none()
            && self.own.panics.get() == Panics::No
            && !self.own.unwinding.get()
    }

    /// Drops the closure or the result of a thread. By its owner.
    pub(crate) fn discard_payload(&self) -> Option<Unwinding> {
        // SAFETY: the caller owns the thread.
        contain(|| unsafe { self.own.payload.discard() }).unwinding
    }

    /// The thread's name, for messages.
    pub(crate) fn name(&self) -> Option<&str> {
        // SAFETY: written by the spawner before the thread was queued, read by it or on its behalf.
        unsafe { (*self.own.name.get()).as_deref() }
    }

    /// Gives it a name, or takes it away. The block's owner of the moment only.
    pub(crate) fn set_name(&self, name: Option<Box<str>>) {
        self.info.unnamed();
        // SAFETY: the caller owns the block, and no observer from outside comes here.
        let slot = unsafe { &mut *self.own.name.get() };
        *slot = name;
        self.own.traced.set(0);
        if let Some(name) = slot {
            self.info.named(name);
            if recorder::is_on() {
                self.own.traced.set(recorder::intern(name));
            }
        }
    }

    /// Whether it can switch out: one that got no stack drops its closure in the scheduler. By the thread itself, or its
    /// owner.
    pub(crate) fn has_context(&self) -> bool {
        // SAFETY: the calling thread's own.
        unsafe { (*self.own.context.get()).is_some() }
    }

    /// Lets others run. By the thread itself.
    pub(crate) fn give_way(&self) {
        if self.has_context() {
            // SAFETY: by the thread itself.
            unsafe { self.switch(Switch::Yield) }
        } else {
            std::thread::yield_now(); // it got no stack, and drops its closure in the scheduler
        }
    }

    /// Switches to the scheduler.
    ///
    /// # Safety
    /// Only by the thread itself, on its own stack.
    #[inline(always)]
    pub(crate) unsafe fn switch(&self, how: Switch) {
        // SAFETY: a running thread has a context, which stays while it runs, and the caller is on its stack.
        unsafe {
            let context = (*self.own.context.get()).as_ref();
            self.info.leaves();
            context.expect("a running green thread has a context").suspend(how);
        }
    }
}

/// Tells a thread from all others of the process, ended ones included. Green threads, and kernel threads that have
/// waited for something of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// As dumps show it; used again by later threads.
    number: u32,
    generation: u64,
}

impl ThreadId {
    /// Of the thread that control block `tcb` served in this generation.
    pub(crate) fn new(tcb: &Tcb, generation: u64) -> ThreadId {
        ThreadId { number: tcb.info.number(), generation }
    }
}

/// Where a debugger begins.
#[repr(C)]
struct Threads {
    version: u32,
    /// Where in a control block the [`DebugInfo`] is.
    look: u32,
    /// Where in a control block the word of park and unpark is.
    park: u32,
    count: AtomicU32,
    first: AtomicPtr<Tcb>,
}

const VERSION: u32 = 1;

// SAFETY: no other symbol has this name; a debugger finds it by it.
#[unsafe(export_name = "MARCEL_THREADS")]
static THREADS: Threads = Threads {
    version: VERSION,
    look: std::mem::offset_of!(Tcb, info) as u32,
    park: std::mem::offset_of!(Tcb, park) as u32,
    count: AtomicU32::new(0),
    first: AtomicPtr::new(null_mut()),
};

/// Every control block there is, the newest first. Anywhere, signal handlers included.
pub(crate) fn all() -> impl Iterator<Item = &'static Tcb> {
    // SAFETY: null or an immortal block, published with release.
    let block = |at: *mut Tcb| unsafe { at.as_ref() };
    let first = block(THREADS.first.load(Acquire));
    std::iter::successors(first, move |tcb| block(tcb.info.next.load(Acquire).cast()))
}

/// Puts a fresh block in the list, for good.
fn enlist(tcb: &'static Tcb) {
    tcb.info.number.store(THREADS.count.fetch_add(1, Relaxed) + 1, Relaxed);
    let this = tcb as *const Tcb as *mut Tcb;
    let mut first = THREADS.first.load(Relaxed);
    loop {
        tcb.info.next.store(first.cast(), Relaxed);
        match THREADS.first.compare_exchange_weak(first, this, Release, Relaxed) {
            Ok(_) => return,
            Err(other) => first = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_forgotten_exemption_ends_with_its_thread() {
        let tcb = Tcb::allocate(None);
        tcb.own.budget.exempt();
        // Held back from other tests: the block goes to this cache.
        let mut cache = TcbCache::default();
        tcb.recycle(Some(&mut cache));
        assert!(!tcb.own.budget.is_exempt());
        cache.spill(0);
    }

    /// As `threads` in `tools/gdb/marcel.py` has it. If this changes, that does, and `VERSION`.
    #[test]
    fn the_layout_is_the_debugger_s() {
        assert_eq!(VERSION, 1);
        let at = [
            offset_of!(Threads, version),
            offset_of!(Threads, look),
            offset_of!(Threads, park),
            offset_of!(Threads, first),
        ];
        assert_eq!(at, [0, 4, 8, 16]);
    }
}
