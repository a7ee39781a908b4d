//! One port of an adapter, opened for a rail: the completion queues, the shared receive queue and its buffers.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::completion::Completion;
use super::library::constant as c;
use super::library::{
    self, Channel, Domain, Ibverbs, Piece, Queue, Receive, SharedReceives,
    SharedReceivesAttributes, WorkCompletion,
};
use super::owned::Owned;
use super::pages::Pages;
use super::ports::{Address, Open, PortState, open_named, ports};
use crate::memory::span::Span;

/// Most entries of a completion queue or of the shared receive queue, whatever the adapter can do.
const LONGEST: usize = 32 * 1024;

/// How much is set up.
#[derive(Clone, Copy, Debug)]
pub(in crate::net::verbs) struct Plan {
    /// Bytes of a buffer.
    pub(in crate::net::verbs) buffer: usize,
    /// Buffers, and requests to send, for each link.
    pub(in crate::net::verbs) each: usize,
    /// Requests to read, for each link.
    pub(in crate::net::verbs) reads: usize,
    /// Links that there may be.
    pub(in crate::net::verbs) links: usize,
}

/// One of the two completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) enum Which {
    Receives = 0,
    Sends = 1,
}

/// What an adapter tells beside completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// This queue pair has failed.
    QueuePair(u32),
    /// The port is down, or the whole adapter has failed.
    Port,
    /// Memory for eager channels is asked for, or there. (Of the driver itself.)
    Supply,
    /// Nothing that matters here.
    Other,
}

/// See the module.
pub(in crate::net::verbs) struct Adapter {
    // In the order in which they are destroyed.
    shared: Owned<SharedReceives>,
    queues: [Owned<Queue>; 2],
    channel: Owned<Channel>,
    /// Buffers of the shared receive queue, [`Plan::each`] in each place that is taken.
    chunks: Box<[OnceLock<Pages>]>,
    domain: Owned<Domain>,
    open: Open,
    name: String,
    port: u8,
    /// The address by which the port is used.
    address: Mutex<Option<Address>>,
    pub(in crate::net::verbs) plan: Plan,
    taken: AtomicUsize,
    /// Events that were fetched of each queue, and not acknowledged.
    fetched: [AtomicU32; 2],
    is_soft: bool,
    capacity: usize,
}

/// Has reads of a descriptor of the library return at once.
fn do_not_block(fd: RawFd) -> io::Result<()> {
    // SAFETY: a descriptor of an object that lives.
    rustix::io::ioctl_fionbio(unsafe { BorrowedFd::borrow_raw(fd) }, true)?;
    Ok(())
}

