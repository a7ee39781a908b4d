//! Links over verbs: what a process tells a peer of its end, and the link that it makes of what the peer tells.

use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use super::channels::{CONTROLS, MESSAGE, Settings, TAIL};
use super::eager::Eager;
use super::flow::{MOST, WORDS};
use super::ibv::{Adapter, Event, Plan, QueuePair, pick};
use super::pieces::READS_OF_LINK;
use super::supply::Supply;
use super::{Peer, Verbs};
use crate::error::{Error, during};
use crate::net::details::QueuePairAddress;
use crate::net::virtual_rails::Home;
use crate::sys;
use crate::wire::LONG;

/// Bytes of a packet.
const PACKET: usize = MESSAGE + LONG;
/// And what follows it on its way to an eager channel's slot, or beside an eager channel.
const BUFFER: usize = PACKET + TAIL;

/// This process's side of all its links over one port.
pub(crate) struct Own {
    adapter: Arc<Adapter>,
    slots: u16,
    channels: Settings,
    /// `Some`: there are eager channels.
    supply: Option<Arc<Supply>>,
    /// The receive buffers that the links with each peer have brought.
    brought: Box<[Option<Range<u32>>]>,
    /// Where memory is made.
    home: Home,
}

fn unusable(why: String) -> Error {
    Error::Bootstrap(format!("the driver verbs cannot be used: {why}"))
}

/// The names of the first active ports, so many.
///
/// # Errors
/// There are fewer, or none may be used.
pub(crate) fn active_ports(count: usize) -> Result<Vec<String>, Error> {
    pick(count).map_err(unusable)
}

/// One process's part of a link that is being made.
pub(crate) struct Offer(QueuePair);

impl Offer {
    /// What the peer has to know.
    pub(crate) fn address(&self) -> QueuePairAddress {
        self.0.address()
    }
}

impl Own {
    /// Opens the port of this name, and a driver without any link. `home`: where queues and buffers are made.
    ///
    /// # Errors
    /// There is none, or it may not be used.
    pub(crate) fn open(
        size: u32,
        port: &str,
        (slots, channels): (usize, Settings),
        reads: bool,
        home: Home,
    ) -> Result<(Own, Verbs), Error> {
        let slots = slots.min(MOST.into());
        let controls = if channels.limit > 0 { CONTROLS } else { 0 };
        let each = 2 * slots + WORDS + controls;
        let reads_of_link = if reads { READS_OF_LINK } else { 0 };
        let plan = Plan { buffer: BUFFER, each, reads: reads_of_link, links: size as usize };
        let adapter = home.make(|| Adapter::open(port, plan)).map_err(unusable)?;
        let adapter = Arc::new(adapter);
        let supply = match channels.limit {
            0 => None,
            _ => Some(Supply::new(adapter.events())?),
        };
        let driver = Verbs::new(size, adapter.clone(), (channels, supply.clone()), reads)?;
        let brought = vec![None; size as usize].into_boxed_slice();
        Ok((Own { adapter, slots: slots as u16, channels, supply, brought, home }, driver))
    }

    /// The descriptor that shows events of the adapter.
    pub(crate) fn events(&self) -> RawFd {
        match &self.supply {
            Some(supply) => supply.events(),
            None => self.adapter.events(),
        }
    }

    /// The next event, if there is one. Memory for eager channels is made here.
    pub(crate) fn event(&self) -> Option<Event> {
        let supplied = || {
            let supply = self.supply.as_ref()?;
            self.home.make(|| supply.work(&self.adapter)).then_some(Event::Supply)
        };
        self.adapter.event().or_else(supplied)
    }

    /// Begins a link.
    ///
    /// # Errors
    /// The port is down, or the kernel refuses memory.
    pub(crate) fn offer(&self) -> Result<Offer, Error> {
        let psn = u32::from_le_bytes(sys::random()?);
        let pair = self.home.make(|| QueuePair::new(&self.adapter, psn, self.slots));
        pair.map(Offer).map_err(during("making a queue pair (NMAD_DRIVER=verbs)"))
    }

    /// The link with `peer`, which has told `theirs`. The called is told when the caller's end is installed.
    ///
    /// # Errors
    /// There is no way to the peer, or the kernel refuses memory.
    pub(crate) fn link(
        &mut self,
        peer: u32,
        socket: OwnedFd,
        Offer(pair): Offer,
        theirs: Option<QueuePairAddress>,
        is_caller: bool,
    ) -> Result<Peer, Error> {
        let theirs = theirs
            .ok_or_else(|| Error::Bootstrap(format!("rank {peer} has told no queue pair")))?;
        let doing = "connecting queue pairs (NMAD_DRIVER=verbs)";
        pair.connect(&theirs).map_err(during(doing))?;
        let buffers = match self.brought.get_mut(peer as usize) {
            Some(Some(buffers)) => buffers.clone(),
            Some(none) => {
                let made = self.home.make(|| self.adapter.add_buffers()).map_err(during(doing))?;
                self.home.has_made(made.len());
                none.insert(made).clone()
            }
            None => 0..0,
        };
        let eager = || Eager::new(&self.adapter, self.channels, PACKET).map(Box::new);
        let eager = match self.channels.limit {
            0 => None,
            _ => Some(self.home.make(eager).map_err(during(doing))?),
        };
        let grants = (self.slots, theirs.slots);
        Ok(Peer::new(pair, socket, grants, self.adapter.plan.each, is_caller, buffers, eager))
    }
}
