//! What a process manager tells a program that opens no session with it: its rank, and a short text of each other
//! process.
//!
//! For programs that only want to find each other (launchers, services, the `mad` command across machines). The texts
//! go through the process manager alone, so what is in them (an address, a key) is known to the job alone, not to
//! listeners on the network of the messages.
//!
//! The texts of others are fetched where they are kept, which with PMIx is the machine of their owner, so an owner
//! takes its leave only after a second fence, when they have been read.

use std::time::{Duration, Instant};

use super::{Alone, Bootstrap, from_environment, pmix, wire};
use crate::error::Error;
use crate::knobs::{BOOTSTRAP, CONNECT_TIMEOUT};
use crate::sys;

/// This process as one of those that a process manager has started together, without a [`Session`](crate::Session).
///
/// A process takes its place with the process manager once: either by this or by a session.
pub struct Launched {
    boot: Box<dyn Bootstrap>,
    deadline: Instant,
}

impl std::fmt::Debug for Launched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launched")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Launched {
    /// Asks the environment, as [`Builder::open`](crate::Builder::open) does (`NMAD_BOOTSTRAP`); a process that was
    /// started by itself is one of one. So is one that has only inherited the variables of PMI, from a parent that kept
    /// the descriptor. A process manager of the PMI family that has started one process is not asked: it serves one
    /// program, and a script may start several.
    ///
    /// ```
    /// let me = newmad::Launched::find()?;
    /// assert_eq!((me.rank(), me.size()), (0, 1)); // no process manager has started this one
    /// assert_eq!(me.gather("at 192.0.2.1")?, ["at 192.0.2.1"]);
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context
    /// A kernel thread; once per process if there is a process manager.
    /// # Blocking
    /// That thread, until the process manager has answered.
    /// # Errors
    /// A knob is wrong, or the process manager does not answer.
    pub fn find() -> Result<Launched, Error> {
        let asked = Some(BOOTSTRAP.text()?).filter(|word| !word.is_empty());
        let timeout = CONNECT_TIMEOUT.int()?.unwrap_or_default();
        let deadline = sys::deadline(Duration::from_millis(timeout as u64));
        let boot = match asked.as_deref() {
            asked @ (None | Some("pmi1" | "pmi2")) if alone_by_pmi(asked)? => {
                Box::new(Alone::default())
            }
            asked => from_environment(asked, deadline)?,
        };
        Ok(Launched { boot, deadline })
    }

    /// How many processes there are, as far as the environment says it: no process manager is asked, so this may come
    /// before [`Launched::find`] or a session. `None`: only the process manager knows (PMIx).
    ///
    /// ```
    /// assert_eq!(newmad::Launched::announced_size(), Some(1)); // no process manager has started this one
    /// ```
    pub fn announced_size() -> Option<u32> {
        let asked = BOOTSTRAP.text().ok()?;
        if asked == "alone" {
            return Some(1);
        }
        let pmix = asked == "pmix" || pmix::is_offered().ok()?;
        match wire::descriptor().ok()? {
            Some(fd) if asked != "pmix" && wire::is_open(fd) => {
                wire::variable("PMI_SIZE").ok()??.trim().parse().ok()
            }
            _ if pmix => None,
            Some(_) => None, // inherited: a session says what is wrong
            None => Some(1),
        }
    }

    /// Rank of this process.
    pub fn rank(&self) -> u32 {
        self.boot.rank()
    }

    /// How many there are.
    pub fn size(&self) -> u32 {
        self.boot.size()
    }

    /// Gives rank 0 the texts of all, by rank, and the others none; then the process manager is left. All have to come.
    ///
    /// # Context
    /// A kernel thread.
    /// # Blocking
    /// That thread, until all are there, `NMAD_CONNECT_TIMEOUT_MS` at the most.
    /// # Errors
    /// A process does not come, or the text is too long for the process manager (some ten thousand bytes are not).
    pub fn gather(mut self, text: &str) -> Result<Vec<String>, Error> {
        let deadline = self.deadline;
        self.boot.publish(text, deadline)?;
        self.boot.fence(deadline)?;
        let readable = if self.rank() == 0 { self.size() } else { 0 };
        let texts = (0..readable)
            .map(|rank| self.boot.card_of(rank, deadline))
            .collect::<Result<Vec<String>, Error>>()?;
        self.boot.last_fence(deadline)?;
        self.boot.finish()?;
        Ok(texts)
    }
}

/// Whether PMI's variables leave no doubt that there is no other process.
fn alone_by_pmi(asked: Option<&str>) -> Result<bool, Error> {
    let Some(fd) = wire::descriptor()? else { return Ok(false) };
    Ok(match wire::is_open(fd) {
        true => wire::variable("PMI_SIZE")?.is_some_and(|size| size.trim() == "1"),
        false => asked.is_none() && !pmix::is_offered()?,
    })
}
