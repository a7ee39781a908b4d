//! The hidden subcommand `worker`: the process that measures.

use crate::experiments::find;
use crate::harness::mpi;
use crate::harness::worker::Spec;
use crate::out::{Exit, Outcome};

/// The hidden subcommand.
pub fn run(spec: &str) -> Outcome {
    let spec: Spec = serde_json::from_str(spec).map_err(|e| {
        Exit::Usage(format!("worker: this is started by `mad bench`, not by hand: {e}"))
    })?;
    let bench = find(&spec.bench)
        .ok_or_else(|| Exit::Usage(format!("worker: there is no bench {:?}", spec.bench)))?;
    let done = match spec.points.first() {
        Some((_, point)) if mpi::is(point) => mpi::work(bench, &spec),
        _ => bench.work.run(&spec),
    };
    done.map_err(|why| Exit::Failed(format!("bench {}: {why}", spec.bench)))
}
