//! `mad bench` on several machines: what happens when a process manager (Hydra, PRRTE, Slurm, `mad run`) starts it with
//! more than one rank.
//!
//! ```text
//!  machine of rank 0                                      machine of rank k
//!   mad bench: interprets, prints ═══ control ══════════▶  mad bench: an agent, serves until that ends
//!     │ launch (PMI, time limits, dumps, signals)             │ one supervisor for each worker
//!     ├─▶ worker                                              ▼
//!     └─▶ proxy ═══ PMI, output, signals, end ═══════════▶  supervisor ─▶ worker
//! ```
//! All find each other through the process manager ([`newmad::Launched`]): each rank puts a card (`card`), an agent's
//! with the address of its door and a key; then the process manager is left. Rank 0 connects with every agent: as
//! long as that connection is there the agent serves, and it ends well only when rank 0 has said that it is over. The
//! bench itself is [`mad_launch`]'s as on one machine; for a rank that is elsewhere it starts a [`proxy`]. So how
//! jobs are launched, limited, asked what they do, interrupted and cleaned up exists once. While workers measure, all
//! the others sleep in a `poll`.
//!
//! | file | what |
//! |---|---|
//! | `card` | what a rank publishes; which ranks are on one machine |
//! | `hosts` | rank 0: which rank is where, which process of a bench goes where |
//! | `agent`, `pending_peer` | a rank above 0: its loop; callers that have not proved that they may come in |
//! | `proxy`, `supervisor` | both ends of a worker that is elsewhere |
//! | `greeting`, `frame`, `link` | the bytes between them |
//!
//! Rejected: a newmad session between the ranks (its threads would look for events on the cores that are measured;
//! and keys would travel in the clear, where now they go through the process manager only); a second launcher in each
//! bench (limits, dumps and interruptions would have to be thought of twice); workers as ranks of the process manager
//! itself (each job of a bench has other variables and sometimes another size, and process managers start few things
//! twice).

mod agent;
mod card;
mod frame;
mod greeting;
mod hosts;
mod link;
mod pending_peer;
pub mod proxy;
pub mod supervisor;

use newmad::Launched;

use crate::out::{Exit, Outcome};
use agent::Door;
use card::Card;
pub(crate) use card::address;
pub(crate) use hosts::Hosts;

/// Calls `first` in a process that was started alone, with `None`, and in rank 0, with the others. They serve it
/// meanwhile.
///
/// # Errors
/// Those of `first`; and when the others cannot be found or reached.
pub(crate) fn join(first: impl FnOnce(Option<&Hosts>) -> Outcome) -> Outcome {
    let me = Launched::find().map_err(failed)?;
    if me.size() == 1 {
        me.gather("").map_err(failed)?;
        return first(None);
    }
    if me.rank() > 0 {
        return serve(me);
    }
    let card = text(&Card::own(None))?;
    let texts = me.gather(&card).map_err(failed)?;
    let hosts = Hosts::assemble(&texts).map_err(|why| Exit::Failed(format!("bench: {why}")))?;
    first(Some(&hosts))
}

fn failed(e: newmad::Error) -> Exit {
    let text = e.to_string();
    Exit::Failed(match text.contains("NMAD_BOOTSTRAP") {
        true => text,
        false => format!(
            "{text} (one command of a process manager serves one `mad bench`; NMAD_BOOTSTRAP=alone measures on this machine only)"
        ),
    })
}

/// Refuses in a few words what cannot be done by several ranks.
///
/// # Errors
/// If a process manager has started more than this one.
pub(crate) fn refuse(what: &str) -> Outcome {
    let me = Launched::find().map_err(failed)?;
    let (rank, size) = (me.rank(), me.size());
    let left = me.gather("");
    match (rank, size) {
        (_, 1) => Ok(()),
        (0, _) => Err(Exit::Usage(format!(
            "{what} measures on one machine, and a process manager has started {size} of it: start one; `mad bench` runs on \
             several machines"
        ))),
        _ => Err(Exit::Code(if left.is_ok() { 2 } else { 1 })),
    }
}

fn text(card: &Card) -> Result<String, Exit> {
    serde_json::to_string(card).map_err(|e| Exit::Failed(format!("bench: {e}")))
}

/// A rank above 0.
fn serve(me: Launched) -> Outcome {
    let rank = me.rank();
    let host = Card::own(None).host;
    let (door, agent) = match Door::open(format!("rank {rank} on {host}")) {
        Ok((door, agent)) => (Some(door), Ok(agent)),
        Err(why) => (None, Err(why)),
    };
    let card = text(&Card::own(Some(agent)))?;
    me.gather(&card).map_err(|e| Exit::Failed(format!("bench: rank {rank} on {host}: {e}")))?;
    match door {
        Some(door) => door.serve(),
        None => Err(Exit::Code(1)), // rank 0 says why
    }
}
