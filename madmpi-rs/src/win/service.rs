//! The target's side of a window that is reached by messages: serves the others' requests, also while the program computes.
//!
//! One receive from any member is posted at a time. Its callback runs where newmad finds the message: in a call of the
//! program's, or on the kernel thread of the library that sleeps until something comes. It does what is asked, and posts
//! the receive again. So requests are done one after the other, those of one origin in their order, and no core is used
//! while none comes. A message may hold several.
//!
//! Data of long puts come in messages of their own, into the window's memory. A flush is answered when the origin's are
//! all there.
//!
//! The lock: a request waits in a queue; the reply says that the origin holds it. A receive from the holder awaits that
//! it is given back, and so notices if the holder dies: then all that wait, and all that come, are told. One that dies while
//! it waits for the lock is passed over.

use core::ffi::c_int;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use marcel::plumbing::KernelMutex;
use newmad::raw::{Memory, Trusted};
use newmad::{SendOptions, Status};

use super::layout::{self, Run};
use super::lock_queue::{LockQueue, Waiter};
use super::memory::{Allocated, Exposed};
use super::segment::Locks;
use super::update::{Place, Update};
use super::wire::{self, CLASS, DATA, Kind, LONGEST, RELEASE, REPLY, REQUEST, Request, SHORT};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::rows::ROWS;
use crate::error::Fault;
use crate::op::{self, Accumulator};
use crate::under_way::UnderWay;

type Received = Result<(Vec<u8>, Status), newmad::Error>;

/// See the module.
pub(super) struct Service {
    comm: Arc<Comm>,
    pub(super) exposed: Exposed,
    /// Of this process's memory; only the updates' is used.
    pub(super) locks: Locks,
    /// Receives that are over and wait for the thread that serves.
    inbox: KernelMutex<VecDeque<Received>>,
    /// How often a receive was over since the thread that serves has begun; 0: no thread serves.
    serving: AtomicU32,
    /// Whether requests still reach the memory. Held while one is done.
    open: KernelMutex<bool>,
    origins: KernelMutex<HashMap<u32, Origin>>,
    /// Messages from and to the window's memory.
    under_way: UnderWay,
    queue: KernelMutex<LockQueue>,
    /// Members that have died with a request half-way.
    gone: KernelMutex<HashSet<u32>>,
    /// The window's memory, if the library has allocated it: messages that are under way keep it.
    _memory: Option<Allocated>,
}

/// The answers that are owed to an origin.
#[derive(Default)]
struct Origin {
    /// Messages of data that have not come.
    coming: usize,
    /// Flushes that wait for them: the number of the answers, and those before the flush's own.
    flushes: Vec<(u32, Vec<u8>)>,
    /// The class of the first error since the last flush.
    class: c_int,
}

/// Memory for newmad, with the list of its pieces if it has one.
struct Target {
    memory: Trusted,
    _list: Box<[libc::iovec]>,
}

// SAFETY: addresses, which hold in every thread.
unsafe impl Send for Target {}

impl Target {
    /// # Safety
    /// The runs are memory of the window, which stays there while messages use it.
    unsafe fn new(runs: &[Run], len: usize) -> Target {
        let piece = |(at, len)| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(at),
            iov_len: len,
        };
        let list: Box<[libc::iovec]> = match runs {
            [Run { count: 1, .. }] => Box::default(),
            _ => runs.iter().flat_map(|run| run.each()).map(piece).collect(),
        };
        let memory = match runs {
            [Run { at, count: 1, .. }] => {
                Memory::Whole(std::ptr::with_exposed_provenance_mut(*at), len)
            }
            _ => Memory::Pieces { list: list.as_ptr(), count: list.len(), len },
        };
        // SAFETY: the caller's promise; the list goes with the message.
        Target { memory: unsafe { memory.trusted() }, _list: list }
    }
}

