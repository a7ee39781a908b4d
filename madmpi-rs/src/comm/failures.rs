//! Processes of a communicator that are gone; revoking it, agreeing on it, and shrinking it.
//!
//! newmad tells of failures and revocations (`newmad::tolerance`), and names communicators by their contexts. A context on
//! which processes have agreed, or that was revoked, is not used again: a late word would be about another communicator.
//!
//! # Receives from any source
//! While a process of the communicator has failed whose failure the program has not acknowledged, a receive from any source
//! does not wait: newmad has a ban for them. A blocking receive or probe fails with `MPIX_ERR_PROC_FAILED`. A request fails
//! with `MPIX_ERR_PROC_FAILED_PENDING` and goes on.

use core::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use newmad::Cause;
use newmad::tolerance::{Agreement, Contribution, Decision};

use super::context::Offer;
use super::making::Making;
use super::registry::Told;
use super::{Comm, Parts, TAG_UB, bad_tag};
use crate::error::Fault;
use crate::group::Group;

/// In the flags of an agreement: those of the first of two sides, or of the one that there is. The upper half has the second
/// side's.
const FIRST: u64 = 0xffff_ffff;

impl Told for Comm {
    fn failed(&self) {
        self.look_at_failures();
    }

    fn revoked(&self) {
        self.end_messages();
    }
}

/// The agreement by which a communicator is shrunk, with what this process offers for it.
pub(crate) struct Shrinking {
    pub(crate) agreement: Agreement,
    offer: Offer,
}

/// A group that is over when the communicator is revoked: see [`Comm::end_with_this`].
pub(super) struct EndsWithComm<'a> {
    comm: &'a Comm,
    pub(super) group: Arc<newmad::coll::Group>,
}

impl Drop for EndsWithComm<'_> {
    fn drop(&mut self) {
        let is_it = |making: &Making| matches!(making, Making::Group(group) if Arc::ptr_eq(group, &self.group));
        self.comm.making.lock().retain(|making| !is_it(making));
    }
}

/// Messages that end when the communicator is revoked: see [`Comm::end_messages_with_this`].
pub(super) struct MessagesEndWithComm<'a> {
    comm: &'a Comm,
    session: newmad::Session,
    tag: newmad::Tag,
}

impl Drop for MessagesEndWithComm<'_> {
    fn drop(&mut self) {
        let is_it =
            |making: &Making| matches!(making, Making::Messages(_, tag) if *tag == self.tag);
        let mut making = self.comm.making.lock();
        making.retain(|making| !is_it(making));
        // Under the lock: a revocation has ended them by now, or does not find them.
        if self.comm.is_revoked() {
            self.session.lift_revoked(self.tag);
        }
    }
}

impl Comm {
    /// It was made, and newmad may tell of it.
    pub(super) fn was_made(&self) {
        // What newmad has told before this was registered. `MPI_COMM_WORLD` is there before anything else.
        self.look_at_failures();
        if self.session.is_revoked(self.key()) {
            self.end_messages();
        }
    }

    /// The context ends with the communicator. `failed`: newmad keeps the id of a group of it, so this process keeps the context,
    /// and refuses it when another offers it.
    pub(super) fn give_back_context(&self, failed: bool) {
        self.circle.registry.remove(self.context);
        self.session.lift_any_source(self.programs());
        if self.is_revoked() {
            self.session.lift_revoked(self.all());
        }
        // A member that knows of no failure of its collectives may have a late word about one.
        let again = !self.failures.marked.load(Ordering::Acquire)
            && !self.is_revoked()
            && self.failed().is_empty();
        if !failed {
            self.circle.contexts.release(self.context, again);
        }
    }

    /// What newmad calls the communicator.
    fn key(&self) -> u64 {
        self.context.into()
    }

    /// The tags of the program's messages.
    fn programs(&self) -> newmad::Tag {
        newmad::Tag { value: u64::from(self.context) << 32, mask: !0 << 31 }
    }

    /// All tags.
    fn all(&self) -> newmad::Tag {
        newmad::Tag { value: u64::from(self.context) << 32, mask: !0 << 32 }
    }

    fn has(&self, process: u32) -> bool {
        self.group.contains(process)
            || self.remote.as_ref().is_some_and(|remote| remote.contains(process))
    }

