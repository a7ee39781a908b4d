//! Requests: what the user waits on and the engine works on. The only place where the engine's raw pointers
//! to requests are made.
//!
//! A request lives in a box (or on the stack of a blocking call) that its *handle* owns. Its life:
//! 1. **caller**: filled in, then submitted. From then on the engine holds a [`Ref`] to it.
//! 2. **engine**: the lock holder reads and writes the `Cell`s and copies from or to the
//!    buffer. The owner uses `done`, `finished`, `waiting` and `watched`, which are atomic, and reads `attended`, which
//!    the engine clears only when the owner asks it to.
//! 3. **finished**: the engine writes the outcome, then `finished`, then completes `done`: its last touch.
//!    The owner may now read the outcome and free everything.
//!
//! *Nudge*: the engine may complete `done` without `finished` to make a blocked or watching owner come and do what
//! the progress path may not (allocate). The owner then takes the lock, helps, rearms `done` and waits on.
//! The engine's last touch of a nudged request is its store to `finished`; of any other it is `done.complete()`.
//!
//! Rejected: reference counts (two atomic operations per message, and freeing in the progress path); a slab of
//! requests with indices (a bound on outstanding requests, or growth in the progress path).

pub(crate) mod parts;
pub(crate) mod queue;
pub(crate) mod table;
pub(crate) mod tag;

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use marcel::plumbing::Chained;
use pioman::Completion;

use crate::error::{Cause, Error};
use crate::memory::layout::Layout;
use crate::memory::span::Span;
use crate::request::parts::Parts;
use crate::request::tag::EXACT;
use crate::wire::{Ends, Envelope};

/// Up to this length a message is never worth telling the peer that a thread waits for it.
const SHORT: usize = 8 * 1024;
/// From so many bytes on a message is announced for its length, mostly, and how it moves is worth a thought.
pub(crate) const LONG: usize = 16 << 10;
/// The source of a receive that takes messages from every rank.
pub(crate) const ANY_SOURCE: u32 = u32::MAX;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Send,
    Recv,
    /// Waits for an unexpected message; takes hold of it or not.
    Probe {
        take: bool,
    },
    Close,
}

/// Which of the engine's lists holds the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// None (it may still be known by its id in the rendezvous table, or be a reassembly's target).
    Nowhere,
    /// Posted receives.
    Posted,
    /// Probes that wait for a message.
    Probes,
    /// The gate's messages that wait for the small track.
    Sends,
    /// The gate's requests that owe the peer a control packet.
    Control,
    /// The gate's messages that leave as fragments over the large tracks.
    Fragments,
    /// Copies between address spaces, done piece by piece.
    Copies,
    /// Messages that an adapter reads, or that wait for it.
    Reads,
    /// Ends of ranks.
    Closing,
}

/// The control packet that a request owes its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owes {
    CtsPut,
    CtsFragments,
    /// What it has, while data comes.
    Have,
    FinToSender,
    FinToReceiver,
    /// That its announcement is to be taken back.
    Back,
    /// That its memory cannot be read by the peer's adapter.
    Refusal,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Done,
    Truncated,
    Died(u32, Cause),
    Cancelled,
    /// The messages of its tag were revoked.
    Revoked,
    Closed,
}

/// See the module. The order of the fields is that in which a short message between two cores uses their lines: the spinning
/// owner reads the second one only, and the sender's core writes that once, at the end.
#[repr(C, align(64))]
pub(crate) struct Request {
    // Fixed when submitted, or the engine's.
    /// Of its queue, and of its chain in the table: theirs alone.
    next: Cell<Option<Ref>>,
    prev: Cell<Option<Ref>>,
    pub(crate) tag: u64,
    /// Bits of the tag that count; `EXACT` unless it is a receive, or a probe, of several tags.
    pub(crate) mask: u64,
    buffer: *mut u8,
    pub(crate) capacity: usize,
    pub(crate) order: Cell<u64>,
    /// A rank, or [`ANY_SOURCE`].
    pub(crate) peer: u32,
    /// The place of the owner's rank in its process.
    pub(crate) mine: Cell<u16>,
    pub(crate) op: Op,
    pub(crate) place: Cell<Place>,

