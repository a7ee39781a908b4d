//! What a process may ask its process manager while its session is open.

use std::time::{Duration, Instant};

use crate::bootstrap::spawn::Command;
use crate::bootstrap::{Bootstrap as _, Shared};
use crate::error::Error;
use crate::sys;

/// How long the process manager may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The process manager that has started this process, or the lack of one ([`Session::process_manager`]).
///
/// Each call blocks the kernel thread until the process manager has answered, and fails if that is gone.
///
/// [`Session::process_manager`]: crate::Session::process_manager
#[derive(Clone)]
pub struct ProcessManager(Shared);

/// A job that [`ProcessManager::spawn`] has started.
pub struct Spawned {
    manager: Shared,
    name: String,
}

impl ProcessManager {
    pub(super) fn new(boot: Shared) -> ProcessManager {
        ProcessManager(boot)
    }

    fn soon() -> Instant {
        sys::deadline(ANSWER)
    }

    /// The name of the job that this process was started in, which no other job has. For a process that was started by
    /// itself it is random, and its own.
    ///
    /// # Errors
    /// The session is not with the processes of a job, but with processes that were
    /// [introduced](crate::Builder::introduce) to each other.
    pub fn job(&self) -> Result<String, Error> {
        self.0.clone().job(ProcessManager::soon())
    }

    /// Starts more processes: a job of their own, whose processes find `note` by [`ProcessManager::note`]. (A note is a
    /// word without blanks, mostly the name of a [port](crate::port).)
    ///
    /// # Errors
    /// The process manager cannot do it, or does not find a program, or cannot start a process. Then none of them runs.
    pub fn spawn(
        &self,
        commands: &[Command],
        note: &str,
        deadline: Instant,
    ) -> Result<Spawned, Error> {
        let started = self.0.ask(&|manager| manager.spawn(commands, note, deadline))?;
        let name = started.ok_or_else(|| {
            Error::Bootstrap(
                "what has started this process starts no more processes; `mad run` does, and Hydra (mpiexec of \
                 MPICH), PRRTE (prterun) and Slurm (srun --mpi=pmi2), unless NMAD_BOOTSTRAP=pmi2 is set"
                    .into(),
            )
        })?;
        Ok(Spawned { manager: self.0.clone(), name })
    }

    /// The note of the process that has spawned this one; `None`: none has.
    ///
    /// # Errors
    /// It was spawned by a program that leaves no note.
    pub fn note(&self) -> Result<Option<String>, Error> {
        let note = self.0.ask(&|manager| manager.note(ProcessManager::soon()))?;
        Ok(note.flatten())
    }

    /// Which program this process runs, of those that were started together: 0 is the first. `None`: not known.
    ///
    /// # Errors
    /// See the type.
    pub fn program(&self) -> Result<Option<u32>, Error> {
        let number = self.0.ask(&|manager| manager.program(ProcessManager::soon()))?;
        Ok(number.flatten())
    }

    /// How many processes are expected to run at once, those that are spawned included. `None`: not known.
    ///
    /// # Errors
    /// See the type.
    pub fn universe(&self) -> Result<Option<u32>, Error> {
        let size = self.0.ask(&|manager| manager.universe(ProcessManager::soon()))?;
        Ok(size.flatten())
    }
}

impl Spawned {
    /// Whether all its processes run. Always, where the process manager does not tell.
    ///
    /// # Errors
    /// See [`ProcessManager`].
    pub fn runs(&self) -> Result<bool, Error> {
        let runs = self.manager.ask(&|manager| manager.runs(&self.name, ProcessManager::soon()))?;
        Ok(runs.unwrap_or(true))
    }

    /// Kills its processes, where the process manager offers that (`mad run` does).
    ///
    /// # Errors
    /// See [`ProcessManager`].
    pub fn end(&self) -> Result<(), Error> {
        self.manager.ask(&|manager| manager.end(&self.name, ProcessManager::soon())).map(drop)
    }
}

impl std::fmt::Debug for ProcessManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessManager").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Spawned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spawned").field("name", &self.name).finish_non_exhaustive()
    }
}
