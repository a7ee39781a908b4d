//! Which algorithm: by the number of ranks and the bytes, unless a knob or the program has chosen.
//!
//! The thresholds of bcast, reduce, allreduce, allgather and alltoall come from a rough comparison (`mad bench coll`,
//! all algorithms interleaved, 3, 4 and 8 processes on 4 busy cores, over shared memory with cross-memory attach).
//! There every copy costs a core's time and the links are not what is scarce: so what moves the fewest bytes in all
//! wins for longer than on a network, and a pipelined chain never did; it is taken when asked for.

use marcel::plumbing::knob::{Knob, KnobError};

use crate::coll::task::Task;
use crate::knobs::coll as knobs;

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Dissemination,
    Linear,
    Binomial,
    /// A binomial tree that keeps the order of ranks.
    Ordered,
    Chain {
        segment: usize,
    },
    ScatterAllgather,
    ScatterGather,
    Doubling,
    Ring,
    Halving,
    ReduceBcast,
    Bruck,
    Pairwise,
}

/// An operation for which there is a choice: its name, its knob, its algorithms.
struct Choice {
    operation: &'static str,
    knob: &'static Knob,
    algorithms: &'static [(&'static str, Algorithm)],
}

const CHAIN: Algorithm = Algorithm::Chain { segment: 0 };

static CHOICES: [Choice; 7] = [
    Choice {
        operation: "bcast",
        knob: &knobs::BCAST,
        algorithms: &[
            ("binomial", Algorithm::Binomial),
            ("chain", CHAIN),
            ("scatter_allgather", Algorithm::ScatterAllgather),
        ],
    },
    Choice {
        operation: "reduce",
        knob: &knobs::REDUCE,
        algorithms: &[
            ("binomial", Algorithm::Binomial),
            ("scatter_gather", Algorithm::ScatterGather),
        ],
    },
    Choice {
        operation: "allreduce",
        knob: &knobs::ALLREDUCE,
        algorithms: &[
            ("doubling", Algorithm::Doubling),
            ("ring", Algorithm::Ring),
            ("halving", Algorithm::Halving),
            ("reduce_bcast", Algorithm::ReduceBcast),
        ],
    },
    Choice {
        operation: "gather",
        knob: &knobs::GATHER,
        algorithms: &[("linear", Algorithm::Linear), ("binomial", Algorithm::Binomial)],
    },
    Choice {
        operation: "allgather",
        knob: &knobs::ALLGATHER,
        algorithms: &[
            ("linear", Algorithm::Linear),
            ("ring", Algorithm::Ring),
            ("bruck", Algorithm::Bruck),
        ],
    },
    Choice {
        operation: "alltoall",
        knob: &knobs::ALLTOALL,
        algorithms: &[
            ("linear", Algorithm::Linear),
            ("pairwise", Algorithm::Pairwise),
            ("bruck", Algorithm::Bruck),
        ],
    },
    Choice {
        operation: "reduce_scatter",
        knob: &knobs::REDUCE_SCATTER,
        algorithms: &[
            ("pairwise", Algorithm::Pairwise),
            ("ring", Algorithm::Ring),
            ("halving", Algorithm::Halving),
        ],
    },
];

/// What was chosen by knobs, or by the program; the same at all ranks of a group.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    forced: [Option<Algorithm>; CHOICES.len()],
    segment: usize,
    /// Whether short collectives of ranks that share memory go without messages.
    pub(crate) shared: bool,
}

impl Choices {
    /// By the knobs.
    pub(crate) fn read() -> Result<Choices, KnobError> {
        let shared = knobs::SHARED.bool()?;
        let mut choices = Choices { forced: Default::default(), segment: 0, shared };
        for (forced, choice) in choices.forced.iter_mut().zip(&CHOICES) {
            let word = choice.knob.text()?;
            *forced = named(choice, &word);
        }
        choices.segment = knobs::SEGMENT.int()?.unwrap_or_default() as usize;
        Ok(choices)
    }

    /// Forces an algorithm, or none (`auto`). False: there is no such operation or algorithm.
    pub(crate) fn force(&mut self, operation: &str, algorithm: &str) -> bool {
        let Some(index) = CHOICES.iter().position(|choice| choice.operation == operation) else {
            return false;
        };
        self.forced[index] = named(&CHOICES[index], algorithm);
        algorithm == "auto" || self.forced[index].is_some()
    }

