//! The event driver: which thread polls, which one sleeps in the kernel for all, and the invariant that no event waits
//! for a thread that has gone.
//!
//! > **Invariant: while a source is unattended and progress is on, a thread polls it, or a kernel thread sleeps on it,
//! > armed, or a tick is armed.**
//!
//! (A source is *unattended* while it has a request whose owner does not ask for its end, see
//! [`Source::unattended`](crate::Source::unattended).)
//!
//! Three operations, all of [`core::Driver`]: `poll` looks for events, `arm` re-establishes the invariant for sources
//! that have no poller, [`core::Leader::park`] sleeps until an event comes.
//!
//! # Roles
//! * A *poller* ([`core::Polling`]) polls a set of sources. Dropping the guard leaves the set and arms.
//! * The *leader* ([`core::Leader`]) holds a try-lock and sleeps in the leader's `epoll` set on behalf of all: a
//!   virtual processor with nothing to run, or a kernel thread in a wait. Dropping the guard gives the role up and
//!   arms.
//! * A *follower* sleeps on its own futex while another thread leads. Without a background watcher a leader that leaves
//!   wakes a follower.
//! * The *background watcher* is a kernel thread that sleeps in an `epoll` set of its own for ever. To hand the watch
//!   over to it a thread arms that set; no wake-up is needed. ([`watcher`])
//! * The *pacer* ([`core::Pacer`]) looks at the pace of the tick at sources that are found by ticks.
//! * A busy virtual processor is *interrupted*: a peer sends it a signal, whose handler looks. Ticks look, too.
//!   ([`interrupt`], [`tick`])
//! * A *dedicated thread* polls on a core of its own. ([`dedicated_threads`])
//! * The *spinning helper* is an idle virtual processor that stays awake for work that callers offer. ([`helper`])
//!
//! # How the invariant is kept
//! A thread that stops polling and a thread that leaves a request pending both owe an `arm`. The debt is a value
//! ([`core::Debt`]), paid when it is dropped, or by a sleep that arms by itself. `progress::pollers` shows why the two
//! together miss nothing. The policy of a source chooses the method ([`crate::policy`]).
//!
//! | file | what |
//! |---|---|
//! | `core` | the driver and its guards |
//! | `epoll_set`, `arming` | an `epoll` set to sleep in; whether a descriptor in it is armed |
//! | `leadership`, `followers` | the leader's lock and set; the threads that may lead next |
//! | `background`, `watcher`, `polling_mode` | the background watcher: its set, its thread, and when it polls instead of being woken |
//! | `methods` | how each source without a poller is looked after |
//! | `dedicated`, `dedicated_threads` | dedicated threads: how they are called, what they do |
//! | `idle_poller`, `helper` | the one idle virtual processor that polls; whether it stays awake for offers |
//! | `interrupt` | peers are asked to signal a virtual processor that computes |
//! | `idle`, `tick`, `wait` | what the idle loop, a tick and a wait do |
//! | `offers` | when a thread that looks in vain gives its core to others |
//!
//! Rejected: handing the watch over by waking the next sleeper (a wake-up for each message of a ping-pong);
//! one `epoll` set that several threads sleep in (the kernel would wake the wrong one half of the time).

#[cfg_attr(loom, allow(dead_code))]
mod arming;
#[cfg(not(loom))]
mod background;
#[cfg(not(loom))]
pub(crate) mod core;
#[cfg(not(loom))]
mod dedicated;
#[cfg(not(loom))]
pub(crate) mod dedicated_threads;
#[cfg(not(loom))]
mod epoll_set;
#[cfg(not(loom))]
mod followers;
#[cfg(not(loom))]
mod helper;
#[cfg(not(loom))]
pub(crate) mod idle;
#[cfg(not(loom))]
mod idle_poller;
#[cfg_attr(loom, allow(dead_code))]
mod interrupt;
#[cfg(not(loom))]
mod leadership;
#[cfg(not(loom))]
mod methods;
#[cfg(not(loom))]
pub(crate) mod offers;
#[cfg(not(loom))]
mod polling_mode;
#[cfg(not(loom))]
pub(crate) mod tick;
#[cfg(not(loom))]
pub(crate) mod wait;
#[cfg(not(loom))]
pub(crate) mod watcher;
