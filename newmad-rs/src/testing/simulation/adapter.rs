//! The virtual adapter: registers memory and reads that of others, in virtual time.
//!
//! It does what is worst for an engine that takes memory for its own too early: until a read that has failed is told to
//! be over, it writes rubbish to its target; and a read of memory that is not registered any more, over a whole link,
//! is an error of the engine's.

use std::sync::{Arc, Mutex};

use super::network::Network;
use crate::net::rdma::{Access, RdmaEvent, Ticket};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Until then.
    Registering(u64),
    Registered,
    /// Over that connection, until then.
    Reading(u64, u64),
    /// The owner knows the end.
    Over,
}

struct Memory {
    ticket: Ticket,
    peer: u32,
    at: usize,
    len: usize,
    access: Access,
    stage: Stage,
    /// Where a target is to be read from, and the key.
    from: Option<(u64, u32)>,
    /// A source's own.
    key: Option<u32>,
}

/// See the module.
pub(super) struct Adapter {
    memories: Vec<Memory>,
    last: u32,
    /// Pieces that were read, and those that may be registered at once.
    pub(super) reads: usize,
    pub(super) places: usize,
    /// In a thousand.
    pub(super) refusals: u64,
}

impl Adapter {
    /// So many refusals of memory in a thousand.
    pub(super) fn new(refusals: u64) -> Adapter {
        Adapter { memories: Vec::new(), last: 0, reads: 0, places: 12, refusals }
    }

    /// Whether no memory is registered.
    pub(super) fn is_empty(&self) -> bool {
        self.memories.is_empty()
    }

    /// Whether a read goes on.
    pub(super) fn is_reading(&self) -> bool {
        self.memories.iter().any(|memory| matches!(memory.stage, Stage::Reading(..)))
    }

    pub(super) fn register(
        &mut self,
        network: &Arc<Mutex<Network>>,
        (peer, at, len, access): (u32, *mut u8, usize, Access),
        delay: u64,
    ) -> Option<Ticket> {
        assert!(len > 0);
        if self.memories.len() >= self.places {
            return None;
        }
        self.last += 1;
        let ticket = Ticket { place: 0, turn: self.last };
        let stage = Stage::Registering(network.lock().unwrap().moment(delay));
        let at = at as usize;
        self.memories.push(Memory { ticket, peer, at, len, access, stage, from: None, key: None });
        Some(ticket)
    }

    pub(super) fn read(&mut self, target: Ticket, remote: u64, key: u32) {
        let memory = self.memories.iter_mut().find(|memory| memory.ticket == target).unwrap();
        assert_eq!((memory.access, memory.from), (Access::Target, None));
        memory.from = Some((remote, key));
    }

    pub(super) fn unregister(&mut self, network: &Arc<Mutex<Network>>, ticket: Ticket) {
        let place = self.memories.iter().position(|memory| memory.ticket == ticket).unwrap();
        let memory = self.memories.swap_remove(place);
        assert!(!matches!(memory.stage, Stage::Reading(..)), "a read goes on");
        if let Some(key) = memory.key {
            network.lock().unwrap().keys.remove(&key);
        }
    }

    /// What is told next. `link`: the connection with a peer, and this side of it.
    pub(super) fn event(
        &mut self,
        network: &Arc<Mutex<Network>>,
        link: impl Fn(u32) -> Option<(u64, usize)>,
        delay: u64,
    ) -> Option<(Ticket, RdmaEvent)> {
        for memory in &mut self.memories {
            if let Some(event) = memory.step(network, &link, delay, self.refusals) {
                self.reads += usize::from(event == RdmaEvent::Read);
                return Some((memory.ticket, event));
            }
        }
        None
    }
}

impl Memory {
    fn step(
        &mut self,
        network: &Arc<Mutex<Network>>,
        link: impl Fn(u32) -> Option<(u64, usize)>,
        delay: u64,
        refusals: u64,
    ) -> Option<RdmaEvent> {
        let mut network = network.lock().unwrap();
        let now = network.now;
        if let Stage::Registering(until) = self.stage
            && until <= now
        {
            if network.random.chance(refusals) {
                self.stage = Stage::Over;
                return Some(RdmaEvent::Refused);
            }
            self.stage = Stage::Registered;
            if self.access == Access::Source {
                network.last_key += 1;
                let key = network.last_key;
                network.keys.insert(key, (self.at, self.len));
                self.key = Some(key);
                return Some(RdmaEvent::Registered { key });
            }
        }
        if let (Stage::Registered, Some(_)) = (self.stage, self.from) {
            let Some((id, side)) = link(self.peer) else {
                self.stage = Stage::Over;
                return Some(RdmaEvent::Broken);
            };
            let until = network.arrival(id, side, delay);
            network.moments.push(until);
            self.stage = Stage::Reading(id, until);
        }
        let Stage::Reading(id, until) = self.stage else { return None };
        if until > now {
            return None;
        }
        let (from, key) = self.from?;
        self.stage = Stage::Over;
        if !network.is_whole(id) {
            // SAFETY: the target is this adapter's until it tells the end.
            unsafe { std::ptr::write_bytes(self.at as *mut u8, 0xee, self.len) };
            return Some(RdmaEvent::Broken);
        }
        let (at, len) =
            network.keys.get(&key).copied().expect("memory that is not registered is read");
        let (from, end) = (from as usize, from as usize + self.len);
        assert!(from >= at && end <= at + len, "beside what the key is for");
        // SAFETY: as above; the source is its sender's buffer, which stays registered.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, self.at as *mut u8, self.len) };
        Some(RdmaEvent::Read)
    }
}
