//! The sender's end of a channel.

use super::control::{Message, Place};
use super::doze::{BEGIN, Word};
use super::incoming::Tail;
use super::window::{MOST_SLOTS, Shape, TAIL, Window};
use crate::wire::Malformed;

/// When a sender asks for a channel, and for which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Packets after which it asks.
    pub(crate) after: u32,
    /// Packets after which it looks whether the shape still fits them.
    pub(crate) window: u32,
    /// How often it asks for another shape. `None`: as often as need be.
    pub(crate) reshapes: Option<u32>,
    /// The only shape that it asks for. `None`: the one that its packets ask for.
    pub(crate) fixed: Option<Shape>,
}

impl Rules {
    /// As the knobs say by default.
    #[cfg(any(test, fuzzing))]
    pub(crate) const USUAL: Rules =
        Rules { after: 1000, window: 2000, reshapes: None, fixed: None };
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) enum Route {
    Ring,
    /// By send and receive: there is no channel, or none now.
    Closed,
    /// The same: no slot is free.
    Full,
    /// The packet is longer than a slot.
    Longer,
    /// The receiver sleeps.
    Sleeps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Open,
    /// `Accept` has come, and nothing more is written.
    Flushed,
}

/// See the module.
pub(in crate::net::verbs) struct Outgoing {
    /// Where the receiver writes its word. `None`: this side asks for no channel.
    word: Option<Place>,
    rules: Rules,
    longest: u32,
    stage: Stage,
    asked: bool,
    say: Option<Message>,
    ring: (Shape, Place),
    /// Slots written by now, and when the ring was made; packets by send and receive. All of the link, modulo 2^32.
    written: u32,
    base: u32,
    /// Of the ring, the slot that is written next. (Their number in the ring's time, modulo its slots, jumps at 2^32.)
    slot: u32,
    packets: u32,
    /// A slot was written: packets tell how many.
    used: bool,
    known: Word,
    wake: bool,
    /// Bytes in the slots that are not known to be released.
    lens: Box<[u16; MOST_SLOTS as usize]>,
    window: Window,
    patience: u32,
    reshaped: u32,
}

impl Outgoing {
    pub(in crate::net::verbs) fn new(word: Option<Place>, rules: Rules, longest: u32) -> Outgoing {
        Outgoing {
            word,
            rules,
            longest,
            stage: Stage::Closed,
            asked: false,
            say: None,
            ring: (Shape::NONE, Place::default()),
            written: 0,
            base: 0,
            slot: 0,
            packets: 0,
            used: false,
            known: BEGIN,
            wake: false,
            lens: Box::new([0; MOST_SLOTS as usize]),
            window: Window::default(),
            patience: rules.after.max(1),
            reshaped: 0,
        }
    }

    /// Slots that are not known to be free.
    #[inline]
    pub(in crate::net::verbs) fn filled(&self) -> u32 {
        self.written.wrapping_sub(self.known.taken)
    }

    /// Which way a packet of `len` bytes, its header included, would go.
    #[inline]
    pub(in crate::net::verbs) fn route(&self, len: usize) -> Route {
        let (shape, _) = self.ring;
        match self.stage {
            Stage::Open if len + TAIL > shape.size as usize => Route::Longer,
            Stage::Open if self.known.sleeps() => Route::Sleeps,
            Stage::Open if self.filled() >= shape.slots => Route::Full,
            Stage::Open => Route::Ring,
            _ => Route::Closed,
        }
    }

    /// Where a packet of `len` bytes goes in the receiver's memory, and what follows it there. Its route is the ring.
    #[inline]
    pub(in crate::net::verbs) fn target(&self, len: usize) -> (Place, Tail) {
        let (shape, place) = self.ring;
        let number = self.written.wrapping_sub(self.base);
        let end = (u64::from(self.slot) + 1) * u64::from(shape.size);
        let address = place.address.wrapping_add(end - (len + TAIL) as u64);
        let tail = Tail { before: self.packets, len: len as u32, sequence: number.wrapping_add(1) };
        (Place { address, ..place }, tail)
    }

    /// How many slots were written before a packet by send and receive. `None`: none ever was.
    #[inline]
    pub(in crate::net::verbs) fn behind(&self) -> Option<u32> {
        self.used.then_some(self.written)
    }

    /// A packet has gone that way.
    #[inline]
    pub(in crate::net::verbs) fn posted(&mut self, route: Route, len: usize) {
        if self.word.is_none() {
            return;
        }
        self.window.sent(len);
        if route == Route::Ring {
            self.used = true;
            self.lens[(self.written % MOST_SLOTS) as usize] = len as u16;
            self.written = self.written.wrapping_add(1);
            self.slot = (self.slot + 1) % self.ring.0.slots.max(1);
        } else {
            self.packets = self.packets.wrapping_add(1);
            match route {
                Route::Full => self.window.missed(),
                Route::Longer => self.window.was_longer(len),
                _ => {}
            }
            // Any packet wakes a sleeper.
            self.wake = false;
        }
        if self.window.packets() >= self.patience {
            self.consider();
        }
    }

