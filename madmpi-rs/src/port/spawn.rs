//! Starting processes: the process manager starts them, and they connect with the port that it tells them.
//!
//! ```text
//!  root: opens a port, asks the process manager with the port's name     new processes: MPI_Init asks for the name,
//!        accepts ◀───────────────────────────────────────────────────── and connects with it, all of them together
//! ```
//! The port is for this alone, and closes when the new processes are there. Where the process manager tells whether they
//! run (`mad run` does), a new process that ends before it connects ends the wait; else the time to connect does.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use newmad::port::{Failure, Port, call};
use newmad::{Command, ProcessManager, Spawned};

use super::meeting::{Met, meet};
use super::{deadline, fault};
use crate::abi::*;
use crate::comm::{self, Agreement, Comm};
use crate::errhandler::Errhandler;
use crate::error::Fault;
use crate::job;
use crate::per_rank::per_rank;

/// How often the process manager is asked whether the new processes run.
const LOOK: Duration = Duration::from_millis(100);

per_rank! {
    /// The handle of the intercommunicator with the processes that have spawned this one.
    static PARENT: OnceLock<MPI_Comm> = OnceLock::new();
}

fn failed(why: impl std::fmt::Display) -> Fault {
    Fault::new(MPI_ERR_SPAWN, format!("no processes were started: {why}"))
}

/// A program to start, and how many processes of it the program would have at most.
pub(crate) type Wanted = (Command, u32);

/// What became of a spawn.
pub(crate) struct Outcome {
    /// Of each program, how many processes were asked for and how many there may have been at most, as far as that is known.
    pub(crate) asked: Vec<[u64; 2]>,
    pub(crate) result: Result<Arc<Comm>, Fault>,
}

/// Starts processes; an intercommunicator with them. `commands` is called at the root only.
pub(crate) fn spawn(
    comm: &Comm,
    root: u32,
    commands: impl FnOnce() -> Result<Vec<Wanted>, Fault>,
) -> Outcome {
    let at_root = comm.rank() == root;
    let asked = || {
        comm.check_intra()?;
        let side = Agreement { leader: root, ..Agreement::of_comm(comm)? };
        let commands = if at_root { commands() } else { Ok(Vec::new()) };
        let counts = |all: &Vec<Wanted>| {
            all.iter().flat_map(|(one, most)| [one.processes.into(), (*most).into()]).collect()
        };
        let counts = side.share(commands.as_ref().map(counts).map_err(Clone::clone))?;
        let asked = counts.as_chunks().0.to_vec();
        let commands: Vec<Command> = commands?.into_iter().map(|(one, _)| one).collect();
        Ok::<_, Fault>((asked, commands))
    };
    let (asked, commands) = match asked() {
        Ok(asked) => asked,
        Err(fault) => return Outcome { asked: Vec::new(), result: Err(fault) },
    };
    let manager = match job::session() {
        Ok(session) => session.process_manager(),
        Err(fault) => return Outcome { asked, result: Err(fault) },
    };
    let mut spawned = None;
    let start = || start(&manager, &commands, &mut spawned);
    let result = meet(comm, root, start, comm.errhandler());
    if let (Err(_), Some(spawned)) = (&result, &spawned) {
        // Nothing is left of what was started half-way.
        let _ = job::aside(|| spawned.end());
    }
    let result = result.map_err(|fault| match fault.class {
        MPI_ERR_PROC_ABORTED | MPI_ERR_OTHER | MPI_ERR_PORT => failed(fault.text.clone()),
        _ => fault,
    });
    Outcome { asked, result }
}

/// At the root: starts them, and waits until they call.
fn start(
    manager: &ProcessManager,
    commands: &[Command],
    started: &mut Option<Spawned>,
) -> Result<Met, Fault> {
    let until = deadline();
    let port = Port::open()?;
    let spawned = manager.spawn(commands, port.name(), until).map_err(failed)?;
    let spawned = started.insert(spawned);
    loop {
        match port.accept(Some(until.min(Instant::now() + LOOK))) {
            Ok(channel) => return Ok(Met { channel, first: true }),
            Err(Failure::Late) if Instant::now() >= until => {
                let why = "they did not call MPI_Init in time (NMAD_CONNECT_TIMEOUT_MS)";
                return Err(failed(why));
            }
            Err(Failure::Late) if spawned.runs().map_err(failed)? => {}
            Err(Failure::Late) => {
                let why = "one of them ended before all had called MPI_Init";
                return Err(failed(why));
            }
            Err(failure) => return Err(fault(failure)),
        }
    }
}

/// Connects with the processes that have spawned this one and the others of its job, if any have.
///
/// # Errors
/// They are gone, or are programs of another library.
pub(crate) fn meet_parent(world: &Comm) -> Result<(), Fault> {
    let manager = job::session()?.process_manager();
    let Some(port) = job::aside(|| manager.note())? else { return Ok(()) };
    let connect = || {
        let channel = call(&port, deadline()).map_err(fault)?;
        Ok(Met { channel, first: false })
    };
    let parent = meet(world, 0, connect, Errhandler::Fatal)?;
    parent.settings().name = b"MPI_COMM_PARENT".to_vec();
    PARENT.get_or_init(|| parent.handle());
    Ok(())
}

/// The intercommunicator with the parents, if there is one, and the program has not freed it.
pub(crate) fn parent() -> MPI_Comm {
    let parent = PARENT.get().copied();
    parent.filter(|&parent| comm::get(parent).is_ok()).unwrap_or(MPI_COMM_NULL)
}
