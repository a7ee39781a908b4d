//! A process manager that the connection manager and the program's calls both ask.

use std::sync::Arc;
use std::time::Instant;

use marcel::plumbing::KernelMutex;

use super::manager::Bootstrap;
use super::spawn::Spawner;
use crate::authentication::KEY;
use crate::error::Error;

/// Asks a process manager for something that it may not offer.
type Ask<'a, T> = &'a dyn Fn(&mut dyn Spawner) -> Result<T, Error>;

/// See the module. One of the owners asks at a time; the others block.
#[derive(Clone)]
pub(crate) struct Shared(Arc<KernelMutex<Box<dyn Bootstrap>>>);

impl Shared {
    pub(crate) fn new(boot: Box<dyn Bootstrap>) -> Shared {
        Shared(Arc::new(KernelMutex::new(boot)))
    }

    /// What the process manager answers; `None`: it offers nothing of the kind.
    pub(crate) fn ask<T>(&self, ask: Ask<'_, T>) -> Result<Option<T>, Error> {
        self.0.lock().spawner().map(ask).transpose()
    }
}

impl Bootstrap for Shared {
    fn rank(&self) -> u32 {
        self.0.lock().rank()
    }

    fn size(&self) -> u32 {
        self.0.lock().size()
    }

    fn room(&self) -> usize {
        self.0.lock().room()
    }

    fn put(&mut self, key: &str, value: &str, deadline: Instant) -> Result<(), Error> {
        self.0.lock().put(key, value, deadline)
    }

    fn fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.0.lock().fence(deadline)
    }

    fn last_fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.0.lock().last_fence(deadline)
    }

    fn get(&mut self, owner: u32, key: &str, deadline: Instant) -> Result<String, Error> {
        self.0.lock().get(owner, key, deadline)
    }

    fn key_of(&self, rank: u32) -> Option<[u8; KEY]> {
        self.0.lock().key_of(rank)
    }

    fn job(&mut self, deadline: Instant) -> Result<String, Error> {
        self.0.lock().job(deadline)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.0.lock().finish()
    }

    // What is written once on top, too: a process manager may have its own way.
    fn publish(&mut self, card: &str, deadline: Instant) -> Result<(), Error> {
        self.0.lock().publish(card, deadline)
    }

    fn card_of(&mut self, rank: u32, deadline: Instant) -> Result<String, Error> {
        self.0.lock().card_of(rank, deadline)
    }
}