impl Adapter {
    /// Opens the port of this name: `mlx5_0`, or `mlx5_0:2`.
    ///
    /// # Errors
    /// The reason, as text: no library, no adapter, no permission, no such port, no memory.
    pub(in crate::net::verbs) fn open(named: &str, plan: Plan) -> Result<Adapter, String> {
        let (name, port) = match named.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|&port| port > 0)),
            None => (named, Some(1)),
        };
        let port = port.ok_or_else(|| format!("{named}: a port is a number from 1"))?;
        let open = open_named(name)?;
        let made = Adapter::set_up(open, name.to_owned(), port, plan);
        made.map_err(|error| format!("{name}:{port} cannot be used: {error}"))
    }

    fn set_up(open: Open, name: String, port: u8, plan: Plan) -> io::Result<Adapter> {
        let (lib, context) = (open.lib, open.context.as_ptr());
        let attributes = open.attributes()?;
        if port > attributes.phys_port_cnt {
            let ports = attributes.phys_port_cnt;
            return Err(io::Error::other(format!("it has {ports} port(s)")));
        }
        let most = |limit: c_int, wanted: usize| wanted.min(limit.max(0) as usize).min(LONGEST);
        let buffers = most(attributes.max_srq_wr, plan.each * plan.links);
        let requests = most(attributes.max_cqe, (plan.each + plan.reads) * plan.links);
        let buffers = most(attributes.max_cqe, buffers);
        // SAFETY: the context lives until `open` is dropped, which is behind all others.
        let domain = unsafe { Owned::new((lib.alloc_pd)(context), lib.dealloc_pd)? };
        // What a link needs: an error now is one that the program sees, and later only a link that is not made.
        drop(Pages::new(lib, &domain, plan.buffer * plan.each)?);
        // SAFETY: as above.
        let channel =
            unsafe { Owned::new((lib.create_comp_channel)(context), lib.destroy_comp_channel)? };
        let queue = |entries: usize| {
            let nothing = std::ptr::null_mut();
            // SAFETY: the context and the channel live longer.
            unsafe {
                let made = (lib.create_cq)(context, entries as c_int, nothing, channel.as_ptr(), 0);
                Owned::new(made, lib.destroy_cq)
            }
        };
        let queues = [queue(buffers.max(1))?, queue(requests.max(1))?];
        let mut attributes = SharedReceivesAttributes {
            context: std::ptr::null_mut(),
            max_wr: buffers as u32,
            max_sge: 1,
            limit: 0,
        };
        // SAFETY: the domain lives longer; a local of the type that is asked for.
        let shared = unsafe {
            let made = (lib.create_srq)(domain.as_ptr(), &raw mut attributes);
            Owned::new(made, lib.destroy_srq)?
        };
        // SAFETY: the channel and the context live.
        let (notices, events) = unsafe { ((*channel.as_ptr()).fd, (*context).async_fd) };
        do_not_block(notices)?;
        do_not_block(events)?;
        let is_soft =
            !std::path::Path::new(&format!("/sys/class/infiniband/{name}/device")).exists();
        let chunks = (0..buffers / plan.each.max(1)).map(|_| OnceLock::new()).collect();
        Ok(Adapter {
            shared,
            queues,
            channel,
            chunks,
            domain,
            open,
            name,
            port,
            address: Mutex::new(None),
            plan,
            taken: AtomicUsize::new(0),
            fetched: [AtomicU32::new(0), AtomicU32::new(0)],
            is_soft,
            capacity: requests,
        })
    }

    #[inline]
    pub(super) fn lib(&self) -> &'static Ibverbs {
        self.open.lib
    }

    pub(super) fn domain(&self) -> &Owned<Domain> {
        &self.domain
    }

    pub(super) fn shared(&self) -> &Owned<SharedReceives> {
        &self.shared
    }

    pub(super) fn queue(&self, which: Which) -> *mut Queue {
        self.queues[which as usize].as_ptr()
    }

    pub(super) fn port(&self) -> u8 {
        self.port
    }

    /// The port as it is now.
    ///
    /// # Errors
    /// It is down, or has no address.
    pub(super) fn state(&self) -> io::Result<(PortState, u8, [u8; 16])> {
        let mut known = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.open.port(&self.name, self.port, *known)?;
        *known = state.gid;
        let down = || io::Error::from_raw_os_error(libc::ENETDOWN);
        if !state.is_active() {
            return Err(down());
        }
        let (place, _, gid) = state.gid.ok_or_else(down)?;
        Ok((state, place, gid))
    }

    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(super) fn pages(&self, len: usize) -> io::Result<Pages> {
        Pages::new(self.open.lib, &self.domain, len)
    }

    /// As `pages`, of memory that peers may write.
    ///
    /// # Errors
    /// The same.
    pub(super) fn pages_for_peers(&self, len: usize) -> io::Result<Pages> {
        Pages::for_peers(self.open.lib, &self.domain, len)
    }

    /// Whether the kernel is the adapter, so that packets cost system calls.
    pub(in crate::net::verbs) fn is_soft(&self) -> bool {
        self.is_soft
    }

    /// Requests to send that may be under way at once, over all links.
    pub(in crate::net::verbs) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The descriptor that shows notices of completions.
    pub(in crate::net::verbs) fn notices(&self) -> RawFd {
        // SAFETY: the channel lives.
        unsafe { (*self.channel.as_ptr()).fd }
    }

    /// The descriptor that shows events.
    pub(in crate::net::verbs) fn events(&self) -> RawFd {
        // SAFETY: the context lives.
        unsafe { (*self.open.context.as_ptr()).async_fd }
    }

    /// The next event, if there is one.
    pub(in crate::net::verbs) fn event(&self) -> Option<Event> {
        let mut event = library::Event { element: std::ptr::null_mut(), kind: 0 };
        let (lib, context) = (self.open.lib, self.open.context.as_ptr());
        // SAFETY: the context lives; a local of the type that is asked for.
        if unsafe { (lib.get_async_event)(context, &raw mut event) } != 0 {
            return None;
        }
        let told = match event.kind {
            c::EVENT_QP_FATAL
            | c::EVENT_QP_REQ_ERR
            | c::EVENT_QP_ACCESS_ERR
            | c::EVENT_QP_LAST_WQE_REACHED => {
                // SAFETY: the queue pair is not destroyed before its event is acknowledged.
                Event::QueuePair(unsafe { (*event.element).number })
            }
            // The element is the port's number.
            c::EVENT_PORT_ERR if event.element as usize as u8 == self.port => Event::Port,
            c::EVENT_DEVICE_FATAL | c::EVENT_CQ_ERR | c::EVENT_SRQ_ERR => Event::Port,
            _ => Event::Other,
        };
        // SAFETY: an event from above, acknowledged once.
        unsafe { (lib.ack_async_event)(&raw mut event) };
        Some(told)
    }

    /// Takes requests that are over, as many as `into` has room for. Progress path.
    #[inline]
    pub(in crate::net::verbs) fn poll<'a>(
        &self,
        which: Which,
        into: &'a mut [MaybeUninit<Completion>],
    ) -> &'a [Completion] {
        let (queue, room) = (self.queue(which), into.len());
        // SAFETY: the queue lives, the room is so long; a `Completion` is the library's structure.
        let got = unsafe {
            let poll = (*self.open.context.as_ptr()).ops.poll_cq;
            poll(queue, room as c_int, into.as_mut_ptr().cast::<WorkCompletion>())
        };
        // Negative: the queue has failed, which is an event, too.
        let got = (got.max(0) as usize).min(room);
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts(into.as_ptr().cast(), got) }
    }

    /// The next request of that queue to be over makes the descriptor of notices readable; `errors`: only one that has
    /// failed does. The caller polls afterwards: of what was over before there is no notice. Progress path.
    pub(in crate::net::verbs) fn arm(&self, which: Which, errors: bool) {
        // SAFETY: the queue lives.
        unsafe {
            let arm = (*self.open.context.as_ptr()).ops.req_notify_cq;
            arm(self.queue(which), c_int::from(errors));
        }
    }

    /// Takes the notices that have come. Progress path.
    pub(in crate::net::verbs) fn take_notices(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel lives; locals of the types that are asked for.
        while unsafe {
            (self.open.lib.get_cq_event)(self.channel.as_ptr(), &raw mut queue, &raw mut context)
        } == 0
        {
            let which = usize::from(queue == self.queue(Which::Sends));
            self.fetched[which].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes buffers for one more link. Returns their numbers; none: there are as many as the adapter takes, and all
    /// links share them.
    ///
    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(in crate::net::verbs) fn add_buffers(&self) -> io::Result<std::ops::Range<u32>> {
        let Plan { buffer, each, .. } = self.plan;
        let place = self.taken.load(Ordering::Relaxed);
        let Some(chunk) = self.chunks.get(place) else { return Ok(0..0) };
        let pages = self.pages(buffer * each)?;
        // One thread makes links: the place is free.
        if chunk.set(pages).is_err() {
            return Ok(0..0);
        }
        self.taken.store(place + 1, Ordering::Relaxed);
        Ok((place * each) as u32..((place + 1) * each) as u32)
    }

    /// Address and key of a receive buffer's `len` bytes at `from`, if there are so many.
    #[inline]
    fn buffer(&self, number: u32, from: usize, len: usize) -> Option<(*mut u8, u32)> {
        let Plan { buffer, each, .. } = self.plan;
        let (chunk, place) = (number as usize / each, number as usize % each);
        let inside = from.checked_add(len).is_some_and(|end| end <= buffer);
        self.chunks.get(chunk)?.get()?.at(place * buffer + from, len).filter(|_| inside)
    }

    /// Part of what has come into a buffer; nothing, if it is not inside.
    ///
    /// # Safety
    /// The span is not used after the buffer was posted again.
    #[inline]
    pub(in crate::net::verbs) unsafe fn received(
        &self,
        number: u32,
        from: usize,
        len: usize,
    ) -> Span {
        match self.buffer(number, from, len) {
            // SAFETY: inside the buffer; the adapter does not write there until it is posted again.
            Some((start, _)) => unsafe { Span::new(start, len) },
            None => Span::EMPTY,
        }
    }

    /// Lets the adapter receive into this buffer. Progress path.
    #[inline]
    pub(in crate::net::verbs) fn post_buffer(&self, number: u32) {
        let length = self.plan.buffer;
        let Some((start, lkey)) = self.buffer(number, 0, length) else { return };
        let mut piece = Piece { addr: start as u64, length: length as u32, lkey };
        let mut request = Receive {
            wr_id: u64::from(number),
            next: std::ptr::null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        let mut refused = std::ptr::null_mut();
        // SAFETY: the queue lives; the request and its piece are read before the call returns. The queue has room: it
        // was made for as many as there are.
        unsafe {
            let post = (*self.open.context.as_ptr()).ops.post_srq_recv;
            post(self.shared.as_ptr(), &raw mut request, &raw mut refused);
        }
    }
}

impl Adapter {
    /// Posts requests to send.
    ///
    /// # Safety
    /// The queue pair is of this adapter, and lives; requests as the library wants them.
    #[inline]
    pub(super) unsafe fn send(
        &self,
        pair: *mut library::QueuePair,
        requests: *mut library::Send,
        refused: *mut *mut library::Send,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { ((*self.open.context.as_ptr()).ops.post_send)(pair, requests, refused) }
    }
}

/// The names of the first active ports, so many. They are looked at once: a port may go down between two looks.
///
/// # Errors
/// The reason, as text: no library, no adapter, or fewer active ports.
pub(in crate::net::verbs) fn pick(count: usize) -> Result<Vec<String>, String> {
    let all = ports()?;
    let active = all.iter().filter(|port| port.is_active);
    let picked: Vec<_> = active.take(count).map(|port| port.name.clone()).collect();
    if picked.len() == count {
        return Ok(picked);
    }
    let names: Vec<_> = all
        .iter()
        .map(|port| format!("{} ({})", port.name, if port.is_active { "active" } else { "down" }))
        .collect();
    Err(format!(
        "{count} verbs rail(s) need as many active ports, and this machine has {}: see `mad doctor`, and NMAD_VERBS_DEVICE",
        if names.is_empty() { "none".into() } else { names.join(", ") }
    ))
}

impl Drop for Adapter {
    fn drop(&mut self) {
        for (queue, fetched) in self.queues.iter().zip(&self.fetched) {
            // A queue is not destroyed before what was told of it is acknowledged.
            // SAFETY: the queue lives until the fields are dropped.
            unsafe {
                (self.open.lib.ack_cq_events)(queue.as_ptr(), fetched.load(Ordering::Relaxed))
            };
        }
    }
}
