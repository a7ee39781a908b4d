//! Sampling: how long messages take, by size, over each rail and by each protocol, as measured on this machine.
//!
//! Where it comes from: `mad sample` measures between two processes and writes a cache file, which every session reads
//! when it opens; or the session measures for itself (`NMAD_SAMPLING=now`, see `now.rs`); without either, the built-in
//! figures serve. What it is for:
//! - *the rendezvous threshold* of a rail: the size from which asking first costs no more than sending at once
//!   ([`Sampling::threshold`]);
//! - *predictions* for strategies: when would so many bytes be through over this rail? A date, not a share:
//!   from it follow shares, and whether to share at all (`strategy/split_balance.rs`).
//!
//! ```text
//!  time   eager: a copy more, but no question        rendezvous: a question first, then fast
//!   │        ╱
//!   │       ╱   ___---  rendezvous
//!   │  ___-╳---
//!   │-- ╱  │
//!   │  ╱   └ threshold
//!   └────────────── size
//! ```
//!
//! Rejected: fitting one latency and one bandwidth to everything (protocols change with the size, and the fit is worst
//! around the threshold, where it matters); shares in the cache file (they depend on what else is on its way).

pub(crate) mod cache;
pub(crate) mod curve;
pub(crate) mod now;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::engine::core::Core;
use crate::error::Error;
use crate::net::Driver;

pub use crate::error::BadCache;
pub use cache::default_path;
pub use curve::Curve;

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// At once, in packets of the small track.
    Eager,
    /// Asked for, then in pieces over the large track: sockets, or copied through shared memory.
    Stream,
    /// Asked for, then copied from one process's memory to the other's by the kernel.
    Pull,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Eager, Protocol::Stream, Protocol::Pull];

    /// Its name in tables and in the cache file.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Eager => "eager",
            Protocol::Stream => "stream",
            Protocol::Pull => "pull",
        }
    }
}

/// Everything that was measured: a [`Curve`] for each rail and protocol. Rails have their driver's name; a second
/// one of the same driver is `tcp.2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    curves: BTreeMap<(String, Protocol), Curve>,
}

/// Least and greatest threshold that a sampling may ask for. A ping-pong does not see what long messages that nobody has
/// asked for cost others: the small track is taken while they pass, and who receives them late copies twice.
pub(crate) const THRESHOLDS: (u64, u64) = (2 * 1024, 64 * 1024);

impl Sampling {
    /// Nothing measured yet.
    pub fn new() -> Sampling {
        Sampling::default()
    }

    /// Adds a measurement: a message of `bytes` takes `ns` nanoseconds.
    pub fn add(&mut self, rail: &str, protocol: Protocol, bytes: u64, ns: u64) {
        self.curves.entry((rail.to_owned(), protocol)).or_default().add(bytes, ns);
    }

    /// The measurements of a rail and protocol.
    pub fn curve(&self, rail: &str, protocol: Protocol) -> Option<&Curve> {
        self.curves.get(&(rail.to_owned(), protocol))
    }

    /// All measurements, by rail and protocol.
    pub fn curves(&self) -> impl Iterator<Item = (&str, Protocol, &Curve)> {
        self.curves.iter().map(|((rail, protocol), curve)| (rail.as_str(), *protocol, curve))
    }

    /// The size above which a message over this rail is better asked for, where both ways were measured. `pull`: large
    /// messages may be pulled.
    pub fn threshold(&self, rail: &str, pull: bool) -> Option<usize> {
        let eager = self.curve(rail, Protocol::Eager)?;
        let pulled = self.curve(rail, Protocol::Pull).filter(|_| pull);
        let asked = pulled.or_else(|| self.curve(rail, Protocol::Stream))?;
        let crossing = eager.crossing(asked)?.clamp(THRESHOLDS.0, THRESHOLDS.1);
        Some((crossing / 1024 * 1024) as usize)
    }

    /// How fast large messages go over this rail.
    pub(crate) fn pace(&self, rail: &str) -> Option<Pace> {
        self.curve(rail, Protocol::Stream)?.pace()
    }
}

