//! The hidden subcommand `worker`: the process that measures.

use crate::experiments::find;
use crate::harness::check::check;
use crate::harness::mpi;
use crate::harness::worker::Spec;
use crate::out::{Exit, Outcome};

/// The hidden subcommand.
pub fn run(spec: &str) -> Outcome {
    let by_hand = |why: String| {
        Exit::Usage(format!("worker: this is started by `mad bench`, not by hand: {why}"))
    };
    let spec: Spec = serde_json::from_str(spec).map_err(|e| by_hand(e.to_string()))?;
    let bench =
        find(&spec.bench).ok_or_else(|| by_hand(format!("there is no bench {:?}", spec.bench)))?;
    check(bench, &spec).map_err(by_hand)?;
    let done = match spec.points.first() {
        Some((_, point)) if mpi::is(point) => mpi::work(bench, &spec),
        _ => bench.measure(&spec),
    };
    done.map_err(|why| Exit::Failed(format!("bench {}: {why}", spec.bench)))
}
