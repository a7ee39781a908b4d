//! Thread control blocks; how threads park and are unparked.
//!
//! One block per green thread, and one per plain kernel thread that ever waited. **Blocks are immortal**:
//! they are recycled, never freed. So whoever holds a `&'static Tcb` may unpark it at any time; if the
//! thread has ended meanwhile, its successor sees a spurious wake-up, which every wait loop tolerates. That
//! is what lets a completion be the *last touch* of a request (DESIGN §4.4) without reference counts, whose
//! last decrement would free memory on the progress path.
//!
//! The protocol of park and unpark: `park_word`.

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::list::{Chained, Stack};
use crate::os::sleeper::Sleeper;
use crate::os::{AtomicPtr, AtomicU64};
use crate::recorder::event;
use crate::recorder::{self, Kind};
use crate::sched::ending::Panics;
use crate::sched::here;
use crate::sched::policy::{Bubble, Priority};
use crate::sched::vp::Vp;
use crate::stack::{Context, Switch};
use crate::task::interrupt::Asked;
use crate::task::local_key::Locals;
use crate::tcb::debug_info::{self, DebugInfo};
use crate::tcb::join_word::JoinWord;
use crate::tcb::park_word::ParkWord;
use crate::tcb::payload::Payload;

/// Control block of one thread; see the module's description. Blocks are neighbours in memory, and their
/// threads run on different cores: hence the alignment.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tcb {
    pub(crate) park: ParkWord,
    /// Whether the thread has been asked to stop.
    pub(crate) asked: Asked,
    /// Link in whichever intrusive list holds the thread: inbox, run queue or free list. One at a time.
    pub(crate) next: AtomicPtr<Tcb>,
    /// Virtual processor of a started green thread; null for a kernel thread and before the first run.
    pub(crate) home: AtomicPtr<Vp>,
    /// Counts its waits, so that a stale timer is recognised. Written by the thread, or on its behalf.
    pub(crate) wait: AtomicU64,
    /// Who learns of its end.
    pub(crate) join: JoinWord,
    /// Where a plain kernel thread sleeps.
    pub(crate) sleeper: Sleeper,
    /// What others see of the thread.
    pub(crate) info: DebugInfo,
    /// What only the thread itself, or the virtual processor that holds it, touches.
    pub(crate) own: Own,
}

/// How a thread is to be run; as its builder says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    pub(crate) priority: Priority,
    pub(crate) bubble: Bubble,
    /// The node of the topology that it is bound to.
    pub(crate) bound: Option<u32>,
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
    /// Its runtime stops, and the thread is unwound: it does not park any more, see `vp::ending`.
    pub(crate) unwinding: Cell<bool>,
    /// Whether it is suspended in a panic of its own.
    pub(crate) panics: Cell<Panics>,
    /// The virtual processor whose policy, one of the program's own, has it. Any of them may look.
    pub(crate) kept: AtomicPtr<Vp>,
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
static POOL: Mutex<Pool> = Mutex::new(Pool { free: Stack::new() });

struct Pool {
    free: Stack<Tcb>,
}

/// Blocks made at a time, moved at a time between the pool and a virtual processor, and half of what one keeps.
const BATCH: usize = 64;

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Free blocks of one virtual processor.
#[derive(Default)]
pub(crate) struct TcbCache {
    free: Stack<Tcb>,
    len: usize,
}

impl TcbCache {
    #[inline]
    fn take(&mut self) -> &'static Tcb {
        if self.len == 0 {
            self.refill();
        }
        self.len -= 1;
        self.free.pop().expect("as many blocks as counted")
    }

    #[cold]
    fn refill(&mut self) {
        let mut pool = pool();
        while self.len < BATCH {
            self.free.push(pool.take());
            self.len += 1;
        }
    }

    #[inline]
    fn put(&mut self, tcb: &'static Tcb) {
        self.free.push(tcb);
        self.len += 1;
        if self.len > 2 * BATCH {
            self.spill(BATCH);
        }
    }

    /// Gives blocks back until `keep` are left.
    #[cold]
    pub(crate) fn spill(&mut self, keep: usize) {
        let mut pool = pool();
        while self.len > keep {
            pool.free.push(self.free.pop().expect("as many blocks as counted"));
            self.len -= 1;
        }
    }
}