/// Where a session's figures come from (`NMAD_SAMPLING`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This machine's cache file, if there is one.
    Cache,
    /// This file.
    File(PathBuf),
    /// Measured when the session opens.
    Now,
    /// Built in.
    Off,
}

impl Source {
    pub(crate) fn of(text: &str) -> Source {
        match text {
            "" => Source::Cache,
            "now" => Source::Now,
            "off" => Source::Off,
            path => Source::File(path.into()),
        }
    }

    /// What is known before the session opens.
    ///
    /// # Errors
    /// The file that was asked for is not sound. One that nobody asked for is only complained about.
    pub(crate) fn load(&self) -> Result<Sampling, Error> {
        match self {
            Source::Now | Source::Off => Ok(Sampling::new()),
            Source::File(path) => Sampling::read(path).map_err(Error::Sampling),
            Source::Cache => {
                let path = default_path().filter(|path| path.exists());
                let Some(path) = path else { return Ok(Sampling::new()) };
                Ok(Sampling::read(&path).unwrap_or_else(|error| {
                    eprintln!("newmad: {error}; built-in figures serve");
                    Sampling::new()
                }))
            }
        }
    }
}

/// How fast a rail is, in two figures: good for large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// What a part costs whatever its length.
    pub(crate) latency_ns: u64,
    /// Nanoseconds for a mebibyte.
    pub(crate) mib_ns: u64,
}

/// A rail that needs no more nanoseconds for a mebibyte (some 1.7 GB/s) is not waiting for a network, but for the core.
pub(crate) const FED_NS: u64 = 600_000;

/// Of rails that were never measured: equal ones share equally. `calls_the_kernel`: each packet is a system call.
pub(crate) fn built_in(calls_the_kernel: bool) -> Pace {
    match calls_the_kernel {
        true => Pace { latency_ns: 15_000, mib_ns: 500_000 },
        false => Pace { latency_ns: 1_000, mib_ns: 150_000 },
    }
}

/// The names of these drivers as rails, in their order.
pub(crate) fn rail_names<'a>(drivers: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for driver in drivers {
        let before = names.iter().filter(|name| name.split('.').next() == Some(driver)).count();
        names.push(match before {
            0 => driver.to_owned(),
            before => format!("{driver}.{}", before + 1),
        });
    }
    names
}

impl<D: Driver> Core<D> {
    /// Takes over what is known of the rails.
    pub(crate) fn learn(&mut self, sampling: &Sampling) {
        let names = rail_names(self.rails.iter().map(|rail| rail.driver.name()));
        for (rail, name) in self.rails.iter_mut().zip(names) {
            if let Some(pace) = sampling.pace(&name) {
                rail.pace = pace;
                rail.copies = !rail.driver.calls_the_kernel() || pace.mib_ns < FED_NS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eager: 1 µs and 1 ns a byte; asked for: 6 µs and a half; pulled: 4 µs and a tenth.
    fn synthetic() -> Sampling {
        let mut sampling = Sampling::new();
        for bytes in [64, 1024, 4096, 8192, 16384, 65536, 1 << 20] {
            sampling.add("x", Protocol::Eager, bytes, 1_000 + bytes);
            sampling.add("x", Protocol::Stream, bytes, 6_000 + bytes / 2);
            sampling.add("x", Protocol::Pull, bytes, 4_000 + bytes / 10);
        }
        sampling
    }

    #[test]
    fn the_threshold_is_where_the_curves_cross() {
        let sampling = synthetic();
        // 1000 + x = 6000 + x / 2 at 10 000; 1000 + x = 4000 + x / 10 at 3333.
        assert_eq!(sampling.threshold("x", false), Some(9 * 1024));
        assert_eq!(sampling.threshold("x", true), Some(3 * 1024));
        assert_eq!(sampling.threshold("y", true), None);
        let pace = sampling.pace("x").unwrap();
        assert_eq!(pace.mib_ns, (1 << 20) / 2);
        assert!((5_900..6_100).contains(&pace.latency_ns), "{pace:?}");
    }

    #[test]
    fn rails_of_one_driver_are_numbered() {
        let names = rail_names(["shm", "tcp", "tcp"].into_iter());
        assert_eq!(names, ["shm", "tcp", "tcp.2"]);
    }
}
