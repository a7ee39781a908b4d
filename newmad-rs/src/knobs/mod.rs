//! The declarations of this crate's knobs, and the table of them.

use marcel::plumbing::knob::{self, Kind, Knob};

pub(crate) mod coll;

/// `NMAD_DRIVER`: which driver carries the messages between processes.
pub(crate) static DRIVER: Knob = Knob {
    name: "NMAD_DRIVER",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "driver between processes: shm, tcp, verbs or local, or several rails, fastest first (shm+tcp, tcp+tcp); \
              unset: shm, and local for a session of one",
};

/// `NMAD_RANKS`: how many ranks of a program over madmpi share a process.
pub static RANKS: Knob = Knob {
    name: "NMAD_RANKS",
    kind: Kind::Int(1, 1 << 16),
    default: "",
    unit: "ranks",
    meaning: "madmpi loads the program so often into each process, and runs each copy as a rank on a green thread \
              (`mad run --ranks-per-process` sets it); unset: a process is one rank",
};

/// `NMAD_BOOTSTRAP`: by which process manager the processes find each other.
pub(crate) static BOOTSTRAP: Knob = Knob {
    name: "NMAD_BOOTSTRAP",
    kind: Kind::Word(&["pmi1", "pmi2", "pmix", "alone"]),
    default: "",
    unit: "",
    meaning: "by which protocol a process finds the others of its session; unset: what the process manager that \
              has started it offers (PMI_FD; else PMIX_NAMESPACE), alone without one; an error if Slurm has \
              started several and offers nothing",
};

/// `NMAD_RPC_THREADS`: how many calls run at once.
pub(crate) static RPC_THREADS: Knob = Knob {
    name: "NMAD_RPC_THREADS",
    kind: Kind::Int(1, 1 << 20),
    default: "64",
    unit: "calls",
    meaning: "remote calls of one kind (urgent, background, normal by depth) that run at once; others wait",
};

/// `NMAD_RPC_MEMORY`: how long the arguments and results of remote calls may be.
pub(crate) static RPC_MEMORY: Knob = Knob {
    name: "NMAD_RPC_MEMORY",
    kind: Kind::Int(1 << 13, 1 << 40),
    default: "268435456",
    unit: "bytes",
    meaning: "memory for long arguments of remote calls of one kind that run at once; longer arguments, and \
              longer results at their caller, are refused",
};

/// `NMAD_RDV_THRESHOLD`: messages longer than this use rendezvous.
pub(crate) static RDV_THRESHOLD: Knob = Knob {
    name: "NMAD_RDV_THRESHOLD",
    kind: Kind::Int(0, 1 << 20),
    default: "",
    unit: "bytes",
    meaning: "messages longer than this wait for their receiver (rendezvous) instead of being sent at \
              once; the same in every process; unset: what NMAD_SAMPLING says, else 16384 over shm and verbs, and over tcp 262144, or 65536 for a send whose program is expected to compute next",
};

/// `NMAD_SHM_SLOTS`: slots of each small-message ring.
pub(crate) static SHM_SLOTS: Knob = Knob {
    name: "NMAD_SHM_SLOTS",
    kind: Kind::Int(2, 4096),
    default: "64",
    unit: "slots",
    meaning: "slots of the shared-memory ring between two processes, in each direction; a power of two",
};

/// `NMAD_SHM_SLOT_SIZE`: bytes of each slot of the small-message rings.
pub(crate) static SHM_SLOT_SIZE: Knob = Knob {
    name: "NMAD_SHM_SLOT_SIZE",
    kind: Kind::Int(128, 1 << 20),
    default: "8256",
    unit: "bytes",
    meaning: "size of one slot of the shared-memory ring, its 40 bytes of header included; a multiple of 64",
};

/// `NMAD_CMA`: use cross-memory attach for large messages over shared memory.
pub(crate) static CMA: Knob = Knob {
    name: "NMAD_CMA",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "copy large messages straight between processes (process_vm_readv) where the kernel allows \
              it; 0: always copy them through shared memory",
};

/// `NMAD_UNEXPECTED_MAX`: bound of the memory for messages that no receive has asked for yet.
pub(crate) static UNEXPECTED_MAX: Knob = Knob {
    name: "NMAD_UNEXPECTED_MAX",
    kind: Kind::Int(1 << 22, 1 << 40),
    default: "1073741824",
    unit: "bytes",
    meaning: "memory for messages that arrive before their receive; beyond it they stay with the sender",
};

