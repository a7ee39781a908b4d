//! Everything that was measured, by rail and protocol.

use std::collections::BTreeMap;

use super::curve::{Curve, Pace};

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// At once, in packets of the small track.
    Eager,
    /// Asked for, then in pieces over the large track: sockets, or copied through shared memory.
    Fragments,
    /// Asked for, then copied from one process's memory to the other's by the kernel.
    Get,
    /// Asked for, then read by the receiver's adapter from the sender's memory.
    Read,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] =
        [Protocol::Eager, Protocol::Fragments, Protocol::Get, Protocol::Read];

    /// Its name in tables and in the cache file, which older versions have written, too.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Eager => "eager",
            Protocol::Fragments => "stream",
            Protocol::Get => "pull",
            Protocol::Read => "read",
        }
    }
}

/// Everything that was measured: a [`Curve`] for each rail and protocol. Rails have their driver's name; a second
/// one of the same driver is `tcp.2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    pub(super) curves: BTreeMap<(String, Protocol), Curve>,
}

/// Least and greatest threshold that a sampling may ask for over a rail. A ping-pong does not see what long messages that
/// no receive has asked for cost others: the small track is taken while they pass, and a late receiver copies them twice.
pub(crate) fn thresholds(rail: &str) -> (u64, u64) {
    // Over sockets an announcement costs more than that.
    let most = if rail.starts_with("tcp") { 256 } else { 64 };
    (2 * 1024, most * 1024)
}

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
        let pulled = self.curve(rail, Protocol::Get).filter(|_| pull);
        let asked = pulled.or_else(|| self.curve(rail, Protocol::Fragments))?;
        let (least, most) = thresholds(rail);
        let crossing = eager.crossing(asked)?.clamp(least, most);
        Some((crossing / 1024 * 1024) as usize)
    }

    /// The size from which on a message that was asked for over this rail is better read by the receiver's adapter, where
    /// both ways were measured. `usize::MAX`: no size that was measured.
    pub fn reads_from(&self, rail: &str) -> Option<usize> {
        let (copied, read) =
            (self.curve(rail, Protocol::Fragments)?, self.curve(rail, Protocol::Read)?);
        let crossing = copied.crossing(read)?;
        let wins = read.predict(crossing) <= copied.predict(crossing);
        Some(if wins { crossing as usize } else { usize::MAX })
    }

    /// How fast large messages go over this rail.
    pub(crate) fn pace(&self, rail: &str) -> Option<Pace> {
        self.curve(rail, Protocol::Fragments)?.pace()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Eager: 1 µs and 1 ns a byte; asked for: 6 µs and a half; pulled: 4 µs and a tenth.
    fn synthetic() -> Sampling {
        let mut sampling = Sampling::new();
        for bytes in [64, 1024, 4096, 8192, 16384, 65536, 1 << 20] {
            sampling.add("x", Protocol::Eager, bytes, 1_000 + bytes);
            sampling.add("x", Protocol::Fragments, bytes, 6_000 + bytes / 2);
            sampling.add("x", Protocol::Get, bytes, 4_000 + bytes / 10);
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
    fn adapters_read_from_where_that_is_faster_or_never() {
        let mut sampling = synthetic();
        assert_eq!(sampling.reads_from("x"), None);
        // 6000 + x / 2 = 30 000 + x / 8 at 64 000.
        for bytes in [4096, 65536, 1 << 20] {
            sampling.add("x", Protocol::Read, bytes, 30_000 + bytes / 8);
            sampling.add("slow", Protocol::Fragments, bytes, 6_000 + bytes / 2);
            sampling.add("slow", Protocol::Read, bytes, 7_000 + bytes / 2);
        }
        assert!((63_900..64_100).contains(&sampling.reads_from("x").unwrap()));
        assert_eq!(sampling.reads_from("slow"), Some(usize::MAX));
    }

    #[test]
    fn rails_of_one_driver_are_numbered() {
        let names = rail_names(["shm", "tcp", "tcp"].into_iter());
        assert_eq!(names, ["shm", "tcp", "tcp.2"]);
    }
}
