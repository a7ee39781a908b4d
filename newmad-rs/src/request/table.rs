//! Requests that a peer knows by a number: sends that were announced and receives that were asked for.

use crate::request::{LONG, Op, Ref};
use crate::wire::Malformed;

/// Chains of the table.
const CHAINS: usize = 256;

/// See the module.
pub(crate) struct Table {
    chains: Box<[Option<Ref>]>,
    last: u64,
    /// How many of them are long sends, and long receives.
    long_sends: usize,
    long_receives: usize,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            chains: vec![None; CHAINS].into_boxed_slice(),
            last: 0,
            long_sends: 0,
            long_receives: 0,
        }
    }

    /// Gives the request a number.
    pub(crate) fn insert(&mut self, request: Ref) {
        self.last += 1;
        self.count_long(request, true);
        request.id.set(self.last);
        let chain = &mut self.chains[self.last as usize % CHAINS];
        request.chain.set(chain.replace(request));
    }

    /// Counts the request, which comes or goes, if it is worth a protocol of its own.
    fn count_long(&mut self, request: Ref, comes: bool) {
        let (count, len) = match request.op {
            Op::Send => (&mut self.long_sends, request.capacity),
            _ => (&mut self.long_receives, request.total.get()),
        };
        if len >= LONG {
            *count = if comes { *count + 1 } else { *count - 1 };
        }
    }

    /// Whether a long message of this side's was announced, and is not over.
    pub(crate) fn has_long_sends(&self) -> bool {
        self.long_sends > 0
    }

    /// Whether a long message has begun to come, and is not over.
    pub(crate) fn has_long_receives(&self) -> bool {
        self.long_receives > 0
    }

    /// The request with that number, which is of that kind and with that process.
    pub(crate) fn get(&self, id: u64, op: Op, peer: u32) -> Result<Ref, Malformed> {
        self.find_id(id, op, peer)?.ok_or(Malformed)
    }

    /// As `get`; `None` if the request is over.
    pub(crate) fn find_id(&self, id: u64, op: Op, peer: u32) -> Result<Option<Ref>, Malformed> {
        let mut at = self.chains[id as usize % CHAINS];
        while let Some(request) = at.filter(|request| request.id.get() != id) {
            at = request.chain.get();
        }
        let right = match at {
            Some(request) => request.op == op && request.gate.get() == peer,
            None => (1..=self.last).contains(&id),
        };
        if right { Ok(at) } else { Err(Malformed) }
    }

    /// Forgets a request, if it is there.
    pub(crate) fn remove(&mut self, request: Ref) {
        let id = request.id.replace(0);
        if id == 0 {
            return;
        }
        self.count_long(request, false);
        let chain = &mut self.chains[id as usize % CHAINS];
        if *chain == Some(request) {
            *chain = request.chain.take();
            return;
        }
        let mut at = *chain;
        while let Some(before) = at {
            if before.chain.get() == Some(request) {
                before.chain.set(request.chain.take());
                return;
            }
            at = before.chain.get();
        }
    }

    /// A request that `which` points at. Walks everything: for rare events.
    pub(crate) fn find(&self, which: impl Fn(Ref) -> bool) -> Option<Ref> {
        self.iter().find(|&request| which(request))
    }

    /// All requests, as [`Table::find`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ref> + use<'_> {
        let chain =
            |first: &Option<Ref>| std::iter::successors(*first, |request| request.chain.get());
        self.chains.iter().flat_map(chain)
    }
}
