//! Accesses by messages: the origin's side.
//!
//! | access | messages |
//! |---|---|
//! | short put, or one that goes to many places | requests with the data |
//! | long put | a request, and the data |
//! | get, and accumulations that fetch | requests, whose answers are the data; a long one has a message of its own |
//! | accumulation | requests with the data, in the order of the elements |
//!
//! When requests go, and how answers come, is [`outgoing`](super::outgoing)'s. An access that is not over with its call is an
//! [`Access`].

use core::ffi::c_int;
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use newmad::SendOptions;
use newmad::raw::Memory;
use smallvec::SmallVec;

use super::layout::{self, Piece, Pieces, Runs, packed};
use super::memory::{Allocated, Exposed};
use super::outgoing::{Answer, Outgoing, Told};
use super::pending::{Access, Into, Pending, await_all, outcome};
use super::service::Service;
use super::update::Update;
use super::wire::{self, CLASS, DATA, Kind, RELEASE, REPLY, Request, SHORT};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Elements;
use crate::error::Fault;

/// So many accesses that are over are remembered for the next flush.
const MOST: usize = 1024;

/// See the module.
pub(super) struct Remote {
    /// The window's own.
    comm: Arc<Comm>,
    pub(super) service: Arc<Service>,
    members: Box<[Member]>,
}

/// A member, and what this process has asked it for.
struct Member {
    requests: Outgoing,
    /// Accesses under way, or over.
    accesses: KernelMutex<Vec<Arc<Access>>>,
    /// Held by a flush until the target has answered, so that a second one waits for what the first one waits for.
    flushing: marcel::sync::Mutex<()>,
}

impl Member {
    fn process(&self) -> u32 {
        self.requests.process
    }
}

/// An accumulation.
pub(super) struct Fetch<'a> {
    pub(super) update: Update<'a>,
    pub(super) operator: MPI_Op,
    pub(super) kind: u8,
    /// Of an element.
    pub(super) size: usize,
    pub(super) result: Option<Elements>,
}

impl Remote {
    /// Begins to serve.
    pub(super) fn new(comm: &Arc<Comm>, exposed: Exposed, memory: Option<Allocated>) -> Remote {
        let member = |&process: &u32| Member {
            requests: Outgoing::new(comm, process),
            accesses: KernelMutex::default(),
            flushing: marcel::sync::Mutex::new(()),
        };
        let members = comm.group.members().iter().map(member).collect();
        let service = Service::start(comm, exposed, memory);
        Remote { comm: comm.clone(), service, members }
    }

    /// Asks a member, `now` or with what is asked for later; waits for it first, if it is far behind.
    fn ask(
        &self,
        rank: usize,
        request: &Request<'_>,
        now: bool,
        answer: Option<Answer>,
    ) -> Result<(), Fault> {
        let requests = &self.members[rank].requests;
        while requests.is_far_ahead() {
            self.flush(&[rank])?;
        }
        requests.ask(request, now, answer)
    }

    /// Adds a request without an answer to what waits to go to a member; false if there is no room, or the member is far behind.
    #[inline]
    pub(super) fn add(&self, rank: usize, request: &Request<'_>) -> bool {
        self.members[rank].requests.add(request)
    }

    /// Remembers an access for the next flush; returns it for the program's request.
    fn keep(&self, rank: usize, access: Arc<Access>, request: bool) -> Pending {
        let mut accesses = self.members[rank].accesses.lock();
        if accesses.len() > MOST {
            accesses.retain(|access| !access.is_flushed() || access.fault().is_some());
        }
        accesses.push(access.clone());
        request.then_some(access)
    }

    /// Copies packed elements to runs of the target.
    pub(super) fn put(
        &self,
        rank: usize,
        runs: Runs,
        from: Elements,
        request: bool,
    ) -> Result<Pending, Fault> {
        let len = from.len();
        if len <= SHORT || runs.len() > wire::RUNS {
            let bytes = packed(&from)?;
            for piece in layout::pieces(runs, wire::BYTES, wire::RUNS, 1) {
                let data = &bytes[piece.begin..][..piece.len];
                self.ask(rank, &Request::of(Kind::Put, 0, piece, data), false, None)?;
            }
            return Ok(None);
        }
        let (number, data) = (self.members[rank].requests.number(), from.outgoing()?);
        let access = Access::new(&self.comm.session, 1, Into::Data(data));
        // SAFETY: the program leaves the elements to the access, which keeps the list of pieces or the copy.
        let memory = unsafe { access.memory().trusted() };
        let piece = Piece { runs, begin: 0, len };
        self.ask(rank, &Request::of(Kind::PutLong, number, piece, &[]), true, None)?;
        let (tag, process) = (self.comm.internal_tag(DATA | number), self.members[rank].process());
        let sent = self.comm.session.isend_with(process, tag, memory, SendOptions::new())?;
        let pending = self.keep(rank, access.clone(), request);
        sent.on_done(move |sent| access.over(sent.map(drop).map_err(Fault::from)));
        Ok(pending)
    }

