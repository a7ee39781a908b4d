//! The channels of a link in both directions, and their memory.

use std::io;
use std::sync::Arc;

use super::channels::{
    CONTROL, Charge, Incoming, Message, Outgoing, Path, Place, Route, Settings, Shape, TAIL, Word,
};
use super::ibv::{Adapter, Landing};
use crate::memory::span::Span;
use crate::wire::{Header, LONG, Malformed};

/// Bytes behind a packet by send and receive that say how many slots were written before it.
pub(super) const BEHIND: usize = 4;
/// Bytes of the sender's memory that the receiver's word is in: a page, since registered memory is.
const WORD: usize = 4096;

/// What goes to the peer beside packets.
pub(super) enum News {
    Message(Message),
    /// A word for the peer's memory.
    Word(Place, u64),
    /// A packet without data.
    Wake,
}

/// See the module.
pub(super) struct Eager {
    pub(super) out: Outgoing,
    pub(super) come: Incoming,
    /// Where the receiver of the outgoing channel writes its word.
    word: Landing,
    /// The incoming channel's slots.
    ring: Option<Landing>,
    longest: u32,
    /// By which path the packet came that `peek` showed, until it is released: the same is shown again.
    shown: Option<Path>,
    /// When the incoming channel was used last.
    pub(super) used: u64,
}

impl Eager {
    /// `packet`: bytes of the longest packet.
    ///
    /// # Errors
    /// The kernel refuses memory, or to lock it.
    pub(super) fn new(
        adapter: &Arc<Adapter>,
        settings: Settings,
        packet: usize,
    ) -> io::Result<Eager> {
        let longest = (packet + TAIL).next_multiple_of(64) as u32;
        let word = Landing::new(adapter, WORD)?;
        let (address, key) = word.place();
        Ok(Eager {
            out: Outgoing::new(Some(Place { address, key }), settings.rules, longest),
            come: Incoming::new(),
            word,
            ring: None,
            longest,
            shown: None,
            used: 0,
        })
    }

    /// A control packet has come.
    pub(super) fn on_packet(&mut self, bytes: Span) -> Result<(), Malformed> {
        if bytes.len() != CONTROL {
            return Err(Malformed);
        }
        let mut control = [0; CONTROL];
        // SAFETY: as long as the array.
        unsafe { bytes.copy_to(control.as_mut_ptr()) };
        match Message::decode(&control, self.longest)? {
            message @ (Message::Request(..) | Message::Flushed(_)) => self.come.on_message(message),
            message => {
                self.out.on_message(message)?;
                // The word went before `Done`: without a look, a packet would go to a ring whose receiver sleeps.
                self.look()
            }
        }
    }

    /// Looks at the receiver's word. Progress path.
    #[inline]
    pub(super) fn look(&mut self) -> Result<(), Malformed> {
        if self.out.is_used() {
            self.out.look(Word::of_bits(u64::from_le(self.word.word(0))))
        } else {
            Ok(())
        }
    }

    /// The next slot's packet, if it is written and its turn has come.
    #[inline]
    fn slot(&self) -> Result<Option<(Header, Span)>, Malformed> {
        let Some(ring) = self.ring.as_ref().filter(|_| self.come.has_ring()) else {
            return Ok(None);
        };
        let end = self.come.end_of_slot();
        let last = u64::from_le(ring.word(end - 8));
        // Behind the last word, whose load orders it.
        let before = u64::from_le(ring.word(end - TAIL)) as u32;
        let Some(len) = self.come.show_slot(last, before)? else { return Ok(None) };
        // SAFETY: the slot is released after its packet was used.
        let packet = unsafe { ring.bytes(end - TAIL - len, len) };
        // A copy: the peer may write there at any time if it does not keep to the protocol.
        let mut head = [0; LONG];
        let head_len = len.min(LONG);
        // SAFETY: inside both.
        unsafe { packet.part(0, head_len).copy_to(head.as_mut_ptr()) };
        let header = Header::decode(&head[..head_len])?;
        let at = header.kind.header_len();
        match at + header.payload as usize == len {
            true => Ok(Some((header, packet.part(at, usize::MAX)))),
            false => Err(Malformed),
        }
    }

    /// The next packet of the small track: of a slot; or which path it comes by. `behind`: what the first packet by
    /// send and receive says, if there is one.
    #[inline]
    pub(super) fn next(&mut self, behind: Option<u32>) -> Result<Option<Next>, Malformed> {
        if self.shown != Some(Path::Receive)
            && let Some((header, payload)) = self.slot()?
        {
            self.shown = Some(Path::Ring);
            return Ok(Some(Next::Slot(header, payload)));
        }
        let comes = behind.is_some_and(|behind| self.come.may_show_packet(behind));
        if !comes {
            return Ok(None);
        }
        self.shown = Some(Path::Receive);
        Ok(Some(Next::Packet))
    }

    /// The packet that `next` showed is done with. True: it was a slot's.
    #[inline]
    pub(super) fn release(&mut self, clock: u64) -> bool {
        let is_slot = self.shown.take() == Some(Path::Ring);
        if is_slot {
            self.used = clock;
            self.come.release_slot();
        }
        is_slot
    }

    /// What the connection manager made, or did not.
    pub(super) fn made(&mut self, shape: Shape, ring: Option<Landing>) {
        let (shape, place) = match &ring {
            Some(ring) => {
                let (address, key) = ring.place();
                (shape, Place { address, key })
            }
            None => (Shape::NONE, Place::default()),
        };
        self.ring = ring;
        self.come.made(shape, place);
    }

    /// The ring, which is given back.
    pub(super) fn take_ring(&mut self) -> Option<Landing> {
        self.ring.take()
    }

    /// Bytes of the ring.
    pub(super) fn bytes(&self) -> u64 {
        if self.ring.is_some() { self.come.shape().bytes() } else { 0 }
    }

    pub(super) fn has_memory(&self) -> bool {
        self.ring.is_some()
    }

    pub(super) fn charge(&self, peer: u32) -> Charge {
        let come = &self.come;
        Charge {
            peer,
            shape: come.shape(),
            bytes: come.charge(),
            used: self.used,
            may_shrink: come.may_shrink(),
        }
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.out.has_message()
            || self.come.has_message()
            || self.come.has_word()
            || self.out.wakes()
    }

    /// The next news, to be sent now.
    pub(super) fn news(&mut self) -> Option<News> {
        if let Some(message) = self.out.take_message() {
            return Some(News::Message(message));
        }
        // Before messages: what `Done` says is behind the word of the old ring.
        if let Some((place, word)) = self.come.take_word() {
            return Some(News::Word(place, word));
        }
        if let Some(message) = self.come.take_message() {
            return Some(News::Message(message));
        }
        self.out.take_wake().then_some(News::Wake)
    }

    /// The way of a packet of `len` bytes.
    #[inline]
    pub(super) fn route(&self, len: usize) -> Route {
        self.out.route(len)
    }

    pub(super) fn close(&mut self) {
        self.shown = None;
    }
}

/// What comes next.
pub(super) enum Next {
    Slot(Header, Span),
    Packet,
}
