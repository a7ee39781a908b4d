//! Changes the lock mode of a running session.

use super::Session;
use crate::engine::Locking;
use crate::error::Error;

impl Session {
    /// Changes how the engine is locked (`NMAD_LOCK`): at once, while others use it.
    ///
    /// With [`Locking::None`] the next kernel thread that comes has the engine for itself, also if it was taken
    /// from one before.
    ///
    /// ```
    /// use newmad::{Locking, Session};
    /// let session = Session::builder().open()?;
    /// session.set_locking(Locking::None)?;
    /// assert_eq!(session.locking(), Locking::None);
    /// # session.close()?;
    /// # Ok::<(), newmad::Error>(())
    /// ```
    ///
    /// # Context
    /// Green threads and kernel threads, at any time.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Locking::None`] where the kernel refuses `membarrier(2)`: nothing is changed then.
    pub fn set_locking(&self, locking: Locking) -> Result<(), Error> {
        self.inner.engine.set_locking(locking)
    }

    /// How the engine is locked.
    pub fn locking(&self) -> Locking {
        self.inner.engine.locking()
    }

    /// How often, with [`Locking::None`], the engine was taken from the kernel thread that had it for itself. Each time
    /// cost some microseconds: if this grows all the time, several kernel threads use the session.
    pub fn lock_revocations(&self) -> u64 {
        self.inner.engine.lock_revocations()
    }
}
