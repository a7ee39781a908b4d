//! What a strategy sees and what it answers with: a window of the messages that wait, and the packet that it fills.
//!
//! Both are about plain numbers, so a strategy is safe code that can hold nothing back and break nothing: every
//! [`Packet::take`] is checked against the rules of [`crate::strategy`] at once, and what it refuses stays in the
//! queue.

use crate::net::GATHER_MAX;
use crate::strategy::message::{Message, WINDOW};
use crate::wire::entries;

/// Messages up to this length are copied behind their heads; longer ones are sent from where they are.
pub(crate) const COPIED: usize = 512;
/// Bytes for heads and copied messages of one packet.
pub(crate) const STAGE: usize = 16 * 1024;

/// The oldest messages that wait for a gate's small track, oldest first, at most [`WINDOW`].
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    messages: &'a [Message],
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(messages: &'a [Message]) -> Waiting<'a> {
        Waiting { messages: &messages[..messages.len().min(WINDOW)] }
    }

    /// How many there are; at least two.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// The message at this place; the oldest is at 0.
    pub fn get(&self, index: usize) -> Option<&'a Message> {
        self.messages.get(index)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &'a Message> + use<'a> {
        self.messages.iter()
    }
}

/// The next packet of a gate's small track, to be filled.
#[derive(Debug)]
pub struct Packet<'a> {
    messages: &'a [Message],
    reorder: bool,
    order: [u8; WINDOW],
    count: usize,
    taken: u64,
    /// Bytes that are left.
    room: usize,
    stage: usize,
    parts: usize,
    /// The last part is a run of heads and copied messages, which may grow.
    run: bool,
    full: bool,
}

impl<'a> Packet<'a> {
    pub(crate) fn new(waiting: &Waiting<'a>, room: usize, reorder: bool) -> Packet<'a> {
        Packet {
            messages: waiting.messages,
            reorder,
            order: [0; WINDOW],
            count: 0,
            taken: 0,
            room,
            stage: STAGE,
            parts: GATHER_MAX,
            run: false,
            full: false,
        }
    }

    /// Bytes that it has room for; a message takes [`Message::bytes`] of them.
    pub fn room(&self) -> usize {
        if self.full { 0 } else { self.room }
    }

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts the waiting message at this place behind what is in the packet. False: it stays where it is, because it
    /// does not fit, may not overtake what is before it, or is in the packet already. A first message that does not fit
    /// leaves alone, in several packets if need be.
    pub fn take(&mut self, index: usize) -> bool {
        let Some(message) = self.messages.get(index) else { return false };
        let bit = 1u64 << index;
        if self.full || self.taken & bit != 0 || self.overtakes(index, message.tag) {
            return false;
        }
        if !self.fits(message) {
            if self.count > 0 {
                return false;
            }
            self.full = true;
        }
        self.taken |= bit;
        self.order[self.count] = index as u8;
        self.count += 1;
        true
    }

    /// Whether it would pass a message that it may not pass.
    fn overtakes(&self, index: usize, tag: u64) -> bool {
        let mut passed = !self.taken & ((1u64 << index) - 1);
        if !self.reorder {
            return passed != 0;
        }
        while passed != 0 {
            if self.messages[passed.trailing_zeros() as usize].tag == tag {
                return true;
            }
            passed &= passed - 1;
        }
        false
    }

    /// Takes room for the message, if there is some.
    fn fits(&mut self, message: &Message) -> bool {
        let bytes = message.bytes();
        let gathered = !message.announced && message.len > COPIED;
        let stage = if gathered { message.head() } else { bytes };
        let parts = usize::from(!self.run) + usize::from(gathered);
        let short = message.announced || message.len <= entries::MOST;
        if !short || bytes > self.room || stage > self.stage || parts > self.parts {
            return false;
        }
        self.room -= bytes;
        self.stage -= stage;
        self.parts -= parts;
        self.run = !gathered;
        true
    }

    /// Places of what is in it, in order.
    pub(crate) fn order(&self) -> &[u8] {
        &self.order[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(tag: u64, len: usize) -> Message {
        Message { tag, len, priority: 0, announced: len > 10_000, named: false }
    }

    #[test]
    fn equal_tags_keep_their_order_and_others_only_if_they_have_to() {
        let messages = [message(1, 4), message(2, 4), message(1, 4)];
        let waiting = Waiting::new(&messages);
        let mut packet = Packet::new(&waiting, 1000, true);
        assert!(!packet.take(2), "it would overtake the first");
        assert!(packet.take(1));
        assert!(packet.take(0) && packet.take(2) && !packet.take(2) && !packet.take(3));
        assert_eq!(packet.order(), [1, 0, 2]);
        let mut packet = Packet::new(&waiting, 1000, false);
        assert!(!packet.take(1) && packet.take(0) && packet.take(1));
    }

    #[test]
    fn a_message_that_does_not_fit_leaves_alone_or_later() {
        let messages = [message(1, 2000), message(2, 4), message(3, 20_000)];
        let waiting = Waiting::new(&messages);
        let mut packet = Packet::new(&waiting, 1000, true);
        assert!(packet.take(0) && packet.room() == 0 && !packet.take(1));
        let mut packet = Packet::new(&waiting, 1000, true);
        assert!(packet.take(1) && !packet.take(0) && packet.take(2));
        assert_eq!(packet.room(), 1000 - (12 + 4) - 36);
    }

    proptest! {
        /// Whatever a strategy asks for: the packet fits, and order is kept where it has to be.
        #[test]
        fn no_answer_breaks_a_rule(
            shapes in proptest::collection::vec((0u64..4, prop_oneof![0usize..40, 400usize..700, 3000usize..20_000]), 2..80),
            asked in proptest::collection::vec(0usize..90, 0..200),
            room in 100usize..70_000,
            reorder: bool,
        ) {
            let messages: Vec<Message> = shapes.iter().map(|&(tag, len)| message(tag, len)).collect();
            let waiting = Waiting::new(&messages);
            prop_assert!(waiting.len() <= WINDOW);
            let mut packet = Packet::new(&waiting, room, reorder);
            for index in asked {
                packet.take(index);
            }
            let order: Vec<usize> = packet.order().iter().map(|&index| index as usize).collect();
            let bytes: usize = order.iter().map(|&index| messages[index].bytes()).sum();
            prop_assert!(order.len() == 1 || bytes <= room);
            let (mut runs, mut gathered, mut stage, mut run) = (0, 0, 0, false);
            for (at, &index) in order.iter().enumerate() {
                let inside = |earlier: usize| order[..at].contains(&earlier);
                for earlier in 0..index {
                    let free = reorder && messages[earlier].tag != messages[index].tag;
                    prop_assert!(free || inside(earlier));
                }
                prop_assert!(!inside(index));
                runs += usize::from(!run);
                let long = !messages[index].announced && messages[index].len > COPIED;
                stage += if long { messages[index].head() } else { messages[index].bytes() };
                gathered += usize::from(long);
                run = !long;
            }
            prop_assert!(order.len() == 1 || (runs + gathered <= GATHER_MAX && stage <= STAGE));
        }
    }
}
