//! Timers: one source per manager, made when it is first needed, that completes things at deadlines.
//!
//! A poller looks at the clock (only while there are timers: else it is one load); a sleeper in the kernel has a
//! `timerfd` set for the earliest deadline (`alarm`). The deadlines are in a heap under a lock that is held for some
//! tens of nanoseconds, and for the wake-ups of what has ended (callbacks come after it): pollers only try it, and its
//! holder has changed the earliest deadline before it unlocks; a poller that misses an expired one finds it at its next
//! look, and no thread can arm before: [`Alarm::arm`] says no as long as a deadline is over.
//!
//! Two whose deadlines are over are completed in order, but which of their threads the kernel lets run first is its own
//! affair: on a machine that is full for so long, the one with the earlier deadline may go on last.
//!
//! Rejected: a timing wheel (its steps would be the accuracy of detection, or its cascades unbounded work); `io_uring`
//! time-outs (the ring may be missing, and they are no cheaper: a system call each); the kernel's clock signals.

#[cfg_attr(loom, allow(dead_code))]
mod alarm;
#[cfg(not(loom))]
pub(crate) mod heap;
#[cfg(not(loom))]
mod timers;

#[cfg(not(loom))]
pub(crate) use timers::{Timers, from_now};
