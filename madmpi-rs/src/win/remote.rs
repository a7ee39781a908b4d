//! Accesses by messages: the origin's side.
//!
//! | access | messages |
//! |---|---|
//! | short put, or one that goes to many places | requests with the data |
//! | long put | a request, and the data |
//! | get, and accumulations that fetch | requests, and a reply to each |
//! | accumulation | requests with the data, in the order of the elements |
//!
//! An access with messages of its own is an [`Access`]. Callbacks count its messages, and the last one unpacks. So an access
//! ends without a call of the program's, and both the program's request and a flush can wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use marcel::plumbing::KernelMutex;
use newmad::SendOptions;
use newmad::raw::{Awaited, Memory};
use pioman::Completion;

use super::layout::{self, Piece, Run};
use super::memory::{Allocated, Exposed};
use super::service::Service;
use super::update::Update;
use super::wire::{self, DATA, Kind, RELEASE, REPLY, REQUEST, Request};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Data, Elements};
use crate::error::Fault;
use crate::request::{Operation, Outcome};

/// Puts up to this length are in the request.
const SHORT: usize = 4096;
/// After so many requests without a reply the origin waits for the target.
const MOST: usize = 1024;

/// See the module.
pub(super) struct Remote {
    /// The window's own.
    comm: Arc<Comm>,
    pub(super) service: Arc<Service>,
    numbers: AtomicU32,
    members: Box<[Outgoing]>,
}

/// A member, and what this process has asked it for.
struct Outgoing {
    /// Its rank in newmad's session.
    process: u32,
    /// Accesses under way, or over.
    accesses: KernelMutex<Vec<Arc<Access>>>,
    /// Requests without a reply since the last flush.
    unanswered: AtomicUsize,
    /// Held by a flush until the target has answered, so that a second one waits for what the first one waits for.
    flushing: marcel::sync::Mutex<()>,
}

impl Outgoing {
    fn new(process: u32) -> Outgoing {
        Outgoing {
            process,
            accesses: KernelMutex::default(),
            unanswered: AtomicUsize::new(0),
            flushing: marcel::sync::Mutex::new(()),
        }
    }
}

/// The access that a call has started and not finished. `None`: it is over.
pub(crate) type Pending = Option<Arc<Access>>;

/// Data that come back, and their place.
enum Into {
    /// Data of a message, in place or through its copy.
    Data(Data),
    /// Packed elements, in several messages.
    Room(Box<[u8]>, Elements),
}

/// An access under way.
pub(crate) struct Access {
    session: newmad::Session,
    state: KernelMutex<State>,
    /// For the program's request.
    done: Completion,
    /// For a flush.
    flushed: Completion,
}

struct State {
    left: usize,
    fault: Option<Fault>,
    into: Into,
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

impl Access {
    fn new(session: &newmad::Session, messages: usize, into: Into) -> Arc<Access> {
        Arc::new(Access {
            session: session.clone(),
            state: KernelMutex::new(State { left: messages, fault: None, into }),
            done: Completion::new(),
            flushed: Completion::new(),
        })
    }

    /// The room of what comes in several messages; the memory of one.
    fn memory(&self) -> Memory {
        match &mut self.state.lock().into {
            Into::Data(data) => data.memory(),
            Into::Room(room, _) => Memory::Whole(room.as_mut_ptr(), room.len()),
        }
    }

    /// A message is over: of `expected` bytes, if it is a reply.
    fn over(&self, result: Result<usize, newmad::Error>, expected: Option<usize>) {
        let fault = match result {
            Ok(len) if expected.is_none_or(|expected| len == expected) => None,
            Ok(_) => Some(Fault::new(
                MPI_ERR_RMA_RANGE,
                "the target has no such memory in the window, or does not attach it any more",
            )),
            Err(error) => Some(error.into()),
        };
        let last = {
            let mut state = self.state.lock();
            state.left -= 1;
            if state.fault.is_none() {
                state.fault = fault;
            }
            let last = state.left == 0;
            if last && state.fault.is_none() {
                match &state.into {
                    // SAFETY: the program leaves the elements to the access; all has come.
                    Into::Data(data) => unsafe { data.unpack(data.len()) },
                    Into::Room(room, elements) => elements.unpack_from(room),
                }
            }
            last
        };
        if last {
            self.done.complete();
            self.flushed.complete();
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.state.lock().fault.clone()
    }
}

impl Operation for Access {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        self.fault().map_or(Outcome::EMPTY, Outcome::failed)
    }
}

impl Remote {
    /// Begins to serve.
    pub(super) fn new(comm: &Arc<Comm>, exposed: Exposed, memory: Option<Allocated>) -> Remote {
        let members = comm.group.members().iter().map(|&process| Outgoing::new(process)).collect();
        let service = Service::start(comm, exposed, memory);
        Remote { comm: comm.clone(), service, numbers: AtomicU32::new(0), members }
    }