impl Pool {
    fn take(&mut self) -> &'static Tcb {
        if self.free.is_empty() {
            let blocks: &'static [Tcb] = Vec::leak((0..BATCH).map(|_| Tcb::default()).collect());
            for tcb in blocks {
                debug_info::enlist(tcb);
                self.free.push(tcb);
            }
        }
        self.free.pop().expect("some have just been made")
    }
}

impl Tcb {
    /// A block for a new thread.
    pub(crate) fn allocate() -> &'static Tcb {
        Self::allocate_on(here::vp())
    }

    /// As [`Tcb::allocate`], by the running thread of `vp`. The caller knows its virtual processor, if it has one:
    /// to ask for it costs a call.
    #[inline]
    pub(crate) fn allocate_on(vp: Option<&'static Vp>) -> &'static Tcb {
        let tcb = match vp {
            Some(vp) => vp.tcbs().take(),
            None => pool().take(),
        };
        tcb.info.enter();
        tcb
    }

    /// Gives the block of an ended thread back. An unpark that is still to come wakes the next user.
    pub(crate) fn recycle(&'static self) {
        self.recycle_on(here::vp());
    }

    /// As [`Tcb::recycle`], by `vp` or its running thread.
    #[inline]
    pub(crate) fn recycle_on(&'static self, vp: Option<&'static Vp>) {
        debug_assert!(self.own.payload.is_empty());
        self.home.store(std::ptr::null_mut(), Relaxed);
        self.asked.next_generation();
        self.join.reset();
        self.own.no_stack.set(None);
        self.own.stack_size.set(0);
        self.own.traits.set(Traits::default());
        self.set_name(None);
        self.info.leave();
        match vp {
            Some(vp) => vp.tcbs().put(self),
            None => pool().free.push(self),
        }
    }

    /// Makes the token available, and the thread runnable if it is parked.
    ///
    /// Safe in a signal handler: atomics, an intrusive push, at most one non-blocking system call.
    pub(crate) fn unpark(&'static self) {
        event!("unpark", thread = self.info.number());
        // Before the wake-up: afterwards the thread may be another one.
        recorder::often(Kind::Unpark, self.info.number().into(), 0);
        let parked = self.park.notify();
        let home = self.home.load(Acquire);
        if parked {
            // SAFETY: a parked thread has a home, and virtual processors are immortal as well. It stays
            // parked, and so at home there, until we have pushed it.
            unsafe { &*home }.wake(self);
        } else if home.is_null() {
            self.sleeper.notify();
        }
    }

    /// As [`Tcb::unpark`], by the scheduler of `vp`.
    #[inline]
    pub(crate) fn unpark_from(&'static self, vp: &'static Vp) {
        event!("unpark", thread = self.info.number());
        vp.record_often(Kind::Unpark, self.info.number(), 0);
        let parked = self.park.notify();
        let home = self.home.load(Acquire);
        if parked && std::ptr::eq(home, vp) {
            vp.wake_here(self);
        } else if parked {
            // SAFETY: as in `unpark`.
            unsafe { &*home }.wake_from_elsewhere(self);
        } else if home.is_null() {
            self.sleeper.notify();
        }
    }

    /// Of the running thread: its virtual processor; none for a kernel thread outside a runtime, nor for a thread
    /// that got no stack and drops its closure in the scheduler.
    #[inline]
    pub(crate) fn own_vp(&self) -> Option<&'static Vp> {
        // SAFETY: virtual processors are immortal.
        unsafe { self.home.load(Relaxed).as_ref() }
    }

    /// Makes the token available on behalf of the virtual processor that is the thread's home; true if the
    /// thread was parked, and is now the caller's to queue.
    pub(crate) fn notify(&self) -> bool {
        self.park.notify()
    }

    /// The scheduler's half of `park`: the context is saved. False if a token came meanwhile: the thread
    /// must be queued again.
    pub(crate) fn settle(&self) -> bool {
        self.park.settle()
    }

    /// The thread's name, for messages.
    pub(crate) fn name(&self) -> Option<&str> {
        // SAFETY: written by the spawner before the thread was queued, read by it or on its behalf.
        unsafe { (*self.own.name.get()).as_deref() }
    }

    /// Gives it a name, or takes it away. The block's owner of the moment only.
    pub(crate) fn set_name(&self, name: Option<Box<str>>) {
        self.info.unnamed();
        // SAFETY: the caller owns the block, and whoever looks from outside does not come here.
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

    /// Whether it can switch out: one that got no stack drops its closure in the scheduler. By the thread itself.
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
        // SAFETY: a running thread has a context, which nobody takes away, and the caller is on its stack.
        unsafe {
            let context = (*self.own.context.get()).as_ref();
            self.info.leaves();
            context.expect("a running green thread has a context").suspend(how);
        }
    }
}

