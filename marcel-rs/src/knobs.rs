//! The table of this crate's knobs.

use crate::knob::{Kind, Knob};
use crate::topology::knobs::{FIRSTCPU, HWLOC, TOPOLOGY};

/// `MARCEL_MODE`: see [`crate::Mode`].
pub(crate) static MODE: Knob = Knob {
    name: "MARCEL_MODE",
    kind: Kind::Word(&["no-thread", "mono", "smp"]),
    default: "smp",
    unit: "",
    meaning: "no-thread: no green threads, progress only inside calls; mono: one virtual processor; \
              smp: one per allowed core, plus reactive ones",
};

/// `MARCEL_UINTR_CALLS`: the system calls of user interrupts.
pub(crate) static UINTR_CALLS: Knob = Knob {
    name: "MARCEL_UINTR_CALLS",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "numbers that this machine's kernel, a patched one, has given to the system calls of user interrupts: \
              uintr_register_handler, uintr_unregister_handler, uintr_vector_fd, uintr_register_sender, uintr_alt_stack, \
              separated by commas. Unset: they are not tried, since other kernels have other calls there. Never run on \
              hardware",
};

/// `MARCEL_NVP`: number of compute virtual processors.
pub(crate) static NVP: Knob = Knob {
    name: "MARCEL_NVP",
    kind: Kind::Int(1, 1024),
    default: "",
    unit: "virtual processors",
    meaning: "number of compute virtual processors; unset: one per core that the affinity mask and \
              the cgroup's CPU quota allow, shared out among the processes of this machine",
};

/// `MARCEL_REACTIVE`: number of reactive virtual processors.
pub(crate) static REACTIVE: Knob = Knob {
    name: "MARCEL_REACTIVE",
    kind: Kind::Int(1, 64),
    default: "2",
    unit: "virtual processors",
    meaning: "number of reactive virtual processors (smp mode): their kernel threads sleep in the \
              kernel and preempt computing ones when an event wakes them",
};

/// `MARCEL_REACTIVE_GROUP`: how many processes' reactive virtual processors share a core under load.
pub(crate) static REACTIVE_GROUP: Knob = Knob {
    name: "MARCEL_REACTIVE_GROUP",
    kind: Kind::Int(0, 1024),
    default: "4",
    unit: "processes",
    meaning: "while every compute virtual processor is busy, the reactive ones of this many neighbouring \
              processes stay on one core: a wake-up on the same core costs a third of one across cores; \
              0: the kernel chooses, as it does when cores are idle",
};

/// `MARCEL_COMPUTE_NICE`: how much the kernel threads of compute virtual processors yield to reactive ones.
pub(crate) static COMPUTE_NICE: Knob = Knob {
    name: "MARCEL_COMPUTE_NICE",
    kind: Kind::Int(0, 19),
    default: "6",
    unit: "nice levels",
    meaning: "how much nicer than the process computing kernel threads are (smp mode), so that a woken \
              reactive one, at normal priority, is owed the core; 0: all alike",
};

/// `MARCEL_POLICY`: see [`crate::policy`].
pub(crate) static POLICY: Knob = Knob {
    name: "MARCEL_POLICY",
    kind: Kind::Word(&["fair", "bubbles"]),
    default: "fair",
    unit: "",
    meaning: "in which order a virtual processor runs its threads: fair: by priority, then first come, \
              first served; bubbles: those of one bubble together, 32 turns at a time",
};

/// `MARCEL_IDLE_SPIN`: how long an idle virtual processor looks around.
pub(crate) static IDLE_SPIN: Knob = Knob {
    name: "MARCEL_IDLE_SPIN",
    kind: Kind::Int(0, 1_000_000),
    default: "10",
    unit: "µs",
    meaning: "how long a compute virtual processor with nothing to run looks for work before it sleeps in \
              the kernel; half of them at a time, none where there are more of them than cores",
};

/// `MARCEL_STACK_SIZE`: default size of a green thread's stack.
pub static STACK_SIZE: Knob = Knob {
    name: "MARCEL_STACK_SIZE",
    kind: Kind::Int(16, 1 << 20),
    default: "256",
    unit: "KiB",
    meaning: "default stack of a green thread (address space: memory is used as it is touched)",
};

/// `MARCEL_STACK_GUARD`: what lies between stacks.
pub(crate) static STACK_GUARD: Knob = Knob {
    name: "MARCEL_STACK_GUARD",
    kind: Kind::Int(4, 1 << 20),
    default: "64",
    unit: "KiB",
    meaning: "address space below each green thread's stack that cannot be touched: a function of C whose frame is \
              larger may reach the neighbouring stack (Rust probes large frames)",
};

