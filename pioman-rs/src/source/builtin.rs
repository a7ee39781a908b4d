//! The manager's own sources: one of each kind, made when it is first needed, gone with the manager.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::manager::Manager;
use crate::manager::registry::SourceId;
use crate::server::hub::Hub;
use crate::source::Source;
use crate::source::fd::FdSource;
use crate::source::timer::Timers;

/// Those that there are so far.
#[derive(Default)]
pub(crate) struct Builtin {
    pub(crate) fds: Lazy<FdSource>,
    pub(crate) timers: Lazy<Timers>,
    pub(crate) servers: Lazy<Hub>,
}

/// A source, and by what name hints know it.
pub(crate) struct Made<T> {
    pub(crate) source: Arc<T>,
    pub(crate) id: SourceId,
}

/// A source that may have been made.
pub(crate) struct Lazy<T> {
    made: OnceLock<Made<T>>,
    making: Mutex<()>,
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Lazy { made: OnceLock::new(), making: Mutex::new(()) }
    }
}

impl<T: Source + 'static> Lazy<T> {
    /// The source; the first call makes it and gives it to `manager`. Not on the progress path.
    pub(crate) fn get(
        &self,
        manager: &Manager,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<&Made<T>> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let source = Arc::new(make()?);
        let id = manager.add_builtin(source.clone())?;
        Ok(self.made.get_or_init(|| Made { source, id }))
    }
}