    /// Copies the bytes of runs of the target to elements here.
    pub(super) fn get(
        &self,
        rank: usize,
        runs: Runs,
        into: Elements,
        request: bool,
    ) -> Result<Pending, Fault> {
        let pieces = layout::pieces(runs, usize::MAX, wire::RUNS, 1);
        let ask = |number, piece| Request::of(Kind::Get, number, piece, &[]);
        self.fetch(rank, pieces, into, request, ask)
    }

    /// Sends a request for each piece, whose replies are the elements of `into`.
    fn fetch<'a>(
        &self,
        rank: usize,
        pieces: Pieces,
        into: Elements,
        request: bool,
        ask: impl Fn(u32, Piece) -> Request<'a>,
    ) -> Result<Pending, Fault> {
        if pieces.is_empty() {
            return Ok(None);
        }
        let requests = &self.members[rank].requests;
        let count = pieces.len();
        let len = pieces.iter().map(|piece| piece.len).sum();
        let into = match &pieces[..] {
            [_] if len > SHORT && len == into.len() => Into::Data(into.data()?),
            _ => Into::Room(vec![0; len].into(), into),
        };
        let access = Access::new(&self.comm.session, count, into);
        let memory = access.memory();
        for piece in pieces {
            let (begin, len) = (piece.begin, piece.len);
            if len <= SHORT {
                let answer = Answer { access: access.clone(), begin, len };
                self.ask(rank, &ask(0, piece), request, Some(answer))?;
                continue;
            }
            let memory = match memory {
                Memory::Whole(at, _) if count > 1 => Memory::Whole(at.wrapping_add(begin), len),
                whole => whole,
            };
            // SAFETY: the program leaves the elements to the access, which keeps the list of pieces, or the room.
            let memory = unsafe { memory.trusted() };
            let number = requests.number();
            let (process, tag) = (requests.process, self.comm.internal_tag(REPLY | number));
            let options = newmad::RecvOptions::new();
            let receive = self.comm.session.irecv_with(process, tag, memory, options)?;
            let over = access.clone();
            receive.on_done(move |came| {
                over.over(match came {
                    Ok((_, status)) if status.len == len => Ok(()),
                    Ok(_) => outcome(MPI_ERR_RMA_RANGE),
                    Err(error) => Err(error.into()),
                });
            });
            self.ask(rank, &ask(number, piece), request, None)?;
        }
        Ok(self.keep(rank, access, request))
    }

    /// Updates runs of the target.
    pub(super) fn update(
        &self,
        rank: usize,
        runs: Runs,
        fetch: Fetch<'_>,
        request: bool,
    ) -> Result<Pending, Fault> {
        let Fetch { update, operator, kind: row, size, result } = fetch;
        let pieces = layout::pieces(runs, wire::BYTES / 2, wire::RUNS, size);
        let operator = operator.0 as u32;
        let mut swapped = Vec::new();
        let (kind, data) = match update {
            Update::Combine(_, operand) if result.is_some() => (Kind::Fetch, operand),
            Update::Combine(_, operand) => (Kind::Accumulate, operand),
            // One element, so one piece.
            Update::Swap { compare, operand } => {
                swapped.extend([compare, operand].concat());
                (Kind::Swap, &swapped[..])
            }
        };
        let ask = |number, piece: Piece| {
            let data = if kind == Kind::Swap { data } else { &data[piece.begin..][..piece.len] };
            Request { row, operator, ..Request::of(kind, number, piece, data) }
        };
        match result {
            Some(result) => self.fetch(rank, pieces, result, request, ask),
            None => {
                for piece in pieces {
                    self.ask(rank, &ask(0, piece), false, None)?;
                }
                Ok(None)
            }
        }
    }

    /// Waits until accesses to members are over at this process. What waits here goes.
    ///
    /// # Errors
    /// One has failed; a member has died.
    pub(super) fn flush_local(&self, ranks: &[usize]) -> Result<(), Fault> {
        let _alone = self.alone(ranks);
        let accesses = self.accesses(ranks);
        let send = |&rank: &usize| self.members[rank].requests.send();
        // Others are looked after all the same.
        let sent = ranks.iter().map(send).fold(Ok(()), Result::and);
        sent.and(await_all(accesses))
    }

    /// Keeps flushes of other threads out. Ranks are in ascending order, so threads do not wait for each other.
    fn alone(&self, ranks: &[usize]) -> Vec<marcel::sync::MutexGuard<'_, ()>> {
        ranks.iter().map(|&rank| self.members[rank].flushing.lock()).collect()
    }

    /// What a flush waits for. Taken before it sends what waits: an access of another thread's that comes later may wait for that
    /// thread's flush, which waits for this one.
    fn accesses(&self, ranks: &[usize]) -> Vec<Arc<Access>> {
        let take = |&rank: &usize| std::mem::take(&mut *self.members[rank].accesses.lock());
        ranks.iter().flat_map(take).collect()
    }

    /// Waits until accesses to members are over everywhere.
    ///
    /// # Errors
    /// One has failed; a member has died.
    pub(super) fn flush(&self, ranks: &[usize]) -> Result<(), Fault> {
        let _alone = self.alone(ranks);
        let mut accesses = self.accesses(ranks);
        let (mut answers, mut result) = (SmallVec::<[_; 1]>::new(), Ok(()));
        for &rank in ranks {
            // The others are flushed all the same.
            match self.members[rank].requests.flush() {
                Ok(Told::Anyhow) => {}
                Ok(Told::Answer(number)) => answers.push((rank, number)),
                Ok(Told::Access(access)) => accesses.push(access),
                Err(fault) => result = result.and(Err(fault)),
            }
        }
        for (rank, number) in answers {
            result = result.and(self.answer(rank, number));
        }
        result = result.and(await_all(accesses));
        if result.is_err() {
            ranks.iter().for_each(|&rank| self.members[rank].requests.ask_again());
        }
        result
    }

    /// Waits for the answer of a member to a flush.
    ///
    /// # Errors
    /// What it says; the member has died.
    fn answer(&self, rank: usize, number: u32) -> Result<(), Fault> {
        let (process, tag) = (self.members[rank].process(), self.comm.internal_tag(REPLY | number));
        let mut class = [0; CLASS];
        self.comm.session.recv(process, tag, &mut class)?;
        outcome(c_int::from_ne_bytes(class))
    }

    /// Waits for the locks of members.
    ///
    /// # Errors
    /// A member has died. No lock is held.
    pub(super) fn lock(&self, ranks: &[usize], exclusive: bool) -> Result<(), Fault> {
        let mut asked = Vec::with_capacity(ranks.len());
        let mut result = Ok(());
        for &rank in ranks {
            match self.ask_for_lock(rank, exclusive) {
                Ok(reply) => asked.push((rank, reply)),
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        let mut granted = Vec::with_capacity(asked.len());
        for (rank, reply) in asked {
            let status = granted_by(reply);
            if status.is_ok() {
                granted.push(rank);
            }
            result = result.and(status);
        }
        if result.is_err() {
            // To members that are gone it does not matter.
            granted.into_iter().for_each(|rank| drop(self.unlock(rank)));
        }
        result
    }

    /// Returns the receive of the answer.
    fn ask_for_lock(&self, rank: usize, exclusive: bool) -> Result<newmad::Request, Fault> {
        let requests = &self.members[rank].requests;
        let (number, process) = (requests.number(), requests.process);
        let tag = self.comm.internal_tag(REPLY | number);
        let reply = self.comm.session.irecv(process, tag, vec![0; CLASS])?;
        let bare = Request::bare(Kind::Lock, number);
        self.ask(rank, &Request { operator: exclusive.into(), ..bare }, true, None)?;
        Ok(reply)
    }

    /// Gives the lock of a member back.
    ///
    /// # Errors
    /// It has died.
    pub(super) fn unlock(&self, rank: usize) -> Result<(), Fault> {
        let (session, tag) = (&self.comm.session, self.comm.internal_tag(RELEASE));
        Ok(session.send_and_leave(self.members[rank].process(), tag, Vec::new())?)
    }
}

/// The target's answer to a request for the lock.
fn granted_by(reply: newmad::Request) -> Result<(), Fault> {
    let (bytes, _) = reply.wait()?;
    outcome(bytes.try_into().map_or(MPI_ERR_INTERN, c_int::from_ne_bytes))
}
