//! What a session chooses by measurement, and from what: for `mad knobs --explain` and `mad doctor`. A session that opens asks
//! the same functions.

use crate::coll::shared as coll;
use crate::engine::wait;
use crate::error::Error;
use crate::net::segment::{LARGE_SIZE, LARGE_SLOTS};
use crate::net::shm::cma::cma_works;
use crate::net::tcp::large as tcp;
use crate::proto::rendezvous;
use crate::sampling::{Protocol, Sampling, Source, built_in, thresholds};
use crate::session::settings::Settings;
use crate::session::threshold::{
    SHM_THRESHOLD, TCP_THRESHOLD, VERBS_THRESHOLD, file, reads_from, threshold,
};

pub use crate::session::threshold::Origin;

/// One choice.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What is chosen.
    pub what: String,
    /// What it is now.
    pub value: String,
    /// Where it comes from.
    pub from: Origin,
    /// Why, in figures if there are some.
    pub why: String,
    /// Whether measuring could change it.
    pub can_be_measured: bool,
}

/// What a session of this process would choose.
///
/// # Errors
/// A knob is wrong, or the file that `NMAD_SAMPLING` names is not sound.
pub fn choices() -> Result<Vec<Choice>, Error> {
    let settings = Settings::read()?;
    let sampling = settings.sampling.load()?;
    let mut all = Vec::new();
    let usual = [("shm", SHM_THRESHOLD), ("tcp", TCP_THRESHOLD), ("verbs", VERBS_THRESHOLD)];
    for (rail, usual) in usual {
        let (value, from) = threshold(&settings, &sampling, rail, usual);
        let why = match &from {
            Origin::Cache(_) => crossing(&sampling, rail, settings.cma, value as u64),
            Origin::AtOpening => "the sizes at which asking first becomes as fast are found by a ping-pong of the first \
                                  two processes"
                .into(),
            Origin::BuiltIn => "nothing was measured: `mad sample` would, once for this machine; NMAD_SAMPLING=now does \
                                at each opening"
                .into(),
            _ => "for all rails".into(),
        };
        let what = format!("eager up to ({rail})");
        all.push(Choice { what, value: bytes(value), from, why, can_be_measured: true });
    }
    all.push(copies(&settings, &sampling));
    all.push(reads(&settings, &sampling));
    all.push(Choice {
        what: "pieces of a copy".into(),
        value: format!("{} to {}", bytes(rendezvous::PIECE), bytes(rendezvous::LARGEST_PIECE)),
        from: Origin::BuiltIn,
        why: "get and put look for other work between two of them".into(),
        can_be_measured: false,
    });
    all.push(Choice {
        what: "pieces in flight (shm)".into(),
        value: format!("{LARGE_SLOTS} of {}", bytes(LARGE_SIZE - 64)),
        from: Origin::BuiltIn,
        why: "both sides copy at once: a piece is to be in the cache still when the other side comes to it".into(),
        can_be_measured: false,
    });
    all.push(Choice {
        what: "pieces in flight (tcp)".into(),
        value: format!("1 of {}", bytes(tcp::PIECE)),
        from: Origin::BuiltIn,
        why: "the kernel takes what its buffers hold".into(),
        can_be_measured: false,
    });
    for (what, time, why) in [
        (
            "waiter of a long message polls (shm)",
            wait::STAY,
            "about what a sleep costs; then the policy says",
        ),
        (
            "waiter of a long message polls (tcp)",
            wait::STAY_SOCKETS,
            "what comes next is a system call of the peer's away",
        ),
        (
            "member of a collective looks",
            coll::BUDGET,
            "and longer, up to ten times, after sleeps that were short",
        ),
    ] {
        let (what, why) = (what.to_owned(), why.to_owned());
        let value = format!("{} µs", time.as_micros());
        all.push(Choice { what, value, from: Origin::BuiltIn, why, can_be_measured: false });
    }
    for (rail, calls_the_kernel) in [("shm", false), ("tcp", true)] {
        let measured = sampling.pace(rail);
        let pace = measured.unwrap_or_else(|| built_in(calls_the_kernel));
        let from = match (measured, &settings.sampling) {
            (Some(_), source) => Origin::Cache(file(source).unwrap_or_default()),
            (None, Source::Now) => Origin::AtOpening,
            (None, _) => Origin::BuiltIn,
        };
        let why = match from {
            Origin::BuiltIn => "split_balance shares over no rails that were never measured".into(),
            _ => "split_balance has the parts of a message end at one moment".to_owned(),
        };
        all.push(Choice {
            what: format!("pace for shares ({rail})"),
            value: format!(
                "{:.1} µs and {:.2} GB/s",
                pace.latency_ns as f64 / 1000.0,
                (1u64 << 20) as f64 / pace.mib_ns.max(1) as f64
            ),
            from,
            why,
            can_be_measured: true,
        });
    }
    Ok(all)
}

