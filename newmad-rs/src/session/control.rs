//! Short messages over the control network.

use std::sync::Arc;

use super::{Inner, Session};
use crate::error::Error;
use crate::strategy::selection::check_caller;

/// The control network of a session: short messages from any rank to any other, beside those that [`Session::send`] sends.
///
/// They go hop by hop, from process to process, over the few connections by which processes learn of each other's end, and
/// over short cuts between those (`NMAD_CONTROL_DIMENSIONS`). So a process reaches every other one without a connection
/// with it. The kernel wakes the process that forwards or receives a message, whatever its cores compute. They are for
/// what is short and rare: a hop costs two wake-ups of a kernel thread.
///
/// A message comes once, in the order of its sender's messages to that rank, also if processes on its way die. What is on
/// its way from or to a process that dies may be lost, and so is what a rank has not received when it closes.
///
/// ```
/// newmad::run(|session| {
///     let control = session.control();
///     control.send((session.rank() + 1) % session.size(), b"look at me")?;
///     let (from, text) = control.recv()?;
///     assert_eq!(text, b"look at me");
///     assert_eq!((from + 1) % session.size(), session.rank());
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
#[derive(Clone)]
pub struct Control {
    inner: Arc<Inner>,
}

impl Session {
    /// The control network.
    pub fn control(&self) -> Control {
        Control { inner: self.inner.clone() }
    }
}

impl Control {
    /// Bytes of the longest message.
    pub const LONGEST: usize = crate::connect::mail::LONGEST;

    /// Sends a message to that rank. The bytes are copied, and the session keeps them until they have come.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once. Not callbacks that run on the progress path.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`]; [`Error::PeerDied`] if its process is known to have ended; [`Error::Control`] if the message is too
    /// long, or too many are on their way.
    pub fn send(&self, to: u32, bytes: &[u8]) -> Result<(), Error> {
        check_caller()?;
        let size = self.inner.size();
        if to >= size {
            return Err(Error::BadRank { rank: to, size });
        }
        self.inner.mail().send(self.inner.rank(), to, bytes)
    }

    /// The next message for this rank, and the rank that sent it. Several threads that wait get each another message.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::Closed`]: the session is closed, or no other process is left that could send.
    pub fn recv(&self) -> Result<(u32, Vec<u8>), Error> {
        check_caller()?;
        self.inner.mail().receive(self.inner.mine())
    }

    /// As [`Control::recv`]; `None` instead of waiting.
    ///
    /// # Blocking
    /// No.
    /// # Errors
    /// As [`Control::recv`].
    pub fn try_recv(&self) -> Result<Option<(u32, Vec<u8>)>, Error> {
        check_caller()?;
        self.inner.mail().try_receive(self.inner.mine())
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control(rank {} of {})", self.inner.rank(), self.inner.size())
    }
}
