//! What a report consists of: the experiments, how each is run for it, what is drawn, and what the sources found.

use crate::harness::line::Line;
use crate::report::peers;
use crate::report::plot::Middle;
use crate::report::programs;
use crate::report::saying::Finding;
use crate::report::words;

/// A picture of a section.
pub(crate) enum Picture {
    /// Curves of a metric over a key; one plot for each combination of `apart`, one curve for each of the other keys.
    Curves { metric: &'static str, x: &'static str, apart: &'static [&'static str], middle: Middle },
    /// A bar for each point that has the metric; one plot for each combination of `apart`. Labels leave out `untold`.
    Bars { metric: &'static str, apart: &'static [&'static str], untold: &'static [&'static str] },
    /// A map of ratios over two keys; one for each combination of `apart`.
    Heat { metric: &'static str, x: &'static str, y: &'static str, apart: &'static [&'static str] },
}

/// One experiment of the report.
pub(crate) struct Section {
    pub(crate) bench: &'static str,
    pub(crate) title: &'static str,
    /// The question.
    pub(crate) asks: &'static str,
    /// Options, as on the command line.
    pub(crate) given: &'static [(&'static str, &'static str)],
    pub(crate) iters: u64,
    pub(crate) pictures: &'static [Picture],
    /// What the source found, on its machines; it begins with the source's key.
    pub(crate) found: &'static str,
    /// What the figures say.
    pub(crate) says: fn(&[Line]) -> Vec<Finding>,
}

use Picture::{Bars, Curves, Heat};

/// Curves of medians.
const fn medians(metric: &'static str, x: &'static str, apart: &'static [&'static str]) -> Picture {
    Curves { metric, x, apart, middle: Middle::Median }
}

/// Bars with all that tells them apart.
const fn bars(metric: &'static str, apart: &'static [&'static str]) -> Picture {
    Bars { metric, apart, untold: &[] }
}

const LIBRARIES: &str = "newmad,madmpi,openmpi,mpich";

/// What became of a section.
pub(super) struct Measurement {
    pub(super) section: &'static Section,
    pub(super) lines: Vec<Line>,
    /// How it was run; absent when the lines came from a file.
    pub(super) command: Option<String>,
    /// Why there is nothing.
    pub(super) failed: Option<String>,
}

/// All of them, in the order of the page.
pub(crate) static SECTIONS: &[Section] = &[
    Section {
        bench: "apps",
        title: "Small applications",
        asks: "Six programs, each the same C source for every MPI library, and halo over newmad itself: how long does a step take, \
               with a core for each rank and with more ranks than cores? (Open MPI yields when idle there.)",
        given: &[("driver", "shm"), ("library", LIBRARIES), ("ranks", "2,4,8")],
        iters: 300,
        pictures: &[Bars {
            metric: "total_time",
            apart: &["workload"],
            untold: &["size", "compute_us", "window"],
        }],
        found: "Not an experiment of the sources: what the experiments about mechanisms do not show.",
        says: programs::applications,
    },
    Section {
        bench: "overlap",
        title: "Overlap: messages that go on while a side computes",
        asks: "One side posts a message, computes without calling the library, then waits. How much of the transfer does \
               the computation hide? 1: all of it.",
        given: &[
            ("driver", "shm,tcp"),
            ("side", "receiver,sender"),
            ("size", "32K,256K,1M"),
            ("compute-us", "200,2000,20000"),
        ],
        iters: 5,
        pictures: &[Heat {
            metric: "overlap_ratio",
            x: "size",
            y: "compute_us",
            apart: &["driver", "side"],
        }],
        found: "[Trahay09] 7.2.3.2: with PIOMan the ratio reaches 1 on both sides, for 32 KB and 1 MB, once the \
                computation is as long as the transfer; the other libraries overlapped on the sender's side only.",
        says: words::overlap,
    },
    Section {
        bench: "overlap",
        title: "Overlap on one virtual processor: ticks, and peers that interrupt",
        asks: "As above, in mode mono, where the thread that computes is the only one of its process: what of the transfer \
               is hidden if its ticks look for messages, and if its peers signal it when they send (sig_shm of the \
               source)?",
        given: &[
            ("driver", "shm"),
            ("mode", "mono"),
            ("policy", "timer-only,interrupt"),
            ("side", "receiver"),
            ("size", "4K,16K,64K,256K,1M"),
            ("compute-us", "200,2000,20000"),
        ],
        iters: 5,
        pictures: &[Heat {
            metric: "overlap_ratio",
            x: "size",
            y: "compute_us",
            apart: &["policy"],
        }],
        found: "[Goedefroit23] figures 10 and 11, receiver's side, without progress between calls and with user \
                interrupts: no real overlap without; nearly perfect with, below 16 KB. (Its machine has user \
                interrupts, and these are signals.)",
        says: words::interrupts,
    },
    Section {
        bench: "overlap",
        title: "Asynchronous progress: which side waits for the other",
        asks: "The receiver has posted its receive and computes 20 ms. How long does the sender's call last, with \
               progress outside calls and without it, beside MPI libraries at their defaults?",
        given: &[
            ("driver", "shm,tcp"),
            ("progression", "0,1"),
            ("library", LIBRARIES),
            ("size", "4,64K,1M"),
            ("compute-us", "20000"),
        ],
        iters: 5,
        pictures: &[medians("send_time", "size", &["driver", "compute_us"])],
        found: "[Trahay07] figure 3 (computation of 50 ms): without PIOMan the sender waited for the whole \
                computation from the rendezvous threshold on; with it on one virtual processor, for a tick of 10 ms at \
                the most; with several, not at all.",
        says: words::progress,
    },
    Section {
        bench: "submit",
        title: "Off-loaded submission",
        asks: "isend, compute 20 µs, wait: is the time the longer of the two (an idle core submits), or their sum? Beside \
               MPI libraries at their defaults.",
        given: &[("driver", "shm,tcp"), ("offload", "auto,never"), ("library", LIBRARIES)],
        iters: 60,
        pictures: &[medians("total_time", "size", &["driver"])],
        found: "[Trahay09] 7.2.4.1: the longer of the two at every size from 4 B to 32 KB; the sum for the others.",
        says: peers::submit,
    },
    Section {
        bench: "reactivity",
        title: "Reactivity when oversubscribed",
        asks: "Each process has N threads that compute and never yield: green ones of newmad's, the kernel's of the MPI \
               libraries. How long does a 4-byte message take: one that is under way at a random moment, and the \
               mean of all? Most messages of a library that polls are fast, those that come while it has no time slice take \
               milliseconds.",
        given: &[("driver", "shm,tcp"), ("library", LIBRARIES), ("threads", "2,32")],
        iters: 2000,
        pictures: &[
            medians("weighted_trip", "threads", &["driver"]),
            Curves {
                metric: "half_round_trip",
                x: "threads",
                apart: &["driver"],
                middle: Middle::Mean,
            },
        ],
        found: "[Trahay09] 7.2.3.1: PIOMan's reaction did not depend on the number of computing threads; MPICH2's and \
                Open MPI's was long and unstable.",
        says: peers::reactivity,
    },
    Section {
        bench: "latency",
        title: "Latency",
        asks: "Half a round trip between two processes that do nothing else, beside a plain socket or a polled flag, \
               and MPI libraries.",
        given: &[
            ("driver", "shm,tcp"),
            ("library", "newmad,bare,madmpi,openmpi,mpich"),
            ("size", "1,1K,16K"),
        ],
        iters: 3000,
        pictures: &[medians("half_round_trip", "size", &["driver"])],
        found: "[Trahay07] section 4, and [Trahay09] 7.2.1: PIOMan adds some tenths of a microsecond to a \
                ping-pong over Myrinet or InfiniBand.",
        says: words::latency,
    },
    Section {
        bench: "locking",
        title: "The price of the lock",
        asks: "What does the engine's lock add to a 4-byte ping-pong, without contention?",
        given: &[("driver", "shm,tcp")],
        iters: 2000,
        pictures: &[bars("half_round_trip", &["driver"]), bars("added_time", &["driver"])],
        found: "[Trahay09] 7.2.1.1, figure 7.3, over InfiniBand: 2.05 µs without a lock, 2.19 with one coarse lock (taken \
                twice), 2.30 with fine ones (three). Fine here: one for a short send over shared memory.",
        says: |lines| words::added(lines, "lock", "none"),
    },
    Section {
        bench: "delegation",
        title: "The price of delegation",
        asks: "What does it add to a 4-byte ping-pong that not the waiting thread looks for its message, but the I/O manager: \
               in its wait, on an idle core, by a light task?",
        given: &[("driver", "shm,tcp")],
        iters: 2000,
        pictures: &[bars("half_round_trip", &["driver"]), bars("added_time", &["driver"])],
        found: "[Trahay09] 7.2.1.2, figures 7.5 and 7.7: 2.30 µs when the library polls by itself and 2.47 when PIOMan does, \
                over InfiniBand; 3.10 and 3.31 over Myrinet.",
        says: |lines| words::added(lines, "method", "caller"),
    },
    Section {
        bench: "events",
        title: "Events, by mechanism",
        asks: "From just before an event is raised to the first line of the handler, or of the thread that was woken: how long, \
               between two threads and between two processes, each on a core of its own?",
        given: &[],
        iters: 2000,
        pictures: &[bars("event_time", &["between"])],
        found: "[Goedefroit23] 4.1, figures 4 and 15 (Sapphire Rapids at 2 GHz, medians): between threads 3054 ns by signal, 642 by \
                user interrupt; between processes 2658 and 649.",
        says: words::events,
    },
    Section {
        bench: "bandwidth",
        title: "Bandwidth",
        asks: "One message there and back, and windows of 16 one way.",
        given: &[("driver", "shm,tcp"), ("library", LIBRARIES), ("size", "64K,1M,4M")],
        iters: 2000,
        pictures: &[medians("bandwidth", "size", &["driver", "workload"])],
        found: "Not an experiment of the sources; the two forms are those of the OSU benchmarks.",
        says: words::bandwidth,
    },
    Section {
        bench: "rate",
        title: "Message rate",
        asks: "Eight-byte messages, 64 under way at once: how many in a second? Over TCP, messages that wait leave together.",
        given: &[("driver", "shm,tcp"), ("library", LIBRARIES)],
        iters: 1000,
        pictures: &[bars("message_rate", &["driver"])],
        found: "Not an experiment of the sources (osu_mbw_mr).",
        says: words::rate,
    },
    Section {
        bench: "mt_latency",
        title: "Many threads in the library",
        asks: "Does the latency grow with the number of threads that wait for messages, or play at once?",
        given: &[("driver", "shm"), ("library", LIBRARIES), ("threads", "1,8,32")],
        iters: 20_000,
        pictures: &[medians("half_round_trip", "threads", &["workload"])],
        found: "[Trahay09] 7.2.2: constant with PIOMan even when oversubscribed; MVAPICH2 grew by 7 µs per thread, \
                MPICH2 by 15 to 20.",
        says: words::threads,
    },
    Section {
        bench: "multirail",
        title: "Two rails",
        asks: "Two shaped networks of 1000 and 400 Mbit/s: is a message that uses both as fast as their sum?",
        given: &[("workload", "pingpong"), ("size", "1K,64K,256K,1M,4M")],
        iters: 1,
        pictures: &[medians("bandwidth", "size", &[])],
        found: "[Trahay09] 7.2.4.2: splitting won from 12 KB on, up to 15 %, over Myrinet and InfiniBand.",
        says: words::multirail,
    },
    Section {
        bench: "idle",
        title: "What waiting costs",
        asks: "A process waits a second for a message. How much CPU time does it burn?",
        given: &[("driver", "shm,tcp"), ("library", LIBRARIES), ("seconds", "1")],
        iters: 1,
        pictures: &[bars("cpu_time", &["driver"])],
        found: "[Trahay09] 5.3.2: the mixed wait polls for a while, then blocks; MPI libraries burn a core.",
        says: peers::idle,
    },
    Section {
        bench: "overhead",
        title: "Overhead of the I/O manager",
        asks: "What do an empty poll, an empty light task and an empty blocking call cost?",
        given: &[],
        iters: 1000,
        pictures: &[bars("op_time", &["method"])],
        found: "[Trahay07] table 2 (1.8 GHz Opteron): a poll 38 ns without threads, 85 on one virtual \
                processor, 142 on several; a blocking call 1.68 µs.",
        says: words::overhead,
    },
    Section {
        bench: "detect",
        title: "Detection",
        asks: "From the event to the waiting thread running again, with idle and with busy cores, beside a kernel thread that \
               blocks.",
        given: &[
            ("source", "shm,eventfd,tcp"),
            ("library", "pioman,kernel"),
            ("threads", "0,1x,16x"),
        ],
        iters: 60,
        pictures: &[medians("detect_time", "threads", &["source"])],
        found: "[Trahay09] 4.2: polling is best while a core is idle, interrupts when all compute; the manager chooses.",
        says: words::detect,
    },
    Section {
        bench: "policies",
        title: "Policies of detection",
        asks: "Under each policy: what does an event cost, by latency, computation lost and CPU burnt?",
        given: &[],
        iters: 1,
        pictures: &[bars("score", &["workload"])],
        found: "[Trahay09] chapter 8 leaves the adaptive choice open.",
        says: words::policies,
    },
    Section {
        bench: "threads",
        title: "Green threads",
        asks: "What do threads, switches and locks cost, beside other libraries that are installed here? (fib makes fewer threads \
               where they are the kernel's.)",
        given: &[("op", "createjoin,batch,yield,handoff,mutex,mutex4,fib")],
        iters: 3,
        pictures: &[Bars { metric: "op_time", apart: &["op", "workers"], untold: &["threads"] }],
        found: "Not an experiment of the sources: the operations by which Argobots, MassiveThreads and PM2's Marcel are compared.",
        says: words::green_threads,
    },
    Section {
        bench: "coll",
        title: "Collectives",
        asks: "Collectives of two and four members, the same C source for every MPI library, and newmad's own.",
        given: &[("library", LIBRARIES), ("size", "8,64K")],
        iters: 60,
        pictures: &[medians("op_time", "members", &["op", "size"])],
        found: "[Didelot14] 4.4: collaborative polling lets any waiting task carry on another's messages.",
        says: programs::collectives,
    },
    Section {
        bench: "collaborative",
        title: "Collaborative polling",
        asks: "Two ranks of a process compute, one longer than the other, and their messages come from another process meanwhile. \
               Does the rank that waits take up those of the one that computes? Beside it: progress in waits alone, \
               a process for each rank, polling in calls only, and MPI libraries as processes.",
        given: &[
            ("library", "madmpi,openmpi,mpich"),
            ("way", "collaborative,wait,processes,calls"),
            ("imbalance", "1,2,4"),
        ],
        iters: 100,
        pictures: &[medians("wait_time", "imbalance", &["size"])],
        found: "[Didelot14] 4.4: on 1,024 cores BT spent 1.69 times less time in MPI, EulerMHD 2.34 times; nothing where all \
                ranks compute as long as each other.",
        says: programs::collaborative,
    },
    Section {
        bench: "rpc",
        title: "Remote calls",
        asks: "A call and its reply, to an idle target and to one whose cores all compute.",
        given: &[("size", "1"), ("window", "1,64")],
        iters: 1000,
        pictures: &[bars("call_time", &["driver", "threads"])],
        found: "[Mythos16] 3.2: remote invocation as the one way between address spaces; PM2's LRPC.",
        says: words::nothing,
    },
    Section {
        bench: "onesided",
        title: "One-sided accesses, also to a target that computes",
        asks: "One process puts, gets and accumulates in the memory of another, the same C source on every MPI library, until a \
               flush says that the access is over. The target waits, or computes 20 ms without a call.",
        given: &[
            ("driver", "shm,tcp"),
            ("library", LIBRARIES),
            ("op", "put,get,accumulate,fetch"),
            ("memory", "allocated"),
            ("size", "8,64K"),
            ("compute-us", "0,20000"),
        ],
        iters: 100,
        pictures: &[bars("access_time", &["driver", "compute_us", "op"])],
        found: "Not an experiment of the sources: their libraries have no one-sided accesses.",
        says: words::nothing,
    },
    Section {
        bench: "files",
        title: "Files of MPI libraries",
        asks: "Two processes write and read one file, the same C source on every MPI library: each a half of it, or blocks of 1 KiB \
               in turn; alone, together, and beside 2 ms of computation, which are not counted. The file is in the page cache.",
        given: &[
            ("driver", "shm"),
            ("library", "madmpi,openmpi,mpich"),
            ("op", "write,read,write_all,read_all,iwrite,iread"),
            ("layout", "halves,blocks"),
            ("size", "64K,1M"),
            ("piece", "1K"),
        ],
        iters: 200,
        pictures: &[bars("access_time", &["layout", "op"])],
        found: "Not an experiment of the sources: their libraries have no files.",
        says: words::nothing,
    },
    Section {
        bench: "control-network",
        title: "Control network, simulated",
        asks: "Connections, hops and messages of many processes, in virtual time: its unit is a hop, and no figure is a machine's \
               performance.",
        given: &[("processes", "128,4096"), ("dimensions", "1,2,3"), ("requests", "128")],
        iters: 1,
        pictures: &[medians("answer_time", "processes", &["dimensions"])],
        found: "[Didelot14] table 3.3, 128 nodes: a new connection takes 11,624 µs over the ring, 7,249 over two dimensions, 7,030 \
                over three.",
        says: words::nothing,
    },
];
