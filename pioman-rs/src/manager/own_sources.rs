//! What a manager makes when it is first needed: one value of each type, gone with the manager. Mostly sources.
//!
//! The table grows only, so a lookup is a walk over a few entries without a lock.

use std::any::Any;
use std::io;
use std::sync::{Arc, OnceLock};

use crate::progress::source::SourceId;
use marcel::plumbing::KernelMutex;

/// More types than there are.
const PLACES: usize = 16;

/// A source that a manager has made, and its name in hints.
#[derive(Debug)]
pub struct OwnSource<T> {
    /// The source.
    pub source: Arc<T>,
    /// Names it in [`crate::Hints::on`].
    pub id: SourceId,
}

/// The values that have been made.
#[derive(Debug, Default)]
pub(crate) struct OwnSources {
    made: [OnceLock<Box<dyn Any + Send + Sync>>; PLACES],
    making: KernelMutex<()>,
}

impl OwnSources {
    #[inline]
    fn find<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.made.iter().map_while(OnceLock::get).find_map(|made| made.downcast_ref())
    }

    /// The value of type `T`. The first call makes it. Not on the progress path.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn get<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<&T> {
        if let Some(made) = self.find() {
            return Ok(made);
        }
        let _making = self.making.lock();
        if let Some(made) = self.find() {
            return Ok(made);
        }
        let made = Box::new(make()?);
        // `set` fails for every place that is taken, and gives the box back.
        let left =
            self.made.iter().try_fold(
                made as Box<dyn Any + Send + Sync>,
                |made, place| match place.set(made) {
                    Ok(()) => Err(()),
                    Err(made) => Ok(made),
                },
            );
        match (left, self.find()) {
            (Err(()), Some(made)) => Ok(made),
            _ => Err(io::Error::other("a manager makes at most 16 kinds of things of its own")),
        }
    }
}
