//! The driver of a rail: a built-in one, chosen at run time without a virtual call per packet, or one of the program's.

use std::sync::Arc;

use crate::driver;
use crate::error::Error;
use crate::memory::span::Span;
use crate::net::custom::Custom;
use crate::net::driver::Driver;
use crate::net::lease::SendLease;
use crate::net::packet::{Peek, Post, Refused};
use crate::net::ready::Ready;
use crate::net::rings::Rings;
use crate::net::segment::bell::Bell;
use crate::net::shm::{self, Shm};
use crate::net::tcp::{self, Tcp};
use crate::wire::Header;

/// One of the drivers.
pub(crate) enum AnyDriver {
    /// Shared memory, between processes or inside one.
    Shm(Shm),
    /// TCP.
    Tcp(Box<Tcp>),
    /// A network of the program's.
    Custom(Box<Custom>),
}

/// A link with a peer, ready to be used.
pub(crate) enum Link {
    /// Over shared memory.
    Shm(shm::Peer),
    /// Over TCP.
    Tcp(tcp::Peer),
    /// Over a network of the program's.
    Custom(Box<dyn driver::Link>),
}

impl AnyDriver {
    /// Uses `link` from now on, and closes the one that there was. Callers' context.
    pub(crate) fn install(&mut self, peer: u32, link: Link) -> Result<(), Error> {
        match (self, link) {
            (AnyDriver::Shm(driver), Link::Shm(link)) => driver.install(peer, link),
            (AnyDriver::Tcp(driver), Link::Tcp(link)) => driver.install(peer, link),
            (AnyDriver::Custom(driver), Link::Custom(link)) => driver.install(peer, link),
            _ => Err(Error::Bootstrap(format!("the link with rank {peer} is of another kind"))),
        }
    }
}

macro_rules! each {
    ($self:ident, $driver:ident => $call:expr) => {
        // One comparison for shared memory, whose messages are the ones that notice a second.
        if let AnyDriver::Shm($driver) = $self {
            $call
        } else {
            match $self {
                AnyDriver::Tcp($driver) => $call,
                AnyDriver::Custom($driver) => $call,
                AnyDriver::Shm(_) => unreachable!(),
            }
        }
    };
}

impl Driver for AnyDriver {
    fn name(&self) -> &'static str {
        each!(self, driver => driver.name())
    }
    #[inline]
    fn mtu(&self, to: u32) -> usize {
        each!(self, driver => driver.mtu(to))
    }
    fn can_copy(&self, peer: u32) -> bool {
        each!(self, driver => driver.can_copy(peer))
    }
    fn copies_too(&self, peer: u32, waits: bool) -> bool {
        each!(self, driver => driver.copies_too(peer, waits))
    }
    #[inline]
    fn begin(&mut self) -> bool {
        each!(self, driver => driver.begin())
    }
    #[inline]
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> Post {
        each!(self, driver => driver.post_small(to, header, parts))
    }
    #[inline(always)]
    fn post_eager(&mut self, to: u32, numbers: (u32, u32), tag: u64, data: Span) -> Post {
        each!(self, driver => driver.post_eager(to, numbers, tag, data))
    }
    fn lend(&mut self, to: u32) -> Option<SendLease> {
        each!(self, driver => driver.lend(to))
    }
    fn take_back(&mut self, to: u32, lease: SendLease) {
        each!(self, driver => driver.take_back(to, lease))
    }
    #[inline(always)]
    fn peek_small(&mut self, from: u32) -> Peek {
        each!(self, driver => driver.peek_small(from))
    }
    #[inline]
    fn release(&mut self, from: u32) {
        each!(self, driver => driver.release(from))
    }
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        each!(self, driver => driver.post_large(to, header, data))
    }
    fn mid_piece(&self, to: u32) -> usize {
        each!(self, driver => driver.mid_piece(to))
    }
    fn can_break(&self) -> bool {
        each!(self, driver => driver.can_break())
    }
    fn is_silent(&self, peer: u32) -> bool {
        each!(self, driver => driver.is_silent(peer))
    }
    fn peek_large(&mut self, from: u32) -> Peek {
        each!(self, driver => driver.peek_large(from))
    }
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.read_large(from, to, len) })
    }
    unsafe fn pull(
        &mut self,
        from: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused> {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.pull(from, remote, to, len) })
    }
    unsafe fn push(&mut self, to: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.push(to, remote, data) })
    }
    fn is_flushed(&self, to: u32) -> bool {
        each!(self, driver => driver.is_flushed(to))
    }
    fn waits_for_goodbye(&self) -> bool {
        each!(self, driver => driver.waits_for_goodbye())
    }
    fn withdraw(&mut self) -> bool {
        each!(self, driver => driver.withdraw())
    }
    fn bury(&mut self, peer: u32) {
        each!(self, driver => driver.bury(peer))
    }
    fn arm(&mut self, rings: Rings) -> bool {
        each!(self, driver => driver.arm(rings))
    }
    fn look_at_all(&mut self) {
        each!(self, driver => driver.look_at_all())
    }
    fn leave_some(&mut self) {
        each!(self, driver => driver.leave_some())
    }
    fn tells_apart(&self) -> bool {
        each!(self, driver => driver.tells_apart())
    }
    fn longest_piece(&self, to: u32) -> usize {
        each!(self, driver => driver.longest_piece(to))
    }
    fn doorbell(&self) -> Option<&Arc<Bell>> {
        each!(self, driver => driver.doorbell())
    }
    fn calls_the_kernel(&self) -> bool {
        each!(self, driver => driver.calls_the_kernel())
    }
    fn wake_oneself(&mut self) {
        each!(self, driver => driver.wake_oneself())
    }
    fn ready(&self) -> Option<&Arc<Ready>> {
        each!(self, driver => driver.ready())
    }
}
