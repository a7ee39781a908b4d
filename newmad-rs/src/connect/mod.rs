//! How the processes of a session meet, stay connected, and notice each other's end: the *connection manager*.
//!
//! A session of several processes has one kernel thread that does everything for connections that blocks or
//! allocates. It sleeps in one `epoll_wait` until the engine wants a link, a peer calls, or a connection ends.
//!
//! ```text
//!   engine ── wants (rail, peer): a bit and a bell ──▶ connection manager ── attach / unreachable / goodbye ──▶ engine
//!                                                     │   │
//!                     process manager: cards, lazily ─┘   ├─ listeners, calls, greetings   (greeting, handshake)
//!                                                         ├─ the links: whose call counts  (links)
//!                                                         ├─ the control ring: ends        (ring)
//!                                                         └─ the control network: messages (network, mail)
//! ```
//! *Opening* a session publishes this process's card, waits until all have, and calls one peer: the next on the control
//! ring. A link is made when it is first wanted: by a send to that peer, or a receive that names it. So a session of n
//! processes opens n control connections, and for the rest what it uses. How a peer is reached says the process manager, or
//! the peer itself over the control network (`NMAD_CARDS`).
//!
//! *Repair*: the engine wants a TCP link again that has broken, and the connection manager makes it again. When that
//! takes longer than `NMAD_REPAIR_MS`, and no other rail leads there, the peer is unreachable. A refused call means
//! that its process is gone: no waiting then.
//!
//! *Strangers* on a port or socket cost a bounded number of bytes, connections and seconds each ([`handshake`]), and
//! hold up no peer: handshakes go on side by side, and when there are too many, the oldest one that is not
//! authenticated ends. A peer that is turned away wrongly calls again.
//!
//! Rejected: connecting all processes when the session opens (n²/2 connections, most of them for nothing); connecting
//! in the thread that sends (it may be in a signal handler, and a green thread would block its virtual processor); a
//! source of the I/O manager instead of a thread (its events are treated where nothing may be allocated).

mod card;
mod control;
mod greeting;
mod handshake;
#[cfg(any(test, fuzzing))]
pub(crate) mod hostile;
mod links;
pub(crate) mod mail;
mod manager;
mod messages;
pub(crate) mod network;
mod order;
mod rail;
mod ring;
mod socket;
mod thread;

pub(crate) use card::{Card, hex, unhex};
pub(crate) use manager::ConnectionManager;
pub(crate) use order::{Shape, Start, Timeouts};
pub(crate) use rail::Rail;
