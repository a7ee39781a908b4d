//! Context-id agreement: how the processes that make a communicator agree on its context.
//!
//! They are one group, or two with a bridge between their leaders. The leader, or the first of two, offers a context,
//! and all learn it. If the context was used before, all say whether they still know it from then; if any does, the
//! leader offers another one.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::coll::{Group as Members, Op};

use super::Comm;
use super::circle::Circle;
use super::context::{Contexts, Offer};
use crate::abi::MPI_ERR_OTHER;
use crate::error::Fault;

/// The bridge between the two leaders of an intercommunicator.
pub(crate) struct Bridge {
    pub(crate) circle: Arc<Circle>,
    /// The process of the other leader.
    pub(crate) remote: u32,
    /// The tag on the wire.
    pub(crate) tag: u64,
}

/// In place of a length: the leader has failed, with the class in the lower half.
const FAILED: u64 = 1 << 63;

/// The processes that agree.
pub(crate) struct Agreement<'a> {
    /// The members of the own side.
    pub(crate) local: &'a Members,
    /// The contexts of the circle of what is to be made.
    pub(crate) contexts: &'a Contexts,
    /// The leader's rank there.
    pub(crate) leader: u32,
    /// The bridge, at each side's leader.
    pub(crate) bridge: Option<Bridge>,
    /// Whether this is the second of two sides.
    pub(crate) second: bool,
    /// Whether there are two sides.
    pub(crate) two: bool,
}

impl<'a> Agreement<'a> {
    /// An agreement of one group, led by its first member.
    pub(crate) fn of_group(local: &'a Members, contexts: &'a Contexts) -> Agreement<'a> {
        Agreement { local, contexts, leader: 0, bridge: None, second: false, two: false }
    }

    /// An agreement of a communicator's processes, led by the first member of each side.
    ///
    /// # Errors
    /// A member has failed.
    pub(crate) fn of_comm(comm: &'a Comm) -> Result<Agreement<'a>, Fault> {
        let local = comm.coll_group()?;
        let contexts = &comm.circle.contexts;
        let Some(remote) = &comm.remote else { return Ok(Agreement::of_group(local, contexts)) };
        let (Some(_), Some(there)) = (comm.group.process(0), remote.process(0)) else {
            return Err(Fault::new(MPI_ERR_OTHER, "a side of the intercommunicator is empty"));
        };
        let bridge = Bridge {
            circle: comm.circle.clone(),
            remote: there,
            tag: comm.internal_tag(super::AGREEMENT),
        };
        let bridge = (comm.rank() == 0).then_some(bridge);
        Ok(Agreement { local, contexts, leader: 0, bridge, second: comm.is_second(), two: true })
    }

    /// Whether this process offers contexts.
    fn offers(&self) -> bool {
        !self.second && self.local.rank() == self.leader
    }

    /// Sends this leader's words to the other side, and gives its leader's words to all of this side. A leader that has a fault
    /// instead says so: the other one waits for it.
    fn across(&self, words: Result<&[u64], Fault>) -> Result<Vec<u64>, Fault> {
        let theirs = match &self.bridge {
            Some(bridge) if self.local.rank() == self.leader => bridge.exchange(words),
            _ => words.map(|_| Vec::new()),
        };
        self.share(theirs)
    }

    /// Distributes what the leader has to its side. If the leader has an error, all members fail.
    ///
    /// # Errors
    /// The leader's error; a member has failed.
    pub(crate) fn share(&self, words: Result<Vec<u64>, Fault>) -> Result<Vec<u64>, Fault> {
        let mut len = [match &words {
            Ok(words) => words.len() as u64,
            Err(fault) => FAILED | u64::from(fault.class as u32),
        }];
        self.local.bcast(self.leader, &mut len).wait()?;
        if len[0] & FAILED != 0 {
            words?;
            let why = "the root or leader of this side failed, and has said why";
            return Err(Fault::new(len[0] as c_int, why));
        }
        let mut words = words?;
        words.resize(len[0] as usize, 0);
        self.local.bcast(self.leader, &mut words).wait()?;
        Ok(words)
    }

    /// Distributes the words of the first side's leader to all.
    fn bcast(&self, words: &mut [u64]) -> Result<(), Fault> {
        let told = self.local.bcast(self.leader, &mut *words).wait().map(drop);
        if !self.two {
            told?;
        } else {
            let theirs = self.across(told.map(|()| &*words).map_err(Fault::from))?;
            if self.second && theirs.len() == words.len() {
                words.copy_from_slice(&theirs);
            }
        }
        Ok(())
    }

    /// Whether any process says so.
    pub(crate) fn any(&self, own: bool) -> Result<bool, Fault> {
        let mut says = [u64::from(own)];
        let told = self.local.allreduce(&mut says, &Op::max()).wait().map(drop);
        if !self.two {
            told?;
            return Ok(says[0] != 0);
        }
        // Both sides exchange, even if one knows the answer already.
        let there = self.across(told.map(|()| &says[..]).map_err(Fault::from))?;
        Ok(says[0] != 0 || there.first().is_some_and(|&says| says != 0))
    }

    /// Gathers what each process says: the own side in the order of its members, then the other side.
    ///
    /// # Errors
    /// A member has failed.
    pub(crate) fn gather<const N: usize>(
        &self,
        own: [u64; N],
    ) -> Result<[Vec<[u64; N]>; 2], Fault> {
        let mut here = vec![[0; N]; self.local.size() as usize];
        let told = self.local.allgather(&[own], &mut here).wait().map(drop);
        if !self.two {
            told?;
            return Ok([here, Vec::new()]);
        }
        let there = self.across(told.map(|()| here.as_flattened()).map_err(Fault::from))?;
        Ok([here, there.chunks_exact(N).filter_map(|words| words.try_into().ok()).collect()])
    }

    /// Agrees on a context for a communicator of all processes.
    ///
    /// # Errors
    /// The leader has no context left; a member has failed.
    pub(crate) fn agree(&self) -> Result<u32, Fault> {
        let contexts = self.contexts;
        loop {
            // All learn of a failure, so that none of them waits.
            let offer = if self.offers() { Some(contexts.offer()) } else { None };
            let mut words = match &offer {
                Some(Ok(offer)) => [u64::from(offer.context), u64::from(offer.again), 0],
                Some(Err(_)) => [0, 0, 1],
                None => [0; 3],
            };
            self.bcast(&mut words)?;
            let [context, again, failed] = words;
            if failed != 0 {
                return Err(offer.and_then(Result::err).unwrap_or_else(|| {
                    Fault::new(MPI_ERR_OTHER, "the process that gives out contexts has none left")
                }));
            }
            let context = context as u32;
            if again == 0 || !self.any(contexts.is_used(context))? {
                return Ok(context);
            }
            if self.offers() {
                contexts.withdraw(Offer { context, again: true });
            }
        }
    }
}

