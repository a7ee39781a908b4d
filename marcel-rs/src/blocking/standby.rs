//! Standby (2007, section 3.2): the caller makes the call itself, and a kernel thread that gives way to it is
//! ready to run what its virtual processor cannot run if the call blocks.
//!
//! ```text
//!   virtual processor    ── computes ──┤ lend │ call ░░░ blocked in the kernel ░░░ │ take back ├── computes ──
//!   standby              ░░ asleep ░░░░░░░░░░░░░ A ──────── B ───────── A ─┤preempted│░ A ░ B ░ until both end
//! ```
//!
//! # A virtual processor of its own
//! Started threads cannot move, so no kernel thread can *take over* a virtual processor. The standby
//! is another one, bound to the same core and made at the first call: while a call is in progress it may take
//! threads that never ran, from its original's deque, its neighbours' and the injector, after every regular virtual
//! processor that sleeps has been asked. What it has started stays with it and goes on after the call's return; what
//! its original had started waits for that return. When the call returns, the original preempts it, and at its
//! next switch it takes nothing more. Between calls, and with nothing left to run, it sleeps.
//!
//! The call costs a few atomic operations, and one futex wake if a thread that never ran waits just then and no
//! worker has been woken for it. `lending` says how no wake-up is lost.
//!
//! # Gives way, and yet is not starved
//! The paper gives the spare kernel thread the lowest priority. Here it keeps its original's niceness, and is of
//! `SCHED_BATCH` with a slice of 100 ms: woken, it does not preempt the caller, which has not blocked yet; and the
//! caller, when the call returns, has the shorter slice and preempts it. `SCHED_IDLE` does both as well, but without
//! privilege it cannot be left again, and the standby's threads are there for life: beside a computing original
//! they got 1–2 % of the core (nice 19: 10 %) instead of half, measured. With ordinary priority, a woken standby
//! preempted now and then the caller that had not blocked.
//!
//! Rejected: moving the *original's identity* to the standby, so that the blocked kernel thread returns as the spare
//! (the paper's picture, Go's hand-off): the threads that it had started would be on another kernel thread. Waking
//! the standby at each call: the futex wake and the competition for the core would be paid by calls that do not
//! block as well.

use std::thread::JoinHandle;

use crate::lwp::blocking::Retire;
use crate::lwp::spare;
use crate::os::alt_stack::AltStack;
use crate::sched::load::Load;
use crate::sched::vp::{Kind, Vp};
use crate::sched::worker::{self, Here, Worker};
use crate::task::{budget, park};
use crate::topology;

/// A call in progress.
struct Lent {
    original: &'static Worker,
    standby: &'static Vp,
    shared: bool,
}

impl Lent {
    fn begin(here: Here, standby: &'static Vp) -> Lent {
        let (original, shared) = (here.worker(), here.share_spawned());
        let kind = original.kind();
        standby.lending.begin(original.shared.lent(kind), original.index());
        original.wake_another();
        Lent { original, standby, shared }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let lent = self.original.shared.lent(self.original.kind());
        let last = self.standby.lending.end(lent, self.original.index());
        // During a call that another thread has begun meanwhile it stays open, which is only slower.
        // Elsewhere, after a wait within the call, it stays open as well.
        if self.shared
            && last
            && let Some(here) = worker::current()
            && std::ptr::eq(here.worker(), self.original)
        {
            here.unshare_spawned();
        }
    }
}

/// The standby of `worker`, started if need be; `None` when the kernel refuses a thread.
fn standby_of(worker: &'static Worker) -> Option<&'static Vp> {
    if let Some(standby) = worker.standby() {
        return Some(standby);
    }
    worker.shared.blocking.start_standby(|| {
        let (standby, thread) = start(worker)?;
        // Before a thread that stops the runtime looks for virtual processors to tell: see `Blocking::close`.
        worker.set_standby(Some(standby));
        Ok((standby, thread))
    })
}

/// Starts a standby for `original`, from its kernel thread: where that may run, and how nice it is, is inherited.
///
/// # Errors
/// When the kernel refuses a thread.
fn start(original: &'static Worker) -> std::io::Result<(&'static Vp, JoinHandle<Retire>)> {
    let standby = Worker::make_standby(original);
    let name = match original.kind() {
        Kind::Compute => format!("marcel-sb{}", original.index()),
        Kind::Reactive => format!("marcel-sbx{}", original.index()),
    };
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let alt_stack = AltStack::install();
        match standby.kind() {
            Kind::Compute => spare::stand_by_current_thread(),
            Kind::Reactive => {
                if let Some(meeting) = &standby.shared.meeting {
                    let _ = topology::restrict_current_thread(&meeting.all);
                }
                spare::prefer_current_thread()
            }
        };
        if let Some(hooks) = standby.shared.hooks() {
            hooks.started(Load(standby.shared.shared().clone()), &[&standby.vp]);
        }
        // SAFETY: its first kernel thread.
        unsafe { standby.run() };
        drop(alt_stack);
        // SAFETY: called when the kernel threads of the runtime have ended, once.
        Box::new(move || unsafe { standby.abandon() }) as Retire
    });
    // SAFETY: the kernel refused the thread, so no other code has seen the worker in this runtime.
    started.map(|handle| (&standby.vp, handle)).inspect_err(|_| unsafe { standby.abandon() })
}

/// Makes a call that may block on the calling thread itself, and returns what it returns. While it is in progress
/// a standby kernel thread may run threads that never ran; threads that this virtual processor *has started* wait
/// until it returns. For calls that seldom block, or when nothing else has been started here: the closure stays on
/// its kernel thread, need not be `Send`, and a call that does not block costs some tens of nanoseconds more.
///
/// Where started threads migrate ([`crate::RuntimeBuilder::migrate_started_threads`]), neighbours and the standby may
/// take those that are woken meanwhile when they next look; no wake-up is sent for them.
///
/// A tick may interrupt the call: what the kernel does not restart (`poll`, `nanosleep`) then ends with `EINTR`, which
/// std's functions take care of. A call on the pool is not interrupted.
///
/// Without a standby (the kernel refuses the thread; the caller is itself on a standby, where it has been started
/// during another call) the virtual processor just blocks.
///
/// # Context
/// A green thread. Elsewhere the closure is just called.
///
/// # Blocking
/// The green thread and the threads that its virtual processor has started. When the runtime is dropped meanwhile,
/// the closure is waited for.
///
/// # Panics
/// When the closure panics.
pub fn standby<T>(f: impl FnOnce() -> T) -> T {
    budget::spend();
    let worker = worker::current().filter(|w| w.original.is_none() && !park::is_stopping());
    match worker.and_then(|worker| Some((worker, standby_of(worker.worker())?))) {
        Some((worker, standby)) => {
            let _lent = Lent::begin(worker, standby);
            f()
        }
        None => f(),
    }
}

/// Whether a call of the calling thread that blocks holds up no other: its virtual processor has started no other,
/// and a standby takes the rest.
pub(super) fn holds_up_no_other() -> bool {
    worker::current().is_some_and(|w| {
        w.original.is_none() && !w.holds_others() && standby_of(w.worker()).is_some()
    })
}