    /// A request that carried a packet by send and receive is over.
    #[inline]
    pub(in crate::net::verbs) fn over(&mut self, len: usize) {
        self.window.over(len);
    }

    /// Enough packets have gone to look at them.
    #[cold]
    fn consider(&mut self) {
        let Rules { window, reshapes, fixed, .. } = self.rules;
        let wanted = fixed.unwrap_or_else(|| self.window.shape(self.longest));
        let shape = self.ring.0;
        let asks = match self.stage {
            Stage::Closed => true,
            Stage::Open => {
                let grows = self.window.misses_many() && wanted.slots > shape.slots
                    || self.window.has_many_longer() && wanted.size > shape.size;
                let shrinks = wanted.bytes() * 2 <= shape.bytes();
                let may = fixed.is_none() && reshapes.is_none_or(|most| self.reshaped < most);
                may && (grows || shrinks)
            }
            Stage::Flushed => false,
        };
        self.window.restart();
        self.patience = window.max(1);
        if let Some(word) = self.word.filter(|_| asks && !self.asked && self.say.is_none()) {
            self.asked = true;
            self.reshaped += u32::from(self.stage == Stage::Open);
            self.say = Some(Message::Request(wanted, word));
        }
    }

    /// # Errors
    /// The receiver may not say that now.
    pub(in crate::net::verbs) fn on_message(&mut self, message: Message) -> Result<(), Malformed> {
        match (message, self.stage) {
            // It is the answer to a request that is under way, too.
            (Message::Accept(_), Stage::Open) => self.flush(),
            (Message::Accept(_), Stage::Closed) if self.asked => self.flush(),
            (Message::Decline, Stage::Closed | Stage::Open) if self.asked => self.asked = false,
            (Message::Done(shape, place), Stage::Flushed) if self.say.is_none() => {
                // All slots of the old ring are released.
                self.take(self.written);
                (self.base, self.slot) = (self.written, 0);
                self.ring = (shape, place);
                self.stage = if shape.is_none() { Stage::Closed } else { Stage::Open };
                self.window.restart();
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.asked = false;
        self.stage = Stage::Flushed;
        // A request that has not gone is answered already.
        self.say = Some(Message::Flushed(self.written));
    }

    /// The receiver's word.
    ///
    /// # Errors
    /// It says that slots are released which were not written.
    #[inline]
    pub(in crate::net::verbs) fn look(&mut self, word: Word) -> Result<(), Malformed> {
        if word == self.known || (word.epoch.wrapping_sub(self.known.epoch) as i32) < 0 {
            return Ok(());
        }
        let more = word.taken.wrapping_sub(self.known.taken);
        // Behind what is known: it was written before the old ring's last slots were released, of which `Done` tells.
        let is_old = (more as i32) < 0;
        if more > self.filled() && !is_old {
            return Err(Malformed);
        }
        let falls_asleep = word.sleeps() && word.epoch != self.known.epoch;
        if !is_old {
            self.take(word.taken);
        }
        self.known.epoch = word.epoch;
        if !word.sleeps() {
            self.wake = false;
        } else if falls_asleep && self.filled() > 0 {
            // It may sleep beside a slot that was written too late for its last look.
            self.wake = true;
        }
        Ok(())
    }

    fn take(&mut self, taken: u32) {
        while self.known.taken != taken {
            let len = self.lens[(self.known.taken % MOST_SLOTS) as usize];
            self.window.over(len.into());
            self.known.taken = self.known.taken.wrapping_add(1);
        }
    }

    /// Whether a packet without data is due, to wake the receiver.
    #[inline]
    pub(in crate::net::verbs) fn wakes(&self) -> bool {
        self.wake
    }

    /// It goes now.
    pub(in crate::net::verbs) fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.wake)
    }

    #[inline]
    pub(in crate::net::verbs) fn has_message(&self) -> bool {
        self.say.is_some()
    }

    /// What is to be said to the receiver.
    pub(in crate::net::verbs) fn take_message(&mut self) -> Option<Message> {
        self.say.take()
    }

    /// Whether the receiver's word matters.
    #[inline]
    pub(in crate::net::verbs) fn is_used(&self) -> bool {
        self.stage != Stage::Closed || self.used
    }

    /// So many slots have been written since the ring was made.
    #[cfg(test)]
    pub(super) fn age(&mut self, slots: u32) {
        self.base = self.base.wrapping_sub(slots);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn written(&self) -> u32 {
        self.written
    }

    #[cfg(any(test, fuzzing))]
    pub(in crate::net::verbs) fn ring(&self) -> Option<(Shape, Place)> {
        (self.stage == Stage::Open).then_some(self.ring)
    }
}
