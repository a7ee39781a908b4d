//! Memory for eager channels: the driver orders it on the progress path, where nothing may be registered, and the
//! connection manager's thread makes it.
//!
//! ```text
//!  driver (engine's lock)                     connection manager's thread
//!  a request, or a ring that is drained: bell ─▶ `work`: an event
//!  `on_event`: decides, writes orders,        ◀─ (takes the engine's lock)
//!              gives old rings away
//!                                                `work`: drops old rings, makes new ones: another event
//!  `on_event`: takes them                     ◀─
//! ```

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::channels::Shape;
use super::ibv::{Adapter, Landing};
use crate::error::Error;
use crate::sys;

/// A ring for the channel of the link with that queue pair.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) peer: u32,
    pub(super) pair: u32,
    pub(super) shape: Shape,
}

#[derive(Default)]
struct Orders {
    wanted: Vec<Order>,
    made: Vec<(Order, Option<Landing>)>,
    waste: Vec<Landing>,
}

/// See the module.
pub(super) struct Supply {
    bell: OwnedFd,
    /// Shows the bell and the adapter's events.
    events: OwnedFd,
    orders: Mutex<Orders>,
}

impl Supply {
    /// Beside the adapter whose events that descriptor shows.
    pub(super) fn new(adapter: RawFd) -> Result<Arc<Supply>, Error> {
        let (bell, events) = (sys::eventfd()?, sys::epoll()?);
        sys::watch(&events, bell.as_raw_fd(), libc::EPOLLIN, 0)?;
        sys::watch(&events, adapter, libc::EPOLLIN, 1)?;
        Ok(Arc::new(Supply { bell, events, orders: Mutex::default() }))
    }

    pub(super) fn events(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Has the connection manager's thread look. Progress path.
    pub(super) fn ring(&self) {
        sys::ring(self.bell.as_raw_fd());
    }

    /// Nothing that panics runs under this lock. It is held for moments, in callers' context only.
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders rings, and gives old ones away. Callers' context.
    pub(super) fn order(&self, mut wanted: Vec<Order>, mut waste: Vec<Landing>) {
        let mut orders = self.orders();
        orders.wanted.append(&mut wanted);
        orders.waste.append(&mut waste);
    }

    /// The rings that are made. Callers' context.
    pub(super) fn take(&self) -> Vec<(Order, Option<Landing>)> {
        std::mem::take(&mut self.orders().made)
    }

    /// Does what was ordered. True: the driver has to look. Callers' context, without the engine's lock.
    pub(super) fn work(&self, adapter: &Arc<Adapter>) -> bool {
        let rung = self.unring();
        let (wanted, waste) = {
            let mut orders = self.orders();
            (std::mem::take(&mut orders.wanted), std::mem::take(&mut orders.waste))
        };
        drop(waste);
        let worked = !wanted.is_empty();
        for order in wanted {
            let len = order.shape.bytes() as usize;
            let ring: io::Result<Landing> = Landing::new(adapter, len);
            // Without memory there is no channel, which is no error: packets go by send and receive.
            self.orders().made.push((order, ring.ok()));
        }
        rung || worked
    }

    fn unring(&self) -> bool {
        let mut count = [0u8; 8];
        rustix::io::read(&self.bell, &mut count).is_ok()
    }
}