    /// A number for the messages that belong to a request.
    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed) % DATA
    }

    fn send(&self, rank: usize, tag: u64, bytes: Vec<u8>) -> Result<(), Fault> {
        Ok(self.comm.session.send_and_leave(self.members[rank].process, tag, bytes)?)
    }

    /// Sends a request; waits for the target first, if that is far behind.
    fn ask(&self, rank: usize, request: &Request<'_>) -> Result<(), Fault> {
        let unanswered = &self.members[rank].unanswered;
        if unanswered.load(Ordering::Relaxed) >= MOST {
            self.flush(&[rank])?;
        }
        self.send(rank, self.comm.internal_tag(REQUEST), request.encode())?;
        // Only now: the flush of another thread that counts it is behind it on its way.
        unanswered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Remembers an access for the next flush; returns it for the program's request.
    fn keep(&self, rank: usize, access: Arc<Access>, request: bool) -> Pending {
        let mut accesses = self.members[rank].accesses.lock();
        if accesses.len() > MOST {
            accesses.retain(|access| !access.flushed.is_done() || access.fault().is_some());
        }
        accesses.push(access.clone());
        request.then_some(access)
    }

    /// Copies packed elements to runs of the target.
    pub(super) fn put(
        &self,
        rank: usize,
        runs: Vec<Run>,
        from: Elements,
        request: bool,
    ) -> Result<Pending, Fault> {
        let len = from.len();
        if len <= SHORT || runs.len() > wire::RUNS {
            let bytes = from.packed()?;
            for piece in layout::pieces(runs, wire::BYTES, wire::RUNS, 1) {
                let data = &bytes[piece.begin..][..piece.len];
                self.ask(rank, &Request::of(Kind::Put, 0, piece, data))?;
            }
            return Ok(None);
        }
        let (number, data) = (self.number(), from.outgoing()?);
        let access = Access::new(&self.comm.session, 1, Into::Data(data));
        // SAFETY: the program leaves the elements to the access, which keeps the list of pieces or the copy.
        let memory = unsafe { access.memory().trusted() };
        let piece = Piece { runs, begin: 0, len };
        self.ask(rank, &Request::of(Kind::PutLong, number, piece, &[]))?;
        let (tag, process) = (self.comm.internal_tag(DATA | number), self.members[rank].process);
        let sent = self.comm.session.isend_with(process, tag, memory, SendOptions::new())?;
        let pending = self.keep(rank, access.clone(), request);
        sent.on_done(move |sent| access.sent(sent.map(drop)));
        Ok(pending)
    }

    /// Copies the bytes of runs of the target to elements here.
    pub(super) fn get(
        &self,
        rank: usize,
        runs: Vec<Run>,
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
        pieces: Vec<Piece>,
        into: Elements,
        request: bool,
        ask: impl Fn(u32, Piece) -> Request<'a>,
    ) -> Result<Pending, Fault> {
        if pieces.is_empty() {
            return Ok(None);
        }
        let count = pieces.len();
        let into = match count {
            1 => Into::Data(into.data()?),
            _ => Into::Room(vec![0; into.len()].into(), into),
        };
        let access = Access::new(&self.comm.session, count, into);
        let memory = access.memory();
        let process = self.members[rank].process;
        for piece in pieces {
            let (number, len) = (self.number(), piece.len);
            let memory = match memory {
                Memory::Whole(at, _) if count > 1 => {
                    Memory::Whole(at.wrapping_add(piece.begin), len)
                }
                whole => whole,
            };
            // SAFETY: the program leaves the elements to the access, which keeps the list of pieces, or the room.
            let memory = unsafe { memory.trusted() };
            let tag = self.comm.internal_tag(REPLY | number);
            let options = newmad::RecvOptions::new();
            let receive = self.comm.session.irecv_with(process, tag, memory, options)?;
            let over = access.clone();
            receive.on_done(move |came| over.over(came.map(|(_, status)| status.len), Some(len)));
            self.ask(rank, &ask(number, piece))?;
        }
        Ok(self.keep(rank, access, request))
    }

    /// Updates runs of the target.
    pub(super) fn update(
        &self,
        rank: usize,
        runs: Vec<Run>,
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
                    self.ask(rank, &ask(0, piece))?;
                }
                Ok(None)
            }
        }
    }

    /// Waits until accesses to members are over at this process.
    ///
    /// # Errors
    /// One has failed.
    pub(super) fn flush_local(&self, ranks: &[usize]) -> Result<(), Fault> {
        let _alone = self.alone(ranks);
        self.await_accesses(ranks)
    }

    /// Keeps flushes of other threads out. Ranks are in ascending order, so threads do not wait for each other.
    fn alone(&self, ranks: &[usize]) -> Vec<marcel::sync::MutexGuard<'_, ()>> {
        ranks.iter().map(|&rank| self.members[rank].flushing.lock()).collect()
    }

    fn await_accesses(&self, ranks: &[usize]) -> Result<(), Fault> {
        let mut fault = None;
        for &rank in ranks {
            for access in std::mem::take(&mut *self.members[rank].accesses.lock()) {
                while let Some(awaited) = access.session.awaited(&access.flushed).pending() {
                    awaited.wait();
                }
                fault = fault.or(access.fault());
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Waits until accesses to members are over everywhere.
    ///
    /// # Errors
    /// One has failed; a member has died.
    pub(super) fn flush(&self, ranks: &[usize]) -> Result<(), Fault> {
        let session = &self.comm.session;
        let _alone = self.alone(ranks);
        let mut result = self.await_accesses(ranks);
        let mut replies = Vec::new();
        for &rank in ranks {
            if self.members[rank].unanswered.swap(0, Ordering::Relaxed) == 0 {
                continue;
            }
            let (number, process) = (self.number(), self.members[rank].process);
            replies.push(session.irecv(
                process,
                self.comm.internal_tag(REPLY | number),
                vec![0; 8],
            )?);
            let bytes = Request::bare(Kind::Flush, number).encode();
            // Waited for, so that no strategy holds it for what may follow.
            let sent = session.send(process, self.comm.internal_tag(REQUEST), &bytes);
            // The others are flushed all the same; the receive from a member that has died ends, too.
            result = result.and(sent.map_err(Fault::from));
        }
        for reply in replies {
            result = result.and(status_of(reply));
        }
        result
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
            let status = status_of(reply);
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
        let (number, process) = (self.number(), self.members[rank].process);
        let tag = self.comm.internal_tag(REPLY | number);
        let reply = self.comm.session.irecv(process, tag, vec![0; 8])?;
        let bare = Request::bare(Kind::Lock, number);
        let request = Request { operator: exclusive.into(), ..bare };
        self.send(rank, self.comm.internal_tag(REQUEST), request.encode())?;
        Ok(reply)
    }

    /// Gives the lock of a member back.
    ///
    /// # Errors
    /// It has died.
    pub(super) fn unlock(&self, rank: usize) -> Result<(), Fault> {
        self.send(rank, self.comm.internal_tag(RELEASE), Vec::new())
    }
}

impl Access {
    fn sent(&self, result: Result<(), newmad::Error>) {
        self.over(result.map(|()| 0), None);
    }
}

/// The target's answer to a flush, or to a request for the lock.
fn status_of(reply: newmad::Request) -> Result<(), Fault> {
    let (bytes, _) = reply.wait()?;
    match bytes.try_into().map_or(0, u64::from_ne_bytes) as i32 {
        MPI_SUCCESS => Ok(()),
        MPI_ERR_PROC_ABORTED => {
            Err(Fault::new(MPI_ERR_PROC_ABORTED, "a process that held the lock has died"))
        }
        MPI_ERR_RMA_RANGE => {
            let text =
                "an access named memory of the target that is not in the window, or not attached";
            Err(Fault::new(MPI_ERR_RMA_RANGE, text))
        }
        class => Err(Fault::new(class, "the target could not do what it was asked for")),
    }
}
