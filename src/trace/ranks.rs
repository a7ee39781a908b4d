//! Ranks that are green threads of one process: when each ran, where, and what it waited for meanwhile.

use std::collections::BTreeMap;

/// A rank on a virtual processor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<'a> {
    pub(super) begin: i64,
    pub(super) end: i64,
    /// The track of the virtual processor.
    pub(super) on: String,
    /// Why it ended, where that is known.
    pub(super) how: Option<&'a str>,
}

/// The runs of each rank, by its number.
#[derive(Debug, Default)]
pub(super) struct Ranks<'a>(BTreeMap<u32, Vec<Run<'a>>>);

impl<'a> Ranks<'a> {
    /// A green thread of that name ran; it is no rank, if the name is not `rank N`.
    pub(super) fn ran(&mut self, thread: &str, run: Run<'a>) {
        if let Some(rank) = number(thread) {
            self.0.entry(rank).or_default().push(run);
        }
    }

    /// All of them, each rank's runs in the order of time.
    pub(super) fn into_tracks(mut self) -> impl Iterator<Item = (u32, Vec<Run<'a>>)> {
        self.0.values_mut().for_each(|runs| runs.sort_by_key(|run| run.begin));
        self.0.into_iter()
    }
}

/// The number of the rank that a green thread is, by its name: `rank 3`, or `rank 3 (17)` with the thread's number.
/// MPI's ranks are of type `int`: a larger number is a program's choice of a name.
pub(super) fn number(thread: &str) -> Option<u32> {
    let rest = thread.strip_prefix("rank ")?;
    let rank: i32 = rest.split_once(" (").map_or(rest, |(rank, _)| rank).parse().ok()?;
    rank.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_ranks_by_their_names() {
        assert_eq!(["rank 3", "rank 12 (17)"].map(number), [Some(3), Some(12)]);
        assert_eq!(["main (1)", "rank", "rank x", "rank -1", "ranks 3"].map(number), [None; 5]);
    }

    #[test]
    fn runs_of_several_processors_are_in_the_order_of_time() {
        let run = |begin, on: &str| Run { begin, end: begin + 1, on: on.into(), how: None };
        let mut ranks = Ranks::default();
        ranks.ran("rank 1 (4)", run(5, "vp0"));
        ranks.ran("main (1)", run(5, "vp0"));
        ranks.ran("rank 1 (4)", run(2, "vp1"));
        let tracks: Vec<_> = ranks.into_tracks().collect();
        assert_eq!(tracks, [(1, vec![run(2, "vp1"), run(5, "vp0")])]);
    }
}
