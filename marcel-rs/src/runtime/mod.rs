//! The runtime: its virtual processors, what they share, its start and its end.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_deque::Injector;

use crate::blocking::{Blocking, Mechanism, Settings, spare};
use crate::context::overflow;
use crate::context::pool::ContextPool;
use crate::diagnosis::service;
use crate::error::Error;
use crate::hooks::Hooks;
use crate::thread::join::JoinHandle;
use crate::thread::spawn;
use crate::thread::tcb::Tcb;
use crate::vp::ending::Ending;
use crate::vp::idle::IdleSet;
use crate::vp::processor::{Kind, Vp};
use crate::vp::{local, tick};
use crate::{knobs, topology};

/// How green threads are carried by kernel threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No green threads: [`Runtime::run`] calls its closure on the calling kernel thread.
    NoThread,
    /// One virtual processor carries everything.
    Mono,
    /// One virtual processor for each allowed core, and reactive ones.
    Smp,
}

impl Mode {
    /// The mode that `MARCEL_MODE` asks for.
    ///
    /// # Errors
    /// When the knob holds something else.
    pub fn from_env() -> Result<Mode, Error> {
        Ok(match knobs::MODE.text()?.as_str() {
            "no-thread" => Mode::NoThread,
            "mono" => Mode::Mono,
            _ => Mode::Smp,
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::NoThread => "no-thread",
            Mode::Mono => "mono",
            Mode::Smp => "smp",
        })
    }
}

/// Where the reactive virtual processors of a group of processes meet while every core computes.
pub(crate) struct Meeting {
    /// Their core under load.
    pub(crate) core: usize,
    /// Those they may use otherwise.
    pub(crate) all: Vec<usize>,
}

/// What the virtual processors of a runtime share.
pub(crate) struct Shared {
    /// Taken out when the last kernel thread has ended: virtual processors live on, the manager need not.
    hooks: UnsafeCell<Option<Arc<dyn Hooks>>>,
    pub(crate) contexts: ContextPool,
    pub(crate) period: Duration,
    /// Where reactive virtual processors stay under load.
    pub(crate) meeting: Option<Meeting>,
    /// Nice levels of compute virtual processors above the process's own.
    compute_nice: i32,
    pub(crate) stopping: AtomicBool,
    pub(crate) ending: Ending,
    pub(crate) blocking: Blocking,
    mode: Mode,
    groups: [Group; 2],
}

/// The virtual processors of one kind.
#[derive(Default)]
struct Group {
    vps: OnceLock<Vec<&'static Vp>>,
    injector: Injector<&'static Tcb>,
    idle: IdleSet,
    /// Standbys that sleep while a call is in progress on their original: its number.
    lent: IdleSet,
    busy: AtomicIsize,
}

impl Group {
    fn new(vps: usize) -> Group {
        Group { idle: IdleSet::new(vps), lent: IdleSet::new(vps), ..Group::default() }
    }
}

// SAFETY: `hooks` is written before the kernel threads start and after they have ended, and read by them
// only; the rest is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// The I/O manager. On the kernel threads of virtual processors.
    #[inline]
    pub(crate) fn hooks(&self) -> Option<&dyn Hooks> {
        // SAFETY: see `Sync`.
        unsafe { (*self.hooks.get()).as_deref() }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    fn group(&self, kind: Kind) -> &Group {
        &self.groups[kind as usize]
    }

    pub(crate) fn vps(&self, kind: Kind) -> &[&'static Vp] {
        self.group(kind).vps.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn injector(&self, kind: Kind) -> &Injector<&'static Tcb> {
        &self.group(kind).injector
    }

    pub(crate) fn idle(&self, kind: Kind) -> &IdleSet {
        &self.group(kind).idle
    }

    pub(crate) fn lent(&self, kind: Kind) -> &IdleSet {
        &self.group(kind).lent
    }

    pub(crate) fn count_busy(&self, kind: Kind, change: isize) {
        self.group(kind).busy.fetch_add(change, Relaxed);
    }

    /// Whether every compute virtual processor is busy.
    pub(crate) fn is_loaded(&self) -> bool {
        let compute = self.vps(Kind::Compute).len();
        compute > 0 && self.group(Kind::Compute).busy.load(Relaxed) >= compute as isize
    }

    /// The kind of virtual processor that carries a thread: there is only one kind in mono mode.
    pub(crate) fn kind_for(&self, reactive: bool) -> Kind {
        if reactive && self.mode == Mode::Smp { Kind::Reactive } else { Kind::Compute }
    }

    /// Makes a thread that never ran visible to every virtual processor of `kind`.
    pub(crate) fn inject(&self, kind: Kind, tcb: &'static Tcb) {
        self.injector(kind).push(tcb);
        self.wake_for_work(kind);
    }

    /// Wakes one sleeping virtual processor of `kind`, if there is one. The work is visible already.
    /// Returns whether there was one.
    pub(crate) fn wake_for_work(&self, kind: Kind) -> bool {
        // The caller's own virtual processor may still be marked, but is awake.
        let own = local::vp().filter(|vp| vp.kind() == kind && std::ptr::eq(&*vp.shared, self));
        let claimed = self.group(kind).idle.claim(own.map(Vp::index));
        let woken = match claimed {
            Some(index) => Some(self.vps(kind)[index]),
            None => {
                let lent = self.group(kind).lent.claim_after_fence(None);
                lent.and_then(|index| self.vps(kind)[index].standby.get().copied())
            }
        };
        if let Some(vp) = woken {
            vp.sleeper.notify();
        }
        woken.is_some()
    }

    /// Standbys included, as far as there are any.
    pub(crate) fn all_vps(&self) -> impl Iterator<Item = &'static Vp> + '_ {
        let vps = self.groups.iter().flat_map(|g| g.vps.get().map_or(&[][..], Vec::as_slice));
        vps.copied().flat_map(|vp| std::iter::once(vp).chain(vp.standby.get().copied()))
    }
}

