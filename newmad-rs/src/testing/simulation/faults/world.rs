//! Ranks, their connection managers and the events of the world, in virtual time.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Tally;
use super::program::{Program, RANKS, Step};
use crate::SendOptions;
use crate::error::Cause;
use crate::gate::Life;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::net::virtual_rails::VirtualRails;
use crate::nodes::Nodes;
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Request};
use crate::strategy::selection::Selection;
use crate::testing::asked::{Asked, How};
use crate::testing::simulation::network::{Network, Random, Virtual, reads_from, same};
use crate::testing::simulation::{content, strategies};

pub(super) enum Event {
    /// A parting is over.
    Together,
    Step(Step),
    /// A connection manager has reached its peer's.
    Meet {
        rail: usize,
        ends: [u32; 2],
    },
    Attach {
        rail: usize,
        rank: u32,
        peer: u32,
        id: u64,
        side: usize,
    },
    Refused {
        rank: u32,
        peer: u32,
        cause: Cause,
    },
}

/// See the module.
pub(super) struct World {
    pub(super) network: Arc<Mutex<Network>>,
    pub(super) cores: Vec<Option<Core<Virtual>>>,
    pub(super) sends: Vec<Asked>,
    pub(super) receives: Vec<Asked>,
    pub(super) probes: Vec<Asked>,
    /// Numbers and lengths of the messages of each (from, to, tag), in order.
    pub(super) sent: BTreeMap<(u32, u32, u64), Vec<(usize, usize)>>,
    pub(super) crashed: Vec<u32>,
    /// The rank that closed while the others went on.
    pub(super) left: Vec<u32>,
    pub(super) closes: Vec<Asked>,
    /// The ranks that were parted for longer than a gate must survive.
    pub(super) parted: Vec<[u32; 2]>,
    pub(super) tally: Tally,
    pub(super) apart: Vec<([u32; 2], u64)>,
    /// The last connection between two ranks, by rail.
    pub(super) links: BTreeMap<(usize, u32, u32), u64>,
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    /// When each process's connection manager has called `tick` last.
    pub(super) ticks: Vec<u64>,
    pub(super) random: Random,
}

impl Drop for World {
    fn drop(&mut self) {
        self.cores.clear();
        let all = [&mut self.sends, &mut self.receives, &mut self.probes, &mut self.closes];
        for asked in all.into_iter().flat_map(core::mem::take) {
            // SAFETY: the cores are gone.
            unsafe { asked.abandon() };
        }
    }
}

