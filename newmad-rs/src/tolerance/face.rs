//! The calls of a session.

use std::sync::Arc;

use pioman::Completion;

use crate::Tag;
use crate::api::several::{Awaited, What};
use crate::error::{Cause, Error};
use crate::proto::bans::{Ban, Reason};
use crate::session::Session;
use crate::tolerance::contract::{Contribution, Decision, Hook};
use crate::tolerance::service::{self, Decided, Service};
use crate::tolerance::{alarm, listener};

/// An agreement that goes on. Clones are the same one.
#[derive(Clone)]
#[must_use = "the decision comes from waiting for it"]
pub struct Agreement {
    session: Session,
    decided: Arc<Decided>,
}

impl Agreement {
    /// Its end, to wait for beside others.
    pub fn awaited(&self) -> Awaited<'_> {
        Awaited(What::Other(self.session.inner(), self.completion()))
    }

    fn completion(&self) -> &Completion {
        &self.decided.done
    }

    /// Waits for the decision. Says it again when asked again.
    ///
    /// # Blocking
    /// The calling thread, until all ranks that live have begun.
    /// # Errors
    /// [`Error::Closed`]; [`Error::PeerDied`] names this rank if the others take it for failed.
    pub fn wait(&self) -> Result<Decision, Error> {
        self.awaited().wait();
        match self.decided.decision.get() {
            Some(Some(decision)) if decision.failed.contains(&self.session.rank()) => {
                Err(Error::PeerDied { rank: self.session.rank(), cause: Cause::Unreachable })
            }
            Some(Some(decision)) => Ok(decision.clone()),
            _ => Err(Error::Closed),
        }
    }
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agreement")
    }
}

impl Session {
    /// From now on `hook` is told of failures, and receives from any rank are left to the layer above when ranks fail. Once
    /// for each session.
    pub fn tolerate(&self, hook: impl Hook + 'static) {
        let inner = self.inner();
        if Service::of(inner).set_hook(Box::new(hook)) {
            inner.engine.with(|core| core.gates.tolerant = true);
            alarm::set(inner);
        }
    }

    /// The ranks that have failed, in the order in which this process has learnt it, each with the reason.
    ///
    /// # Blocking
    /// For as long as the engine is held by another thread.
    pub fn failed_ranks(&self) -> Vec<(u32, Cause)> {
        let mut ended = service::ended(self.inner());
        ended.retain(|&(_, cause)| cause != Cause::Left);
        ended
    }

    /// Begins an agreement of these ranks. All of them call it; agreements of the same key in the same order. A key means the
    /// same ranks always.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// No.
    /// # Errors
    /// [`Error::BadRank`]; [`Error::BadGroup`]: this rank is not among them.
    pub fn agree(
        &self,
        key: u64,
        members: &[u32],
        contribution: Contribution,
    ) -> Result<Agreement, Error> {
        for &rank in members {
            self.check(Some(rank), 0)?;
        }
        if !members.contains(&self.rank()) {
            let why = format!("rank {} agrees with others, and is not among them", self.rank());
            return Err(Error::BadGroup(why));
        }
        let inner = self.inner();
        listener::start(inner);
        let decided = Service::of(inner).begin(inner, key, members, contribution);
        Ok(Agreement { session: self.clone(), decided })
    }

    /// Revokes the messages of this key: the hooks of these ranks are called. At the return the others have been sent word, and
    /// this rank's hook has been called.
    ///
    /// # Blocking
    /// No.
    pub fn revoke(&self, key: u64, members: &[u32]) {
        listener::start(self.inner());
        Service::of(self.inner()).revoke(self.inner(), key, members, true);
    }

    /// Whether the messages of this key are revoked, as far as this process knows.
    pub fn is_revoked(&self, key: u64) -> bool {
        Service::of(self.inner()).is_revoked(key)
    }

    /// Sees to it that no rank needs this one for an agreement any more: before the session is closed, if there were
    /// failures or agreements. All ranks that live call it, or close.
    ///
    /// # Blocking
    /// The calling thread, until the others do as well.
    pub fn leave_agreements(&self) {
        if let Some(decided) = Service::of(self.inner()).leave(self.inner()) {
            // However it ends: nothing hangs on it any more.
            let _ = Agreement { session: self.clone(), decided }.wait();
        }
    }

    /// Messages of these tags end, and later ones that would wait, with [`Error::ContextRevoked`].
    pub fn ban_revoked(&self, tag: Tag) {
        self.ban(tag, Reason::Revoked);
    }

    /// Receives and probes from any rank of these tags end with [`Error::PeerDied`] of this rank, and so do later ones that
    /// would wait. Those of [`RawRequest`](crate::raw::RawRequest) are alarmed instead.
    pub fn ban_any_source(&self, tag: Tag, (rank, cause): (u32, Cause)) {
        self.ban(tag, Reason::AnySource(rank, cause));
    }

    /// Ends what [`Session::ban_revoked`] has begun.
    pub fn lift_revoked(&self, tag: Tag) {
        self.lift(tag, Reason::Revoked);
    }

    /// Ends what [`Session::ban_any_source`] has begun.
    pub fn lift_any_source(&self, tag: Tag) {
        self.lift(tag, Reason::AnySource(self.rank(), Cause::Vanished));
    }

    fn ban(&self, Tag { value: tag, mask }: Tag, reason: Reason) {
        let (inner, tag) = (self.inner(), tag & mask);
        inner.engine.with(|core| core.ban(Ban { mine: inner.mine(), tag, mask, reason }));
    }

    fn lift(&self, Tag { value: tag, mask }: Tag, reason: Reason) {
        let (inner, tag) = (self.inner(), tag & mask);
        inner.engine.with(|core| core.lift_ban(Ban { mine: inner.mine(), tag, mask, reason }));
    }
}
