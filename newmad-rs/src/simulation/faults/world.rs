//! Ranks, their porters and the events of the world, in virtual time.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Random;
use super::network::{Network, Virtual};
use super::program::{Program, RANKS, Step};
use crate::engine::core::{Core, Signals};
use crate::error::Cause;
use crate::gate::Life;
use crate::request::{ANY_SOURCE, Ref, Request};
use crate::simulation::content;

/// Milliseconds between two ticks.
const TICK: u64 = 50;

/// What happened in schedules.
#[derive(Default, Debug)]
pub(super) struct Tally {
    pub(super) messages: u64,
    pub(super) cuts: u64,
    pub(super) crashes: u64,
    pub(super) partings: u64,
    pub(super) drops: u64,
    pub(super) doubles: u64,
    pub(super) corrupted: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.messages += other.messages;
        self.cuts += other.cuts;
        self.crashes += other.crashes;
        self.partings += other.partings;
        self.drops += other.drops;
        self.doubles += other.doubles;
        self.corrupted += other.corrupted;
    }
}

/// A request and its buffer.
pub(super) struct Asked {
    pub(super) request: NonNull<Request>,
    pub(super) buffer: Vec<u8>,
    pub(super) rank: u32,
    pub(super) tag: u64,
}

impl Asked {
    pub(super) fn get(&self) -> &Request {
        // SAFETY: freed by the world's end only.
        unsafe { self.request.as_ref() }
    }
}

enum Event {
    /// A parting is over.
    Together,
    Step(Step),
    /// A porter has found its peer's.
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
    /// Numbers and lengths of the messages of each (from, to, tag), in order.
    pub(super) sent: BTreeMap<(u32, u32, u64), Vec<(usize, usize)>>,
    pub(super) crashed: Vec<u32>,
    /// Who was parted for longer than a gate must survive.
    pub(super) parted: Vec<[u32; 2]>,
    pub(super) tally: Tally,
    apart: Vec<([u32; 2], u64)>,
    /// The last connection between two ranks, by rail.
    links: BTreeMap<(usize, u32, u32), u64>,
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    ticks: Vec<u64>,
    random: Random,
}

impl Drop for World {
    fn drop(&mut self) {
        self.cores.clear();
        for asked in self.sends.iter().chain(&self.receives) {
            // SAFETY: boxed by `ask`; the cores, which pointed to it, are gone.
            drop(unsafe { Box::from_raw(asked.request.as_ptr()) });
        }
    }
}

