//! How a process finds the others of its session.

use std::time::Instant;

use crate::error::Error;

pub(crate) mod pmi1;

/// A process manager, or the lack of one.
pub(crate) trait Bootstrap {
    /// Rank of this process.
    fn rank(&self) -> u32;
    /// Number of processes.
    fn size(&self) -> u32;
    /// Publishes this process's card and gives everybody's, by rank.
    fn exchange(&mut self, card: &str, deadline: Instant) -> Result<Vec<String>, Error>;
    /// Nothing more will be asked.
    fn finish(&mut self) -> Result<(), Error>;
}

/// A session of one.
pub(crate) struct Alone;

impl Bootstrap for Alone {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        1
    }
    fn exchange(&mut self, card: &str, _: Instant) -> Result<Vec<String>, Error> {
        Ok(vec![card.to_owned()])
    }
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// What the environment offers.
pub(crate) fn from_environment(deadline: Instant) -> Result<Box<dyn Bootstrap + Send>, Error> {
    match pmi1::Pmi1::from_environment(deadline)? {
        Some(pmi) => Ok(Box::new(pmi)),
        None => Ok(Box::new(Alone)),
    }
}