/// `NMAD_CONNECT_TIMEOUT_MS`: how long to wait for other processes when a session opens, or for a first link.
pub(crate) static CONNECT_TIMEOUT: Knob = Knob {
    name: "NMAD_CONNECT_TIMEOUT_MS",
    kind: Kind::Int(1, 3_600_000),
    default: "30000",
    unit: "ms",
    meaning: "how long opening a session waits for the other processes before it gives up; also bounds a first link with a \
              peer, MPI_Comm_connect, and the start of processes by MPI_Comm_spawn",
};

/// `NMAD_CONTROL_DIMENSIONS`: the shape of the control network.
pub(crate) static CONTROL_DIMENSIONS: Knob = Knob {
    name: "NMAD_CONTROL_DIMENSIONS",
    kind: Kind::Int(1, 4),
    default: "",
    unit: "",
    meaning: "dimensions of the torus that control messages take: 1 is the ring, each further one adds two connections \
              a process, made when a message first wants them; the same in every process; unset: 1 below 8 processes, \
              2 below 64, else 3",
};

/// `NMAD_CARDS`: who says how a peer is reached.
pub(crate) static CARDS: Knob = Knob {
    name: "NMAD_CARDS",
    kind: Kind::Word(&["manager", "network"]),
    default: "manager",
    unit: "",
    meaning: "where a process learns how it reaches a peer, at the first link with it: from the process manager, or from \
              the peer itself over the control network; the same in every process",
};

/// `NMAD_REPAIR_MS`: how long a broken connection may stay broken.
pub(crate) static REPAIR: Knob = Knob {
    name: "NMAD_REPAIR_MS",
    kind: Kind::Int(1, 3_600_000),
    default: "1500",
    unit: "ms",
    meaning: "how long a connection that broke is tried to be made again before its peer is given up",
};

/// `NMAD_EAGER_CREDIT`: bound of what a peer sends unasked.
pub(crate) static CREDIT: Knob = Knob {
    name: "NMAD_EAGER_CREDIT",
    kind: Kind::Int(1024, 1 << 40),
    default: "67108864",
    unit: "bytes",
    meaning: "short messages that may wait at a peer before a receive takes them, with 64 bytes more for each; beyond \
              it they are announced, and wait with their sender",
};

/// `NMAD_CHECKSUM`: packets have checksums.
pub(crate) static CHECKSUM: Knob = Knob {
    name: "NMAD_CHECKSUM",
    kind: Kind::Bool,
    default: "0",
    unit: "",
    meaning: "packets over rails that can break (tcp, verbs) have a checksum (CRC-32); a wrong one breaks the connection, \
              and what was on it is sent again; the same in every process",
};

/// `NMAD_TCP_ADDRESS`: addresses on which the tcp rails listen.
pub(crate) static TCP_ADDRESS: Knob = Knob {
    name: "NMAD_TCP_ADDRESS",
    kind: Kind::Text,
    default: "127.0.0.1",
    unit: "",
    meaning: "IP address on which tcp listens and which it tells the other processes; with several tcp rails \
              one for each, separated by commas, or one for all",
};

/// `NMAD_NAMES`: where names of services are.
pub(crate) static NAMES: Knob = Knob {
    name: "NMAD_NAMES",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "folder in which MPI_Publish_name keeps names, for programs that see it; only its user may write there; \
              unset: newmad-names-USER in the folder for temporary files",
};

/// `NMAD_VERBS_DEVICE`: the ports that the verbs rails use.
pub(crate) static VERBS_DEVICE: Knob = Knob {
    name: "NMAD_VERBS_DEVICE",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "adapter and port that verbs uses (mlx5_0:1), as `mad doctor` names them; with several verbs rails one for \
              each, separated by commas, or one for all; unset: the active ports in the order of their names",
};

/// `NMAD_VERBS_SLOTS`: packets under way on a link over verbs.
pub(crate) static VERBS_SLOTS: Knob = Knob {
    name: "NMAD_VERBS_SLOTS",
    kind: Kind::Int(4, 1024),
    default: "32",
    unit: "packets",
    meaning: "packets of 8 KiB that a peer may have under way to this process over verbs, for short messages, and as \
              many for long ones; each link locks memory for four times so many",
};

/// `NMAD_VERBS_RDMA`: from which length on adapters read messages from the program's memory.
pub(crate) static VERBS_RDMA: Knob = Knob {
    name: "NMAD_VERBS_RDMA",
    kind: Kind::Int(0, 1 << 40),
    default: "",
    unit: "bytes",
    meaning: "from this length on a message that waits for its receiver is read by the receiver's adapter from the sender's \
              memory (RDMA) where it goes over verbs, and is copied through buffers otherwise; 0: always through buffers; unset: what \
              NMAD_SAMPLING says, else 262144",
};