impl Service {
    /// Begins to serve.
    pub(super) fn start(
        comm: &Arc<Comm>,
        exposed: Exposed,
        memory: Option<Allocated>,
    ) -> Arc<Service> {
        let service = Arc::new(Service {
            comm: comm.clone(),
            exposed,
            locks: Locks::default(),
            inbox: KernelMutex::default(),
            serving: AtomicU32::new(0),
            open: KernelMutex::new(true),
            origins: KernelMutex::default(),
            under_way: UnderWay::new(),
            queue: KernelMutex::default(),
            gone: KernelMutex::default(),
            _memory: memory,
        });
        service.post(vec![0; LONGEST]);
        service
    }

    /// Ends the service, after all requests that have come. No member sends others.
    pub(super) fn stop(&self) {
        let bytes = Request::bare(Kind::Stop, 0).alone();
        self.send(self.comm.session.rank(), self.comm.internal_tag(REQUEST), bytes);
    }

    /// Has requests not reach the memory any more, and waits for the messages that do: members may still send some, since they
    /// could not all be waited for, and are answered until the session ends.
    ///
    /// # Blocking
    /// The calling thread, until the messages have arrived or their other sides have died.
    pub(super) fn close(&self) {
        *self.open.lock() = false;
        self.under_way.close(&self.comm.session);
    }

    /// Receives the next request.
    fn post(self: &Arc<Service>, room: Vec<u8>) {
        let (tag, service) = (self.comm.internal_tag(REQUEST), self.clone());
        match self.comm.session.irecv(newmad::ANY, tag, room) {
            Ok(receive) => receive.on_done(move |received| service.arrived(received)),
            Err(error) => self.arrived(Err(error)),
        }
    }

