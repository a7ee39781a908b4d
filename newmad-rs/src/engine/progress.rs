//! Progress: begins requests, polls the rails, and says whether a thread may sleep. The lock holder runs it.

use std::sync::atomic::Ordering;

use crate::error::Cause;
use crate::gate::gates::Verdict;
use crate::gate::signals::{FINE, TICK_MS};
use crate::gate::{NO_RAIL, rails};
use crate::net::Driver;
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Op, Ref};
use crate::sys::now_ns;

/// Most rounds of one call of [`Core::progress`]; more than one only while large copies go on.
const ROUNDS: usize = 256;
/// How long messages that are held wait for a look by their sender, in nanoseconds. To set a timer and to stop it costs the
/// sender less than to wake a thread, and a look that comes later than this may well not come for long.
const HELD_NS: u64 = 50_000;
/// Every so many polls for one peer's message look at everything.
const SELDOM: u8 = 8;

impl<D: Driver> Core<D> {
    /// Begins what is on the submission list.
    #[inline]
    pub(crate) fn drain(&mut self) -> bool {
        if self.signals.submissions.is_empty() {
            return false;
        }
        self.drain_slowly();
        true
    }

    #[cold]
    fn drain_slowly(&mut self) {
        self.gathering = true;
        let mut to = None;
        for request in self.signals.submissions.take() {
            // SAFETY: `Engine::submit`'s caller promised that it stays until it is finished.
            let request = unsafe { Ref::new(request) };
            to = (request.op == Op::Send).then(|| self.gates.ranks.home(request.peer)).or(to);
            self.start(request);
        }
        self.signals.submissions.arrived();
        self.gathering = false;
        if self.gates.backlog > 0 {
            self.flush_all();
        }
        if self.signals.has_way(FINE)
            && let Some(to) = to
        {
            // Its sender found the engine held.
            self.lend(to);
        }
    }

    /// Begins a request. It may be finished, and gone, when this returns.
    #[inline]
    pub(crate) fn start(&mut self, request: Ref) {
        self.pending.begin(request);
        if self.deaf && request.op != Op::Close || self.closed {
            return self.finish(request, self.end());
        }
        match request.op {
            Op::Send => self.start_send(request),
            Op::Recv => self.start_recv(request),
            Op::Probe { .. } => self.start_probe(request),
            Op::Close => self.start_close(request),
        }
    }

    /// As [`Core::start`], of a short receive: in fewer steps, since windows of them are what programs begin most often.
    #[inline(always)]
    pub(crate) fn start_short_receive(&mut self, request: Ref) {
        self.pending.begin_short_receive(request);
        if self.deaf {
            return self.finish(request, self.end());
        }
        self.start_recv(request);
    }

    /// Finds and treats events until none is left, or enough is done for one call. True: state has changed that may let
    /// a thread go on. A message that only waits for its peer is no such change.
    pub(crate) fn progress(&mut self) -> bool {
        let mut any = self.drain();
        for _ in 0..ROUNDS {
            // A round that only passes for a copy is followed by one that copies.
            let passes = self.grace > 0;
            let did = self.round();
            any |= did;
            if !(did || passes) || self.copies.is_empty() {
                break;
            }
            // Between two pieces of a copy other threads have the engine, or what they have submitted begins.
            if did && self.is_asked_for() {
                break;
            }
            any |= self.drain();
        }
        any
    }

    /// Whether other threads wait for the engine.
    #[inline]
    pub(crate) fn is_asked_for(&self) -> bool {
        self.signals.callers.load(Ordering::Relaxed) > 0
    }

