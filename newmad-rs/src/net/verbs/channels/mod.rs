//! Eager channels: rings of slots in the receiver's memory, which a sender writes by RDMA and the receiver finds by
//! polling memory, beside the path by send and receive. The protocol, without a call of the library.
//!
//! Source: [Didelot14] 3.4. A channel has one direction and one link. Its sender asks for it after a count of packets,
//! with a shape that [`window`] derives from them, and asks for another shape when the packets change.
//!
//! ```text
//!  sender                                   receiver
//!  Request(shape, word)  ─────────────────▶  the connection manager's thread decides (`budget`)
//!                        ◀─────────────────  Accept(shape), or Decline; Accept may also come unasked, to shrink
//!  writes no slot any more
//!  Flushed(slots written) ────────────────▶  delivers those slots, gives the old memory back, and has new
//!                        ◀─────────────────  Done(shape, address) memory made; a shape without slots ends the channel
//! ```
//! Packets go by send and receive meanwhile, on the same queue pair: traffic is never interrupted. So do packets that
//! find no slot free (a *miss*), that are longer than a slot, and all while the receiver sleeps.
//!
//! *Order*: each side counts the packets of both paths. A slot names the number of packets that were sent by send and
//! receive before it, and a packet by send and receive the number of slots that were written before it. The receiver
//! delivers a packet when that many of the other path are delivered.
//!
//! *What is relied on*: the adapter writes the bytes of one request in the order of their addresses, the last word last
//! (a slot's packet ends at the slot's end, whatever its length). Two slots may become visible in any order. What is
//! sent on the queue pair after a write is received after that write is visible, as reliable connections promise.
//!
//! *Sleeping*: a write wakes no sleeper. The receiver writes a [`word`](doze::Word) into the sender's memory when it
//! goes to sleep and when it polls again, and the sender uses the channel only while the word says that the receiver
//! polls. A slot may be written before the word arrives. The sender sends a packet without data when it sees the word
//! and a slot that the word does not count. A sender that computes sees no word: so a sleeper wakes up by a timer,
//! after 0.1 ms, and later and later, and looks. So does a thread that sleeps while others of its process poll: it
//! armed before them, and they may stop.
//!
//! Rejected: a write with an immediate value for each message (it takes a receive buffer and a completion, which is
//! what a channel is to save); an RDMA read of the receiver's state behind each write (the answer reaches a sender that
//! may compute by then); waiting with sleep for each sender's acknowledgement (a sender that computes gives none).

mod budget;
mod control;
mod counts;
mod doze;
#[cfg(any(test, fuzzing))]
mod hostile;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use budget::Shrink;
pub(super) use budget::{Charge, decide};
pub(super) use control::{CONTROL, Message, Place};
pub(super) use counts::{Count, Driver as DriverCounts};
pub use counts::{Counts, counts};
pub(super) use doze::{OUTPOLLED, Word};
#[cfg(any(test, fuzzing))]
pub(crate) use hostile::hostile;
pub(super) use incoming::{Incoming, Path};
pub(crate) use outgoing::Rules;
pub(super) use outgoing::{Outgoing, Route};
pub(crate) use window::Shape;
pub(super) use window::{MESSAGE, TAIL};

/// Packets of control that are under way in one direction, at the most: a channel's sender has sent two that the
/// receiver has not taken (a request, and the end of its slots for an unasked `Accept`), and so has the receiver of the
/// other channel. Two more wake a sleeper.
pub(super) const CONTROLS: usize = 6;

/// What a process does about channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Most bytes of rings in this process's memory, for each adapter's port. Zero: no channels.
    pub(crate) limit: u64,
    /// What other channels give up when a request does not fit.
    pub(crate) shrink: Shrink,
    pub(crate) rules: Rules,
}

impl Settings {
    /// No channels.
    #[cfg(test)]
    pub(crate) const NONE: Settings =
        Settings { limit: 0, shrink: Shrink::Emergency, rules: Rules::USUAL };
}
