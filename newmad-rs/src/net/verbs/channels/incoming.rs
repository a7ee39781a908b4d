//! The receiver's end of a channel.

use super::control::{Message, Place};
use super::doze::{BEGIN, Doze, Word};
use super::window::{Shape, TAIL};
use crate::wire::Malformed;

/// What ends a slot: see the module of channels.
///
/// ```text
/// 0 packets sent by send and receive before(u32)   4 zero   8 length(u32)   12 sequence in the ring, from 1(u32)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) struct Tail {
    pub(super) before: u32,
    pub(super) len: u32,
    pub(super) sequence: u32,
}

impl Tail {
    pub(in crate::net::verbs) fn encode(self) -> [u8; TAIL] {
        let mut bytes = [0; TAIL];
        bytes[..4].copy_from_slice(&self.before.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn decode(bytes: &[u8; TAIL]) -> Tail {
        let half = |at: usize| crate::wire::half_word(bytes, at).unwrap_or_default();
        Tail { before: half(0), len: half(8), sequence: half(12) }
    }
}

/// By which path a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) enum Path {
    Ring,
    Receive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Open,
    /// `Accept` is said: the sender will say how many slots it has written.
    Reshaping,
    /// It has: those are delivered.
    Draining,
    /// They are: memory is wanted, or given back.
    Making {
        wished: bool,
    },
}

/// See the module.
pub(in crate::net::verbs) struct Incoming {
    stage: Stage,
    say: Option<Message>,
    /// What the sender would like, until that is decided.
    request: Option<(Shape, Place)>,
    /// The sender's memory for the word.
    place: Place,
    shape: Shape,
    /// What was accepted.
    accepted: Shape,
    /// Slots that are released, and were when the ring was made; packets by send and receive. All of the link, modulo
    /// 2^32.
    released: u32,
    base: u32,
    /// Of the ring, the slot that is released next.
    slot: u32,
    packets: u32,
    /// Slots written before the sender stopped.
    last: u32,
    word: Word,
    word_due: bool,
    doze: Doze,
}

impl Incoming {
    pub(in crate::net::verbs) fn new() -> Incoming {
        Incoming {
            stage: Stage::Closed,
            say: None,
            request: None,
            place: Place::default(),
            shape: Shape::NONE,
            accepted: Shape::NONE,
            released: 0,
            base: 0,
            slot: 0,
            packets: 0,
            last: 0,
            word: BEGIN,
            word_due: false,
            doze: Doze::new(),
        }
    }

    /// Whether slots may have been written that are not released.
    #[inline]
    pub(in crate::net::verbs) fn has_ring(&self) -> bool {
        !self.shape.is_none()
            && matches!(self.stage, Stage::Open | Stage::Reshaping | Stage::Draining)
    }

    /// So many slots have been released since the ring was made.
    #[cfg(test)]
    pub(super) fn age(&mut self, slots: u32) {
        self.base = self.base.wrapping_sub(slots);
    }

    pub(in crate::net::verbs) fn shape(&self) -> Shape {
        self.shape
    }

    /// Where in the ring the next slot ends.
    #[inline]
    pub(in crate::net::verbs) fn end_of_slot(&self) -> usize {
        (self.slot as usize + 1) * self.shape.size as usize
    }

    /// The last eight bytes of the next slot when it is written, but for the length.
    #[inline]
    pub(in crate::net::verbs) fn expected(&self) -> u64 {
        u64::from(self.released.wrapping_sub(self.base).wrapping_add(1)) << 32
    }

    /// The next slot ends with that word. `Some`: it is written, and its turn has come; how many bytes its packet has.
    /// `before`: what its tail says.
    ///
    /// # Errors
    /// The length is impossible.
    #[inline]
    pub(in crate::net::verbs) fn show_slot(
        &self,
        last: u64,
        before: u32,
    ) -> Result<Option<usize>, Malformed> {
        if !self.has_ring() || last & !0xffff_ffff != self.expected() {
            return Ok(None);
        }
        let len = last as u32 as usize;
        if len == 0 || len + TAIL > self.shape.size as usize {
            return Err(Malformed);
        }
        let turn = self.packets.wrapping_sub(before) as i32 >= 0;
        Ok(turn.then_some(len))
    }

    /// Whether the turn of a packet by send and receive has come that so many slots were written before.
    #[inline]
    pub(in crate::net::verbs) fn may_show_packet(&self, behind: u32) -> bool {
        self.released.wrapping_sub(behind) as i32 >= 0
    }

    /// A packet by send and receive is done with.
    #[inline]
    pub(in crate::net::verbs) fn release_packet(&mut self) {
        self.packets = self.packets.wrapping_add(1);
    }

    /// The next slot is done with.
    #[inline]
    pub(in crate::net::verbs) fn release_slot(&mut self) {
        self.released = self.released.wrapping_add(1);
        self.slot = (self.slot + 1) % self.shape.slots.max(1);
        let untold = self.released.wrapping_sub(self.word.taken);
        self.word_due |= untold * 4 >= self.shape.slots;
        self.drain();
    }

