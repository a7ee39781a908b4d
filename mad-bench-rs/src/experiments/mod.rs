//! The experiments of the sources, each in a file of its own: it declares a [`Bench`] and does its work in worker
//! processes.

mod apps;
mod bandwidth;
mod bare;
mod clocks;
mod coll;
mod collaborative;
mod control_messages;
mod control_network;
mod crunch;
mod delegation;
mod detect;
mod eager_channels;
mod events;
mod files;
mod idle;
mod latency;
mod locking;
mod mt_latency;
mod multirail;
mod onesided;
mod overhead;
mod overlap;
mod policies;
mod rate;
mod reactivity;
mod replies;
mod rpc;
mod sockets;
mod spin;
mod stream;
mod submit;
mod threads;
mod virtual_rails;

use crate::harness::experiment::Bench;

/// Every bench.
pub(crate) static BENCHES: [&Bench; 26] = [
    &apps::BENCH,
    &overlap::BENCH,
    &submit::BENCH,
    &reactivity::BENCH,
    &latency::BENCH,
    &locking::BENCH,
    &delegation::BENCH,
    &events::BENCH,
    &bandwidth::BENCH,
    &rate::BENCH,
    &rpc::BENCH,
    &mt_latency::BENCH,
    &multirail::BENCH,
    &coll::BENCH,
    &collaborative::BENCH,
    &onesided::BENCH,
    &files::BENCH,
    &idle::BENCH,
    &overhead::BENCH,
    &detect::BENCH,
    &policies::BENCH,
    &threads::BENCH,
    &control_network::BENCH,
    &control_messages::BENCH,
    &eager_channels::BENCH,
    &virtual_rails::BENCH,
];

/// The bench of this name.
pub(crate) fn find(name: &str) -> Option<&'static Bench> {
    BENCHES.iter().copied().find(|bench| bench.name == name)
}