/// `NMAD_VERBS_CHANNELS`: memory for eager channels.
pub(crate) static CHANNELS: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS",
    kind: Kind::Int(0, 1 << 40),
    default: "0",
    unit: "bytes",
    meaning: "memory of this process, for each verbs rail, for rings into which peers write short messages themselves \
              (eager channels); beyond it requests for such rings are declined; 0: no channels",
};

/// `NMAD_VERBS_CHANNELS_AFTER`: when a channel is asked for.
pub(crate) static CHANNELS_AFTER: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS_AFTER",
    kind: Kind::Int(1, 1 << 30),
    default: "1000",
    unit: "packets",
    meaning: "short messages and control packets to a peer after which this process asks it for an eager channel",
};

/// `NMAD_VERBS_CHANNELS_WINDOW`: when a channel's shape is looked at.
pub(crate) static CHANNELS_WINDOW: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS_WINDOW",
    kind: Kind::Int(1, 1 << 30),
    default: "2000",
    unit: "packets",
    meaning: "packets from whose mean length and pending data the number and size of an eager channel's slots follow; \
              after as many it is asked for again if it was declined, and for another shape if they want one",
};

/// `NMAD_VERBS_CHANNELS_SHAPE`: the shape of channels.
pub(crate) static CHANNELS_SHAPE: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS_SHAPE",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "slots of the eager channels that this process asks for, and the longest message of each in bytes: \
              128x1024; up to 1024 slots of 8208 bytes; unset: as the messages want it",
};

/// `NMAD_VERBS_CHANNELS_RESHAPES`: how often a channel changes.
pub(crate) static CHANNELS_RESHAPES: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS_RESHAPES",
    kind: Kind::Int(0, 1 << 30),
    default: "",
    unit: "times",
    meaning: "how often this process asks for another shape of an eager channel that it has; unset: as often as the \
              messages want it",
};

/// `NMAD_VERBS_CHANNELS_SHRINK`: what channels give up.
pub(crate) static CHANNELS_SHRINK: Knob = Knob {
    name: "NMAD_VERBS_CHANNELS_SHRINK",
    kind: Kind::Word(&["emergency", "normalisation", "lru"]),
    default: "normalisation",
    unit: "",
    meaning: "what becomes of the eager channels when a request does not fit into NMAD_VERBS_CHANNELS: emergency: \
              those with most memory end; normalisation: all that have more than their share are shrunk to it; lru: \
              those that were used least recently end",
};

/// `NMAD_VERBS_VIRTUAL_RAILS`: endpoints of an adapter's port.
pub(crate) static VIRTUAL_RAILS: Knob = Knob {
    name: "NMAD_VERBS_VIRTUAL_RAILS",
    kind: Kind::Text,
    default: "1",
    unit: "rails",
    meaning: "sets of queue pairs, queues and receive buffers of each verbs rail, from 1 to 4, each of a NUMA node; a process is sent \
              messages over the one of the node on which its threads receive; auto: one for each node; the same in every process",
};

/// `NMAD_VERBS_VIRTUAL_RAILS_WINDOW`: when a process asks for another virtual rail.
pub(crate) static VIRTUAL_RAILS_WINDOW: Knob = Knob {
    name: "NMAD_VERBS_VIRTUAL_RAILS_WINDOW",
    kind: Kind::Int(1, 1 << 30),
    default: "1000",
    unit: "receives",
    meaning: "receives that name a peer after which this process looks on which node they were made; if more than three quarters \
              were made on that of another virtual rail, it asks the peer to send over that one",
};

/// The names of the built-in strategies.
pub const STRATEGIES: &[&str] = &["default", "aggreg", "prio", "split_balance"];

/// `NMAD_STRATEGY`: what leaves next, and together with what.
pub(crate) static STRATEGY: Knob = Knob {
    name: "NMAD_STRATEGY",
    kind: Kind::Word(STRATEGIES),
    default: "",
    unit: "",
    meaning: "which waiting messages leave next, and together with which others; unset: split_balance over \
              several rails, aggreg over tcp, default over shm",
};

/// `NMAD_CHUNKS`: what the number of parts of a large message depends on.
pub(crate) static CHUNKS: Knob = Knob {
    name: "NMAD_CHUNKS",
    kind: Kind::Word(&["rails", "idle"]),
    default: "rails",
    unit: "",
    meaning: "into how many parts split_balance cuts a large message: rails: one for each rail that is worth it; idle: \
              at most one, and one more for each idle core, so over the best rail alone while every core computes",
};

