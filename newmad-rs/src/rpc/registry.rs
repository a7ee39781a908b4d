//! Which services this process offers.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::error::CallError;
use super::wire::{NAME, Service};

/// A service.
pub(super) struct Entry<H> {
    pub(super) handler: H,
    /// Runs where the call is found, before anything else of its kind is looked at.
    pub(super) inline: bool,
    /// Its threads are compute threads.
    pub(super) compute: bool,
    /// Of its threads; 0: the usual.
    pub(super) stack_size: usize,
}

/// See the module.
pub(super) struct Registry<H>(RwLock<Tables<H>>);

struct Tables<H> {
    names: HashMap<Box<str>, Arc<Entry<H>>>,
    numbers: HashMap<u64, Arc<Entry<H>>>,
}

impl<H> Default for Tables<H> {
    fn default() -> Tables<H> {
        Tables { names: HashMap::new(), numbers: HashMap::new() }
    }
}

impl<H> Default for Registry<H> {
    fn default() -> Registry<H> {
        Registry(RwLock::default())
    }
}

impl<H> Registry<H> {
    pub(super) fn add(&self, service: &Service<'_>, entry: Entry<H>) -> Result<(), CallError> {
        check(service)?;
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let taken = match service {
            Service::Name(name) => tables.names.contains_key(&**name),
            Service::Number(number) => tables.numbers.contains_key(number),
        };
        if taken {
            return Err(CallError::Taken(service.to_string()));
        }
        match service {
            Service::Name(name) => tables.names.insert((&**name).into(), Arc::new(entry)),
            Service::Number(number) => tables.numbers.insert(*number, Arc::new(entry)),
        };
        Ok(())
    }

    pub(super) fn find(&self, service: &Service<'_>) -> Option<Arc<Entry<H>>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match service {
            Service::Name(name) => tables.names.get(&**name),
            Service::Number(number) => tables.numbers.get(number),
        }
        .cloned()
    }

    pub(super) fn remove(&self, service: &Service<'_>) -> bool {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let removed = match service {
            Service::Name(name) => tables.names.remove(&**name),
            Service::Number(number) => tables.numbers.remove(number),
        };
        // What the handler has captured is dropped without the lock.
        drop(tables);
        removed.is_some()
    }

    pub(super) fn clear(&self) {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *tables);
        drop(tables);
        drop(all);
    }
}

/// Whether that can be the name of a service.
pub(super) fn check(service: &Service<'_>) -> Result<(), CallError> {
    match service {
        Service::Name(name) if name.is_empty() || name.len() > NAME => {
            Err(CallError::BadName(name.to_string()))
        }
        _ => Ok(()),
    }
}