/// How long messages move over shared memory.
fn copies(settings: &Settings, sampling: &Sampling) -> Choice {
    let what = "long messages (shm)".into();
    if !settings.cma {
        let from = Origin::User("NMAD_CMA");
        let why = "get and put are switched off".into();
        return Choice { what, value: "fragments".into(), from, why, can_be_measured: false };
    }
    if let Err(why) = cma_works() {
        let why = format!("no memory of another process can be reached: {why}");
        let value = "fragments".into();
        return Choice { what, value, from: Origin::Tried, why, can_be_measured: false };
    }
    let rate = |protocol: Protocol| {
        let ns = sampling.curve("shm", protocol)?.predict(1 << 20)?;
        Some((1u64 << 20) as f64 / ns as f64)
    };
    let mut why = "by the side that waits: the receiver gets, the sender puts, both make fragments"
        .to_owned();
    if let (Some(get), Some(fragments)) = (rate(Protocol::Get), rate(Protocol::Fragments)) {
        why += &format!("; measured at 1 MiB: get {get:.1} GB/s, fragments {fragments:.1} GB/s");
    }
    let value = "get, put, fragments".into();
    Choice { what, value, from: Origin::Tried, why, can_be_measured: false }
}

/// From which length on adapters read messages.
fn reads(settings: &Settings, sampling: &Sampling) -> Choice {
    let (value, from) = reads_from(settings, sampling);
    let why = match &from {
        Origin::User(_) => "for all adapters".into(),
        Origin::Cache(_) => {
            let at = |protocol| sampling.curve("verbs", protocol)?.predict(1 << 20);
            format!(
                "1 MiB: fragments {}, read {}",
                us(at(Protocol::Fragments)),
                us(at(Protocol::Read))
            )
        }
        Origin::AtOpening => {
            "the size at which reading becomes as fast is found by a ping-pong of the first two \
                              processes"
                .into()
        }
        _ => {
            "nothing was measured: `mad sample --driver verbs` would, once for this machine".into()
        }
    };
    let value = match value {
        usize::MAX => "never".into(),
        from => bytes(from),
    };
    let what = "read by the adapter from (verbs)".into();
    Choice { what, value, from, why, can_be_measured: true }
}

/// A time, if it is known.
fn us(ns: Option<u64>) -> String {
    ns.map_or("?".into(), |ns| format!("{:.1} µs", ns as f64 / 1000.0))
}

/// The figures on both sides of a threshold.
fn crossing(sampling: &Sampling, rail: &str, get: bool, at: u64) -> String {
    let asked = [Protocol::Get, Protocol::Fragments]
        .into_iter()
        .filter(|&protocol| get || protocol != Protocol::Get)
        .find_map(|protocol| Some((protocol, sampling.curve(rail, protocol)?)));
    let eager = sampling.curve(rail, Protocol::Eager);
    let (Some((protocol, asked)), Some(eager)) = (asked, eager) else { return String::new() };
    let of = |size: u64| {
        let name = match protocol {
            Protocol::Get => "get",
            _ => "fragments",
        };
        format!(
            "{}: eager {}, {name} {}",
            bytes(size as usize),
            us(eager.predict(size)),
            us(asked.predict(size))
        )
    };
    let (least, most) = thresholds(rail);
    let clamped = match at {
        at if at == least => "; no less is taken",
        at if at == most => "; no more is taken",
        _ => "",
    };
    format!("{}; {}{clamped}", of(at / 2), of(at * 2))
}

fn bytes(count: usize) -> String {
    match count {
        0 => "0 B".into(),
        count if count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled() -> Sampling {
        let mut sampling = Sampling::new();
        for bytes in [1024, 4096, 16384, 65536, 1 << 20] {
            sampling.add("shm", Protocol::Eager, bytes, 1_000 + bytes);
            sampling.add("shm", Protocol::Fragments, bytes, 6_000 + bytes / 2);
        }
        sampling
    }

    #[test]
    fn the_reasons_have_the_figures() {
        let why = crossing(&sampled(), "shm", true, 8192);
        assert!(why.contains("4 KiB: eager 5.1 µs, fragments 8.0 µs"), "{why}");
        assert!(why.contains("16 KiB: eager 17.4 µs, fragments 14.2 µs"), "{why}");
        for choice in choices().unwrap() {
            assert!(!choice.value.is_empty() && !choice.why.is_empty(), "{choice:?}");
        }
    }
}
