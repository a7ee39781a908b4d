//! How a process finds the others of its session: what it shares with a process manager, or the lack of one.
//!
//! Every process manager that we know of offers the same three things under different names: short texts that one
//! process *puts* under a key, a *fence* to which all come, and texts of others that are *got* afterwards.
//! [`Bootstrap`] is that, and what is common to all of them is written once on top: [`publish`](Bootstrap::publish)
//! puts a card, [`card_of`](Bootstrap::card_of) gets one when it is needed. So a session of many processes asks for the
//! cards of those that it talks to.
//!
//! ```text
//!   publish(card) ─▶ fence ─▶ card_of(rank), card_of(rank) … ─▶ finish
//! ```
//!
//! Values are short (1024 bytes in Hydra) and their bytes are not free (blanks and `;` end a value in one protocol or
//! another). So a card is percent-encoded, cut into pieces, and each piece says by its first byte whether one more
//! follows (`+`) or not (`.`).
//!
//! Rejected: an exchange of all cards when the session opens (n² look-ups for n processes, most of them
//! for nothing).

pub(crate) mod abort;
mod counts;
mod introduced;
mod launched;
mod manager;
pub(crate) mod piece;
mod pmi1;
mod pmi2;
mod pmix;
#[cfg(test)]
mod real;
mod shared;
pub(crate) mod spawn;
mod wire;

use std::time::Instant;

use crate::error::Error;
pub(crate) use counts::counts;
pub(crate) use introduced::Introduced;
pub use launched::Launched;
pub(crate) use manager::{Alone, Bootstrap};
use pmi1::Pmi1;
use pmi2::Pmi2;
use pmix::Pmix;
pub(crate) use shared::Shared;
use wire::Wire;

/// What the environment offers, or what `NMAD_BOOTSTRAP` asks for.
pub(crate) fn from_environment(
    asked: Option<&str>,
    deadline: Instant,
) -> Result<Box<dyn Bootstrap>, Error> {
    let descriptor = wire::descriptor()?;
    let pmix = pmix::is_offered()?;
    let missing = |asked: &str, what: &str| {
        Error::Bootstrap(format!(
            "NMAD_BOOTSTRAP={asked}, but no such process manager has started this process ({what} is not set)"
        ))
    };
    match (asked, descriptor) {
        (Some("alone"), _) => Ok(Box::new(Alone::default())),
        (Some("pmix"), _) if !pmix => Err(missing("pmix", "PMIX_NAMESPACE or PMIX_RANK")),
        (Some("pmix"), _) => Ok(Box::new(Pmix::connect(deadline)?)),
        (Some(asked), None) => Err(missing(asked, "PMI_FD")),
        // Both are set where one process manager was started by another. Variables are inherited, the descriptor is
        // not.
        (None, Some(fd)) if pmix && !wire::is_open(fd) => Ok(Box::new(Pmix::connect(deadline)?)),
        (asked, Some(fd)) => pmi(Wire::take(fd)?, asked, deadline),
        (None, None) if pmix => Ok(Box::new(Pmix::connect(deadline)?)),
        (None, None) => match unintroduced(wire::variable("SLURM_STEP_NUM_TASKS")?.as_deref()) {
            Some(error) => Err(error),
            None => Ok(Box::new(Alone::default())),
        },
    }
}

/// Slurm has started so many processes and introduces none to another: what was meant as one session would be as many
/// of one, each of them rank 0, without a word. (Batch scripts and the shells of allocations lack this variable, or it
/// is 1.)
fn unintroduced(tasks: Option<&str>) -> Option<Error> {
    let tasks: u32 = tasks?.trim().parse().ok().filter(|&tasks| tasks > 1)?;
    Some(Error::Bootstrap(format!(
        "Slurm has started {tasks} processes but offers no way to find each other: \
         use `srun --mpi=pmi2` or `srun --mpi=pmix` (`srun --mpi=list` says what there is), \
         or set NMAD_BOOTSTRAP=alone if each is to be a session of its own"
    )))
}

/// PMI in the version that is asked for, or in the first that the process manager speaks.
fn pmi(
    mut wire: Wire,
    asked: Option<&str>,
    deadline: Instant,
) -> Result<Box<dyn Bootstrap>, Error> {
    if asked != Some("pmi2") && pmi1::init(&mut wire, (1, 1), deadline)? {
        abort::through(&wire.socket, 1);
        return Ok(Box::new(Pmi1::new(wire, deadline)?));
    }
    if asked != Some("pmi1") && pmi1::init(&mut wire, (2, 0), deadline)? {
        abort::through(&wire.socket, 2);
        return Ok(Box::new(Pmi2::new(wire, deadline)?));
    }
    Err(wire::failed(match asked {
        None => "the process manager speaks neither version 1 nor version 2",
        Some(_) => {
            "the process manager does not speak the version that NMAD_BOOTSTRAP asks for: unset it"
        }
    }))
}

/// Over this connection, as that rank of so many.
#[cfg(any(test, fuzzing))]
pub(crate) fn over(
    socket: std::os::fd::OwnedFd,
    (rank, size): (u32, u32),
    asked: Option<&str>,
    deadline: Instant,
) -> Result<Box<dyn Bootstrap>, Error> {
    pmi(Wire::new(socket, rank, size), asked, deadline)
}

#[cfg(test)]
mod tests {
    use super::manager::{CARD, PIECES, key};
    use super::*;
    use crate::sys;
    use std::time::Duration;

    fn soon() -> Instant {
        sys::deadline(Duration::from_secs(10))
    }

    #[test]
    fn cards_of_any_length_come_back_whole() {
        for len in [0, 1, 1022, 1023, 1024, 5000, 60_000] {
            let card: String = "a;b c=d%\n,é".chars().cycle().take(len / 4).collect();
            let mut alone = Alone::default();
            alone.publish(&card, soon()).unwrap();
            alone.fence(soon()).unwrap();
            assert!(alone.values.iter().all(|(_, value)| value.len() <= alone.room()));
            assert_eq!(alone.card_of(0, soon()).unwrap(), card);
        }
    }

    #[test]
    fn only_several_processes_miss_an_introduction() {
        for alone in [None, Some("1"), Some("0"), Some(""), Some("many")] {
            assert!(unintroduced(alone).is_none(), "{alone:?}");
        }
        let text = unintroduced(Some("3")).unwrap().to_string();
        for word in ["3 processes", "--mpi=pmi2", "NMAD_BOOTSTRAP=alone"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn a_card_without_end_is_refused() {
        let card = "x".repeat(PIECES * 1024);
        assert!(Alone::default().publish(&card, soon()).is_err());
        for first in ["", "x", "+", "é", ".%", ".%zz", ".%ff", "+a"] {
            let mut alone = Alone::default();
            for index in 0..2 * PIECES {
                alone.put(&key(CARD, 0, index), first, soon()).unwrap();
            }
            let error = alone.card_of(0, soon()).unwrap_err().to_string();
            assert!(error.contains("rank 0"), "{first:?}: {error}");
        }
    }
}
