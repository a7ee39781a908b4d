//! Systems of the sources that stand beside pioman's core: a library's *event servers* ([`server`], \[Trahay09\]) and
//! *channels* with a fixed number of slots between threads ([`channel`], \[Mythos16\]).
//!
//! Both are built on [`pioman`]'s public interface and its module [`pioman::plumbing`]. Programs that use neither do
//! not depend on this crate.
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | [`channel::Producer::send`], [`channel::Consumer::read`], [`channel::Mailbox::recv`] | as [`pioman::Manager::wait`] | | |
//! | [`server::Request::wait`], [`server::Server::wait_any`] | as [`pioman::Manager::wait`] | | |
//! | [`server::Server::submit`], [`server::Server::post`], [`server::Pending::complete`] | goes on | goes on | goes on |

#![warn(missing_debug_implementations)]
// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs, unreachable_pub))]

pub mod channel;
#[cfg_attr(loom, allow(unreachable_pub))]
pub mod server;
mod shim;

/// Makes the README's example a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
