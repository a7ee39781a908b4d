//! Packing: one message built piece by piece, and taken apart piece by piece (Madeleine's interface).
//!
//! ```
//! newmad::run(|session| {
//!     let matrix = vec![7u8; 100_000];
//!     session.scope(|scope| {
//!         let mut message = session.pack(0, 5)?;
//!         message.express((matrix.len() as u64).to_le_bytes()).deferred(&matrix[..]);
//!         let sent = message.end_in(scope)?;
//!         let mut message = session.unpack(0, 5)?;
//!         let mut len = [0; 8];
//!         message.express(&mut len)?; // is there at once, and says how much room the rest needs
//!         let mut copy = vec![0; u64::from_le_bytes(len) as usize];
//!         message.deferred(&mut copy)?;
//!         message.end()?;
//!         assert!(copy.iter().all(|&byte| byte == 7));
//!         sent.wait()
//!     })
//! })??;
//! # Ok::<(), newmad::Error>(())
//! ```
//!
//! *Express* pieces are copied when they are packed and are there when they have been unpacked: lengths, and what else
//! is needed to unpack the rest. *Deferred* ones are not copied: they are borrowed, or owned, until the end of packing,
//! and there at the end of unpacking. Both sides name the same pieces in the same order, with the same lengths: what
//! differs is an error that names the piece.
//!
//! Nothing is sent before the end: express pieces and short deferred ones then travel together in one message, eagerly,
//! and long deferred ones by a rendezvous of their own (`wire`). So a builder that is dropped or forgotten has sent
//! nothing, and nothing ever points to what it has borrowed. Rejected: sending express pieces as soon as they are
//! packed (a message for each, and what is forgotten half-way would have to be taken back).

mod receiving;
mod sending;
pub(crate) mod wire;

pub use receiving::Unpack;
pub use sending::{Pack, PackRequest};

use crate::error::Error;
use crate::session::{Origin, Session};

fn check(session: &Session, rank: Option<u32>, tag: u64) -> Result<(), Error> {
    session.check(rank, 0)?;
    if tag >= wire::TAGS {
        return Err(Error::Packing(format!(
            "tag {tag:#x}: tags of packed messages are below {:#x}",
            wire::TAGS
        )));
    }
    Ok(())
}

impl Session {
    /// Begins a packed message to rank `to`. Its tag is below 2^54, and apart from those of other messages.
    ///
    /// # Errors
    /// [`Error::BadRank`], [`Error::Packing`]: the tag.
    pub fn pack<'a>(&self, to: u32, tag: u64) -> Result<Pack<'a>, Error> {
        check(self, Some(to), tag)?;
        Ok(Pack::new(self, to, tag))
    }

    /// Waits for the beginning of a packed message, to take it apart.
    ///
    /// # Context
    /// Green threads and kernel threads, several at once: each gets another message.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::BadRank`], [`Error::Packing`]: the tag, or what has come was not packed; [`Error::PeerDied`],
    /// [`Error::Closed`].
    pub fn unpack<'a>(&self, from: impl Into<Origin>, tag: u64) -> Result<Unpack<'a>, Error> {
        let from = from.into();
        check(self, from.rank(), tag)?;
        Unpack::receive(self, from, tag)
    }
}
