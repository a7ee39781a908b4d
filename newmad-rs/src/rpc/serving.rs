//! The target's side: the lanes' threads receive calls, and each call runs.
//!
//! A lane's thread never waits for a peer but in its receive: what has to be received or sent for a single call is
//! waited for by that call's thread, or not at all (`detached`). It is reactive, as the threads of calls are unless the
//! service says otherwise: when every compute virtual processor computes, the kernel lets it preempt one.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client::{Context, Handler, Shared};
use super::depth;
use super::lanes::Priority;
use super::lanes::{LANES, Place, Receiving, depth_of, priority_of};
use super::registry::Entry;
use super::wire::{
    CALL, Content, Incoming, Status, answer_tag, arguments_tag, encode_answer, lane_tag, result_tag,
};
use crate::api::detached;
use crate::error::Error;
use crate::session::{ANY, Origin};

/// Starts a thread: a green one where the caller is one, otherwise a kernel thread.
fn start(
    name: &str,
    priority: Priority,
    compute: bool,
    stack_size: usize,
    f: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    if marcel::is_green() {
        let priority = match priority {
            Priority::Urgent => marcel::Priority::High,
            Priority::Normal => marcel::Priority::Normal,
            Priority::Background => marcel::Priority::Low,
        };
        let builder = marcel::Builder::new().reactive(!compute).priority(priority);
        // Names are for those that stay.
        let builder = if name.is_empty() { builder } else { builder.name(name) };
        builder.stack_size(stack_size).spawn_detached(f).map(drop)
    } else {
        let builder = std::thread::Builder::new();
        let builder = if name.is_empty() { builder } else { builder.name(name.to_owned()) };
        let builder = if stack_size > 0 { builder.stack_size(stack_size) } else { builder };
        builder.spawn(f).map(drop)
    }
}

/// Starts the lanes' threads; the number of those that were.
pub(super) fn start_lanes(
    shared: &Arc<Shared>,
    receiving: Receiving,
) -> (usize, std::io::Result<()>) {
    let receiving = Arc::new(receiving);
    for lane in 0..LANES {
        // Dropped with the closure if the thread cannot be started or never runs.
        let ending = Ending { shared: shared.clone(), _receiving: receiving.clone() };
        let name = format!("rpc lane {lane}");
        if let Err(error) =
            start(&name, priority_of(lane).max(Priority::Normal), false, 0, move || {
                receive(&ending.shared, lane);
            })
        {
            // Its `ending` has been told.
            return (lane + 1, Err(error));
        }
    }
    (LANES, Ok(()))
}

/// Tells that a lane's thread has ended, by unwinding too.
struct Ending {
    shared: Arc<Shared>,
    _receiving: Arc<Receiving>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.ended.release();
    }
}

/// What a lane's thread does.
fn receive(shared: &Arc<Shared>, lane: usize) {
    let mut buffer = vec![0; CALL];
    let mut gone = HashSet::new();
    loop {
        let place = Place::take(&shared.bounds, lane);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match shared.session.recv_unchecked(ANY, lane_tag(lane), &mut buffer) {
            Ok(status) => match Incoming::decode(&buffer[..status.len]) {
                Some(Incoming::Call(call)) => {
                    let job = Job {
                        shared: shared.clone(),
                        source: status.source,
                        id: call.id,
                        one_way: call.one_way,
                        place: Some(place),
                        coming: matches!(call.arguments, Content::Apart(_)),
                    };
                    admit(job, &call.service, call.arguments);
                }
                // Looked at above.
                Some(Incoming::Stop) => {}
                // No caller of this library's sends it, and there is no caller to tell.
                None => {}
            },
            // As above.
            Err(Error::Truncated { .. }) => {}
            // Its call was not all there.
            Err(Error::PeerDied { rank, .. }) if gone.insert(rank) => {}
            Err(_) => return,
        }
    }
}

/// A call that has a place. Dropped unanswered (no thread could be started for it, or its thread was unwound), it says
/// so.
struct Job {
    shared: Arc<Shared>,
    source: u32,
    id: u64,
    one_way: bool,
    place: Option<Place>,
    /// Its arguments are a message of their own, which nobody has received.
    coming: bool,
}

impl Job {
    /// Ends the call. Never blocks: the place is free when the answer has gone, which is not waited for.
    fn answer(mut self, status: Status, content: Vec<u8>) {
        self.tell(status, content);
    }