    // Its end.
    pub(crate) done: Completion,
    /// Tag of the message that it got, if several would have done.
    pub(crate) matched: Cell<u64>,
    pub(crate) message: Cell<usize>,
    outcome: Cell<Outcome>,
    /// The rank whose message it gets.
    pub(crate) source: Cell<u32>,
    finished: AtomicBool,
    waiting: AtomicBool,
    watched: AtomicBool,
    detached: AtomicBool,
    /// A receive from any rank whose owner is to look at the ranks that have failed: see `proto/bans.rs`.
    alarmed: AtomicBool,
    nudged: Cell<bool>,
    /// Its owner asks for its end, and each time polls: no thread has to be told, or woken. The engine's.
    pub(crate) attended: Cell<bool>,
    /// No thread has to watch for it while its owner asks for its end. The engine's, fixed when it begins; not set for short
    /// receives, of which that is always so.
    pub(crate) is_ignorable: Cell<bool>,
    /// A ban alarms its owner, and does not end it. Fixed when submitted.
    pub(crate) stays: bool,
    /// It ends only when a receive has matched it.
    synchronous: Cell<bool>,
    /// How urgent it is; 0 unless told otherwise.
    pub(crate) priority: i8,
    /// The receiver has everything, but a link holds a piece that is not sent whole.
    pub(crate) over: Cell<bool>,

    // What long messages, probes and links need.
    /// Its place on the submission list.
    submitted: AtomicPtr<Request>,
    chain: Cell<Option<Ref>>,
    pub(crate) id: Cell<u64>,
    pub(crate) moved: Cell<usize>,
    pub(crate) total: Cell<usize>,
    pub(crate) remote: Cell<u64>,
    pub(crate) remote_id: Cell<u64>,
    /// The process that it is sent to, or whose message it gets, and the peer's place there.
    pub(crate) gate: Cell<u32>,
    pub(crate) theirs: Cell<u16>,
    pub(crate) owes: Cell<Owes>,
    /// The cell of the message that a probe has taken hold of, or that is to be received.
    pub(crate) held: Cell<Option<u32>>,
    /// Where the bytes lie if that is not in a row at `buffer`, which is null then.
    layout: Option<Layout>,
    /// What was sent, or has come, of a large message.
    pub(crate) parts: Parts,
}

#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Request, done) == 64);

// SAFETY: the buffer is memory that the handle keeps alive and exclusive until `finished`; the cells belong to
// one phase's owner at a time (module documentation), and phases change hands through the lock, the
// submission list or `finished`, all of which synchronise.
unsafe impl Send for Request {}
// SAFETY: as above; what several threads touch at once is atomic.
unsafe impl Sync for Request {}

impl Request {
    #[inline(always)]
    fn new(
        op: Op,
        peer: u32,
        tag: u64,
        buffer: *mut u8,
        capacity: usize,
        waiting: bool,
    ) -> Request {
        Request {
            submitted: AtomicPtr::new(core::ptr::null_mut()),
            done: Completion::new(),
            finished: AtomicBool::new(false),
            waiting: AtomicBool::new(waiting),
            watched: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            alarmed: AtomicBool::new(false),
            stays: false,
            attended: Cell::new(false),
            is_ignorable: Cell::new(false),
            op,
            mine: Cell::new(0),
            peer,
            tag,
            mask: EXACT,
            synchronous: Cell::new(false),
            priority: 0,
            buffer,
            capacity,
            layout: None,
            next: Cell::new(None),
            prev: Cell::new(None),
            place: Cell::new(Place::Nowhere),
            chain: Cell::new(None),
            id: Cell::new(0),
            order: Cell::new(0),
            moved: Cell::new(0),
            total: Cell::new(0),
            remote: Cell::new(0),
            remote_id: Cell::new(0),
            owes: Cell::new(Owes::FinToSender),
            gate: Cell::new(peer),
            theirs: Cell::new(0),
            source: Cell::new(peer),
            matched: Cell::new(tag),
            message: Cell::new(0),
            parts: Parts::new(),
            over: Cell::new(false),
            held: Cell::new(None),
            nudged: Cell::new(false),
            outcome: Cell::new(Outcome::Pending),
        }
    }

    /// A send of `data`. `blocking`: its owner waits from the start.
    ///
    /// # Safety
    /// From submission until the request is finished, `data` stays readable and unchanged.
    #[inline]
    pub(crate) unsafe fn send(to: u32, tag: u64, data: *const [u8], blocking: bool) -> Request {
        Request::new(Op::Send, to, tag, data.cast::<u8>().cast_mut(), data.len(), blocking)
    }