/// A view of how loaded a runtime is, for the I/O manager. Cheap to clone.
#[derive(Clone)]
pub struct Load(Arc<Shared>);

impl Load {
    /// Number of compute virtual processors.
    pub fn compute_vps(&self) -> usize {
        self.0.vps(Kind::Compute).len()
    }

    /// How many of them run a thread now.
    pub fn busy_compute_vps(&self) -> usize {
        self.0.group(Kind::Compute).busy.load(Relaxed).max(0) as usize
    }

    /// Number of reactive virtual processors.
    pub fn reactive_vps(&self) -> usize {
        self.0.vps(Kind::Reactive).len()
    }

    /// Wakes a virtual processor that sleeps, a compute one if there is one: it will call the I/O manager.
    /// False if none sleeps. Progress path.
    pub fn wake_one(&self) -> bool {
        self.0.wake_for_work(Kind::Compute) || self.0.wake_for_work(Kind::Reactive)
    }

    /// Starts the tick of every busy virtual processor. Progress path: system calls that do not block.
    pub fn arm_ticks(&self) {
        for vp in self.0.all_vps() {
            if vp.is_busy() {
                vp.tick.arm();
            }
        }
    }

    /// The runtime's mode.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Load({} of {} busy)", self.busy_compute_vps(), self.compute_vps())
    }
}

/// Configures a [`Runtime`]; what is not set comes from the knobs.
#[derive(Default)]
pub struct Builder {
    mode: Option<Mode>,
    vps: Option<usize>,
    reactive: Option<usize>,
    first_cpu: Option<usize>,
    hooks: Option<Arc<dyn Hooks>>,
    blocking: Settings,
}

impl Builder {
    /// The mode (`MARCEL_MODE`).
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Number of compute virtual processors (`MARCEL_NVP`); 1 in mono mode.
    pub fn vps(mut self, n: usize) -> Self {
        self.vps = Some(n);
        self
    }

    /// Number of reactive virtual processors (`MARCEL_REACTIVE`); smp mode only.
    pub fn reactive(mut self, n: usize) -> Self {
        self.reactive = Some(n);
        self
    }

    /// Allowed core of the first compute virtual processor (`MARCEL_FIRSTCPU`), taken modulo their number.
    pub fn first_cpu(mut self, index: usize) -> Self {
        self.first_cpu = Some(index);
        self
    }

    /// The I/O manager that the scheduler calls.
    pub fn hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// How [`crate::blocking()`] makes its calls (`MARCEL_BLOCKING`).
    pub fn blocking(mut self, mechanism: Mechanism) -> Self {
        self.blocking.mechanism = Some(mechanism);
        self
    }

    /// Most kernel threads that make exported blocking calls (`MARCEL_LWP_MAX`).
    pub fn blocking_max(mut self, n: usize) -> Self {
        self.blocking.max = Some(n);
        self
    }

    /// How long such a thread stays when it has nothing to do (`MARCEL_LWP_KEEP`).
    pub fn blocking_keep(mut self, time: Duration) -> Self {
        self.blocking.keep = Some(time);
        self
    }

