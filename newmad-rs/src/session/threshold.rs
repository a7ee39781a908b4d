//! From which size on a session announces its messages, and why that.

use std::fmt;
use std::path::PathBuf;

use super::settings::Settings;
use crate::sampling::{Sampling, Source, default_path, thresholds};

/// Rendezvous threshold unless something else says otherwise.
pub(crate) const SHM_THRESHOLD: usize = 16 * 1024;
/// Over sockets the answer to an announcement takes a wake-up of either side: 80,000 to 200,000 bytes each way took 1.6 to 2
/// times as long announced as at once; from 300,000 on a single message is faster announced.
pub(crate) const TCP_THRESHOLD: usize = 256 * 1024;
/// Of networks of a program's own.
pub(crate) const CUSTOM_THRESHOLD: usize = 64 * 1024;
/// Longest message that is sent at once by a program that goes on to compute, whatever the threshold is, unless that was set:
/// to write 128 KiB to a socket takes 40 µs.
pub(crate) const AWAY: usize = 64 * 1024;
pub(crate) const VERBS_THRESHOLD: usize = 16 * 1024;
/// From this length on adapters read, unless something was measured: both sides register the message's memory, which
/// takes two wake-ups of a thread before its first byte moves.
const READS_FROM: usize = 256 * 1024;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The user has set this knob.
    User(&'static str),
    /// This file, which `mad sample` has written.
    Cache(PathBuf),
    /// It is measured when a session opens.
    AtOpening,
    /// It was tried out just now.
    Tried,
    /// Nothing was measured.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::User(knob) => write!(f, "set by {knob}"),
            Origin::Cache(path) => write!(f, "measured by mad sample: {}", path.display()),
            Origin::AtOpening => f.write_str("measured when a session opens"),
            Origin::Tried => f.write_str("tried out now"),
            Origin::BuiltIn => f.write_str("built in"),
        }
    }
}

/// From which size on a message over this rail is asked for first. `usual`: where nothing is known.
pub(crate) fn threshold(
    settings: &Settings,
    sampling: &Sampling,
    rail: &str,
    usual: usize,
) -> (usize, Origin) {
    if let Some(set) = settings.rdv_threshold {
        return (set, Origin::User("NMAD_RDV_THRESHOLD"));
    }
    match (sampling.threshold(rail, settings.cma), &settings.sampling) {
        (Some(crossing), source) => {
            let path = file(source).unwrap_or_default();
            (crossing, Origin::Cache(path))
        }
        // Short messages are measured up to the threshold, so it is as high as it may come out.
        (None, Source::Now) => (thresholds(rail).1 as usize, Origin::AtOpening),
        (None, _) => (usual, Origin::BuiltIn),
    }
}

/// From which length on a message that was asked for is read by the receiver's adapter. `usize::MAX`: none is.
pub(crate) fn reads_from(settings: &Settings, sampling: &Sampling) -> (usize, Origin) {
    if let Some(set) = settings.verbs_rdma {
        let from = if set == 0 { usize::MAX } else { set };
        return (from, Origin::User("NMAD_VERBS_RDMA"));
    }
    match (sampling.reads_from("verbs"), &settings.sampling) {
        (Some(crossing), source) => (crossing, Origin::Cache(file(source).unwrap_or_default())),
        (None, Source::Now) => (READS_FROM, Origin::AtOpening),
        (None, _) => (READS_FROM, Origin::BuiltIn),
    }
}

/// The file that figures come from, if there is one.
pub(crate) fn file(source: &Source) -> Option<PathBuf> {
    match source {
        Source::File(path) => Some(path.clone()),
        Source::Cache => default_path().filter(|path| path.exists()),
        Source::Now | Source::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Protocol;

    fn sampled() -> Sampling {
        let mut sampling = Sampling::new();
        for bytes in [1024, 4096, 16384, 65536, 1 << 20] {
            sampling.add("shm", Protocol::Eager, bytes, 1_000 + bytes);
            sampling.add("shm", Protocol::Fragments, bytes, 6_000 + bytes / 2);
        }
        sampling
    }

    #[test]
    fn a_sampling_may_ask_for_more_over_sockets_than_over_memory() {
        let mut settings = Settings::read().unwrap();
        (settings.rdv_threshold, settings.sampling) = (None, Source::File("/figures".into()));
        let mut sampling = Sampling::new();
        for rail in ["shm", "tcp", "tcp.2"] {
            for bytes in [1024, 65536, 1 << 20] {
                sampling.add(rail, Protocol::Eager, bytes, 1_000 + bytes);
                sampling.add(rail, Protocol::Fragments, bytes, 101_000 + bytes / 2);
            }
        }
        let value = |rail| threshold(&settings, &sampling, rail, 7).0 / 1024;
        assert_eq!([value("shm"), value("tcp"), value("tcp.2")], [64, 195, 195]);
        for (rail, most) in [("shm", 64), ("tcp", 256)] {
            settings.sampling = Source::Now;
            assert_eq!(threshold(&settings, &Sampling::new(), rail, 7).0, most * 1024);
        }
    }

    #[test]
    fn adapters_read_from_what_was_set_or_measured_or_is_usual() {
        let mut settings = Settings::read().unwrap();
        (settings.verbs_rdma, settings.sampling) = (None, Source::File("/figures".into()));
        let mut sampling = Sampling::new();
        assert_eq!(reads_from(&settings, &sampling), (READS_FROM, Origin::BuiltIn));
        for bytes in [4096, 65536, 1 << 20] {
            sampling.add("verbs", Protocol::Fragments, bytes, 6_000 + bytes / 2);
            sampling.add("verbs", Protocol::Read, bytes, 30_000 + bytes / 8);
        }
        let (from, origin) = reads_from(&settings, &sampling);
        assert!((63_900..64_100).contains(&from), "{from}");
        assert_eq!(origin, Origin::Cache("/figures".into()));
        for (set, from) in [(0, usize::MAX), (70, 70)] {
            settings.verbs_rdma = Some(set);
            let set = Origin::User("NMAD_VERBS_RDMA");
            assert_eq!(reads_from(&settings, &sampling), (from, set));
        }
    }

    #[test]
    fn a_threshold_says_where_it_comes_from() {
        let mut settings = Settings::read().unwrap();
        let nothing = Sampling::new();
        settings.rdv_threshold = None;
        settings.sampling = Source::Off;
        assert_eq!(threshold(&settings, &nothing, "shm", 7), (7, Origin::BuiltIn));
        settings.sampling = Source::Now;
        assert_eq!(threshold(&settings, &nothing, "shm", 7).1, Origin::AtOpening);
        settings.sampling = Source::File("/figures".into());
        let (value, from) = threshold(&settings, &sampled(), "shm", 7);
        assert_eq!((value, from), (9 * 1024, Origin::Cache("/figures".into())));
        assert_eq!(threshold(&settings, &sampled(), "tcp", 7), (7, Origin::BuiltIn));
        settings.rdv_threshold = Some(5);
        let from = threshold(&settings, &sampled(), "shm", 7).1;
        assert_eq!(from.to_string(), "set by NMAD_RDV_THRESHOLD");
    }
}