    /// A receive is over. Nested calls, and calls of other threads, leave what they have to the thread that serves.
    fn arrived(self: &Arc<Service>, received: Received) {
        self.inbox.lock().push_back(received);
        if self.serving.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            while let Some(received) = self.next() {
                self.serve(received);
            }
            // Others may have come since; each of them has counted itself after it left its message.
            let counted = self.serving.fetch_sub(seen, Ordering::AcqRel);
            if counted == seen {
                return;
            }
            seen = counted - seen;
        }
    }

    fn next(&self) -> Option<Received> {
        self.inbox.lock().pop_front()
    }

    fn serve(self: &Arc<Service>, received: Received) {
        let (room, status) = match received {
            Ok(received) => received,
            // Its message was not all there, which happens once for each member: the others are served on. (A process that has
            // fallen out of the job hears of one rank again and again.)
            Err(newmad::Error::PeerDied { rank, .. }) if self.gone.lock().insert(rank) => {
                return self.post(vec![0; LONGEST]);
            }
            // The session is closed.
            Err(_) => return,
        };
        let from = status.source;
        let message = wire::split(&room[..status.len.min(room.len())]);
        if message.is_none() {
            self.failed(from, MPI_ERR_INTERN);
        }
        let (number, mut rest) = message.unwrap_or((0, &[]));
        let mut answers = Vec::new();
        while !rest.is_empty() {
            let Some((request, next)) = Request::decode(rest) else {
                self.failed(from, MPI_ERR_INTERN);
                break;
            };
            rest = next;
            if request.kind == Kind::Stop {
                return;
            }
            if request.kind == Kind::Flush {
                self.flush(from, number, &mut answers);
                continue;
            }
            let (short, before) = (request.has_short_answer(), answers.len());
            if short {
                answers.resize(before + CLASS + request.len, 0);
            }
            let done = {
                let open = self.open.lock();
                let room = if short { &mut answers[before + CLASS..] } else { &mut [] };
                self.answer(from, &request, room, *open)
            };
            match done {
                Err(fault) if short => {
                    answers[before..][..CLASS].copy_from_slice(&fault.class.to_ne_bytes());
                }
                // Shorter than what is expected, which tells the origin.
                Err(_) if request.kind.has_reply() => self.reply(from, request.number, Vec::new()),
                Err(fault) => self.failed(from, fault.class),
                Ok(()) => {}
            }
        }
        if !answers.is_empty() {
            self.reply(from, number, answers);
        }
        self.post(room);
    }

    /// Does what a request asks for. A short answer goes to `short`.
    ///
    /// # Errors
    /// The request names memory that is not the window's, or makes no sense.
    fn answer(
        self: &Arc<Service>,
        from: u32,
        request: &Request<'_>,
        short: &mut [u8],
        open: bool,
    ) -> Result<(), Fault> {
        let Request { number, len, runs, data, .. } = request;
        if !open && !runs.is_empty() || !self.exposed.has(runs) {
            self.discard(from, request);
            return Err(Fault::new(MPI_ERR_RMA_RANGE, "memory that is not the window's"));
        }
        match request.kind {
            // SAFETY: memory of the window; `decode` has compared the lengths.
            Kind::Put => unsafe { layout::scatter(runs, data.as_ptr()) },
            Kind::PutLong => self.receive(from, *number, runs, *len),
            // SAFETY: as above; the room has that length.
            Kind::Get if *len <= SHORT => unsafe { layout::gather(runs, short.as_mut_ptr()) },
            Kind::Get if runs.len() > 1 => {
                let mut copy = vec![0; *len];
                // SAFETY: as above.
                unsafe { layout::gather(runs, copy.as_mut_ptr()) };
                self.reply(from, *number, copy);
            }
            Kind::Get => {
                // SAFETY: memory of the window, which is not freed before all members are done.
                let target = unsafe { Target::new(runs, *len) };
                let tag = self.comm.internal_tag(REPLY | *number);
                let sent =
                    self.comm.session.isend_with(from, tag, target.memory, SendOptions::new());
                if let Ok(sent) = sent {
                    self.under_way.begins();
                    let service = self.clone();
                    sent.on_done(move |_| {
                        drop(target);
                        service.under_way.ends();
                    });
                }
            }
            Kind::Accumulate | Kind::Fetch | Kind::Swap => self.update(from, request, short)?,
            Kind::Lock => {
                let exclusive = request.operator != 0;
                self.queue.lock().push(Waiter { process: from, number: *number, exclusive });
                self.grant();
            }
            Kind::Flush | Kind::Stop => {}
        }
        Ok(())
    }

    fn update(&self, from: u32, request: &Request<'_>, short: &mut [u8]) -> Result<(), Fault> {
        let Request { row, operator, number, len, runs, data, .. } = request;
        let row = ROWS.get(usize::from(*row));
        let row = row.ok_or_else(|| Fault::new(MPI_ERR_INTERN, "no such basic type"))?;
        let update = match request.kind {
            Kind::Swap => Update::Swap { compare: &data[..*len], operand: &data[*len..] },
            _ => {
                let op = op::get(MPI_Op(*operator as usize))?;
                Update::Combine(Accumulator::new(&op, row)?, data)
            }
        };
        let fetches = request.kind != Kind::Accumulate;
        let replies = fetches && !request.has_short_answer();
        let mut fetched = vec![0; if replies { *len } else { 0 }];
        {
            let _held = self.locks.update.lock(&|| Ok::<_, Fault>(()))?;
            let room = if replies { &mut fetched[..] } else { short };
            // SAFETY: memory of the window, as `answer` has checked; `decode` has compared the lengths.
            unsafe { update.apply(Place::Runs(runs), fetches.then_some(room), row.size)? };
        }
        if replies {
            self.reply(from, *number, fetched);
        }
        Ok(())
    }

    fn send(&self, to: u32, tag: u64, bytes: Vec<u8>) {
        // A member that is gone gets no answer, and needs none.
        let _ = self.comm.session.send_and_leave(to, tag, bytes);
    }

    fn reply(&self, to: u32, number: u32, bytes: Vec<u8>) {
        self.send(to, self.comm.internal_tag(REPLY | number), bytes);
    }

    fn reply_status(&self, to: u32, number: u32, class: c_int) {
        self.reply(to, number, class.to_ne_bytes().to_vec());
    }

    fn failed(&self, from: u32, class: c_int) {
        let mut origins = self.origins.lock();
        let origin = origins.entry(from).or_default();
        if origin.class == MPI_SUCCESS {
            origin.class = class;
        }
    }

    /// Receives the data of a long put into the window.
    fn receive(self: &Arc<Service>, from: u32, number: u32, runs: &[Run], len: usize) {
        // SAFETY: memory of the window, which is not freed before all members are done.
        let target = unsafe { Target::new(runs, len) };
        let tag = self.comm.internal_tag(DATA | number);
        let receive =
            self.comm.session.irecv_with(from, tag, target.memory, newmad::RecvOptions::new());
        self.origins.lock().entry(from).or_default().coming += 1;
        let service = self.clone();
        match receive {
            Ok(receive) => {
                self.under_way.begins();
                receive.on_done(move |received| {
                    drop(target);
                    service.came(from, received.is_ok());
                    service.under_way.ends();
                });
            }
            Err(_) => service.came(from, false),
        }
    }

    /// Takes data that go nowhere.
    fn discard(self: &Arc<Service>, from: u32, request: &Request<'_>) {
        if request.kind != Kind::PutLong {
            return;
        }
        let tag = self.comm.internal_tag(DATA | request.number);
        if let Ok(receive) = self.comm.session.irecv(from, tag, Vec::new()) {
            receive.on_done(drop);
        }
    }

    /// The data of a long put have come.
    fn came(&self, from: u32, whole: bool) {
        if !whole {
            self.failed(from, MPI_ERR_OTHER);
        }
        let (flushes, class) = {
            let mut origins = self.origins.lock();
            let origin = origins.entry(from).or_default();
            origin.coming -= 1;
            if origin.coming > 0 || origin.flushes.is_empty() {
                return;
            }
            (std::mem::take(&mut origin.flushes), std::mem::take(&mut origin.class))
        };
        for (number, mut answers) in flushes {
            answers.extend(class.to_ne_bytes());
            self.reply(from, number, answers);
        }
    }

    /// Adds what a flush is told to the answers; keeps them if long puts have not come.
    fn flush(&self, from: u32, number: u32, answers: &mut Vec<u8>) {
        let mut origins = self.origins.lock();
        let origin = origins.entry(from).or_default();
        if origin.coming > 0 {
            return origin.flushes.push((number, std::mem::take(answers)));
        }
        answers.extend(std::mem::take(&mut origin.class).to_ne_bytes());
    }

    fn has_failed(&self, process: u32) -> bool {
        self.comm.session.failed_ranks().iter().any(|&(failed, _)| failed == process)
    }

    /// Gives the lock to those whose turn it is.
    fn grant(self: &Arc<Service>) {
        loop {
            let next = self.queue.lock().next();
            let Some((Waiter { process, number, exclusive }, granted)) = next else { return };
            if granted && self.has_failed(process) {
                // It has died while it waited, and has done nothing to the memory.
                self.queue.lock().release(exclusive, false);
                continue;
            }
            if !granted {
                self.reply_status(process, number, MPI_ERR_PROC_ABORTED);
                continue;
            }
            let (tag, service) = (self.comm.internal_tag(RELEASE), self.clone());
            match self.comm.session.irecv(process, tag, Vec::new()) {
                Ok(receive) => receive.on_done(move |received| {
                    service.queue.lock().release(exclusive, received.is_err());
                    service.grant();
                }),
                Err(_) => self.queue.lock().release(exclusive, true),
            }
            self.reply_status(process, number, MPI_SUCCESS);
        }
    }
}
