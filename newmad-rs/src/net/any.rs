//! The driver of a rail: a built-in one, chosen at run time without a virtual call per packet, or one of the program's.

use std::sync::Arc;

use crate::driver;
use crate::error::Error;
use crate::memory::span::Span;
use crate::net::custom::Custom;
use crate::net::driver::Driver;
use crate::net::lease::SendLease;
use crate::net::packet::{Peek, Refused};
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::net::ready::Ready;
use crate::net::rings::Rings;
use crate::net::segment::Segment;
use crate::net::segment::bell::Bell;
use crate::net::shm::{self, Shm};
use crate::net::tcp::{self, Tcp};
use crate::net::verbs::{self, Verbs};
use crate::wire::{Envelope, Header};

/// One of the drivers.
pub(crate) enum AnyDriver {
    /// Shared memory, between processes or inside one.
    Shm(Shm),
    /// TCP.
    Tcp(Box<Tcp>),
    /// InfiniBand or RoCE.
    Verbs(Box<Verbs>),
    /// A network of the program's.
    Custom(Box<Custom>),
}

/// A link with a peer, ready to be used.
pub(crate) enum Link {
    /// Over shared memory.
    Shm(shm::Peer),
    /// Over TCP.
    Tcp(tcp::Peer),
    /// Over InfiniBand or RoCE.
    Verbs(Box<verbs::Peer>),
    /// Over a network of the program's.
    Custom(Box<dyn driver::Link>),
}

impl AnyDriver {
    /// Uses `link` from now on, and closes the one that there was. Callers' context.
    pub(crate) fn install(&mut self, peer: u32, link: Link) -> Result<(), Error> {
        match (self, link) {
            (AnyDriver::Shm(driver), Link::Shm(link)) => driver.install(peer, link),
            (AnyDriver::Tcp(driver), Link::Tcp(link)) => driver.install(peer, link),
            (AnyDriver::Verbs(driver), Link::Verbs(link)) => driver.install(peer, *link),
            (AnyDriver::Custom(driver), Link::Custom(link)) => driver.install(peer, link),
            _ => Err(Error::Bootstrap(format!("the link with rank {peer} is of another kind"))),
        }
    }

    /// The rail's adapter has told something. Callers' context.
    pub(crate) fn on_event(&mut self, event: verbs::Event) {
        if let AnyDriver::Verbs(driver) = self {
            driver.on_event(event);
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
                AnyDriver::Verbs($driver) => $call,
                AnyDriver::Custom($driver) => $call,
                AnyDriver::Shm(_) => unreachable!(),
            }
        }
    };
}

/// Methods that are the driver's.
macro_rules! forward {
    ($($(#[$attribute:meta])* fn $name:ident($self:ident: $own:ty $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => { $(
        $(#[$attribute])*
        fn $name($self: $own $(, $argument: $type)*) $(-> $result)? {
            each!($self, driver => driver.$name($($argument),*))
        }
    )* };
}

impl Driver for AnyDriver {
    forward! {
        fn name(self: &Self) -> &'static str;
        #[inline] fn mtu(self: &Self, to: u32) -> usize;
        fn can_copy(self: &Self, peer: u32) -> bool;
        fn copies_too(self: &Self, peer: u32, waits: bool) -> bool;
        #[inline] fn begin(self: &mut Self) -> bool;
        #[inline] fn post_small(self: &mut Self, to: u32, header: &Header, parts: &[Span]) -> bool;
        fn post_later(self: &mut Self, to: u32, header: &Header, parts: &[Span]) -> bool;
        fn pay_owed(self: &mut Self);
        fn ring_ns(self: &Self) -> u64;
        #[inline(always)] fn post_eager(self: &mut Self, to: u32, numbers: (u32, u32), envelope: Envelope, data: Span) -> bool;
        fn lend(self: &mut Self, to: u32) -> Option<SendLease>;
        fn has_segments(self: &Self) -> bool;
        fn segments(self: &Self, peer: u32) -> Option<[Arc<Segment>; 2]>;
        fn readable_process(self: &Self, peer: u32) -> Option<i32>;
        fn take_back(self: &mut Self, to: u32, lease: SendLease);
        #[inline(always)] fn peek_small(self: &mut Self, from: u32) -> Peek;
        #[inline] fn release(self: &mut Self, from: u32);
        fn post_large(self: &mut Self, to: u32, header: &Header, data: Span) -> usize;
        fn mid_piece(self: &Self, to: u32) -> usize;
        fn can_break(self: &Self) -> bool;
        fn is_silent(self: &Self, peer: u32) -> bool;
        fn peek_large(self: &mut Self, from: u32) -> Peek;
        fn can_read(self: &Self, peer: u32) -> bool;
        fn unregister(self: &mut Self, memory: Ticket);
        fn rdma_event(self: &mut Self) -> Option<(Ticket, RdmaEvent)>;
        fn is_flushed(self: &Self, to: u32) -> bool;
        fn waits_for_goodbye(self: &Self) -> bool;
        fn withdraw(self: &mut Self) -> bool;
        fn close(self: &mut Self, peer: u32);
        fn arm(self: &mut Self, rings: Rings) -> bool;
        fn look_at_all(self: &mut Self);
        fn leave_some(self: &mut Self);
        fn tells_apart(self: &Self) -> bool;
        fn longest_piece(self: &Self, to: u32) -> usize;
        fn doorbell(self: &Self) -> Option<&Arc<Bell>>;
        fn calls_the_kernel(self: &Self) -> bool;
        fn wake_oneself(self: &mut Self);
        fn wake_oneself_at(self: &mut Self, ns: u64) -> bool;
        fn ready(self: &Self) -> Option<&Arc<Ready>>;
    }

    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.read_large(from, to, len) })
    }
    unsafe fn get(
        &mut self,
        from: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused> {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.get(from, remote, to, len) })
    }
    unsafe fn register(
        &mut self,
        peer: u32,
        at: *mut u8,
        len: usize,
        access: Access,
    ) -> Option<Ticket> {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.register(peer, at, len, access) })
    }
    unsafe fn read(&mut self, target: Ticket, remote: u64, key: u32) {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.read(target, remote, key) })
    }
    unsafe fn put(&mut self, to: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        // SAFETY: the caller's promise is passed on.
        each!(self, driver => unsafe { driver.put(to, remote, data) })
    }
}