impl Bridge {
    /// Sends words to the other leader, and returns that leader's words. A fault is sent, too, in place of the length.
    ///
    /// # Errors
    /// The own fault; the other leader has one, or is gone.
    pub(crate) fn exchange(&self, words: Result<&[u64], Fault>) -> Result<Vec<u64>, Fault> {
        let send = |words: &[u64]| {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
            self.circle.session.isend(self.remote, self.tag, bytes)
        };
        let sent = match &words {
            Ok(words) => vec![send(&[words.len() as u64])?, send(words)?],
            Err(fault) => vec![send(&[FAILED | u64::from(fault.class as u32)])?],
        };
        let theirs = self.receive();
        words?;
        let theirs = theirs?;
        for request in sent {
            request.wait()?;
        }
        Ok(theirs)
    }

    /// Receives the other leader's words.
    fn receive(&self) -> Result<Vec<u64>, Fault> {
        let mut len = [0; 8];
        self.circle.session.recv(self.remote, self.tag, &mut len)?;
        let len = u64::from_ne_bytes(len);
        if len & FAILED != 0 {
            let why = "the call has failed at the other side, which has said why";
            return Err(Fault::new(len as c_int, why));
        }
        // A leader sends a few words for each process; anything longer was not meant for this.
        if len > 4 * u64::from(self.circle.session.size()) + 8 {
            return Err(Fault::new(MPI_ERR_OTHER, "the other leader makes another communicator"));
        }
        let mut theirs = vec![0; len as usize * 8];
        self.circle.session.recv(self.remote, self.tag, &mut theirs)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        Ok(theirs.chunks_exact(8).map(word).collect())
    }
}