    /// The processes of both sides.
    fn processes(&self) -> Vec<u32> {
        let remote = self.remote.as_ref().map_or(&[][..], |remote| remote.members());
        self.group.members().iter().chain(remote).copied().collect()
    }

    /// The processes that have failed, in the order in which this process has learnt it.
    fn failed(&self) -> Vec<(u32, Cause)> {
        let mut failed = self.session.failed_ranks();
        failed.retain(|&(process, _)| self.has(process));
        failed
    }

    /// Bans receives from any source while there are failures that the program has not acknowledged, and lifts that when there
    /// are none.
    ///
    /// Calls of the session may call this, on this thread, since newmad tells of failures there: so no lock is held. Another
    /// thread may do the same with what it has seen before or after: the one that comes to its end last has seen the last.
    fn look_at_failures(&self) {
        loop {
            let acknowledged = self.failures.acknowledged.load(Ordering::SeqCst);
            let failed = self.failed();
            match failed.get(acknowledged) {
                Some(&first) => self.session.ban_any_source(self.programs(), first),
                None if failed.is_empty() => {}
                None => self.session.lift_any_source(self.programs()),
            }
            let now = self.failures.acknowledged.load(Ordering::SeqCst);
            if now == acknowledged && self.failed().len() == failed.len() {
                return;
            }
        }
    }

    /// The failed processes, as a group.
    pub(crate) fn failed_group(&self) -> Arc<Group> {
        self.some(self.failed().into_iter().map(|(process, _)| process).collect())
    }

    /// Those of them that the program has acknowledged.
    pub(crate) fn acknowledged_group(&self) -> Arc<Group> {
        self.some(self.acknowledged())
    }

    /// Some of the circle's processes, as a group.
    fn some(&self, processes: Vec<u32>) -> Arc<Group> {
        self.group.with(processes)
    }

    fn acknowledged(&self) -> Vec<u32> {
        let acknowledged = self.failures.acknowledged.load(Ordering::SeqCst);
        self.failed().into_iter().take(acknowledged).map(|(process, _)| process).collect()
    }

    /// Acknowledges the first so many failures, or all; how many are acknowledged then.
    pub(crate) fn acknowledge(&self, most: Option<usize>) -> usize {
        let failed = self.failed().len();
        let these = most.unwrap_or(failed).min(failed);
        let before = self.failures.acknowledged.fetch_max(these, Ordering::SeqCst);
        self.look_at_failures();
        before.max(these)
    }

    /// The fault of a receive from any source, if there is a failure that the program has not acknowledged.
    #[cold]
    pub(crate) fn unacknowledged(&self, class: c_int) -> Option<Fault> {
        let acknowledged = self.failures.acknowledged.load(Ordering::SeqCst);
        let &(process, _) = self.failed().get(acknowledged)?;
        let rank = self.peers().rank(process).map_or_else(
            || format!("process {process} of the job"),
            |rank| format!("rank {rank} of the communicator"),
        );
        Some(Fault::new(
            class,
            format!(
                "{rank} is gone, and the message could be its: MPIX_Comm_failure_ack says that the program knows"
            ),
        ))
    }

