//! What the scheduler asks of an I/O manager, and when. `marcel` knows nothing else of it.

use std::any::Any;
use std::time::Instant;

use crate::os::sleeper::Sleeper;
use crate::sched::vp::Vp;

/// What an idle virtual processor should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Something was found: look at the run queues again.
    Found,
    /// Nothing was found, but it is worth asking again at once.
    Again,
    /// Sleep in the kernel.
    Sleep,
}

/// The scheduler's calls to an I/O manager.
///
/// All of them are on the progress path (rule 1 of ARCHITECTURE.md): no allocation, no freeing, no blocking but in
/// [`Hooks::sleep`], no panic. They may wake threads.
///
/// # Safety
/// [`Hooks::tick`] runs in a signal handler, which interrupts a thread anywhere, in the allocator or in this crate: it
/// calls nothing that is not async-signal-safe. Of this crate those functions are whose `# Context` says *signal
/// handlers included*.
pub unsafe trait Hooks: Any + Send + Sync {
    /// A virtual processor has nothing to run; called again and again until something turns up or the
    /// answer is [`Idle::Sleep`]. `idle_since` is when it ran out of work.
    fn idle(&self, vp: &Vp, idle_since: Instant) -> Idle;

    /// A green thread has just given its virtual processor back. True: the manager leaves something to be done to
    /// [`Hooks::sleep`], or, should a thread turn up before, to [`Hooks::busy`]: one of them is called before the next
    /// thread runs.
    fn switch(&self, vp: &Vp) -> bool;

    /// The tick of a busy virtual processor, in a signal handler. The tick is disarmed when this returns
    /// false.
    fn tick(&self, vp: &Vp) -> bool;

    /// As [`Hooks::tick`], because a signal was sent to the busy virtual processor ([`crate::Load::signal_target`]): there
    /// is something to find.
    fn signalled(&self, vp: &Vp) -> bool {
        self.tick(vp)
    }

    /// Whether a virtual processor that becomes busy should get a tick.
    fn wants_ticks(&self) -> bool;

    /// The virtual processor is about to sleep in the kernel. Returns true if the manager has slept on its
    /// behalf (with [`Sleeper::sleep_in`], until `deadline` at the latest, and only if `last_look` found
    /// nothing to run); false to let the scheduler sleep by itself.
    fn sleep(
        &self,
        vp: &Vp,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: &dyn Fn() -> bool,
    ) -> bool;

    /// The virtual processor, idle until now, is about to run a thread.
    fn busy(&self, vp: &Vp);

    /// The runtime that `load` belongs to is about to start; called before any other call, with all its virtual
    /// processors. Called again, by its own kernel thread, with each standby virtual processor that is added later (see
    /// [`mod@crate::blocking`]): it calls the other methods as the others do.
    fn started(&self, load: crate::Load, vps: &[&'static Vp]);

    /// The virtual processor runs no thread any more, and will not sleep: its sleeper's eventfd becomes another's,
    /// and must leave the sets that it is in. Called once, on its kernel thread; the last call for it. If the kernel has
    /// refused it a kernel thread, the thread that builds the runtime makes the call.
    fn ended(&self, vp: &Vp) {
        let _ = vp;
    }
}