    /// Whether there is something to be done that no event has to bring: copies, and what waits to be sent.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.copies.is_empty() || self.gates.backlog > 0
    }

    /// Whether drivers may tell of pieces that adapters read.
    #[inline]
    fn uses_rdma(&self) -> bool {
        !self.exposures.is_empty() || !self.reads.is_empty()
    }

    /// As `progress`, by a thread that does not look again: if there was something, there may be more, so whatever thread
    /// sleeps for the session is to look. Callers' context.
    pub(crate) fn look_once(&mut self) {
        if self.progress() || !self.copies.is_empty() {
            self.wake_oneself();
        }
    }

    /// As `progress`, for a caller that waits for a message from there and polls again at once: where there are several
    /// links, mostly the one over which it has to come. To ask a second network each time costs as much as the first.
    #[inline]
    pub(crate) fn poll_once(&mut self, from: u32) -> bool {
        match self.gates.rails.len() {
            0 | 1 => self.progress(),
            _ => self.poll_one(from),
        }
    }

    fn poll_one(&mut self, from: u32) -> bool {
        let any = self.drain();
        self.polls = self.polls.wrapping_add(1);
        let from = if from == ANY_SOURCE { from } else { self.gates.ranks.home(from) };
        let gate = self.gates.get(from as usize);
        let several = gate.filter(|gate| gate.open.count_ones() > 1 && gate.large_expected == 0);
        let small = several.map_or(NO_RAIL, |_| self.gates.incoming(from));
        let everything =
            self.polls.is_multiple_of(SELDOM) || !self.copies.is_empty() || self.uses_rdma();
        let Some(rail) = self.gates.rails.get_mut(small).filter(|_| !everything) else {
            return self.progress() || any;
        };
        self.called = false;
        self.looks = self.looks.wrapping_add(1);
        let mut any = rail.driver.begin() || any;
        any |= self.take_from(small, from);
        if self.gates.backlog > 0 {
            any |= self.flush_all();
        }
        any
    }

    /// Asks the peers to ring. True: the caller must look for packets that came before.
    pub(crate) fn arm(&mut self) -> bool {
        let rings = self.pending.watch(self.gates.backlog > 0);
        self.gates.arm(rings)
    }

    /// Arms, then looks until a look finds nothing or no request is outstanding, at most `most` times: packets that a
    /// look leaves to be sent may need a ring, too. Messages for which peers would not ring stay in the driver until
    /// their receiver calls, which then copies them once. False: more is to be done.
    pub(crate) fn settle(&mut self, most: usize) -> bool {
        for _ in 0..most {
            self.drain();
            if !self.arm() && self.copies.is_empty() {
                return true;
            }
            self.gates.rails.iter_mut().for_each(|rail| rail.driver.look_at_all());
            let more = self.progress();
            if !self.copies.is_empty() && self.is_asked_for() {
                return false;
            }
            if !more && !self.signals.starved.load(Ordering::Relaxed) {
                return true;
            }
            self.gates.rails.iter_mut().for_each(|rail| rail.driver.leave_some());
            if !more || self.pending.count() == 0 {
                return true;
            }
        }
        false
    }

    /// This side waits: it rings the peers that it has not rung at once.
    pub(crate) fn pay_owed(&mut self) {
        self.gates.rails.iter_mut().for_each(|rail| rail.driver.pay_owed());
    }

    /// Ends the sleep of the thread that armed.
    pub(crate) fn wake_oneself(&mut self) {
        self.signals.self_wakes.fetch_add(1, Ordering::Relaxed);
        marcel::trace::record(marcel::trace::Kind::SelfWake, 0, 0);
        if let Some(rail) = self.gates.rails.first_mut() {
            rail.driver.wake_oneself();
        }
    }

    /// When messages are held: instead of a look, which would send them one by one, has the sleep end for which the
    /// caller has armed, after [`HELD_NS`], unless there was a look before. False: nothing is held.
    ///
    /// (It ended at once. A program that probes or tests between its sends looked before the sleeper could: 2,100 wake-ups a
    /// second, nearly all in vain.)
    #[inline]
    pub(crate) fn call_for_held(&mut self) -> bool {
        self.signals.held.load(Ordering::Relaxed) && self.call_for_what_is_held()
    }

    #[cold]
    fn call_for_what_is_held(&mut self) -> bool {
        if self.gates.backlog == 0 {
            // What was held has gone with its gate.
            self.hold_nothing();
            return false;
        }
        if !self.called {
            self.called = true;
            self.arm();
            let at = now_ns() + HELD_NS;
            let rail = self.gates.rails.first_mut();
            if rail.is_some_and(|rail| rail.driver.wake_oneself_at(at)) {
                self.calls_at = at;
            } else {
                self.wake_oneself();
            }
        }
        true
    }

    /// Held messages have left, and there was a look: no sleep ends for them any more.
    #[cold]
    fn call_off(&mut self) {
        if now_ns() < std::mem::take(&mut self.calls_at)
            && let Some(rail) = self.gates.rails.first_mut()
        {
            rail.driver.wake_oneself_at(0);
        }
    }

    /// One look at everything.
    pub(crate) fn round(&mut self) -> bool {
        self.called = false;
        self.looks = self.looks.wrapping_add(1);
        let mut any = false;
        for rail in &mut self.gates.rails {
            any |= rail.driver.begin();
        }
        let mut at = 0;
        while let Some(&peer) = self.gates.connected.get(at) {
            for rail in rails(self.gates[peer as usize].open) {
                any |= self.take_from(rail, peer);
            }
            // Unless it has failed, and another is in its place.
            at += usize::from(self.gates.connected.get(at) == Some(&peer));
        }
        if !self.copies.is_empty() {
            any |= self.copy_some();
        }
        if self.uses_rdma() {
            any |= self.take_rdma_events();
        }
        if self.gates.backlog > 0 {
            any |= self.flush_all();
        }
        if self.calls_at != 0 && self.gates.backlog == 0 {
            self.call_off();
        }
        if self.ends {
            self.try_leave();
            if self.is_closing() {
                self.try_close();
            }
        }
        any
    }

    /// Time goes on: asks after what is not acknowledged, and ends what has waited too long. `now` counts milliseconds.
    /// To be called at the pace that `Signals` says. Callers' context.
    pub(crate) fn tick(&mut self, now: u64) {
        // First: the look may find that memory is lacking again.
        self.signals.rest();
        // Not `look_once`: links that exist wake a sleeper for what comes, so a look that finds something is no reason to.
        self.progress();
        if !self.copies.is_empty() {
            self.wake_oneself();
        }
        // Pieces may be on their way.
        if self.uses_rdma() || self.table.find(|request| request.parts.are_there()).is_some() {
            self.signals.call_again_in(TICK_MS);
        }
        for peer in 0..self.gates.len() as u32 {
            let gate = &self.gates[peer as usize];
            if !gate.is_open() || peer == self.process {
                continue;
            }
            if gate.reliability.broken != 0 {
                self.signals.call_again_in(TICK_MS);
            }
            for rail in rails(gate.open) {
                let way = &self.gates.rails[rail];
                if way.breaks && way.driver.is_silent(peer) {
                    self.broke(rail, peer, Cause::Broken(libc::ETIMEDOUT));
                }
            }
            if !self.gates[peer as usize].is_open() {
                continue;
            }
            match self.gates.tick(peer, now) {
                Verdict::Rest => {}
                Verdict::Ask => drop(self.flush(peer)),
                Verdict::Broken(rail, cause) => self.broke(rail, peer, cause),
                Verdict::Dead(cause) => self.fail_peer(peer, cause),
            }
        }
    }
}
