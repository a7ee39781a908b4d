//! The end of a virtual processor: every thread that is left is unwound, and runs its destructors as a thread.
//!
//! A thread that is to be unwound goes on where it waited and raises a panic there, so its destructors run on
//! its own stack, scheduled like any other thread. They may wait for each other: for a lock that another thread of
//! this virtual processor holds, for a thread of a scope. While `Own::unwinding` is set a thread never parks, it
//! *yields*: whatever it waits for has its turns, and what will never come ends at `is_stopping`. A thread that
//! never ran drops its closure in the same way, on a stack.
//!
//! # The workers leave together
//! A destructor may start a thread for any virtual processor. So they leave together: each says when nothing is left
//! to do (`ending`), goes back if there is work again, and all leave when all have said so. Only those that have
//! something left can make work for the others, so nothing can come after.
//!
//! # Threads that panic already
//! A destructor that waits, called by a thread's own panic, must not be unwound out of: Rust aborts. Such a thread is
//! told that the runtime stops, and is left to come to its end. Whether a thread panics, Rust counts for each
//! *kernel* thread, so it is noted when a thread switches out ([`Panics`]); while one is suspended in its panic, those
//! that run meanwhile cannot be told apart for sure. They are unwound when the last panic is over, or when
//! nothing else has moved for long.
//!
//! # Without unwinding
//! In a build with `panic = "abort"` the panic that unwinds a thread would end the process. There a thread that has
//! started is left where it waits: its handle reports that the runtime stopped, its destructors do not run, and its
//! stack and its control block stay for ever, since lists of waiters may hold nodes on that stack. It is not parked, so
//! that no late wake-up puts it in a queue. A thread that never ran drops its closure as ever.
//!
//! # Rejected
//! Refusing a build with `panic = "abort"` when the runtime starts (most programs end when their threads have);
//! unwinding thread after thread, each to its end, in the scheduler (a destructor that waits for the next one waits for
//! ever); leaving when one's own threads have ended (a thread started for us never would).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::os::stderr::to_stderr;
use crate::sched::ending::Outlook;
use crate::sched::worker::{self, Core, Here};
use crate::tcb::block::Tcb;
use crate::tcb::join_word::End;
use crate::tcb::traits::Panics;

/// How long nothing may move before a thread that may be in a panic is unwound all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a virtual processor sleeps when all that its threads do is wait.
const NAP: Duration = Duration::from_micros(200);