    fn drain(&mut self) {
        if self.stage == Stage::Draining && self.released == self.last {
            self.stage = Stage::Making { wished: false };
        }
    }

    /// # Errors
    /// The sender may not say that now.
    pub(in crate::net::verbs) fn on_message(&mut self, message: Message) -> Result<(), Malformed> {
        match (message, self.stage) {
            // It crosses an `Accept`, which the sender takes for the answer.
            (Message::Request(..), Stage::Reshaping) => {}
            (Message::Request(shape, place), Stage::Closed | Stage::Open)
                if self.request.is_none() && self.say.is_none() =>
            {
                self.request = Some((shape, place));
            }
            (Message::Flushed(count), Stage::Reshaping) if self.say.is_none() => {
                if count.wrapping_sub(self.released) > self.shape.slots {
                    return Err(Malformed);
                }
                self.stage = Stage::Draining;
                self.last = count;
                self.drain();
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// What waits to be decided.
    pub(in crate::net::verbs) fn request(&self) -> Option<(Shape, Place)> {
        self.request
    }

    pub(in crate::net::verbs) fn accept(&mut self, shape: Shape) {
        if let Some((_, place)) = self.request.take() {
            self.place = place;
            self.reshape(shape);
        }
    }

    pub(in crate::net::verbs) fn decline(&mut self) {
        if self.request.take().is_some() {
            self.say = Some(Message::Decline);
        }
    }

    fn reshape(&mut self, shape: Shape) {
        self.accepted = shape;
        self.stage = Stage::Reshaping;
        self.say = Some(Message::Accept(shape));
    }

    /// Whether it can be given another shape unasked.
    pub(in crate::net::verbs) fn may_shrink(&self) -> bool {
        self.stage == Stage::Open && self.say.is_none()
    }

    /// Gives it another shape; none: ends it.
    pub(in crate::net::verbs) fn shrink(&mut self, shape: Shape) {
        if self.may_shrink() {
            // The `Accept` answers a request that waits.
            self.request = None;
            self.reshape(shape);
        }
    }

    /// Whether the connection manager has something to do.
    #[inline]
    pub(in crate::net::verbs) fn has_wish(&self) -> bool {
        self.request.is_some() || self.stage == Stage::Making { wished: false }
    }

    /// The shape of the memory that is wanted instead of what there is; told once.
    pub(in crate::net::verbs) fn wish(&mut self) -> Option<Shape> {
        if self.stage != (Stage::Making { wished: false }) {
            return None;
        }
        self.stage = Stage::Making { wished: true };
        self.shape = Shape::NONE;
        Some(self.accepted)
    }

    /// The memory is there, filled with zeros, at that place; no shape: there is none.
    pub(in crate::net::verbs) fn made(&mut self, shape: Shape, place: Place) {
        if self.stage != (Stage::Making { wished: true }) {
            return;
        }
        self.shape = shape;
        self.accepted = shape;
        (self.base, self.slot) = (self.released, 0);
        self.stage = if shape.is_none() { Stage::Closed } else { Stage::Open };
        self.say = Some(Message::Done(shape, place));
    }

    /// Bytes that count for this channel: what it has, or will have.
    pub(in crate::net::verbs) fn charge(&self) -> u64 {
        match self.stage {
            Stage::Closed | Stage::Open => self.shape.bytes(),
            _ => self.shape.bytes().max(self.accepted.bytes()),
        }
    }

    #[inline]
    pub(in crate::net::verbs) fn has_message(&self) -> bool {
        self.say.is_some()
    }

    /// What is to be said to the sender.
    pub(in crate::net::verbs) fn take_message(&mut self) -> Option<Message> {
        self.say.take()
    }

    /// This process may sleep from now on. Returns when it has to wake up, if the channel needs that.
    ///
    /// Invariant: the word says that this process sleeps, also while there is no ring. A ring may be made during the
    /// sleep, and the word goes before the `Done` that tells of it.
    pub(in crate::net::verbs) fn arm(&mut self, now: u64) -> Option<u64> {
        let before = self.word.epoch;
        let until = self.doze.arm(&mut self.word.epoch, now);
        self.word_due |= self.word.epoch != before;
        self.has_ring().then_some(until)
    }

    /// This process has polled. True: the word is to say that it does.
    #[inline]
    pub(in crate::net::verbs) fn polled(&mut self) -> bool {
        let awake = self.stage == Stage::Open && self.doze.polled(&mut self.word.epoch);
        self.word_due |= awake;
        awake
    }

    /// Whether the word is to be written.
    #[inline]
    pub(in crate::net::verbs) fn has_word(&self) -> bool {
        self.word_due
    }

    /// The word to be written now, and where.
    pub(in crate::net::verbs) fn take_word(&mut self) -> Option<(Place, u64)> {
        std::mem::take(&mut self.word_due).then(|| {
            self.word.taken = self.released;
            (self.place, self.word.bits())
        })
    }
}
