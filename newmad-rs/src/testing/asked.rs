//! Requests that tests make, with their memory.

use core::ptr::NonNull;

use crate::api::buffer::Memory;
use crate::error::Error;
use crate::net::Driver;
use crate::proto::core::Core;
use crate::proto::inline::Found;
use crate::request::{Op, Outcome, Ref, Request};

/// How a request is made.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    /// Its owner waits from the start.
    pub(crate) waits: bool,
    /// Its memory lies in pieces of so many bytes; 0: in one.
    pub(crate) spread: usize,
}

/// A request and its memory. It is dropped when it is over.
pub(crate) struct Asked {
    request: NonNull<Request>,
    /// Where its bytes lie, unless they lie in pieces.
    buffer: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    list: Vec<libc::iovec>,
    /// The rank that made it.
    pub(crate) rank: u32,
}

impl Asked {
    /// Sends `data` to a rank, with a tag.
    pub(crate) fn send<D: Driver>(
        core: &mut Core<D>,
        (to, tag): (u32, u64),
        data: impl Into<Vec<u8>>,
    ) -> Asked {
        Asked::send_with(core, (to, tag), data, How::default(), |request| request)
    }

    /// As `send`; `with` says more about the request.
    pub(crate) fn send_with<D: Driver>(
        core: &mut Core<D>,
        (to, tag): (u32, u64),
        data: impl Into<Vec<u8>>,
        how: How,
        with: impl FnOnce(Request) -> Request,
    ) -> Asked {
        // SAFETY: the memory is the `Asked`'s until the request is over, and nothing writes to it.
        let make = |memory: Memory| unsafe { memory.send(to, tag, None, how.waits) };
        Asked::make(core, data.into(), how.spread, |memory| make(memory).map(with))
    }

    /// Receives at most `room` bytes from a rank, with a tag.
    pub(crate) fn recv<D: Driver>(
        core: &mut Core<D>,
        (from, tag): (u32, u64),
        room: usize,
    ) -> Asked {
        Asked::recv_with(core, (from, tag), room, How::default(), |request| request)
    }

    /// As `recv`; `with` says more about the request.
    pub(crate) fn recv_with<D: Driver>(
        core: &mut Core<D>,
        (from, tag): (u32, u64),
        room: usize,
        how: How,
        with: impl FnOnce(Request) -> Request,
    ) -> Asked {
        // SAFETY: the memory is the `Asked`'s until the request is over, and `bytes` reads it only then.
        let make = |memory: Memory| unsafe { memory.recv(from, tag, None, how.waits) };
        Asked::make(core, vec![0; room], how.spread, |memory| make(memory).map(with))
    }

    /// A request that needs no memory.
    pub(crate) fn plain<D: Driver>(core: &mut Core<D>, request: Request) -> Asked {
        Asked::make(core, Vec::new(), 0, |_| Ok(request))
    }

    fn make<D: Driver>(
        core: &mut Core<D>,
        mut buffer: Vec<u8>,
        spread: usize,
        make: impl FnOnce(Memory) -> Result<Request, Error>,
    ) -> Asked {
        let mut pieces: Vec<Vec<u8>> = match spread {
            0 => Vec::new(),
            spread => buffer.chunks(spread).map(<[u8]>::to_vec).collect(),
        };
        let piece = |piece: &mut Vec<u8>| libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: piece.len(),
        };
        let list: Vec<_> = pieces.iter_mut().map(piece).collect();
        let memory = match spread {
            0 => Memory::Whole(buffer.as_mut_ptr(), buffer.len()),
            _ => Memory::Pieces { list: list.as_ptr(), count: list.len(), len: buffer.len() },
        };
        let request = make(memory).expect("memory without a layout");
        let request = NonNull::from(Box::leak(Box::new(request)));
        start(core, request);
        Asked { request, buffer, pieces, list, rank: core.process }
    }

    pub(crate) fn get(&self) -> &Request {
        // SAFETY: freed by `drop` only.
        unsafe { self.request.as_ref() }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.get().is_finished()
    }

    /// How it ended.
    pub(crate) fn result(&self) -> Result<crate::Status, Error> {
        self.get().result()
    }

    /// The number of bytes that it sends, or has room for.
    pub(crate) fn room(&self) -> usize {
        self.buffer.len()
    }

    /// What is in its memory, once it is over.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert!(self.is_finished());
        if self.pieces.is_empty() { self.buffer.clone() } else { self.pieces.concat() }
    }

    /// What was received; the request ended well.
    pub(crate) fn message(&self) -> Vec<u8> {
        let status = self.result().unwrap();
        self.bytes()[..status.len].to_vec()
    }

    /// Takes it back, if nothing has matched it.
    pub(crate) fn cancel<D: Driver>(&self, core: &mut Core<D>) -> bool {
        // SAFETY: freed by `drop` only.
        unsafe { Ref::of_owner(self.request) }.is_some_and(|request| core.cancel(request))
    }

    /// Takes a send back, or asks its receiver to give it back.
    pub(crate) fn take_back<D: Driver>(&self, core: &mut Core<D>) {
        // SAFETY: freed by `drop` only.
        if let Some(request) = unsafe { Ref::of_owner(self.request) } {
            core.take_back(request);
        }
    }

    /// Frees it although it may not be over.
    ///
    /// # Safety
    /// The core that had it is gone.
    #[cfg(test)]
    pub(crate) unsafe fn abandon(self) {
        let mut this = core::mem::ManuallyDrop::new(self);
        // SAFETY: each once, as `drop` does not run.
        unsafe {
            drop(Box::from_raw(this.request.as_ptr()));
            core::ptr::drop_in_place(&raw mut this.buffer);
            core::ptr::drop_in_place(&raw mut this.pieces);
            core::ptr::drop_in_place(&raw mut this.list);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_finished() {
            // SAFETY: boxed by `make`, and over.
            return drop(unsafe { Box::from_raw(self.request.as_ptr()) });
        }
        // Its memory is the engine's.
        for memory in [&mut self.buffer].into_iter().chain(&mut self.pieces) {
            core::mem::forget(core::mem::take(memory));
        }
        core::mem::forget(core::mem::take(&mut self.list));
        assert!(std::thread::panicking(), "a request is dropped before its end");
    }
}

/// Begins a request as its owner would: a receive whose owner does not wait for it looks for its message first.
fn start<D: Driver>(core: &mut Core<D>, request: NonNull<Request>) {
    // SAFETY: freed by `Asked` after its end.
    let request = unsafe { Ref::new(request) };
    let looks = request.op == Op::Recv
        && !request.is_scattered()
        && request.held.get().is_none()
        && !request.is_waiting();
    if looks {
        // SAFETY: the request's buffer, which is the engine's until its end.
        let buffer = unsafe { core::slice::from_raw_parts_mut(request.at(0), request.capacity) };
        let tag = (request.tag, request.mask);
        if let Found::Message(len) = core.recv_inline(request.mine.get(), request.peer, tag, buffer)
        {
            request.message.set(len);
            return request.finish(Outcome::Done);
        }
    }
    core.start(request);
}