    fn tell(&mut self, status: Status, content: Vec<u8>) {
        let place = self.place.take();
        if self.one_way {
            return;
        }
        let session = self.shared.session.inner();
        let (packet, apart) = encode_answer(status, &content);
        if apart {
            detached::send(session, self.source, answer_tag(self.id), packet, ());
            detached::send(session, self.source, result_tag(self.id), content, place);
        } else {
            detached::send(session, self.source, answer_tag(self.id), packet, place);
        }
    }

    /// Ends a call whose long arguments are not taken.
    fn discard(mut self, status: Status, content: Vec<u8>) {
        self.give_back(status, content);
    }

    /// Tells the caller, and has arguments that are still coming thrown away.
    fn give_back(&mut self, status: Status, content: Vec<u8>) {
        if !std::mem::take(&mut self.coming) {
            return self.tell(status, content);
        }
        let place = self.place.take();
        self.tell(status, content);
        let session = self.shared.session.inner();
        detached::discard(session, self.source, arguments_tag(self.id), place);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.place.is_some() {
            let why = "the target could not run it: it has no memory for a thread, or is ending";
            self.give_back(Status::Failed, why.into());
        }
    }
}

/// Finds the service, and the thread that runs it.
fn admit(job: Job, service: &super::Service<'_>, arguments: Content<'_>) {
    let entry = job.shared.registry.find(service);
    let lane = job.place.as_ref().map_or(0, Place::lane);
    let priority = priority_of(lane);
    match (entry, arguments) {
        (None, Content::Here(_)) => job.answer(Status::NoService, Vec::new()),
        (None, Content::Apart(_)) => job.discard(Status::NoService, Vec::new()),
        (Some(_), Content::Apart(len)) if len > job.shared.bounds.limit as u64 => {
            let mut content = len.to_le_bytes().to_vec();
            content.extend_from_slice(&(job.shared.bounds.limit as u64).to_le_bytes());
            job.discard(Status::TooLong, content);
        }
        (Some(entry), Content::Here(bytes)) => {
            let bytes = bytes.to_vec();
            if entry.inline || priority == Priority::Urgent {
                run(job, entry, bytes);
            } else {
                let (compute, stack_size) = (entry.compute, entry.stack_size);
                // A failure drops the job, which tells the caller.
                let _ = start("", priority, compute, stack_size, move || run(job, entry, bytes));
            }
        }
        (Some(entry), Content::Apart(len)) => {
            let (compute, stack_size) = (entry.compute, entry.stack_size);
            let _ = start("", priority, compute, stack_size, move || {
                receive_and_run(job, entry, len);
            });
        }
    }
}

/// As [`run`], when the arguments are still to come.
fn receive_and_run(mut job: Job, entry: Arc<Entry<Handler>>, len: u64) {
    if !job.place.as_mut().is_some_and(|place| place.reserve(len)) {
        return;
    }
    let mut arguments = vec![0; len as usize];
    let from = Origin::Rank(job.source);
    let received = job.shared.session.recv_unchecked(from, arguments_tag(job.id), &mut arguments);
    job.coming = false;
    match received {
        Ok(status) if status.len as u64 == len => run(job, entry, arguments),
        Ok(_) | Err(Error::Truncated { .. }) => {
            job.answer(Status::BadArguments, "they have not the length that was announced".into());
        }
        // The caller is gone, or the session is.
        Err(_) => drop(job),
    }
}

/// Calls the handler and answers. The call lets go of the handler before it answers: its client may rely on that.
fn run(job: Job, entry: Arc<Entry<Handler>>, arguments: Vec<u8>) {
    let lane = job.place.as_ref().map_or(0, Place::lane);
    let depth = depth_of(lane) + 1;
    let context = Context::new(&job.shared, job.source, priority_of(lane), depth);
    let inside = depth::enter(depth);
    let result = catch_unwind(AssertUnwindSafe(|| (entry.handler)(&context, arguments)));
    drop(inside);
    drop(entry);
    match result {
        Ok(Ok(result)) => job.answer(Status::Done, result),
        Ok(Err((status, message))) => job.answer(status, message.into()),
        // The runtime unwinds its threads: `job` says so.
        Err(payload) if marcel::is_stopping() => {
            drop(job);
            resume_unwind(payload);
        }
        Err(payload) => {
            let message = match payload.downcast::<String>() {
                Ok(text) => *text,
                Err(payload) => payload.downcast::<&'static str>().map_or_else(
                    |_| "(a panic without a text)".to_owned(),
                    |text| (*text).to_owned(),
                ),
            };
            job.answer(Status::Panicked, message.into());
        }
    }
}