    /// Whether its bytes are in a row, and it may leave before a receive has matched it.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.layout.is_none() && !self.synchronous.get()
    }

    /// Whether it ends only when a receive has matched it.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous.get()
    }

    /// It ends only when a receive has matched it, so it is announced, however short it is.
    pub(crate) fn announce(&self) {
        self.synchronous.set(true);
    }

    /// Whether this send is announced and waits for its receive, instead of leaving at once.
    #[inline]
    pub(crate) fn is_announced(&self, threshold: usize) -> bool {
        self.capacity > threshold || self.synchronous.get()
    }

    /// The same, but its owner asks for its end, and each time looks for events.
    #[cfg(test)]
    pub(crate) fn attended(self) -> Request {
        Request { attended: Cell::new(true), ..self }
    }

    /// A ban does not end this receive: its owner learns that a rank has failed, and may wait on.
    #[inline]
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }

    /// Whether its owner is to look at the ranks that have failed. Waits end then, though it is not over.
    #[inline]
    pub(crate) fn is_alarmed(&self) -> bool {
        // Pairs with `Ref::ring`: an owner that blocks has set `waiting` before.
        self.alarmed.load(Ordering::SeqCst)
    }

    /// The owner is to look at them; no thread is woken.
    pub(crate) fn alarm(&self) {
        self.alarmed.store(true, Ordering::SeqCst);
    }

    /// The owner has looked at them.
    pub(crate) fn calm(&self) {
        self.alarmed.store(false, Ordering::SeqCst);
    }

    /// Whether telling the peer that a thread waits for it is never worth while.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.capacity <= SHORT
    }

    /// Whether it is a receive of messages whose copy takes less than to wake a thread for it.
    #[inline]
    pub(crate) fn is_short_receive(&self) -> bool {
        self.op == Op::Recv && self.is_short()
    }

    /// The same, of the rank at this place of its process.
    #[inline]
    pub(crate) fn of_rank(self, mine: u16) -> Request {
        self.mine.set(mine);
        self
    }

    /// The rank that it is sent to, or whose message it gets; of a receive from any, once it is matched.
    pub(crate) fn partner(&self) -> u32 {
        if self.peer == ANY_SOURCE { self.source.get() } else { self.peer }
    }

    /// What a message of this send is matched by.
    #[inline]
    pub(crate) fn envelope(&self) -> Envelope {
        let ends = Ends::new(self.mine.get(), self.theirs.get());
        Envelope { tag: self.tag, ends }
    }

    /// A receive into `buffer`. `blocking`: its owner waits from the start.
    ///
    /// # Safety
    /// From submission until the request is finished, `buffer` is writable, and the engine's alone.
    #[inline]
    pub(crate) unsafe fn recv(from: u32, tag: u64, buffer: *mut [u8], blocking: bool) -> Request {
        Request::new(Op::Recv, from, tag, buffer.cast(), buffer.len(), blocking)
    }

    /// Sends, or receives, what a layout names instead.
    ///
    /// # Safety
    /// As [`Request::send`] or [`Request::recv`], for the layout's memory; its list stays as it is.
    pub(crate) unsafe fn scatter(&mut self, layout: Layout) {
        (self.buffer, self.capacity) = (core::ptr::null_mut(), layout.len());
        self.layout = Some(layout);
    }

    /// Whether its bytes may lie apart.
    #[inline]
    pub(crate) fn is_scattered(&self) -> bool {
        self.layout.is_some()
    }

    /// Whether what lies together is worth a system call of its own.
    #[inline]
    pub(crate) fn has_long_runs(&self) -> bool {
        self.layout.as_ref().is_none_or(Layout::has_long_runs)
    }

    /// The same receive or probe, of every tag that agrees with its own in the bits of `mask`.
    #[inline]
    pub(crate) fn masked(mut self, mask: u64) -> Request {
        self.take_all(mask);
        self
    }

    /// Receives, or probes for, every tag that agrees with its own in the bits of `mask`.
    #[inline]
    pub(crate) fn take_all(&mut self, mask: u64) {
        self.mask = mask;
        self.tag &= mask;
    }

    /// A wait for a message, which is taken hold of if `take`.
    pub(crate) fn probe(from: u32, tag: u64, take: bool) -> Request {
        Request::new(Op::Probe { take }, from, tag, NonNull::dangling().as_ptr(), 0, true)
    }

    /// The end of the session.
    pub(crate) fn close() -> Request {
        Request::new(Op::Close, 0, 0, NonNull::dangling().as_ptr(), 0, true)
    }

    /// Whether it is over: its owner may read the outcome and free it.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        // `done` first: completing it is the engine's last touch, unless the request was nudged, and then
        // setting `finished` is.
        self.done.is_done() && self.finished.load(Ordering::Acquire)
    }

    /// Tells the engine that the owner is about to block on it.
    #[inline]
    pub(crate) fn set_waiting(&self) {
        // A swap, because it must be ordered before the owner's look at the engine's `starved` flag. Pairs with the
        // loads in `Ref::nudge`, which follow the lock holder's swap of `starved`: one of the two sees the other.
        self.waiting.swap(true, Ordering::SeqCst);
    }

    /// Tells the engine that a waker is called by it. True: for the first time. Pairs as [`Request::set_waiting`].
    pub(crate) fn set_watched(&self) -> bool {
        !self.watched.swap(true, Ordering::SeqCst)
    }

    /// It has no handle any more: a function of the program's waits for it.
    pub(crate) fn detach(&self) {
        self.detached.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Relaxed)
    }

    /// Whether a thread is blocked on it.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The status of a receive that is finished and has got its message whole. `None`: [`Request::result`] says more, if it
    /// is finished.
    #[inline]
    pub(crate) fn received(&self) -> Option<crate::Status> {
        let has_message = self.is_finished() && matches!(self.outcome.get(), Outcome::Done);
        (has_message && self.op == Op::Recv).then(|| self.status(self.message.get()))
    }

    #[inline]
    fn status(&self, len: usize) -> crate::Status {
        crate::Status { source: self.source.get(), tag: self.matched.get(), len }
    }

    /// The result of a finished request.
    ///
    /// # Panics
    /// When it is not finished.
    pub(crate) fn result(&self) -> Result<crate::Status, Error> {
        assert!(self.is_finished(), "the result of a request that is not finished");
        match self.outcome.get() {
            Outcome::Done if self.op == Op::Send => Ok(self.status(self.capacity)),
            Outcome::Done => Ok(self.status(self.message.get())),
            Outcome::Truncated => Err(Error::Truncated {
                from: self.source.get(),
                tag: self.matched.get(),
                message: self.message.get(),
                capacity: self.capacity,
            }),
            Outcome::Died(rank, cause) => Err(Error::PeerDied { rank, cause }),
            Outcome::Cancelled => Err(Error::Cancelled),
            Outcome::Revoked => Err(Error::ContextRevoked),
            Outcome::Closed | Outcome::Pending => Err(Error::Closed),
        }
    }
}