    /// Starts the kernel threads.
    ///
    /// # Errors
    /// A knob or a number out of range; the kernel refuses a thread.
    pub fn build(self) -> Result<Runtime, Error> {
        let mode = self.mode.map_or_else(Mode::from_env, Ok)?;
        let from_knob = |knob: &crate::knob::Knob| -> Result<Option<usize>, Error> {
            Ok(knob.int()?.map(|n| n as usize))
        };
        let cpus = topology::allowed_cpus();
        let compute =
            match (mode, self.vps.map_or_else(|| from_knob(&knobs::NVP), |n| Ok(Some(n)))?) {
                (Mode::NoThread, _) => 0,
                (Mode::Mono, _) => 1,
                (Mode::Smp, Some(n)) if (1..=1024).contains(&n) => n,
                (Mode::Smp, Some(n)) => {
                    return Err(Error::Config {
                        what: "vps",
                        why: format!("{n} virtual processors; it takes 1 to 1024"),
                    });
                }
                (Mode::Smp, None) => topology::vp_count(),
            };
        let reactive = match mode {
            Mode::Smp => match self.reactive {
                Some(n) => n,
                None => from_knob(&knobs::REACTIVE)?.unwrap_or(2),
            },
            _ => 0,
        };
        if mode == Mode::Smp && !(1..=64).contains(&reactive) {
            return Err(Error::Config {
                what: "reactive",
                why: format!("{reactive} reactive virtual processors; it takes 1 to 64"),
            });
        }
        let first = match self.first_cpu {
            Some(n) => n,
            None => from_knob(&knobs::FIRSTCPU)?
                .unwrap_or_else(|| topology::neighbours().1 * compute.max(1)),
        };
        let period = Duration::from_micros(knobs::TIMER_PERIOD.int()?.unwrap_or(4000) as u64);
        let compute_nice = match mode {
            Mode::Smp => knobs::COMPUTE_NICE.int()?.unwrap_or(0) as i32,
            _ => 0,
        };
        let group = match mode {
            Mode::Smp => knobs::REACTIVE_GROUP.int()?.unwrap_or(0) as usize,
            _ => 0,
        };
        let meeting = (group > 0).then(|| {
            let leader = topology::neighbours().1 / group * group;
            Meeting { core: cpus[leader * compute % cpus.len()], all: cpus.clone() }
        });
        let stack = knobs::STACK_SIZE.int()?.unwrap_or(256) as usize * 1024;
        let shared = Arc::new(Shared {
            hooks: UnsafeCell::new(self.hooks),
            contexts: ContextPool::new(stack, spawn::body),
            period,
            compute_nice,
            meeting,
            stopping: AtomicBool::new(false),
            ending: Ending::default(),
            blocking: Blocking::new(self.blocking)?,
            mode,
            groups: [Group::new(compute), Group::new(reactive)],
        });
        let make = |kind, n: usize| -> Vec<&'static Vp> {
            (0..n)
                .map(|index| {
                    let cpu = (kind == Kind::Compute).then(|| cpus[(first + index) % cpus.len()]);
                    // Virtual processors are immortal, as control blocks are: see `tcb`.
                    let vp = Vp::new(shared.clone(), kind, index, cpu, n == 1);
                    &*Box::leak(Box::new(vp))
                })
                .collect()
        };
        for (kind, n) in [(Kind::Compute, compute), (Kind::Reactive, reactive)] {
            let vps = make(kind, n);
            shared.group(kind).vps.get_or_init(|| vps);
        }
        if let Some(hooks) = shared.hooks() {
            let vps: Vec<_> = shared.all_vps().collect();
            hooks.started(Load(shared.clone()), &vps);
        }
        overflow::install();
        let watched = service::watch(&shared)?;
        let mut runtime = Runtime { shared, kernel_threads: Vec::new(), watched };
        if mode != Mode::NoThread {
            runtime.shared.blocking.start().map_err(|source| Error::Os {
                doing: "starting a thread for blocking calls",
                source,
            })?;
        }
        let vps: Vec<_> = runtime.shared.all_vps().collect();
        for vp in vps {
            let name = match vp.kind() {
                Kind::Compute => format!("marcel-vp{}", vp.index()),
                Kind::Reactive => format!("marcel-rx{}", vp.index()),
            };
            let thread = std::thread::Builder::new()
                .name(name)
                .spawn(move || carry(vp))
                .map_err(|source| Error::Os { doing: "starting a virtual processor", source })?;
            runtime.kernel_threads.push(thread);
        }
        Ok(runtime)
    }
}

/// Main function of a virtual processor's kernel thread.
fn carry(vp: &'static Vp) {
    let alt_stack = tick::AltStack::install();
    if let Some(cpu) = vp.cpu() {
        // Outside the cpuset by now: the kernel chooses the core, nothing else changes.
        let _ = topology::bind_current_thread(cpu);
        spare::be_nice(vp.shared.compute_nice);
    } else {
        spare::prefer_current_thread();
    }
    vp.run();
    drop(alt_stack);
}

