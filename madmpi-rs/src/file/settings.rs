//! Settings that all ranks choose together.

use std::sync::atomic::Ordering;

use super::File;
use super::exchange::{agree, same};
use super::hints::Hints;
use crate::abi::*;
use crate::error::Fault;

impl File {
    /// Chooses the hints of the first rank, at all ranks.
    ///
    /// # Errors
    /// It is no info object at a rank; a rank has died.
    pub(crate) fn set_info(&self, info: MPI_Info) -> Result<(), Fault> {
        let mut hints = self.hints();
        let taken = hints.take(info);
        let all = agree(&self.comm, taken.map(|()| hints.words()))?;
        self.settings().hints = Hints::of(all[0]);
        Ok(())
    }

    /// # Errors
    /// Ranks give different values; a rank has died.
    pub(crate) fn set_atomicity(&self, on: bool) -> Result<(), Fault> {
        same(&self.comm, "flag", Ok(on.into()))?;
        self.atomic.store(on, Ordering::Release);
        Ok(())
    }
}
