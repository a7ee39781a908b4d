//! Context-id agreement: how the processes that make a communicator agree on its context.
//!
//! They are one group, or two with a bridge between their leaders. The leader, or the first of two, offers a context,
//! and all learn it. If the context was used before, all say whether they still know it from then; if any does, the
//! leader offers another one.

use core::ffi::c_int;
use std::cell::Cell;
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
    /// At a leader: the other one has its words of the last round, and goes on.
    pub(crate) crossed: Cell<bool>,
}

impl<'a> Agreement<'a> {
    /// An agreement of one group, led by its first member.
    pub(crate) fn of_group(local: &'a Members, contexts: &'a Contexts) -> Agreement<'a> {
        let crossed = Cell::new(false);
        Agreement { local, contexts, leader: 0, bridge: None, second: false, two: false, crossed }
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
        let (second, crossed) = (comm.is_second(), Cell::new(false));
        Ok(Agreement { local, contexts, leader: 0, bridge, second, two: true, crossed })
    }

    /// Whether this process offers contexts.
    fn offers(&self) -> bool {
        !self.second && self.local.rank() == self.leader
    }

    /// Ends a round: sends this leader's words to the other side, if there is one, and gives its leader's words to all of this
    /// side. `here`: how the round has ended on this side. If it has failed, the leader tells the other one, which waits for it.
    fn across(&self, here: Result<(), newmad::Error>, words: &[u64]) -> Result<Vec<u64>, Fault> {
        let here = here.map_err(Fault::from);
        if !self.two {
            return here.map(|()| Vec::new());
        }
        let theirs = match &self.bridge {
            Some(bridge) if self.local.rank() == self.leader => {
                let theirs = match here {
                    Ok(()) => bridge.exchange(words),
                    Err(fault) => Err(bridge.decline(fault)),
                };
                self.crossed.set(theirs.is_ok());
                theirs
            }
            _ => here.map(|()| Vec::new()),
        };
        self.share(theirs)
    }

    /// How a round has ended that another one follows. If it has failed here after its exchange, the other leader, which does not
    /// know that, is told when it comes to the next one.
    pub(crate) fn followed<R>(&self, round: Result<R, Fault>) -> Result<R, Fault> {
        match (round, &self.bridge) {
            (Err(fault), Some(bridge)) if self.crossed.replace(false) => Err(bridge.decline(fault)),
            (round, _) => round,
        }
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
        let here = self.local.bcast(self.leader, &mut *words).wait().map(drop);
        let theirs = self.across(here, words)?;
        if self.second && theirs.len() == words.len() {
            words.copy_from_slice(&theirs);
        }
        Ok(())
    }

    /// Whether any process says so.
    pub(crate) fn any(&self, own: bool) -> Result<bool, Fault> {
        let mut says = [u64::from(own)];
        let here = self.local.allreduce(&mut says, &Op::max()).wait().map(drop);
        // Both sides exchange, even if one knows the answer already.
        let there = self.across(here, &says)?;
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
        let mut ours = vec![[0; N]; self.local.size() as usize];
        let here = self.local.allgather(&[own], &mut ours).wait().map(drop);
        let there = self.across(here, ours.as_flattened())?;
        Ok([ours, there.chunks_exact(N).filter_map(|words| words.try_into().ok()).collect()])
    }

    /// Agrees on a context for a communicator of all processes.
    ///
    /// # Errors
    /// The leader has no context left; a member has failed.
    pub(crate) fn agree(&self) -> Result<u32, Fault> {
        let contexts = self.contexts;
        // Of two sides: with a context that was never used there is one round, after which no leader waits for the other.
        let mut fresh = self.two;
        loop {
            // All learn of a failure, so that none of them waits.
            let offer = if self.offers() { Some(contexts.offer_one(fresh)) } else { None };
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
            fresh = true;
        }
    }
}

impl Bridge {
    /// Sends words to the other leader, and returns that leader's words.
    ///
    /// # Errors
    /// The other leader has a fault instead, or is gone.
    pub(crate) fn exchange(&self, words: &[u64]) -> Result<Vec<u64>, Fault> {
        let send = |words| self.circle.session.isend(self.remote, self.tag, bytes(words));
        let sent = [send(&[words.len() as u64])?, send(words)?];
        let theirs = self.receive()?;
        for request in sent {
            request.wait()?;
        }
        Ok(theirs)
    }

    /// Sends a fault in place of the words, and has those of the other leader received, without waiting for it. Returns the fault.
    pub(crate) fn decline(&self, fault: Fault) -> Fault {
        let (session, remote, tag) = (self.circle.session.clone(), self.remote, self.tag);
        // It may be gone, too.
        let _ =
            session.send_and_leave(remote, tag, bytes(&[FAILED | u64::from(fault.class as u32)]));
        if let Ok(receive) = session.irecv(remote, tag, vec![0; 8]) {
            receive.on_done(move |received| {
                let declines =
                    |len: Vec<u8>| words(&len).first().is_some_and(|len| len & FAILED != 0);
                if received.is_ok_and(|(len, _)| !declines(len))
                    && let Ok(rest) = session.irecv(remote, tag, Vec::new())
                {
                    rest.on_done(drop);
                }
            });
        }
        fault
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
        Ok(words(&theirs))
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word).collect()
}
