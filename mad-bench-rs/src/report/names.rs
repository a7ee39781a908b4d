//! Metrics and the values of keys in words, for titles, legends and tables.

use serde_json::Value;

use crate::config::shown;
use crate::harness::line::Line;
use crate::quantity;

/// What a metric is, as the title of a plot. The metric's own name where no words are known.
pub(super) fn metric(name: &str) -> &str {
    match name {
        "overlap_ratio" => "Part of the transfer that is hidden",
        "send_time" => "Length of the sender's call",
        "wait_time" => "Wait for messages, after the computation",
        "total_time" => "Compute and communicate, together",
        "weighted_trip" => "Message under way at a random moment",
        "half_round_trip" => "Half a round trip",
        "added_time" => "Added to half a round trip",
        "event_time" => "From the event to its handler",
        "bandwidth" => "Bandwidth",
        "message_rate" => "Messages in a second",
        "cpu_time" => "CPU time burnt while waiting",
        "op_time" => "Time of an operation",
        "detect_time" => "From the event to the waiting thread",
        "score" => "Cost of an event, all together",
        "call_time" => "A call and its reply",
        "access_time" => "Time of an access",
        "answer_time" => "From a request to its answer, in hops",
        name => name,
    }
}

/// The name of a key at an axis.
pub(super) fn axis(key: &str) -> &str {
    match key {
        "size" => "size of a message",
        "compute_us" => "length of the computation",
        "threads" => "number of threads",
        "members" => "number of members",
        "processes" => "number of processes",
        "imbalance" => "imbalance of the computations",
        key => key,
    }
}

/// The value of a key at an axis or at the head of a column.
pub(super) fn tick(key: &str, value: u64) -> String {
    match key {
        "size" => quantity::size(value),
        "compute_us" => quantity::time(value as f64 * 1e3),
        _ => value.to_string(),
    }
}

/// The value of a key in words that stand without the key.
pub(super) fn value(key: &str, value: &Value) -> String {
    let text = shown(value);
    let count = |one: &str, several: &str| match text.as_str() {
        "1" => format!("1 {one}"),
        n => format!("{n} {several}"),
    };
    let words = match (key, text.as_str()) {
        ("driver" | "source", "shm") => "shared memory",
        ("driver" | "source", "tcp") => "TCP",
        ("progression", "0") => "progress in calls only",
        ("progression", _) => "progress outside calls",
        ("compute_us", "0") => "no computation",
        ("compute_us", us) => {
            let ns = us.parse::<f64>().unwrap_or_default() * 1e3;
            return format!("computing {}", quantity::time(ns));
        }
        ("side", "receiver") => "the receiver computes",
        ("side", "sender") => "the sender computes",
        ("side", "both") => "both sides compute",
        ("side", "none") => "no side computes",
        ("mode", "no-thread") => "no threads",
        ("mode", "mono") => "one VP",
        ("mode", "smp") => "several VPs",
        ("offload", "auto") => "idle cores submit",
        ("offload", "never") => "the caller submits",
        ("policy", "auto") => "default policy",
        ("lock", "none") => "no lock",
        ("lock", "coarse") => "coarse",
        ("lock", "fine") => "fine",
        ("lock", "auto") => "default lock",
        ("method", "caller") => "waiting thread",
        ("method", "wait") => "I/O manager",
        ("method", "idle") => "idle core",
        ("method", "task") => "light task",
        ("method", "poll") => "polling",
        ("method", "block") => "blocking",
        ("method", "auto") => "default method",
        ("between", "threads") => "between threads",
        ("between", "processes") => "between processes",
        ("rails", "first") => "first rail",
        ("rails", "second") => "second rail",
        ("rails", "both") => "both rails",
        ("workload", "pingpong") => "there and back",
        ("workload", "stream") => "one way",
        ("workload", "turns") => "threads take turns",
        ("workload", "together") => "all threads at once",
        ("workload", "halo") => "halo exchange",
        ("workload", "hidden") => "halo exchange behind a computation",
        ("workload", "cg") => "conjugate gradients",
        ("workload", "wavefront") => "wavefront",
        ("workload", "bfs") => "breadth-first search",
        ("workload", "sort") => "sort of integers",
        ("workload", "montecarlo") => "Monte-Carlo transport",
        ("library", "bare") => "no library",
        ("library", "kernel") => "kernel threads",
        ("way", "collaborative") => "ranks share a process",
        ("way", "wait") => "the same, progress in waits alone",
        ("way", "processes") => "a process each",
        ("way", "calls") => "a process each, polling in calls only",
        ("op", "inline") => "inline",
        ("op", "thread") => "own thread",
        ("op", "write_all") => "collective write",
        ("op", "read_all") => "collective read",
        ("workers", "all") => "all cores",
        ("workers", _) => return count("worker", "workers"),
        ("window", "1") => "one at a time",
        ("window", n) => return format!("{n} under way"),
        ("threads", "0") => "idle cores",
        ("threads", _) => return count("thread", "threads"),
        ("ranks", _) => return count("rank", "ranks"),
        ("members", _) => return count("member", "members"),
        ("dimensions", _) => return count("dimension", "dimensions"),
        ("seconds", _) => return count("second", "seconds"),
        ("size", _) => return value.as_u64().map_or_else(|| shown(value), quantity::size),
        (_, other) => other,
    };
    words.to_owned()
}

/// The value of a line's key in words; empty where the line has none.
pub(super) fn of(line: &Line, key: &str) -> String {
    line.config.get(key).map_or(String::new(), |text| value(key, text))
}

/// A driver in words.
pub(super) fn driver(name: &str) -> String {
    value("driver", &name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_said_in_words_without_its_key() {
        let of = |key: &str, number: u64| value(key, &number.into());
        assert_eq!(of("compute_us", 20_000), "computing 20 ms");
        assert_eq!(of("progression", 1), "progress outside calls");
        assert_eq!(of("size", 65_536), "64 KB");
        assert_eq!(of("threads", 1), "1 thread");
        assert_eq!(value("driver", &"shm".into()), "shared memory");
        assert_eq!(value("op", &"bcast".into()), "bcast");
    }
}
