//! What a call uses that makes a communicator, and that ends when the communicator it comes from is revoked.

use std::sync::Arc;

/// What a call uses that makes a communicator of another one's processes.
pub(super) enum Making {
    Group(Arc<newmad::coll::Group>),
    /// Messages between leaders, which are those of another communicator.
    Messages(newmad::Session, newmad::Tag),
}

impl Making {
    /// The communicator is revoked.
    pub(super) fn end(&self) {
        match self {
            Making::Group(group) => group.revoke(),
            Making::Messages(session, tag) => session.ban_revoked(*tag),
        }
    }
}
