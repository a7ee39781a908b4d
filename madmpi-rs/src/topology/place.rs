//! Where this process is on its machine.

use marcel::topology::{Level, Topology};

use super::reorder::{LEVELS, Place};

/// At a level at which nothing holds all cores that the process may use.
const ANYWHERE: u64 = u64::MAX;

/// The place of a rank of this process on the machine `memory`. `alone`: the process has no other ranks.
pub(crate) fn here(memory: u64, alone: bool) -> Place {
    let mut place = [ANYWHERE; LEVELS];
    place[0] = memory;
    // Ranks that share a process are on any of its cores in turn.
    if alone && let Ok(topology) = Topology::current() {
        let all = topology.nodes()[0].cpus.len();
        for node in topology.nodes().iter().filter(|node| node.cpus.len() == all) {
            let level = match node.level {
                Level::Package => 1,
                Level::Numa => 2,
                Level::Cache(_) => 3,
                Level::Core | Level::Pu => 4,
                _ => continue,
            };
            if place[level] == ANYWHERE {
                place[level] = node.id as u64;
            }
        }
    }
    place[5] = std::process::id().into();
    place
}