/// Starts a standby for `original`, from its kernel thread: where that may run, and how nice it is, is inherited.
///
/// # Errors
/// When the kernel refuses a thread.
pub(crate) fn start_standby(
    original: &'static Vp,
) -> std::io::Result<(&'static Vp, std::thread::JoinHandle<()>)> {
    let vp: *mut Vp = Box::into_raw(Box::new(Vp::new_standby(original)));
    // SAFETY: just leaked.
    let shared: &'static Vp = unsafe { &*vp };
    let name = match original.kind() {
        Kind::Compute => format!("marcel-sb{}", original.index()),
        Kind::Reactive => format!("marcel-sbx{}", original.index()),
    };
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let alt_stack = tick::AltStack::install();
        match shared.kind() {
            Kind::Compute => spare::stand_by_current_thread(),
            Kind::Reactive => {
                if let Some(meeting) = &shared.shared.meeting {
                    let _ = topology::restrict_current_thread(&meeting.all);
                }
                spare::prefer_current_thread()
            }
        };
        if let Some(hooks) = shared.shared.hooks() {
            hooks.started(Load(shared.shared.clone()), &[shared]);
        }
        shared.run();
        drop(alt_stack);
    });
    // SAFETY: refused: nobody else has seen it.
    started.map(|handle| (shared, handle)).inspect_err(|_| drop(unsafe { Box::from_raw(vp) }))
}

/// A running set of virtual processors.
///
/// Dropping it stops them: each finishes what its current thread does until it next waits, yields or ends;
/// then the stacks of the remaining threads are unwound, so that their destructors run, and their join
/// handles report a panic with a [`crate::Stopped`] payload. Destructors may wait for what other threads hold, and
/// for other threads' ends; for what will not come any more they look at [`crate::is_stopping`].
///
/// # Blocking
/// The kernel thread, until all threads have ended; also when a green thread of another runtime drops it. One of its
/// own does not wait, and is unwound when it waits next.
pub struct Runtime {
    shared: Arc<Shared>,
    kernel_threads: Vec<std::thread::JoinHandle<()>>,
    /// Dumps and the watchdog look at it until it is gone.
    #[expect(dead_code, reason = "held")]
    watched: service::Watched,
}

impl Runtime {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs `f` as a green thread (a reactive one in smp mode) and returns what it returns.
    ///
    /// # Context
    /// A kernel thread. # Blocking: that kernel thread. In [`Mode::NoThread`] `f` runs on it.
    ///
    /// # Panics
    /// When `f` panics, with its payload; when called from a green thread.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        assert!(local::vp().is_none(), "{}", Error::Nested);
        if self.shared.mode == Mode::NoThread {
            return f();
        }
        // SAFETY: this function does not return before the thread has ended and dropped `f`.
        let spawned = unsafe {
            spawn::Builder::new().name("main").reactive(true).spawn_unchecked(&self.shared, f)
        };
        let spawned = spawned.unwrap_or_else(|error| panic!("Runtime::run: {error}"));
        match spawned.join() {
            Ok(value) => value,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    /// Starts a compute thread from outside the runtime.
    ///
    /// # Panics
    /// In [`Mode::NoThread`], which has no green threads; when there is no memory.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        assert!(self.shared.mode != Mode::NoThread, "no green threads in no-thread mode");
        // SAFETY: everything is 'static.
        let spawned = unsafe { spawn::Builder::new().spawn_unchecked(&self.shared, f) };
        spawned.unwrap_or_else(|error| panic!("Runtime::spawn: {error}"))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How loaded it is.
    pub fn load(&self) -> Load {
        Load(self.shared.clone())
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("mode", &self.shared.mode)
            .field("load", &self.load())
            .finish()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let standbys = self.shared.blocking.close();
        self.shared.ending.expect(self.kernel_threads.len() + standbys);
        self.shared.stopping.store(true, SeqCst);
        for vp in self.shared.all_vps() {
            vp.sleeper.notify();
        }
        let (shared, threads) = (self.shared.clone(), std::mem::take(&mut self.kernel_threads));
        let finish = move || {
            for thread in threads {
                let _ = thread.join();
            }
            shared.blocking.join();
            shared.contexts.clear();
            // SAFETY: the kernel threads have ended.
            drop(unsafe { (*shared.hooks.get()).take() });
        };
        match local::vp() {
            // Refused: nobody waits for them, and their stacks stay.
            Some(vp) if std::ptr::eq(&*vp.shared, &*self.shared) => {
                let _ = std::thread::Builder::new().name("marcel-end".into()).spawn(finish);
            }
            _ => finish(),
        }
    }
}
