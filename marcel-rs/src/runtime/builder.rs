//! Configuring a runtime, and starting it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::diagnosis::{check, overflow, panic_hook, service};
use crate::error::Error;
use crate::lwp::blocking::{Blocking, Mechanism, Settings};
use crate::lwp::spare;
use crate::os::KernelMutex;
use crate::os::alt_stack::AltStack;
use crate::runtime::Runtime;
use crate::sched::ending::Ending;
use crate::sched::hooks::Hooks;
use crate::sched::load::Load;
use crate::sched::mode::Mode;
use crate::sched::policy::{Bubbles, Policy};
use crate::sched::shared::{Group, Meeting, PolicyOf, Shared};
use crate::sched::vp::{Kind, Place};
use crate::sched::worker::Worker;
use crate::stack::Modes;
use crate::stack::memory::MIN_GUARD;
use crate::stack::pool::ContextPool;
use crate::task::spawn;
use crate::topology::Topology;
use crate::{knobs, topology};

/// Largest guard of a stack, in bytes.
const MAX_GUARD: usize = 1 << 30;
/// Turns of a bubble with `MARCEL_POLICY=bubbles`.
const BUBBLE_TURNS: u32 = 32;

/// Configures a [`Runtime`]; what is not set comes from the knobs.
#[must_use = "a builder starts nothing until `build` is called"]
#[derive(Default)]
pub struct Builder {
    mode: Option<Mode>,
    vps: Option<usize>,
    reactive: Option<usize>,
    first_cpu: Option<usize>,
    hooks: Option<Arc<dyn Hooks>>,
    blocking: Settings,
    policy: Option<Arc<PolicyOf>>,
    stack_guard: Option<usize>,
    migrate: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("mode", &self.mode)
            .field("vps", &self.vps)
            .field("reactive", &self.reactive)
            .field("first_cpu", &self.first_cpu)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }
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

    /// In which order virtual processors run their threads (`MARCEL_POLICY`): called for each of them.
    pub fn policy(
        mut self,
        policy: impl Fn(Kind) -> Box<dyn Policy> + Send + Sync + 'static,
    ) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Bytes below each stack that cannot be touched (`MARCEL_STACK_GUARD`), rounded up to whole pages; at least 4096.
    ///
    /// Rust probes large frames page by page. C does not, unless it is compiled with `-fstack-clash-protection`: a frame
    /// that is larger than the guard may reach the neighbour's stack. A guard is address space, not memory.
    pub fn stack_guard(mut self, bytes: usize) -> Self {
        self.stack_guard = Some(bytes);
        self
    }

    /// Lets virtual processors with nothing to do take threads that have run elsewhere, when they are next
    /// ready. Better balance; one more lock a thread. What a thread wakes on its own virtual processor waits there
    /// until that one next switches.
    ///
    /// # Safety
    /// Nothing that any thread of this runtime holds across a call that may wait or yield belongs to the kernel
    /// thread: no value that is not `Send` (an `Rc`, the guard of a `std::sync::Mutex`), no reference into a
    /// thread-local of `std` or of C, in the program and in the libraries that it calls. And no function that
    /// reads such a thread-local both before and after a wait, even without keeping a reference: compilers keep the
    /// *address* of a thread-local across calls (rust-lang/unsafe-code-guidelines#602); hide the access in a
    /// function that is `#[inline(never)]`. What this crate offers (`sync`, [`crate::thread_local`]) may be used.
    pub unsafe fn migrate_started_threads(mut self, yes: bool) -> Self {
        self.migrate = yes;
        self
    }

    /// Starts the kernel threads.
    ///
    /// # Errors
    /// A knob or a number out of range; the kernel refuses a thread.
    pub fn build(self) -> Result<Runtime, Error> {
        crate::knob::warn_of_unknown(&["MARCEL_"], &[knobs::KNOBS], &[]);
        let mode = self.mode.map_or_else(Mode::from_env, Ok)?;
        let from_knob = |knob: &crate::knob::Knob| -> Result<Option<usize>, Error> {
            Ok(knob.int()?.map(|n| n as usize))
        };
        let topology = Topology::current()?;
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
                (Mode::Smp, None) => topology.vp_count(),
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
        let cores = topology.cores_for(compute, self.first_cpu)?;
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
        let policy: Option<Arc<PolicyOf>> = match (self.policy, knobs::POLICY.text()?.as_str()) {
            (Some(policy), _) => Some(policy),
            (None, "bubbles") => Some(Arc::new(|_| Box::new(Bubbles::new(BUBBLE_TURNS)))),
            (None, _) => None,
        };
        let spin = Duration::from_micros(knobs::IDLE_SPIN.int()?.unwrap_or(0) as u64);
        let stack = knobs::STACK_SIZE.int()?.unwrap_or(256) as usize * 1024;
        let guard = match self.stack_guard {
            Some(bytes) if (MIN_GUARD..=MAX_GUARD).contains(&bytes) => bytes,
            Some(bytes) => {
                return Err(Error::Config {
                    what: "stack_guard",
                    why: format!("{bytes} bytes; it takes {MIN_GUARD} to {MAX_GUARD}"),
                });
            }
            None => knobs::STACK_GUARD.int()?.unwrap_or(64) as usize * 1024,
        };
        let shared = Arc::new(Shared {
            contexts: ContextPool::new(stack, guard, spawn::body),
            modes: Modes::now(),
            period,
            compute_nice,
            meeting,
            stopping: AtomicBool::new(false),
            policy,
            check: check::from_env()?,
            ending: Ending::default(),
            bound: topology.nodes().iter().map(|_| OnceLock::new()).collect(),
            special: AtomicBool::new(false),
            migrants: self.migrate.then(crate::os::KernelMutex::default),
            spin: if compute > cpus.len() { Duration::ZERO } else { spin },
            blocking: Blocking::new(self.blocking)?,
            mode,
            topology,
            groups: [Group::new(compute), Group::new(reactive)],
        });
        // First, for it may fail: workers that exist belong to a `Runtime`, whose end gives them back.
        let watched = service::watch(&shared)?;
        let mut workers = Vec::new();
        let places = [compute_places(&shared.topology, &cores), reactive_places(reactive)];
        for (kind, places) in [Kind::Compute, Kind::Reactive].into_iter().zip(places) {
            let alone = places.len() == 1;
            let vps = places.into_iter().enumerate().map(|(index, place)| {
                let order = shared.new_order(kind);
                // Virtual processors are immortal, as control blocks are: see `tcb`.
                let link = (shared.clone(), self.hooks.clone());
                Worker::make(link, (kind, index), place, order, alone)
            });
            let group: Vec<&'static Worker> = vps.collect();
            shared.groups[kind as usize].vps.get_or_init(|| group.iter().map(|w| &w.vp).collect());
            workers.extend(group);
        }
        if let Some(hooks) = &self.hooks {
            let vps: Vec<_> = shared.all_vps().collect();
            hooks.started(Load(shared.clone()), &vps);
        }
        overflow::install();
        panic_hook::install();
        let mut runtime = Runtime {
            shared,
            hooks: self.hooks,
            workers,
            kernel_threads: Vec::new(),
            ended: KernelMutex::new(None),
            watched,
        };
        if mode != Mode::NoThread {
            runtime.shared.blocking.start().map_err(|source| Error::Os {
                doing: "starting a thread for blocking calls",
                source,
            })?;
        }
        let (alive, ended) = std::sync::mpsc::channel();
        runtime.ended = KernelMutex::new(Some(ended));
        for &worker in &runtime.workers {
            let name = match worker.kind() {
                Kind::Compute => format!("marcel-vp{}", worker.index()),
                Kind::Reactive => format!("marcel-rx{}", worker.index()),
            };
            let thread = std::thread::Builder::new()
                .name(name)
                .spawn({
                    let alive = alive.clone();
                    move || {
                        carry(worker);
                        drop(alive);
                    }
                })
                .map_err(|source| Error::Os { doing: "starting a virtual processor", source })?;
            runtime.kernel_threads.push(thread);
        }
        Ok(runtime)
    }
}