/// The engine's pointer to a request: valid from its submission until [`Ref::finish`]. Debug builds, and so all tests,
/// the simulation and the fuzz targets, panic when a copy is used later.
///
/// Rejected: a `Ref` that is moved, and consumed by `finish`. A request is in a queue, in the table, and the target of
/// pieces over several links at once, so all but one of those would hold numbers; and each function that reads a
/// request also changes the part that owns it, so it would take the request out and put it back, or look it up again,
/// around each call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ref(NonNull<Request>);

impl core::ops::Deref for Ref {
    type Target = Request;
    #[inline]
    fn deref(&self) -> &Request {
        // SAFETY: a `Ref` is made by `submit`'s caller, which promises that the request stays until it is
        // finished; the engine drops its copies in `finish`.
        let request = unsafe { self.0.as_ref() };
        debug_assert!(!request.finished.load(Ordering::Relaxed), "a request is used after its end");
        request
    }
}

impl Ref {
    /// # Safety
    /// The request is submitted once, stays at its address, and is neither freed nor its cells touched by its
    /// owner until [`Request::is_finished`].
    #[inline]
    pub(crate) unsafe fn new(request: NonNull<Request>) -> Ref {
        Ref(request)
    }

    /// A request that was submitted; `None`: it is over. For its owner, with the engine's lock.
    ///
    /// # Safety
    /// The request was submitted, and its owner keeps it until the lock is given up.
    pub(crate) unsafe fn of_owner(request: NonNull<Request>) -> Option<Ref> {
        // SAFETY: the caller's promise.
        (!unsafe { request.as_ref() }.is_finished()).then_some(Ref(request))
    }

    /// The memory to send. Of a scattered request nothing but the length is true, and the address null.
    #[inline]
    pub(crate) fn span(self) -> Span {
        // SAFETY: `Request::send`'s promise.
        unsafe { Span::new(self.buffer, self.capacity) }
    }

