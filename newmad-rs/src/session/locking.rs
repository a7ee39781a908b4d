//! How a session's engine is locked (thesis 2009, 5.3.1: "none, coarse, fine"; to choose while running was its open question).

use super::Session;
use crate::error::Error;

/// How the engine of a session is locked. Every choice is sound, whoever uses the session; they differ in what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Locking {
    /// No atomic read-modify-write for the one kernel thread that uses the session: it has the engine until another comes,
    /// which then costs some microseconds; after that the session goes on as with [`Locking::Coarse`], until the same
    /// kernel thread has come often in a row. For modes `no-thread` and `mono`, where the I/O manager's other kernel
    /// threads look only when the program does not.
    None,
    /// One lock, for the whole engine. Whoever finds it taken leaves its work with the holder.
    Coarse,
    /// Beside that lock one for each rank that is sent to: while nothing is before a short message, it leaves without the
    /// engine, so that threads that send to different ranks, or send while others receive, do not meet. Over shared memory;
    /// where links can break (`tcp`) it is as [`Locking::Coarse`]. Receives, large messages and the looking for events
    /// have the one lock.
    Fine,
}

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

    /// How often, with [`Locking::None`], the engine was taken from the kernel thread that had it for itself. Each time cost
    /// some microseconds: if this grows all the time, several kernel threads use the session.
    pub fn lock_revocations(&self) -> u64 {
        self.inner.engine.lock_revocations()
    }
}
