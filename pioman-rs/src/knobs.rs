//! The knobs of this crate.

use marcel::plumbing::knob::{Kind, Knob};

/// Progress outside calls, altogether.
pub(crate) static ENABLE_PROGRESSION: Knob = Knob {
    name: "PIOM_ENABLE_PROGRESSION",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "0: requests progress only inside calls (wait, test), as in libraries without an I/O manager",
};

/// Where events are looked for.
pub(crate) static POINTS: Knob = Knob {
    name: "PIOM_POINTS",
    kind: Kind::Set(&["idle", "switch", "tick", "block", "interrupt"]),
    default: "idle,switch,tick,block,interrupt",
    unit: "",
    meaning: "where events are looked for beside calls: idle virtual processors, context switches, ticks, \
              the background watcher, which blocks, signals by which peers interrupt a virtual processor that computes \
              (with ticks only, and where the policy wants them)",
};

/// How long a wait polls before it sleeps.
pub(crate) static BUSY_WAIT_USEC: Knob = Knob {
    name: "PIOM_BUSY_WAIT_USEC",
    kind: Kind::Int(-1, 1_000_000),
    default: "",
    unit: "µs",
    meaning: "how long a wait polls at the most before it sleeps, on a machine that is not loaded; 0: not at all; \
              -1: as long as it takes; unset: as the policy has it, 50 in load-aware, 20 times the measured cost of \
              a kernel wake-up in adaptive (`mad knobs --explain` shows it)",
};

/// The policy that chooses the method.
pub(crate) static POLICY: Knob = Knob {
    name: "PIOM_POLICY",
    kind: Kind::Text,
    default: "load-aware",
    unit: "",
    meaning: "policy that chooses how events are looked for: always-poll, always-block, timer-only, dedicated, \
              interrupt, load-aware or adaptive; after commas SOURCE=name for single sources",
};

/// Spare kernel threads.
pub(crate) static SPARE_LWP: Knob = Knob {
    name: "PIOM_SPARE_LWP",
    kind: Kind::Int(0, 256),
    default: "4",
    unit: "kernel threads",
    meaning: "most spare kernel threads that blocking calls of requests may occupy (smp mode); 0: requests \
              are only polled, and there is no background watcher",
};

/// Kernel threads that wait.
pub(crate) static PREFER_WAITERS: Knob = Knob {
    name: "PIOM_PREFER_WAITERS",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "whether a kernel thread of the program that has to sleep in a wait asks the kernel for a short time slice, \
              for good, so that it is woken at once beside threads that compute (priority and share stay; one with a \
              scheduling policy of its own is left alone); where a job has more processes than cores, also one that \
              first offers its core",
};

/// Kernel threads that do nothing but poll.
pub(crate) static DEDICATED: Knob = Knob {
    name: "PIOM_DEDICATED",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "kernel threads that poll, each on a core of its own, while something is pending for which the policy \
              chooses so: their number (the last allowed cores are taken), or core:NUMBER[:NUMBER...] of the \
              cores; 0: none; unset: one as soon as a policy wants it",
};

/// Files by io_uring.
pub(crate) static URING: Knob = Knob {
    name: "PIOM_URING",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "0: calls on files are made by kernel threads that block, even where there is io_uring",
};

/// Statistics.
pub(crate) static STATS: Knob = Knob {
    name: "PIOM_STATS",
    kind: Kind::Bool,
    default: "0",
    unit: "",
    meaning: "1: polls, events, wake-ups and how long events and waits took, on standard error at the end; taking the \
              times makes every poll some 30 ns longer",
};

/// From when on a callback takes too long.
pub(crate) static LONG_CALLBACK_USEC: Knob = Knob {
    name: "PIOM_LONG_CALLBACK_USEC",
    kind: Kind::Int(0, 1_000_000_000),
    default: "0",
    unit: "µs",
    meaning: "callbacks (light tasks and the like) that take longer are counted and named on standard error, since \
              nothing else progresses meanwhile where they run: 1000 finds those that matter; 0: none is",
};

/// Which nodes of the topology have queues of light tasks.
pub(crate) static BINDING_LEVEL: Knob = Knob {
    name: "PIOM_BINDING_LEVEL",
    kind: Kind::Word(&["all", "machine", "package", "numa", "cache", "core"]),
    default: "all",
    unit: "",
    meaning: "which nodes of the topology have queues of light tasks, beside the machine: those of this level, or \
              all; a task is in the nearest queue whose node holds its cores. Fewer queues are looked at faster, \
              and shared by more cores",
};

/// Every knob of this crate, for `mad knobs`.
pub static KNOBS: &[Knob] = &[
    ENABLE_PROGRESSION,
    POINTS,
    POLICY,
    BUSY_WAIT_USEC,
    SPARE_LWP,
    PREFER_WAITERS,
    DEDICATED,
    URING,
    STATS,
    LONG_CALLBACK_USEC,
    BINDING_LEVEL,
];
