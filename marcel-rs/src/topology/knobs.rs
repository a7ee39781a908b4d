//! The knobs of the topology.

use super::shape::{self, Shape};
use crate::knob::{Kind, Knob};

/// `MARCEL_FIRSTCPU`: where the first compute virtual processor is bound.
pub(crate) static FIRSTCPU: Knob = Knob {
    name: "MARCEL_FIRSTCPU",
    kind: Kind::Int(0, 65535),
    default: "",
    unit: "index into the allowed cores",
    meaning: "allowed core of the first virtual processor, the others follow round-robin; unset: the \
              rank of the process on this machine times its number of virtual processors, so that neighbours start on different cores",
};

/// `MARCEL_TOPOLOGY`: a synthetic machine in place of this one.
pub(crate) static TOPOLOGY: Knob = Knob {
    name: "MARCEL_TOPOLOGY",
    kind: Kind::Format { accepts: shape::ACCEPTS, check },
    default: "",
    unit: "",
    meaning: "a synthetic machine on which virtual processors are placed, one per core of it unless \
              MARCEL_NVP says otherwise, whatever there is in fact; unset: this machine",
};

/// `MARCEL_HWLOC`: whether hwloc is asked for the topology.
pub(crate) static HWLOC: Knob = Knob {
    name: "MARCEL_HWLOC",
    kind: Kind::Word(&["auto", "0", "1"]),
    default: "auto",
    unit: "",
    meaning: "where the topology comes from: auto: from hwloc (libhwloc.so.15, loaded at run time) where it is \
              installed, else from the kernel's files; 0: always from those; 1: from hwloc or not at all",
};

fn check(text: &str) -> Result<(), String> {
    text.parse::<Shape>().map(drop).map_err(|why| why.to_string())
}