    /// Whether it is revoked, as far as this process knows.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.tags.load(Ordering::Relaxed) == 0
    }

    /// As [`Comm::is_revoked`], or a collective has failed with that already: where ranks share a process, it hears first.
    pub(crate) fn was_said_to_be_revoked(&self) -> bool {
        self.is_revoked() || self.groups().any(newmad::coll::Group::is_revoked)
    }

    /// Its groups for collectives, as far as they were made.
    pub(super) fn groups(&self) -> impl Iterator<Item = &newmad::coll::Group> {
        [&self.collectives, &self.union, &self.checking].into_iter().filter_map(OnceLock::get)
    }

    /// Revokes the communicator.
    pub(crate) fn revoke(&self) {
        self.session.revoke(self.key(), &self.processes());
    }

    /// It is revoked: ends what waits for its messages and collectives.
    fn end_messages(&self) {
        self.tags.store(0, Ordering::Relaxed);
        self.session.ban_revoked(self.all());
        // A group that is being made sees the store above.
        let making = self.making.lock();
        self.groups().for_each(newmad::coll::Group::revoke);
        making.iter().for_each(Making::end);
    }

    /// # Errors
    /// It is revoked.
    pub(crate) fn check_not_revoked(&self) -> Result<(), Fault> {
        if self.is_revoked() {
            return Err(newmad::Error::ContextRevoked.into());
        }
        Ok(())
    }

    /// A group of the communicator's processes that a call makes for itself: it ends when the communicator is revoked.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub(super) fn end_with_this(
        &self,
        group: newmad::coll::Group,
    ) -> Result<EndsWithComm<'_>, Fault> {
        let group = Arc::new(group);
        let mut making = self.making.lock();
        // A revocation that comes later finds it in the list.
        self.check_not_revoked()?;
        making.push(Making::Group(group.clone()));
        drop(making);
        Ok(EndsWithComm { comm: self, group })
    }

    /// Receives with this tag, which a call makes for itself, end when the communicator is revoked.
    ///
    /// # Errors
    /// The communicator is revoked.
    pub(super) fn end_messages_with_this(
        &self,
        session: &newmad::Session,
        tag: u64,
    ) -> Result<MessagesEndWithComm<'_>, Fault> {
        let tag = newmad::Tag { value: tag, mask: !0 };
        let mut making = self.making.lock();
        // A revocation that comes later finds them in the list.
        self.check_not_revoked()?;
        making.push(Making::Messages(session.clone(), tag));
        drop(making);
        Ok(MessagesEndWithComm { comm: self, session: session.clone(), tag })
    }

    /// The fault of a call with this tag: the communicator is revoked, or there is no such tag.
    #[cold]
    pub(super) fn refused(&self, tag: c_int, or: &str) -> Fault {
        if self.is_revoked() {
            return newmad::Error::ContextRevoked.into();
        }
        debug_assert!(!(0..=TAG_UB).contains(&tag));
        bad_tag(tag, or)
    }

    /// Begins an agreement on the bits that all have set; of two sides, on those of each side.
    ///
    /// # Errors
    /// None that are known.
    pub(crate) fn agree(&self, flags: c_int) -> Result<Agreement, Fault> {
        let flags = u64::from(flags as u32);
        self.begin(if self.is_second() { flags << 32 | FIRST } else { flags | !FIRST }, 0)
    }

    /// What the flags of a decision tell this side: those of its own processes, or of the other side if there is one.
    pub(crate) fn agreed_flags(&self, flags: u64) -> c_int {
        let of_second = self.remote.is_some() && !self.is_second();
        (if of_second { flags >> 32 } else { flags }) as c_int
    }

    /// Whether this is the second of two sides.
    pub(super) fn is_second(&self) -> bool {
        let first = |remote: &Arc<Group>| remote.process(0) < self.group.process(0);
        self.remote.as_ref().is_some_and(first)
    }

    fn begin(&self, flags: u64, offer: u32) -> Result<Agreement, Fault> {
        self.failures.marked.store(true, Ordering::Release);
        let acknowledged = self.acknowledged();
        let said = Contribution { flags, offer: offer.into(), acknowledged };
        Ok(self.session.agree(self.key(), &self.processes(), said)?)
    }

    /// Begins to agree on the processes that are left, and on a context for them.
    ///
    /// # Errors
    /// No context that was never used is left.
    pub(crate) fn begin_to_shrink(&self) -> Result<Shrinking, Fault> {
        let offer = Offer { context: self.circle.contexts.offer_fresh()?, again: false };
        match self.begin(0, offer.context) {
            Ok(agreement) => Ok(Shrinking { agreement, offer }),
            Err(fault) => {
                self.circle.contexts.withdraw(offer);
                Err(fault)
            }
        }
    }

    /// The communicator of the processes that are left.
    ///
    /// # Errors
    /// The others take this process for failed; no handle is left.
    pub(crate) fn shrunk(
        &self,
        Shrinking { agreement, offer }: &Shrinking,
    ) -> Result<Arc<Comm>, Fault> {
        let Decision { offer: agreed, failed, .. } = agreement.wait()?;
        let context = agreed as u32;
        if context != offer.context {
            self.circle.contexts.withdraw(*offer);
        }
        let left = |group: &Arc<Group>| {
            let lives = |process: &u32| failed.binary_search(process).is_err();
            self.some(group.members().iter().copied().filter(lives).collect())
        };
        Comm::new(Parts {
            circle: self.circle.clone(),
            context,
            group: left(&self.group),
            remote: self.remote.as_ref().map(left),
            errhandler: self.errhandler(),
        })
    }
}