fn same(a: [u32; 2], b: [u32; 2]) -> bool {
    a == b || a == [b[1], b[0]]
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
                Some(Core::new(rank, RANKS, drivers, program.config, signals))
            })
            .collect();
        let mut world = World {
            network,
            cores,
            sends: Vec::new(),
            receives: Vec::new(),
            sent: BTreeMap::new(),
            crashed: Vec::new(),
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

    fn at(&mut self, at: u64, event: Event) {
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

    /// Hands a request to a rank that lives.
    pub(super) fn ask(&mut self, rank: u32, request: Request) -> Option<NonNull<Request>> {
        let core = self.core(rank)?;
        let request = NonNull::from(Box::leak(Box::new(request)));
        // SAFETY: freed when the world ends.
        core.start(unsafe { Ref::new(request) });
        Some(request)
    }

    pub(super) fn receive(
        &mut self,
        rank: u32,
        from: Option<u32>,
        tag: u64,
        room: usize,
        waits: bool,
    ) {
        let mut buffer = vec![0; room];
        // SAFETY: the buffer lives in `Asked`, to the world's end; its heap memory does not move.
        let request =
            unsafe { Request::recv(from.unwrap_or(ANY_SOURCE), tag, &raw mut buffer[..], waits) };
        if let Some(request) = self.ask(rank, request) {
            self.receives.push(Asked { request, buffer, rank, tag });
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send { from, to, tag, len, waits } => {
                let number = self.sends.len();
                let buffer: Vec<u8> = (0..len).map(|index| content(from, number, index)).collect();
                // SAFETY: as for receives.
                let request = unsafe { Request::send(to, tag, &raw const buffer[..], waits) };
                if let Some(request) = self.ask(from, request) {
                    self.tally.messages += 1;
                    self.sent.entry((from, to, tag)).or_default().push((number, len));
                    self.sends.push(Asked { request, buffer, rank: from, tag });
                }
            }
            Step::Recv { rank, from, tag, room, waits } => {
                self.receive(rank, from, tag, room, waits)
            }
            Step::Cancel { receive } => {
                let Some(asked) = self.receives.get(receive) else { return };
                let (rank, request) = (asked.rank, asked.request);
                if !asked.get().is_finished()
                    && let Some(core) = self.core(rank)
                {
                    // SAFETY: not finished, and alive.
                    core.cancel(unsafe { Ref::new(request) });
                }
            }
            Step::Cut { rail, ends } => {
                let breaks = self.cores.iter().flatten().any(|core| core.rails[rail].breaks);
                if breaks {
                    let which = |it, between| it == rail && same(between, ends);
                    self.tally.cuts += self.network.lock().unwrap().cut(which);
                }
            }
            Step::Part { ends, span, silent } => {
                let until = self.now() + span;
                let breaks: Vec<bool> = match self.cores.iter().flatten().next() {
                    Some(core) => core.rails.iter().map(|rail| rail.breaks).collect(),
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
            Step::Crash { rank } => {
                if let Some(mut core) = self.cores[rank as usize].take() {
                    core.rails.iter_mut().for_each(|rail| rail.driver.die());
                    self.crashed.push(rank);
                    self.tally.crashes += 1;
                }
            }
        }
    }

    /// Both porters are there, or one learns that it is alone.
    fn meet(&mut self, rail: usize, ends: [u32; 2]) {
        let [one, other] = ends;
        let now = self.now();
        let Some(core) = &self.cores[one as usize] else { return };
        if core.closed || !core.gates[other as usize].is_open() {
            return;
        }
        let refusal = match &self.cores[other as usize] {
            None => Some(Cause::Vanished),
            Some(core) if core.closed => Some(Cause::Left),
            Some(core) if !core.gates[one as usize].is_open() => Some(Cause::Vanished),
            Some(_) => None,
        };
        if let Some(cause) = refusal {
            let at = now + self.random.below(30);
            return self.at(at, Event::Refused { rank: one, peer: other, cause });
        }
        if core.rails[rail].breaks
            && self.apart.iter().any(|(apart, until)| same(*apart, ends) && *until > now)
        {
            return self.at(now + 40, Event::Meet { rail, ends });
        }
        let network = self.network.clone();
        let key = (rail, one.min(other), one.max(other));
        let is_whole = |id: &u64| network.lock().unwrap().is_whole(*id);
        // Now and then two porters meet twice.
        if self.links.get(&key).is_some_and(is_whole)
            && !(core.rails[rail].breaks && self.random.chance(100))
        {
            return;
        }
        let id = network.lock().unwrap().connect(rail, ends);
        self.links.insert(key, id);
        for (side, (rank, peer)) in [(one, other), (other, one)].into_iter().enumerate() {
            let at = now + self.random.below(20);
            self.at(at, Event::Attach { rail, rank, peer, id, side });
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Together => {}
            Event::Step(step) => self.step(step),
            Event::Meet { rail, ends } => self.meet(rail, ends),
            Event::Attach { rail, rank, peer, id, side } => match self.core(rank) {
                Some(core) => core.attach(rail, peer, |driver| driver.install(peer, id, side)),
                // Whoever is there finds its connection ended.
                None => {
                    self.network
                        .lock()
                        .unwrap()
                        .cut(|it, ends| it == rail && same(ends, [rank, peer]));
                }
            },
            Event::Refused { rank, peer, cause } => {
                if let Some(core) = self.core(rank) {
                    core.unreachable(peer, cause);
                }
            }
        }
    }

    fn porters(&mut self) {
        let mut wanted = Vec::new();
        for core in self.cores.iter().flatten() {
            core.signals.take_wanted(|rail, peer| wanted.push((rail, [core.rank, peer])));
        }
        for (rail, ends) in wanted {
            let at = self.now() + self.random.below(30);
            self.at(at, Event::Meet { rail, ends });
        }
        let now = self.now();
        for core in self.cores.iter_mut().flatten() {
            let next = &mut self.ticks[core.rank as usize];
            if *next <= now && core.signals.restless.load(Ordering::Relaxed) {
                core.tick(now);
                *next = now + TICK;
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
                any = true;
            }
            self.porters();
            for rank in 0..RANKS {
                let asleep = self.random.chance(250);
                if let Some(core) = self.core(rank).filter(|_| !asleep) {
                    any |= core.progress();
                    if core.signals.starved.load(Ordering::Relaxed) {
                        any |= core.grow();
                    }
                }
            }
            if any {
                quiet = 0;
                continue;
            }
            // Everybody looks once more before time goes on.
            for core in self.cores.iter_mut().flatten() {
                any |= core.progress();
            }
            self.porters();
            if any {
                continue;
            }
            let ticking = self.cores.iter().flatten().filter_map(|core| {
                let restless = core.signals.restless.load(Ordering::Relaxed);
                restless.then(|| self.ticks[core.rank as usize])
            });
            let event = self.events.keys().next().map(|key| key.0);
            let next =
                ticking.chain(event).chain(self.network.lock().unwrap().next_arrival()).min();
            match next {
                Some(at) => {
                    let mut network = self.network.lock().unwrap();
                    network.now = network.now.max(at);
                }
                // A header without its bytes is no news for those who take it, but makes room.
                None if quiet < 4 => quiet += 1,
                None => return,
            }
        }
        panic!("it never settles");
    }

    /// Whether these two can still talk: neither has crashed nor given the other up.
    pub(super) fn are_whole(&self, a: u32, b: u32) -> bool {
        let alive = |rank: u32, peer: u32| {
            self.cores[rank as usize]
                .as_ref()
                .is_some_and(|core| !matches!(core.gates[peer as usize].life, Life::Dead(_)))
        };
        a == b && self.cores[a as usize].is_some() || (alive(a, b) && alive(b, a))
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
        let crashed = self.crashed.iter().any(|rank| [a, b].contains(rank));
        crashed || self.parted.iter().any(|ends| same(*ends, [a, b]))
    }
}
