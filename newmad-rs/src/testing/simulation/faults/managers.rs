//! The ranks' connection managers: they open the links that are wanted when both sides are there, and call `tick`.

use super::world::{Event, World, next_tick};
use crate::error::Cause;
use crate::testing::simulation::network::same;

impl World {
    /// Two connection managers open a link, or one learns that the other is gone.
    pub(super) fn meet(&mut self, rail: usize, ends: [u32; 2]) {
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
        if core.gates.rails[rail].breaks
            && self.apart.iter().any(|(apart, until)| same(*apart, ends) && *until > now)
        {
            return self.at(now + 40, Event::Meet { rail, ends });
        }
        let network = self.network.clone();
        let key = (rail, one.min(other), one.max(other));
        let is_whole = |id: &u64| network.lock().unwrap().is_whole(*id);
        // Now and then a whole link is replaced.
        if self.links.get(&key).is_some_and(is_whole)
            && !(core.gates.rails[rail].breaks && self.random.chance(100))
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

    pub(super) fn connect(&mut self) {
        let mut wanted = Vec::new();
        for core in self.cores.iter().flatten() {
            core.signals.take_wanted(|rail, peer| wanted.push((rail, [core.process, peer])));
        }
        for (rail, ends) in wanted {
            let at = self.now() + self.random.below(30);
            self.at(at, Event::Meet { rail, ends });
        }
        let now = self.now();
        for core in self.cores.iter_mut().flatten() {
            let last = &mut self.ticks[core.process as usize];
            if next_tick(core, *last).is_some_and(|next| next <= now) {
                *last = now;
                core.tick(now);
            }
        }
    }
}