/// The calling thread's block; a kernel thread gets one at its first call.
pub(crate) fn current() -> &'static Tcb {
    here::tcb().unwrap_or_else(kernel_thread)
}

/// Gives the block back when a kernel thread ends.
struct KernelThread(&'static Tcb);

impl Drop for KernelThread {
    fn drop(&mut self) {
        self.0.own.locals.finish();
        here::set_tcb(None);
        // The block may be a green thread's next, which has no use for the eventfd.
        self.0.sleeper.retire();
        self.0.recycle();
    }
}

#[cold]
fn kernel_thread() -> &'static Tcb {
    thread_local! {
        static OWN: KernelThread = KernelThread(Tcb::allocate());
    }
    // While the kernel thread's destructors run there is no slot to give the block back from: it is leaked.
    let tcb = OWN.try_with(|own| own.0).unwrap_or_else(|_| {
        let tcb = Tcb::allocate();
        tcb.own.locals.close();
        tcb
    });
    tcb.info.kernel_thread();
    here::set_tcb(Some(tcb));
    tcb
}

/// Blocks until a token is available, and takes it. May return early: callers wait in a loop.
pub(crate) fn park(reason: &'static str) {
    park_until(reason, None);
}

/// As [`park`], and returns at `deadline` at the latest.
pub(crate) fn park_until(reason: &'static str, deadline: Option<Instant>) {
    park_as(current(), reason, deadline);
}

/// As [`park_until`], by the thread that `tcb` is.
pub(crate) fn park_as(tcb: &'static Tcb, reason: &'static str, deadline: Option<Instant>) {
    if tcb.park.take_token() {
        return;
    }
    event!("park", thread = tcb.info.number(), reason = reason);
    match tcb.own_vp() {
        Some(vp) => {
            tcb.info.waits(reason);
            if tcb.own.unwinding.get() {
                tcb.give_way();
                return;
            }
            if let Some(deadline) = deadline {
                vp.add_timer(deadline, tcb);
            }
            // SAFETY: `tcb` is the calling thread.
            unsafe { tcb.switch(Switch::Park) };
            tcb.wait.store(tcb.wait.load(Relaxed) + 1, Relaxed);
            tcb.park.take_token();
            if deadline.is_some_and(|deadline| Instant::now() < deadline) && vp.is_here() {
                vp.forget_timer();
            }
        }
        None if tcb.own.unwinding.get() => tcb.give_way(), // it got no stack
        None => {
            let waiting = tcb.info.kernel_waits(reason);
            tcb.sleeper.sleep(deadline, || false);
            drop(waiting);
            tcb.park.take_token();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_kernel_thread_parks_and_is_unparked() {
        let (tx, rx) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            tx.send(current() as *const Tcb as usize).unwrap();
            park("a test");
        });
        let tcb = rx.recv().unwrap() as *const Tcb;
        std::thread::sleep(Duration::from_millis(5));
        // SAFETY: blocks are immortal.
        unsafe { &*tcb }.unpark();
        waiter.join().unwrap();
    }

    #[test]
    fn a_timed_park_returns() {
        let start = Instant::now();
        park_until("a test", Some(start + Duration::from_millis(20)));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
