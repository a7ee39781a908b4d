//! The knobs of collectives; the crate's table (`crate::knobs`) has them too.

use marcel::plumbing::knob::{Kind, Knob};

/// `NMAD_COLL_BCAST`: algorithm of bcast.
pub(crate) static BCAST: Knob = Knob {
    name: "NMAD_COLL_BCAST",
    kind: Kind::Word(&["auto", "binomial", "chain", "scatter_allgather"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of bcast; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_REDUCE`: algorithm of reduce.
pub(crate) static REDUCE: Knob = Knob {
    name: "NMAD_COLL_REDUCE",
    kind: Kind::Word(&["auto", "binomial", "scatter_gather"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of reduce; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_ALLREDUCE`: algorithm of allreduce.
pub(crate) static ALLREDUCE: Knob = Knob {
    name: "NMAD_COLL_ALLREDUCE",
    kind: Kind::Word(&["auto", "doubling", "ring", "halving", "reduce_bcast"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of allreduce; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_GATHER`: algorithm of gather and scatter.
pub(crate) static GATHER: Knob = Knob {
    name: "NMAD_COLL_GATHER",
    kind: Kind::Word(&["auto", "linear", "binomial"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of gather and scatter; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_ALLGATHER`: algorithm of allgather.
pub(crate) static ALLGATHER: Knob = Knob {
    name: "NMAD_COLL_ALLGATHER",
    kind: Kind::Word(&["auto", "linear", "ring", "bruck"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of allgather; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_ALLTOALL`: algorithm of alltoall.
pub(crate) static ALLTOALL: Knob = Knob {
    name: "NMAD_COLL_ALLTOALL",
    kind: Kind::Word(&["auto", "linear", "pairwise", "bruck"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of alltoall; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_REDUCE_SCATTER`: algorithm of reduce-scatter.
pub(crate) static REDUCE_SCATTER: Knob = Knob {
    name: "NMAD_COLL_REDUCE_SCATTER",
    kind: Kind::Word(&["auto", "pairwise", "ring", "halving"]),
    default: "auto",
    unit: "",
    meaning: "algorithm of reduce-scatter; auto: by size and number of processes; the same in every process",
};

/// `NMAD_COLL_SHARED`: whether short collectives use shared memory.
pub(crate) static SHARED: Knob = Knob {
    name: "NMAD_COLL_SHARED",
    kind: Kind::Bool,
    default: "1",
    unit: "",
    meaning: "short collectives of processes that share memory go without messages; the same in every process",
};

/// `NMAD_CHECK`: whether the members of a communicator compare what they call.
pub static CHECK: Knob = Knob {
    name: "NMAD_CHECK",
    kind: Kind::Bool,
    default: "0",
    unit: "",
    meaning: "madmpi: before each collective the members of a communicator tell each other what they call, and a difference is an \
              error; the same in every process",
};

/// `NMAD_COLL_SEGMENT`: pieces of a pipelined bcast.
pub(crate) static SEGMENT: Knob = Knob {
    name: "NMAD_COLL_SEGMENT",
    kind: Kind::Int(1, 1 << 30),
    default: "65536",
    unit: "bytes",
    meaning: "length of the pieces in which a chain of processes passes a long message on (bcast)",
};
