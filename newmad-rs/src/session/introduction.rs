//! A session with processes that are introduced to each other by other means than a process manager.

use super::Session;
use super::prepare::Prepared;
use crate::authentication::KEY;
use crate::bootstrap::{Introduced, Shared};
use crate::error::Error;
use crate::gate::ranks::Ranks;

/// A process that is ready to meet the others of a session, and does not know yet how to reach them.
pub struct Introduction {
    prepared: Prepared,
    secret: [u8; KEY],
    text: String,
}

impl Introduction {
    pub(super) fn new(prepared: Prepared, secret: [u8; KEY]) -> Result<Introduction, Error> {
        let ranks = Ranks::one_each(prepared.place().1);
        // The key is not in the text: every process can make that of each other from the secret.
        let text = prepared.card(&ranks, Some([0; KEY]))?.encode();
        Ok(Introduction { prepared, secret, text })
    }

    /// How the others reach this process: short text, which is worth nothing without the secret.
    pub fn card(&self) -> &str {
        &self.text
    }

    /// Opens the session. `cards`: those of all processes, by rank.
    ///
    /// # Blocking
    /// The kernel thread, until the neighbours in the control ring are there, `NMAD_CONNECT_TIMEOUT_MS` at the most.
    /// # Errors
    /// There are more or fewer cards than processes, one is none, or its process has other settings; a process does not
    /// come; the kernel refuses something.
    pub fn open(self, cards: Vec<String>) -> Result<Session, Error> {
        let Introduction { prepared, secret, .. } = self;
        let (rank, size) = prepared.place();
        if cards.len() != size as usize {
            let count = cards.len();
            return Err(Error::Bootstrap(format!("{count} cards for {size} processes")));
        }
        let ranks = Ranks::one_each(size);
        let boot = Introduced::new(rank, cards, secret);
        let card = prepared.card(&ranks, Some(boot.key_of(rank)))?;
        prepared.open(Shared::new(Box::new(boot)), ranks, card)?.pop().ok_or(Error::Closed)
    }
}

impl std::fmt::Debug for Introduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, size) = self.prepared.place();
        f.debug_struct("Introduction")
            .field("rank", &rank)
            .field("size", &size)
            .finish_non_exhaustive()
    }
}
