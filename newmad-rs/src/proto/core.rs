//! All protocol state of a session, which one thread at a time runs: the holder of the engine's lock.
//!
//! No locks, no system calls but the driver's, nothing allocated or freed: so it runs inside a signal handler, and
//! under proptest with a virtual driver.

use std::sync::Arc;

use crate::error::Cause;
use crate::gate::config::Config;
use crate::gate::gates::Gates;
use crate::gate::pace::Crossing;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::matching::Matching;
use crate::net::Driver;
use crate::proto::bans::Ban;
use crate::proto::departed::Departures;
use crate::proto::events::Events;
use crate::proto::exposures::Exposures;
use crate::proto::pending::Pending;
use crate::proto::reads::Reads;
use crate::proto::stage::Stage;
use crate::request::queue::Queue;
use crate::request::table::Table;
use crate::request::{Outcome, Ref};
use crate::strategy::Chunks;

/// Bytes that are thrown away at once.
const DISCARD: usize = 16 * 1024;

/// See the module.
pub(crate) struct Core<D> {
    pub(crate) process: u32,
    /// The packets' side: gates and rails.
    pub(crate) gates: Gates<D>,
    /// Which receive gets which message.
    pub(crate) matching: Matching,
    /// Requests that peers know by a number.
    pub(crate) table: Table,
    /// Copies from or to a peer's memory, the oldest first.
    pub(crate) copies: Queue,
    /// Messages that adapters read: of this side's, and from this side's memory.
    pub(crate) reads: Reads,
    pub(crate) exposures: Exposures,
    /// Whether long messages go both ways.
    pub(crate) crossing: Crossing,
    /// Rounds to pass before the next copy begins.
    pub(crate) grace: u32,
    /// Whether messages with different tags may overtake each other.
    pub(crate) reorder: bool,
    /// Where packets of several messages are made.
    pub(crate) stage: Stage,
    /// Sends are only queued: what was left on the submission list is to leave together.
    pub(crate) gathering: bool,
    /// Whether a kernel thread sleeps on behalf of the session, and so looks after messages that are held.
    pub(crate) patient: bool,
    /// How often events were looked for.
    pub(crate) looks: u32,
    /// The sleeper was woken because messages are held, or will be.
    pub(crate) called: bool,
    /// When it will be, in nanoseconds; 0: no timer is set.
    pub(crate) calls_at: u64,
    /// See [`Config::away`].
    pub(crate) away: usize,
    /// How many cores are idle, where strategies want to know: with several rails.
    pub(crate) idle: Option<Box<dyn Fn() -> usize + Send>>,
    /// How many parts of a large message are wanted.
    pub(crate) chunks: Chunks,
    /// Polls for one peer's message so far.
    pub(crate) polls: u8,
    /// How often the lock holder still polls for other threads.
    pub(crate) favours: u32,
    /// Requests of ranks that close. When all ranks do, the process leaves.
    pub(crate) closing: Queue,
    pub(crate) open_ranks: usize,
    /// Which ranks have gone before their processes.
    pub(crate) departures: Departures,
    /// What tools are to be told, if any are there.
    pub(crate) events: Option<Box<Events>>,
    /// Messages that are not waited for; and whether there are some.
    pub(crate) bans: Vec<Ban>,
    pub(crate) has_bans: bool,
    /// A probe for control messages waits, or did.
    pub(crate) listens: bool,
    /// A rank closes, or has failed: each round has something to do for that.
    pub(crate) ends: bool,
    /// The rank whose failure is this process's, if one has failed.
    pub(crate) fallen: Option<(u32, Cause)>,
    /// Nothing is received any more: `closed`, or a rank has failed.
    pub(crate) deaf: bool,
    pub(crate) closed: bool,
    /// Every other rank has left or is dead, as far as the connection manager knows; where there is none, always.
    pub(crate) parted: bool,
    pub(crate) signals: Arc<Signals>,
    /// Where pieces go that are not needed any more.
    pub(crate) discard: Box<[u8]>,
    /// Requests that are not over.
    pub(crate) pending: Pending,
}

// SAFETY: the pointers lead to requests, which are `Sync`, and to memory of the core's own.
unsafe impl<D: Send> Send for Core<D> {}

impl<D: Driver> Core<D> {
    /// The state of process `process` of those that hold these ranks, over these drivers, without any link.
    pub(crate) fn new(
        process: u32,
        ranks: Arc<Ranks>,
        drivers: Vec<D>,
        config: Config,
        signals: Arc<Signals>,
    ) -> Core<D> {
        let own = ranks.of(process).len();
        let beside = ranks.sources_beside(process);
        let tells_apart = drivers.iter().any(|driver| driver.tells_apart());
        let departures = Departures::new(&ranks, process);
        Core {
            process,
            gates: Gates::new(process, ranks, drivers, config, signals.clone()),
            matching: Matching::new(own, config.threshold, config.unexpected_max),
            table: Table::new(),
            copies: Queue::default(),
            reads: Reads::new(),
            exposures: Exposures::new(),
            crossing: Crossing::default(),
            grace: 0,
            reorder: true,
            away: config.away,
            stage: Stage::new(),
            gathering: false,
            patient: false,
            looks: 0,
            called: false,
            calls_at: 0,
            idle: None,
            chunks: Chunks::Rails,
            polls: 0,
            favours: 0,
            closing: Queue::default(),
            open_ranks: own,
            departures,
            bans: Vec::new(),
            events: None,
            has_bans: false,
            listens: false,
            ends: false,
            fallen: None,
            deaf: false,
            closed: false,
            parted: true,
            // Longer ones are announced by programs that compute.
            pending: Pending::new(
                signals.clone(),
                config.threshold.min(config.away),
                tells_apart,
                beside,
            ),
            signals,
            discard: vec![0; DISCARD].into_boxed_slice(),
        }
    }

    /// Ends a request: the last touch.
    #[inline(never)]
    pub(crate) fn finish(&mut self, request: Ref, outcome: Outcome) {
        self.pending.finish(request, outcome);
    }
}