    /// Where the byte at `offset` is received. Not for scattered requests.
    #[inline]
    pub(crate) fn at(self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.capacity && (offset == 0 || !self.is_scattered()));
        // SAFETY: inside, or one past, the buffer that `Request::recv` was given.
        unsafe { self.buffer.add(offset.min(self.capacity)) }
    }

    /// Where the bytes from `offset` on are, and how many of them are together, at most `most`.
    #[inline]
    pub(crate) fn run(self, offset: usize, most: usize) -> (*mut u8, usize) {
        match &self.layout {
            None => (self.at(offset), most.min(self.capacity.saturating_sub(offset))),
            Some(layout) => {
                // SAFETY: `Request::scatter`'s promise.
                let (at, len) = unsafe { layout.run(offset) };
                (at, len.min(most))
            }
        }
    }

    /// The memory to send from `offset` on, in as many parts as there are places; how many, and their bytes.
    pub(crate) fn gather(self, offset: usize, most: usize, parts: &mut [Span]) -> (usize, usize) {
        match (&self.layout, parts) {
            // SAFETY: `Request::scatter`'s promise.
            (Some(layout), parts) => unsafe { layout.gather(offset, most, parts) },
            (None, [first, ..]) => {
                *first = self.span().part(offset, most);
                (1, first.len())
            }
            (None, []) => (0, 0),
        }
    }

    /// The memory to send from `offset` on, at most `most` bytes of it: in place, or a copy in `stage` if it is
    /// scattered.
    pub(crate) fn together(self, offset: usize, most: usize, stage: &mut [u8]) -> Span {
        match &self.layout {
            None => self.span().part(offset, most),
            Some(layout) => {
                let most = most.min(stage.len());
                // SAFETY: `Request::scatter`'s promise; the stage is the engine's.
                unsafe {
                    let len = layout.copy_out(offset, stage.as_mut_ptr(), most);
                    Span::new(stage.as_ptr(), len)
                }
            }
        }
    }

    /// Stores the part of `data` that fits at `offset` of the receive buffer.
    #[inline(always)]
    pub(crate) fn store(self, offset: usize, data: Span) {
        let room = self.capacity.saturating_sub(offset);
        let part = data.part(0, room);
        // Its address first: the layout is on another line.
        if self.buffer.is_null()
            && let Some(layout) = &self.layout
        {
            // SAFETY: as below, by `Request::scatter`.
            unsafe { layout.copy_in(offset, part) }
        } else if part.len() > 0 {
            // SAFETY: `part.len()` bytes at `offset` are inside the buffer, which `Request::recv` promised to
            // be writable and exclusive; packets never lie in user buffers.
            unsafe { part.copy_to(self.at(offset)) }
        }
    }

    /// Ends the request. The last touch: neither this nor any other copy of the `Ref` may be used afterwards.
    #[inline]
    pub(crate) fn finish(self, outcome: Outcome) {
        let request: &Request = &self;
        // No list leads to it any more.
        debug_assert_eq!((request.place.get(), request.id.get()), (Place::Nowhere, 0));
        request.outcome.set(outcome);
        if request.nudged.get() {
            // `done` is completed already; its owner waits for the lock or looks at `finished`.
            request.finished.store(true, Ordering::Release);
        } else {
            request.finished.store(true, Ordering::Release);
            request.done.complete();
        }
    }

    /// Wakes the owner although the request is not over. Once, until [`Ref::rearm`].
    pub(crate) fn nudge(self) -> bool {
        // Pair with the swaps in `set_waiting` and `set_watched`: a relaxed load could be satisfied before the caller's
        // swap of `starved` is visible, and the owner's look at `starved` before that.
        let hears = self.waiting.load(Ordering::SeqCst) || self.watched.load(Ordering::SeqCst);
        if !hears || self.nudged.get() {
            return false;
        }
        self.nudged.set(true);
        self.done.complete();
        true
    }

    /// Has the owner look at the ranks that have failed. The request goes on.
    pub(crate) fn ring(self) {
        // Before the look at `waiting` in `nudge`: an owner that is not woken sees it before it blocks.
        Request::alarm(&self);
        self.nudge();
    }

    /// Undoes [`Ref::nudge`]. Called by the owner, with the engine's lock held, on a request that is not over.
    pub(crate) fn rearm(self) {
        if self.nudged.get() {
            self.nudged.set(false);
            // SAFETY: the owner is here, so no thread waits on `done`, and the engine is here, so none completes it.
            // Other threads may ask whether the request is over.
            unsafe { self.done.rearm() }
        }
    }
}

// SAFETY: the submission list alone has the field.
unsafe impl Chained for Request {
    #[inline]
    fn next(&self) -> &AtomicPtr<Request> {
        &self.submitted
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "after its end")]
    fn a_request_is_not_used_after_its_end() {
        let request = Request::probe(0, 0, false);
        // SAFETY: it stays here.
        let request = unsafe { Ref::new(NonNull::from(&request)) };
        request.finish(Outcome::Cancelled);
        request.moved.set(1);
    }
}