    /// Whether no algorithm was chosen for what the task does.
    pub(crate) fn are_free(&self, task: &Task) -> bool {
        // The usual case, asked for each short collective.
        if self.forced.iter().all(Option::is_none) {
            return true;
        }
        let operation = match task {
            Task::Barrier | Task::Scan { .. } => return true,
            Task::Bcast { .. } => "bcast",
            Task::Reduce { .. } => "reduce",
            Task::Allreduce { .. } => "allreduce",
            Task::Gather { .. } | Task::Scatter { .. } => "gather",
            Task::Allgather { .. } => "allgather",
            Task::Alltoall { .. } => "alltoall",
            Task::ReduceScatter { .. } => "reduce_scatter",
        };
        self.forced(operation).is_none()
    }

    fn forced(&self, operation: &str) -> Option<Algorithm> {
        let index = CHOICES.iter().position(|choice| choice.operation == operation)?;
        self.forced[index]
    }
}

fn named(choice: &Choice, word: &str) -> Option<Algorithm> {
    choice.algorithms.iter().find(|(name, _)| *name == word).map(|(_, algorithm)| *algorithm)
}

/// Every operation for which there is a choice, with its algorithms: what [`crate::coll::Group::set_algorithm`] takes.
pub fn algorithms() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    CHOICES
        .iter()
        .map(|choice| (choice.operation, choice.algorithms.iter().map(|(name, _)| *name).collect()))
}

/// What a task is done with. `ordered`: the operator is not commutative. A forced algorithm that cannot do that is not
/// taken.
pub(crate) fn choose(choices: &Choices, task: &Task, size: u32, ordered: bool) -> Algorithm {
    use Algorithm as A;
    let ranks = size as usize;
    let or = |operation: &str, auto: Algorithm| choices.forced(operation).unwrap_or(auto);
    match task {
        Task::Barrier => A::Dissemination,
        Task::Bcast { len, .. } => {
            let short = *len < 8 * 1024 * 1024 || size <= 4;
            let auto = if short { A::Binomial } else { A::ScatterAllgather };
            match or("bcast", auto) {
                // Not more than some hundred pieces: each has its request.
                A::Chain { .. } => A::Chain { segment: choices.segment.max(len / 256) },
                other => other,
            }
        }
        Task::Reduce { .. } if ordered => A::Ordered,
        Task::Reduce { len, .. } => or(
            "reduce",
            if *len < 2 * 1024 * 1024 || size <= 2 { A::Binomial } else { A::ScatterGather },
        ),
        Task::Allreduce { len } => {
            let auto = match *len {
                len if len < 128 * 1024 || size <= 2 => A::Doubling,
                _ if size.is_power_of_two() && size > 4 => A::Halving,
                _ => A::Ring,
            };
            match or("allreduce", auto) {
                A::Ring | A::Halving if ordered => A::Doubling,
                other => other,
            }
        }
        Task::Gather { own, .. } | Task::Scatter { own, .. } => {
            or("gather", if ranks > 8 && *own < 2048 { A::Binomial } else { A::Linear })
        }
        Task::Allgather { blocks } => {
            let total = blocks.total(size);
            or(
                "allgather",
                match total {
                    _ if size <= 4 => A::Linear,
                    total if total < 64 * 1024 => A::Bruck,
                    _ => A::Ring,
                },
            )
        }
        Task::Alltoall { send, .. } => {
            let each = if send.is_even() { send.len(0) } else { usize::MAX };
            or(
                "alltoall",
                match each {
                    each if each <= 256 && size > 8 => A::Bruck,
                    each if each >= 64 * 1024 && size > 8 => A::Pairwise,
                    _ => A::Linear,
                },
            )
        }
        Task::ReduceScatter { .. } if ordered => A::Pairwise,
        Task::ReduceScatter { blocks } => {
            let total = blocks.total(size);
            or(
                "reduce_scatter",
                match total {
                    total if total < 64 * 1024 || size <= 2 => A::Pairwise,
                    _ if size.is_power_of_two() => A::Halving,
                    _ => A::Ring,
                },
            )
        }
        Task::Scan { .. } => A::Doubling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_accepts_the_algorithms_there_are() {
        for choice in &CHOICES {
            for (name, _) in choice.algorithms {
                choice.knob.check(name).unwrap();
            }
            choice.knob.check("auto").unwrap();
            assert!(choice.knob.check("best").is_err());
        }
        let mut choices = Choices::read().unwrap();
        assert!(choices.force("allreduce", "ring") && !choices.force("allreduce", "magic"));
        assert!(!choices.force("coffee", "ring"));
    }

    #[test]
    fn the_order_of_ranks_is_kept_where_it_counts() {
        let mut choices = Choices::read().unwrap();
        choices.force("allreduce", "ring");
        let task = Task::Allreduce { len: 1 << 20 };
        assert_eq!(choose(&choices, &task, 4, false), Algorithm::Ring);
        assert_eq!(choose(&choices, &task, 4, true), Algorithm::Doubling);
    }
}