/// Compute virtual processors, one for each of `cores`.
fn compute_places(topology: &Topology, cores: &[usize]) -> Vec<Place> {
    let place = |(index, &core): (usize, &usize)| Place {
        core: Some(core),
        real: topology.real_cpu(core),
        path: topology.path_of(core),
        steal_order: topology.steal_order(cores, index),
    };
    cores.iter().enumerate().map(place).collect()
}

/// `n` reactive virtual processors, nowhere in particular.
fn reactive_places(n: usize) -> Vec<Place> {
    let others = |index| (1..n).map(|step| (index + step) % n).collect();
    (0..n).map(|index| Place { steal_order: others(index), ..Place::default() }).collect()
}

/// Main function of a virtual processor's kernel thread.
fn carry(worker: &'static Worker) {
    let alt_stack = AltStack::install();
    match worker.kind() {
        Kind::Compute => {
            if let Some(cpu) = worker.place.real {
                // Outside the cpuset by now: the kernel chooses the core, nothing else changes.
                let _ = topology::bind_current_thread(cpu);
            }
            spare::be_nice(worker.shared.compute_nice);
        }
        Kind::Reactive => {
            spare::prefer_current_thread();
        }
    }
    // SAFETY: its first kernel thread since it was made.
    unsafe { worker.run() };
    drop(alt_stack);
}