/// `NMAD_SAMPLING`: where the figures come from by which protocols and rails are chosen.
pub(crate) static SAMPLING: Knob = Knob {
    name: "NMAD_SAMPLING",
    kind: Kind::Text,
    default: "",
    unit: "",
    meaning: "file with times by size, as `mad sample` writes it, from which the rendezvous threshold, \
              what adapters read and the shares of several rails follow; now: measure when the session opens; off: \
              built-in figures; unset: newmad/sampling-HOST.txt in $XDG_CACHE_HOME or ~/.cache, where it exists",
};

/// `NMAD_REORDER`: may a strategy change the order of messages with different tags?
pub(crate) static REORDER: Knob = Knob {
    name: "NMAD_REORDER",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "messages with different tags may overtake each other, to fill packets or because they are more \
              urgent; those with one tag never do",
};

/// `NMAD_OFFLOAD`: which thread submits what `isend` registers.
pub(crate) static OFFLOAD: Knob = Knob {
    name: "NMAD_OFFLOAD",
    kind: Kind::Word(&["auto", "never", "always"]),
    default: "auto",
    unit: "",
    meaning: "whether an idle core sends what isend registers: auto: long messages, and all that need a \
              system call, while an idle core looks for events; otherwise the caller does",
};

/// `NMAD_LOCK`: how a session's engine is locked.
pub(crate) static LOCK: Knob = Knob {
    name: "NMAD_LOCK",
    kind: Kind::Word(&["coarse", "none", "fine"]),
    default: "coarse",
    unit: "",
    meaning: "coarse: one lock; none: nothing for a kernel thread that uses the session alone, until another comes; \
              fine: over shared memory short messages are sent to each rank beside the engine; a program may change it while \
              it runs",
};

/// Every knob of this crate, as `mad knobs` prints them.
pub static KNOBS: &[Knob] = &[
    DRIVER,
    RANKS,
    RPC_THREADS,
    RPC_MEMORY,
    BOOTSTRAP,
    RDV_THRESHOLD,
    SHM_SLOTS,
    SHM_SLOT_SIZE,
    CMA,
    UNEXPECTED_MAX,
    CONNECT_TIMEOUT,
    REPAIR,
    CONTROL_DIMENSIONS,
    CARDS,
    CHECKSUM,
    CREDIT,
    TCP_ADDRESS,
    NAMES,
    VERBS_DEVICE,
    VERBS_SLOTS,
    VERBS_RDMA,
    CHANNELS,
    CHANNELS_AFTER,
    CHANNELS_WINDOW,
    CHANNELS_SHAPE,
    CHANNELS_RESHAPES,
    CHANNELS_SHRINK,
    VIRTUAL_RAILS,
    VIRTUAL_RAILS_WINDOW,
    STRATEGY,
    CHUNKS,
    REORDER,
    SAMPLING,
    OFFLOAD,
    LOCK,
    coll::BCAST,
    coll::REDUCE,
    coll::ALLREDUCE,
    coll::GATHER,
    coll::ALLGATHER,
    coll::ALLTOALL,
    coll::REDUCE_SCATTER,
    coll::SEGMENT,
    coll::SHARED,
    coll::CHECK,
];

/// Variables with the prefix `MAD_` by which the command `mad` and launchers tell the processes that they start
/// something. No user sets them.
const PASSED: &[&str] = &[
    "MAD_JOB",
    "MAD_LOCAL_RANK",
    "MAD_LOCAL_SIZE",
    "MAD_PROXY",
    "MAD_NOTE",
    "MAD_BENCH_NAMESPACES",
    "MAD_BENCH_ADDRESSES",
];

/// Variables of the environment that look like knobs of marcel, pioman or newmad and are none.
pub fn unknown() -> Vec<knob::Unknown> {
    knob::unknown(&PREFIXES, &TABLES, PASSED)
}

/// Warns once of what [`unknown`] finds; the names.
pub fn warn_of_unknown() -> Vec<String> {
    knob::warn_of_unknown(&PREFIXES, &TABLES, PASSED)
}

const PREFIXES: [&str; 4] = ["MARCEL_", "PIOM_", "NMAD_", "MAD_"];

static TABLES: [&[Knob]; 3] = [marcel::KNOBS, pioman::KNOBS, KNOBS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_acceptable() {
        for knob in KNOBS.iter().filter(|knob| !knob.default.is_empty()) {
            knob.check(knob.default).unwrap();
        }
    }
}