/// `MARCEL_BLOCKING`: how `marcel::blocking` makes a call.
pub(crate) static BLOCKING: Knob = Knob {
    name: "MARCEL_BLOCKING",
    kind: Kind::Word(&["auto", "export", "standby"]),
    default: "auto",
    unit: "",
    meaning: "how blocking calls are made: export: by a pool of kernel threads; standby: by the caller, while a standby \
              kernel thread runs threads that never ran; auto: by standby where nothing else has been started",
};

/// `MARCEL_LWP_MAX`: bound of the pool for blocking calls.
pub(crate) static LWP_MAX: Knob = Knob {
    name: "MARCEL_LWP_MAX",
    kind: Kind::Int(1, 32768),
    default: "512",
    unit: "kernel threads",
    meaning: "most kernel threads of a runtime that make exported blocking calls; further calls wait for one to end",
};

/// `MARCEL_LWP_KEEP`: how long the pool for blocking calls keeps idle threads.
pub(crate) static LWP_KEEP: Knob = Knob {
    name: "MARCEL_LWP_KEEP",
    kind: Kind::Int(0, 86_400_000),
    default: "10000",
    unit: "ms",
    meaning: "how long a kernel thread for blocking calls stays when it has nothing to do",
};

/// `MARCEL_SIGQUIT`: whether the signal has every thread's state written.
pub(crate) static SIGQUIT: Knob = Knob {
    name: "MARCEL_SIGQUIT",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "SIGQUIT (Ctrl-\\) writes what every thread does to standard error, and ends the process when it comes \
              twice within a second; 0, or a handler that the program has installed before: the signal is left alone",
};

/// `MARCEL_STALL_MS`: the watchdog's limit.
pub(crate) static STALL_MS: Knob = Knob {
    name: "MARCEL_STALL_MS",
    kind: Kind::Int(0, 3_600_000),
    default: "0",
    unit: "ms",
    meaning: "a thread that has not given its virtual processor back for so long is named on standard error, with a \
              backtrace, and again when it does; 0: none is",
};

/// `MARCEL_CHECK`: see `diagnosis::check`.
pub(crate) static CHECK: Knob = Knob {
    name: "MARCEL_CHECK",
    kind: Kind::Word(&["auto", "0", "1"]),
    default: "auto",
    unit: "",
    meaning: "1: a green thread that waits or yields inside the initialiser of a std::thread_local!, or inside a scope \
              that sets one and restores it, ends the process with a message that names it; 0: nothing is checked; \
              auto: in builds with debug assertions",
};

/// `MARCEL_TRACE`: where a trace goes.
pub(crate) static TRACE: Knob = Knob {
    name: "MARCEL_TRACE",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "has the scheduler's and the I/O manager's steps recorded, and written at the end to this file, or to one \
              per process in this directory, for `mad trace`; unset: nothing is",
};

/// `MARCEL_TRACE_RECORDS`: how much of it is kept.
pub(crate) static TRACE_RECORDS: Knob = Knob {
    name: "MARCEL_TRACE_RECORDS",
    kind: Kind::Int(16, 1 << 24),
    default: "32768",
    unit: "records",
    meaning: "how many records of a trace are kept for each kernel thread, the latest ones; 32 bytes each",
};

/// `PIOM_TIMER_PERIOD`: period of the tick.
pub static TIMER_PERIOD: Knob = Knob {
    name: "PIOM_TIMER_PERIOD",
    kind: Kind::Int(100, 10_000_000),
    default: "4000",
    unit: "µs",
    meaning: "period of the tick that a busy virtual processor gets while something is pending",
};

/// Every knob of this crate, for `mad knobs`.
pub static KNOBS: &[Knob] = &[
    MODE,
    UINTR_CALLS,
    NVP,
    REACTIVE,
    FIRSTCPU,
    REACTIVE_GROUP,
    COMPUTE_NICE,
    POLICY,
    IDLE_SPIN,
    STACK_SIZE,
    STACK_GUARD,
    BLOCKING,
    LWP_MAX,
    LWP_KEEP,
    SIGQUIT,
    STALL_MS,
    CHECK,
    TRACE,
    TRACE_RECORDS,
    TIMER_PERIOD,
    TOPOLOGY,
    HWLOC,
];