std::thread_local! {
    /// A thread of this virtual processor has waited in a panic.
    static PANICS_MAY_MEET: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread of the calling kernel thread's virtual processor has been suspended in a panic. It may still be.
pub(crate) fn panics_may_meet() -> bool {
    PANICS_MAY_MEET.get()
}

impl Core {
    /// `tcb` has switched out, and this virtual processor has a thread in a panic, or had: that one or another.
    #[cold]
    pub(super) fn note_panics(&mut self, tcb: &Tcb) {
        PANICS_MAY_MEET.set(true);
        if tcb.own.unwinding.get() {
            return; // it has been decided already, see `unwind`
        }
        let before = tcb.own.panics.get();
        let others = self.panicking - (before == Panics::Yes) as usize;
        let now = match (std::thread::panicking(), others, before) {
            (false, ..) => Panics::No,
            (true, 0, _) => Panics::Yes,
            (true, _, Panics::No) => Panics::Maybe,
            (true, _, before) => before,
        };
        tcb.own.panics.set(now);
        self.panicking = others + (now == Panics::Yes) as usize;
    }

    /// `tcb`, which was noted to be in a panic, has ended.
    #[cold]
    pub(super) fn forget_panics(&mut self, tcb: &Tcb) {
        if tcb.own.panics.take() == Panics::Yes {
            self.panicking -= 1;
        }
    }
}

/// Whether the thread has run, and is not one that only drops its closure.
fn is_begun(tcb: &Tcb) -> bool {
    tcb.has_context() && !tcb.own.unwinding.get()
}

impl Here {
    /// Ends every thread that is left, here and, by the time this returns, on all virtual processors of the runtime.
    pub(super) fn end_all(self) {
        // Unpark every living thread once: a parked one then runs at its home and is unwound by `run_out`. A thread
        // that runs or is queued meets `run_out` anyway, of the worker that has it; if it parks before that worker has
        // come here, that worker unparks it.
        let mut core = self.own_core();
        core.order.dismiss();
        let living = self.shared.with_living(&mut core.live, |live| live.clone());
        drop(core);
        living.into_iter().for_each(worker::unpark);
        loop {
            self.run_out();
            if self.leave() {
                return;
            }
        }
    }

    /// The thread, which was taken from a queue, has another turn: it is unwound, if it is not yet and may be.
    fn unwind(tcb: &'static Tcb, patient: bool) {
        let first = !tcb.own.unwinding.replace(true);
        let now = match tcb.own.panics.get() {
            Panics::No => first,
            _ if !std::thread::panicking() => true,
            Panics::Maybe => !patient,
            Panics::Yes => false,
        };
        if now {
            tcb.own.panics.set(Panics::No);
            // SAFETY: the thread is ours, and does not run.
            if let Some(context) = unsafe { (*tcb.own.context.get()).as_ref() } {
                context.force_unwind();
            }
        }
    }

    /// Runs until no thread is left.
    fn run_out(self) {
        let living = || self.shared.with_living(&mut self.own_core().live, |live| live.len());
        let (mut in_vain, mut moved) = (0, Instant::now());
        loop {
            let before = living();
            let next = self.next(&self.shared, &mut self.own_core());
            match next {
                Some(tcb) if cfg!(panic = "abort") && is_begun(tcb) => self.leave_behind(tcb),
                Some(tcb) => {
                    let first = !tcb.own.unwinding.get();
                    Self::unwind(tcb, in_vain == 0 || moved.elapsed() < PATIENCE);
                    self.execute(&self.shared, self.shared.hooks(), tcb);
                    in_vain = if first || living() < before { 0 } else { in_vain + 1 };
                }
                None if before == 0 => return,
                None => in_vain = 2 * before + 1,
            }
            if in_vain == 0 {
                moved = Instant::now();
            } else if in_vain > 2 * before {
                in_vain = 1;
                self.sleeper.sleep(Some(Instant::now() + NAP), || false);
            }
        }
    }

    /// The thread, which was taken from a queue, never runs again.
    #[cold]
    fn leave_behind(self, tcb: &'static Tcb) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Relaxed) {
            to_stderr(|out| {
                writeln!(
                    out,
                    "marcel: a runtime ends while threads wait in it. This program is built with panic = \"abort\", so \
                     they cannot be unwound: their destructors do not run, what they hold stays held, and their stacks \
                     are not freed. Join them first, or build with panic = \"unwind\" (said once)"
                )
            });
        }
        let mut core = self.own_core();
        self.forget_living(&mut core, tcb);
        tcb.info.leave();
        // Its block is not used again, though it may hold a result already, if it waits in a thread-local's destructor.
        if let End::Awaited(waiter) = tcb.join.end() {
            self.worker().unpark(&mut core, waiter);
        }
    }

    /// Waits until all virtual processors have come here; false when there is work again.
    fn leave(self) -> bool {
        let ending = &self.shared.ending;
        ending.be_quiet();
        loop {
            match ending.look(|| self.has_work(), || self.shared.has_work()) {
                Outlook::Work => return false,
                Outlook::Over => self.shared.all_vps().for_each(|vp| vp.sleeper.notify()),
                Outlook::Wait => {}
            }
            if ending.is_over() {
                return true;
            }
            self.announce();
            self.sleeper.sleep(None, || ending.is_over() || self.has_work());
            self.withdraw();
        }
    }
}
