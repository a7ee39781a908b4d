//! Starting more processes by the process manager: what is asked for, the same for all kinds of them.

use std::time::Instant;

use crate::error::Error;

/// One program of those that are started together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program, as its user names it.
    pub program: String,
    /// Its arguments, without its name.
    pub args: Vec<String>,
    /// How many processes run it.
    pub processes: u32,
    /// Hints for the process manager: keys and values (`wdir`, `path`, `host`, …). What it does not know it ignores.
    pub hints: Vec<(String, String)>,
}

/// Under which name new processes find what their parent has told them, in PMI-1. (It is also MPICH's name.)
pub(super) const NOTE: &str = "PARENT_ROOT_PORT_NAME";

/// Under which name new processes find [`counts_of`] them, in PMI-1.
pub(super) const COUNTS: &str = "MAD_PROCESSES";

/// How many processes run each of the programs that are started together, in order.
pub(super) fn counts_of(commands: &[Command]) -> String {
    let counts: Vec<_> = commands.iter().map(|command| command.processes.to_string()).collect();
    counts.join(",")
}

/// Which program the process of this rank runs, of so many [`counts_of`] processes each.
pub(super) fn program_of(rank: u32, counts: &str) -> Option<u32> {
    let mut before = 0u32;
    for (program, count) in (0..).zip(counts.split(',')) {
        before = before.checked_add(count.parse().ok()?)?;
        if rank < before {
            return Some(program);
        }
    }
    None
}

/// What a process manager can do for a job that runs already. All but starting processes is optional.
pub(crate) trait Spawner {
    /// Starts processes, a job of their own, which find `note` by [`Spawner::note`]. The name of that job.
    ///
    /// # Errors
    /// The process manager cannot, or refuses; then none has been started, or it has ended them.
    fn spawn(
        &mut self,
        commands: &[Command],
        note: &str,
        deadline: Instant,
    ) -> Result<String, Error>;

    /// Whether all processes of a job that was spawned run, as far as the process manager tells.
    fn runs(&mut self, job: &str, deadline: Instant) -> Result<bool, Error>;

    /// Ends a job that was spawned, where the process manager offers that.
    fn end(&mut self, job: &str, deadline: Instant) -> Result<(), Error>;

    /// What the process that has spawned this one left for it.
    fn note(&mut self, deadline: Instant) -> Result<Option<String>, Error>;

    /// Which program this process runs, of those that were started together.
    fn program(&mut self, deadline: Instant) -> Result<Option<u32>, Error>;

    /// How many processes are expected to run at once.
    fn universe(&mut self, deadline: Instant) -> Result<Option<u32>, Error>;
}

/// Whether the variable that process managers of the PMI family set for spawned processes is there.
pub(super) fn was_spawned() -> bool {
    std::env::var_os("PMI_SPAWNED").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_follow_each_other_by_rank() {
        let commands = [2, 1, 3].map(|processes| Command { processes, ..Command::default() });
        let counts = counts_of(&commands);
        let programs = (0..7).map(|rank| program_of(rank, &counts));
        let expected = [Some(0), Some(0), Some(1), Some(2), Some(2), Some(2), None];
        assert!(programs.eq(expected));
        for nonsense in ["", "x", "1,,2", "4294967295,1"] {
            assert_eq!(program_of(u32::MAX, nonsense), None);
        }
    }
}