impl World {
    pub(super) fn new(program: &Program, seed: u64) -> World {
        let network = Network::new(Random(seed ^ 0x6e65_7477));
        let cores = (0..RANKS)
            .map(|rank| {
                let natures = program.natures.iter().enumerate();
                let drivers: Vec<_> =
                    natures.map(|(rail, &nature)| Virtual::new(rail, nature, &network)).collect();
                let signals = Signals::new(RANKS, drivers.len()).unwrap();
                let mut core =
                    Core::new(rank, Ranks::one_each(RANKS), drivers, program.config, signals);
                core.gates.reads_from = reads_from(&program.natures);
                if let Some(first) = program.virtual_rails {
                    let count = program.natures.len() - first;
                    let adapters = (0..first).map(|_| false).chain([true]);
                    let rails = VirtualRails::new(Nodes::default(), count, adapters, 1);
                    core.gates.are_virtual(Arc::new(rails));
                }
                match program.strategy {
                    None => strategies::whims(&mut core, seed, program.panics),
                    Some(name) => {
                        let strategy = crate::strategy::by_name(name).unwrap();
                        (0..RANKS).for_each(|peer| {
                            drop(core.gates.set_strategy(peer, Selection::new(strategy.clone())))
                        });
                    }
                }
                for gate in core.gates.iter_mut() {
                    (gate.tx_seq, gate.rx_seq) = (program.start, program.start);
                }
                Some(core)
            })
            .collect();
        let mut world = World {
            network,
            cores,
            sends: Vec::new(),
            receives: Vec::new(),
            probes: Vec::new(),
            sent: BTreeMap::new(),
            crashed: Vec::new(),
            left: Vec::new(),
            closes: Vec::new(),
            parted: Vec::new(),
            tally: Tally::default(),
            apart: Vec::new(),
            links: BTreeMap::new(),
            events: BTreeMap::new(),
            order: 0,
            ticks: vec![0; RANKS as usize],
            random: Random(seed ^ 0x776f_726c),
        };
        for (at, step) in &program.steps {
            world.at(*at, Event::Step(step.clone()));
        }
        world
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    pub(super) fn later(&mut self, delay: u64, step: Step) {
        let at = self.now() + delay;
        self.at(at, Event::Step(step));
    }

    pub(super) fn now(&self) -> u64 {
        self.network.lock().unwrap().now
    }

    pub(super) fn core(&mut self, rank: u32) -> Option<&mut Core<Virtual>> {
        self.cores[rank as usize].as_mut()
    }

    pub(super) fn receive(
        &mut self,
        rank: u32,
        from: Option<u32>,
        (tag, mask): (u64, u64),
        (room, spread): (usize, usize),
        held: Option<u32>,
    ) {
        let (from, waits) = (from.unwrap_or(ANY_SOURCE), self.random.chance(500));
        let with = |request: Request| {
            request.held.set(held);
            request.masked(mask)
        };
        if let Some(core) = self.core(rank) {
            let how = How { waits, spread };
            let asked = Asked::recv_with(core, (from, tag), room, how, with);
            self.receives.push(asked);
        }
    }

    /// Receives what probes have taken hold of.
    fn receive_held(&mut self) {
        for index in 0..self.probes.len() {
            let probe = &self.probes[index];
            let (rank, request) = (probe.rank, probe.get());
            if request.is_finished()
                && let Some(held) = request.held.take()
            {
                self.receive(rank, Some(request.source.get()), (0, !0), (2000, 0), Some(held));
            }
        }
    }

    pub(super) fn close(&mut self, rank: u32) {
        if let Some(core) = self.core(rank) {
            let asked = Asked::plain(core, Request::close());
            self.closes.push(asked);
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Send { from: rank, .. } | Step::Recv { rank, .. } | Step::Probe { rank, .. }
                if self.left.contains(&rank) => {}
            Step::Send { from, to, tag, len, waits, synchronous, spread, priority } => {
                let number = self.sends.len();
                let buffer: Vec<u8> = (0..len).map(|index| content(from, number, index)).collect();
                let with = |mut request: Request| {
                    let plain = SendOptions::new().priority(priority);
                    let options = if synchronous { plain.sync() } else { plain };
                    options.apply(&mut request);
                    request
                };
                if let Some(core) = self.core(from) {
                    let how = How { waits, spread };
                    let asked = Asked::send_with(core, (to, tag), buffer, how, with);
                    self.tally.messages += 1;
                    self.sent.entry((from, to, tag)).or_default().push((number, len));
                    self.sends.push(asked);
                }
            }
            Step::Recv { rank, from, tag, mask, room, spread } => {
                self.receive(rank, from, (tag, mask), (room, spread), None);
            }
            Step::Probe { rank, from, tag, mask, take } => {
                let from = from.unwrap_or(ANY_SOURCE);
                if let Some(core) = self.core(rank) {
                    let probe = Request::probe(from, tag, take).masked(mask);
                    let asked = Asked::plain(core, probe);
                    self.probes.push(asked);
                }
            }
            Step::Cancel { receive } => {
                let Some(asked) = self.receives.get(receive) else { return };
                if let Some(core) = &mut self.cores[asked.rank as usize] {
                    asked.cancel(core);
                }
            }
            Step::Cut { rail, ends } => {
                let breaks = self.cores.iter().flatten().any(|core| core.gates.rails[rail].breaks);
                if breaks {
                    let which = |it, between| it == rail && same(between, ends);
                    self.tally.cuts += self.network.lock().unwrap().cut(which);
                }
            }
            Step::Part { ends, span, silent } => {
                let until = self.now() + span;
                let breaks: Vec<bool> = match self.cores.iter().flatten().next() {
                    Some(core) => core.gates.rails.iter().map(|rail| rail.breaks).collect(),
                    None => return,
                };
                let which = |rail: usize, between| breaks[rail] && same(between, ends);
                if silent {
                    self.network.lock().unwrap().swallow(until, which);
                } else {
                    self.network.lock().unwrap().cut(which);
                }
                self.at(until, Event::Together);
                self.apart.push((ends, until));
                self.tally.partings += 1;
                if span >= super::program::SHORT_PARTING {
                    self.parted.push(ends);
                }
            }
            Step::Leave { rank } => {
                self.left.push(rank);
                self.close(rank);
                self.tally.leaves += 1;
            }
            Step::Route { rank, peer, route } => {
                if let Some(core) = self.core(rank) {
                    core.gates.receive_on(peer, route);
                }
            }
            Step::Crash { rank } => {
                if let Some(mut core) = self.cores[rank as usize].take() {
                    core.gates.rails.iter_mut().for_each(|rail| rail.driver.die());
                    self.crashed.push(rank);
                    self.tally.crashes += 1;
                }
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Together => {}
            Event::Step(step) => self.step(step),
            Event::Meet { rail, ends } => self.meet(rail, ends),
            Event::Attach { rail, rank, peer, id, side } => match self.core(rank) {
                Some(core) => core.attach(rail, peer, |driver| driver.install(peer, id, side)),
                // The other side finds its connection ended.
                None => {
                    self.network
                        .lock()
                        .unwrap()
                        .cut(|it, ends| it == rail && same(ends, [rank, peer]));
                }
            },
            Event::Refused { rank, peer, cause } => {
                if let Some(core) = self.core(rank) {
                    core.fail_peer(peer, cause);
                }
            }
        }
    }

    /// Lets time pass until nothing happens any more, or `done`.
    pub(super) fn pass(&mut self, done: impl Fn(&World) -> bool) {
        let mut quiet = 0;
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            let mut any = false;
            let now = self.now();
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= now
            {
                let event = entry.remove();
                self.event(event);
                self.receive_held();
                any = true;
            }
            self.connect();
            for rank in 0..RANKS {
                let asleep = self.random.chance(250);
                if let Some(core) = self.core(rank).filter(|_| !asleep) {
                    any |= core.progress();
                    if core.signals.starved.load(Ordering::Relaxed) {
                        any |= core.grow();
                    }
                }
                self.receive_held();
            }
            if any {
                quiet = 0;
                continue;
            }
            // Every rank polls once more before time goes on.
            for core in self.cores.iter_mut().flatten() {
                any |= core.progress();
            }
            self.receive_held();
            self.connect();
            if any {
                continue;
            }
            let ticking = self.cores.iter().flatten();
            let ticking =
                ticking.filter_map(|core| next_tick(core, self.ticks[core.process as usize]));
            let event = self.events.keys().next().map(|key| key.0);
            let next =
                ticking.chain(event).chain(self.network.lock().unwrap().next_arrival()).min();
            match next {
                Some(at) => {
                    let mut network = self.network.lock().unwrap();
                    network.now = network.now.max(at);
                }
                // Taking a header without its bytes is no progress of a rank, but makes room.
                None if quiet < 4 => quiet += 1,
                None => return,
            }
        }
        panic!("it never settles");
    }

    /// Whether these two can still talk: neither has crashed, left or given the other up.
    pub(super) fn are_whole(&self, a: u32, b: u32) -> bool {
        let alive = |rank: u32, peer: u32| {
            self.cores[rank as usize]
                .as_ref()
                .is_some_and(|core| !matches!(core.gates[peer as usize].life, Life::Dead(_)))
        };
        let left = self.left.contains(&a) || self.left.contains(&b);
        !left && (a == b && self.cores[a as usize].is_some() || (alive(a, b) && alive(b, a)))
    }

    /// What each thinks of the other.
    pub(super) fn lives(&self, a: u32, b: u32) -> [Option<Life>; 2] {
        let life = |rank: u32, peer: u32| {
            self.cores[rank as usize].as_ref().map(|core| core.gates[peer as usize].life)
        };
        [life(a, b), life(b, a)]
    }

    /// Whether there is a reason why these two cannot talk any more.
    pub(super) fn have_reason(&self, a: u32, b: u32) -> bool {
        let gone = self.crashed.iter().chain(&self.left).any(|rank| [a, b].contains(rank));
        gone || self.parted.iter().any(|ends| same(*ends, [a, b]))
    }
}

/// When the connection manager of a process calls `tick` next, which it has done at `last`.
pub(super) fn next_tick(core: &Core<Virtual>, last: u64) -> Option<u64> {
    core.signals.pace().map(|pace| last + pace.as_millis() as u64)
}
