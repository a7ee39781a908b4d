//! Eager channels over verbs: which packets find no slot, what the rings take, and what a step takes.
//!
//! Source: [Didelot14] 3.4. `steady` is for table 3.5 (channels of a fixed shape, from send and receive alone to 1,024
//! slots), `changing` for table 3.6 (a channel that keeps its first shape, changes it once, or as often as need be),
//! and `moving` compares the three ways to shrink, which the source proposes and does not measure.
//!
//! ```text
//! steady     every rank sends `burst` messages of 1 KiB to every other one, then receives theirs
//! changing   the same; length and number of the messages change four times
//! moving     every rank sends to one other rank, and to another one after a while: what is far away sends more
//! ```
//! Each point has processes of its own. Packets are counted from the beginning, those that go before there is a channel
//! too; the first tenth of the steps is not timed.

use newmad::Session;
use newmad::plumbing::eager_channels::{Counts, counts};

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::harness::experiment::{BASE, Bench, Setup, Work};
use crate::harness::key::{AUTO, DRIVER, Key, NONE, POLICY, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "eager-channels",
    about: "short messages through rings written by RDMA: misses, memory and time (needs an adapter, or the guest)",
    source: "[Didelot14] 3.4, tables 3.5 and 3.6",
    keys: &[
        Key { takes: Takes::Words(&["verbs"]), default: "verbs", ..DRIVER },
        Key { default: "always-poll", ..POLICY },
        RANKS,
        PATTERN,
        SHAPE,
        RESHAPES,
        SHRINK,
        CHANNELS,
        AFTER,
        SAMPLED,
        BURST,
    ],
    metrics: &METRICS,
    ranks: 4,
    iters: 100,
    rounds: 3,
    points,
    work: Work::Session(measure),
    staged: Some(stage),
    summary: Some(summary),
    ..BASE
};

const RANKS: Key = Key { name: "ranks", takes: Takes::Int(2, 64), default: "4", help: "processes" };
const PATTERN: Key = Key {
    name: "pattern",
    takes: Takes::Words(&["steady", "changing", "moving"]),
    default: "steady,changing,moving",
    help: "what the ranks send: always the same; other messages after a while; to other ranks after a while",
};
const SHAPE: Key = Key {
    name: "shape",
    takes: Takes::Words(&[
        NONE,
        AUTO,
        "8x1024",
        "16x1024",
        "32x1024",
        "64x1024",
        "128x1024",
        "256x1024",
        "512x1024",
        "1024x1024",
        "64x8192",
    ]),
    default: "none,auto,8x1024,16x1024,32x1024,64x1024,128x1024,256x1024,512x1024,1024x1024,64x8192",
    help: "slots of a channel, and the longest message of each; auto: as the messages want it; none: send and receive",
};
const RESHAPES: Key = Key {
    name: "reshapes",
    takes: Takes::Words(&["0", "1", AUTO]),
    default: "0,1,auto",
    help: "how often a channel changes its shape (changing only); auto: as often as need be",
};
const SHRINK: Key = Key {
    name: "shrink",
    takes: Takes::Words(&["emergency", "normalisation", "lru"]),
    default: "emergency,normalisation,lru",
    help: "what channels give up for another one (moving only)",
};
const CHANNELS: Key = Key {
    name: "channels",
    takes: Takes::Bytes(1 << 40),
    default: "48K,64M",
    help: "most memory of a process for channels: the least given for moving, the most for the others",
};
const AFTER: Key = Key {
    name: "after",
    takes: Takes::Int(1, 1 << 30),
    default: "100",
    help: "packets after which a channel is asked for",
};
const SAMPLED: Key = Key {
    name: "sampled",
    takes: Takes::Int(1, 1 << 30),
    default: "200",
    help: "packets after which its shape is looked at",
};
const BURST: Key = Key {
    name: "burst",
    takes: Takes::Int(1, 10_000),
    default: "32",
    help: "messages to a rank in each step",
};

const METRICS: [Metric; 11] = [
    Metric::new("step_time", "us", "a step of all ranks, by rank 0's clock"),
    Metric::new("misses", "ratio", "packets that found no slot free, of all packets"),
    Metric::new("longer", "ratio", "packets longer than a slot"),
    Metric::new("sleeping", "ratio", "packets to a receiver that slept"),
    Metric::new("through", "ratio", "packets that went through a channel"),
    Metric::new(
        "ring_memory",
        "KB",
        "of a process for rings: the mean of what each had at the most",
    ),
    Metric::new("rings", "count", "that a process made: channels, and other shapes of them"),
    Metric::new("declines", "count", "requests that a process declined"),
    Metric::new("shrunk", "count", "channels that a process shrank or ended unasked"),
    Metric::new("wakes", "count", "packets of a process to wake a receiver beside a slot"),
    Metric::new("naps", "count", "wake-ups of a process by the timer, to look for slots"),
];

/// Fixed shapes belong to steady traffic; what the channels do by themselves belongs to traffic that changes.
fn points(grid: Vec<Config>) -> Vec<Config> {
    let memory = |point: &Config| point.number("channels");
    let most = grid.iter().map(memory).max().unwrap_or_default();
    let least = grid.iter().map(memory).min().unwrap_or_default();
    let alone = |point: Config| {
        point.with("reshapes", AUTO).with("shrink", "normalisation").with("channels", 0)
    };
    let sense = grid.into_iter().filter_map(|point| {
        let (pattern, shape) = (point.text("pattern").to_owned(), point.text("shape").to_owned());
        if shape == NONE {
            return Some(alone(point));
        }
        let limit = if pattern == "moving" { least } else { most };
        let point = point.with("channels", limit);
        match (pattern.as_str(), shape.as_str()) {
            ("steady", "64x8192") => None,
            ("steady", _) => Some(point.with("reshapes", AUTO).with("shrink", "normalisation")),
            ("changing", AUTO) => Some(point.with("shrink", "normalisation")),
            ("changing", "64x8192") => {
                Some(point.with("reshapes", AUTO).with("shrink", "normalisation"))
            }
            ("moving", AUTO) => Some(point.with("reshapes", AUTO)),
            _ => None,
        }
    });
    distinct(sense)
}

/// Says why it cannot be, where there is no adapter.
pub(super) fn stage() -> Result<Setup, String> {
    let ports = newmad::plumbing::ports()?;
    if ports.iter().any(|port| port.is_active) {
        return Ok(Setup { env: Vec::new(), holds: Box::new(()) });
    }
    Err("no InfiniBand or RoCE port is active, and this needs an adapter. The guest kernel of \
         ci/verbs-guest.sh has one made of software"
        .into())
}

/// Length and number of the messages to a rank in a step.
type Burst = (usize, u64);

/// What rank `me` of `ranks` sends in a step, and receives: the other rank, and the burst.
struct Step {
    sends: Vec<(u32, Burst)>,
    receives: Vec<(u32, Burst)>,
}

/// The phase of step `at` of `of`, if there are so many.
fn phase(at: u64, of: u64, phases: u64) -> u64 {
    (at * phases / of.max(1)).min(phases - 1)
}

fn step(pattern: &str, (me, ranks): (u32, u32), (at, of): (u64, u64), burst: u64) -> Step {
    let others = |each: Burst| {
        let all: Vec<_> = (0..ranks).filter(|&rank| rank != me).map(|rank| (rank, each)).collect();
        Step { sends: all.clone(), receives: all }
    };
    match pattern {
        "changing" => {
            // Many short ones, few long ones, and back.
            let bursts = [(128, burst), (4096, burst / 4), (1024, burst), (64, burst * 2)];
            let (len, number) = bursts[phase(at, of, 4) as usize];
            others((len, number.max(1)))
        }
        "moving" => {
            // Twice around.
            let distances = u64::from(ranks - 1);
            let distance = 1 + (phase(at, of, 2 * distances) % distances) as u32;
            let each = (1024, burst * u64::from(distance));
            let (to, from) = ((me + distance) % ranks, (me + ranks - distance) % ranks);
            Step { sends: vec![(to, each)], receives: vec![(from, each)] }
        }
        _ => others((1024, burst)),
    }
}

const DATA: u64 = 1;
const COUNTED: u64 = 2;

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let (me, ranks) = (session.rank(), session.size());
    for (number, config) in &spec.points {
        let burst = config.number("burst");
        let warm = spec.iters.div_ceil(10);
        let of = warm + spec.iters;
        let mut times = Vec::new();
        for at in 0..of {
            let Step { sends, receives } =
                step(config.text("pattern"), (me, ranks), (at, of), burst);
            session.barrier()?;
            let start = now_ns();
            let mut requests = Vec::new();
            // In turn: as programs do that send to several.
            let longest = sends.iter().map(|&(_, (_, count))| count).max().unwrap_or(0);
            for turn in 0..longest {
                for &(to, (len, _)) in sends.iter().filter(|&&(_, (_, count))| turn < count) {
                    requests.push(session.isend(to, DATA, vec![turn as u8; len])?);
                }
            }
            for &(from, (len, count)) in &receives {
                let mut buffer = vec![0; len];
                for turn in 0..count {
                    let status = session.recv(from, DATA, &mut buffer)?;
                    if status.len != len || buffer.iter().any(|&byte| byte != turn as u8) {
                        return Err(format!("message {turn} of rank {from} is another one").into());
                    }
                }
            }
            for request in requests {
                request.wait()?;
            }
            session.barrier()?;
            if at >= warm {
                times.push((now_ns() - start) as f64 / 1000.0);
            }
            emit.progress(at + 1, of)?;
        }
        let all = gather(session)?;
        if me == 0 {
            emit.samples(*number, "step_time", &times)?;
            report(emit, *number, &all)?;
        }
    }
    Ok(())
}

/// The counts of all ranks, at rank 0.
fn gather(session: &Session) -> WorkResult<Vec<Counts>> {
    let own = counts();
    if session.rank() > 0 {
        let bytes: Vec<u8> = words(&own).iter().flat_map(|word| word.to_le_bytes()).collect();
        session.send(0, COUNTED, &bytes)?;
        return Ok(vec![own]);
    }
    let mut all = vec![own];
    for rank in 1..session.size() {
        let mut bytes = [0; WORDS * 8];
        session.recv(rank, COUNTED, &mut bytes)?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        all.push(counted(words));
    }
    Ok(all)
}

const WORDS: usize = 11;

/// What ranks tell each other of their counts, in one order.
fn told(counts: &mut Counts) -> [&mut u64; WORDS] {
    let Counts { through, closed, misses, longer, sleeping, opened, .. } = counts;
    let Counts { declines, shrunk, wakes, naps, most_memory, .. } = counts;
    [through, closed, misses, longer, sleeping, opened, declines, shrunk, wakes, naps, most_memory]
}

fn words(counts: &Counts) -> [u64; WORDS] {
    told(&mut counts.clone()).map(|count| *count)
}

fn counted(words: [u64; WORDS]) -> Counts {
    let mut counts = Counts::default();
    for (count, word) in told(&mut counts).into_iter().zip(words) {
        *count = word;
    }
    counts
}

fn report(emit: &Emit, number: usize, all: &[Counts]) -> WorkResult {
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let packets = sum(|c| c.through + c.closed + c.misses + c.longer + c.sleeping);
    if packets > 0.0 {
        let ratio = |of: fn(&Counts) -> u64| [sum(of) / packets];
        emit.samples(number, "misses", &ratio(|c| c.misses))?;
        emit.samples(number, "longer", &ratio(|c| c.longer))?;
        emit.samples(number, "sleeping", &ratio(|c| c.sleeping))?;
        emit.samples(number, "through", &ratio(|c| c.through))?;
    }
    let each = |of: fn(&Counts) -> u64| [sum(of) / all.len() as f64];
    emit.samples(number, "ring_memory", &each(|c| c.most_memory).map(|bytes| bytes / 1024.0))?;
    emit.samples(number, "rings", &each(|c| c.opened))?;
    emit.samples(number, "declines", &each(|c| c.declines))?;
    emit.samples(number, "shrunk", &each(|c| c.shrunk))?;
    emit.samples(number, "wakes", &each(|c| c.wakes))?;
    emit.samples(number, "naps", &each(|c| c.naps))
}

fn summary(_: &[Line]) -> String {
    "Over soft-RoCE only ratios between the rows say something: a slot costs a system call there, as a packet does."
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::key::grid;

    #[test]
    fn the_tables_have_their_rows_and_no_others() {
        let all = points(grid("eager-channels", BENCH.keys, &[]).unwrap());
        let of = |pattern: &str| -> Vec<String> {
            let rows = all.iter().filter(|point| point.text("pattern") == pattern);
            rows.map(|p| format!("{} {} {}", p.text("shape"), p.text("reshapes"), p.text("shrink")))
                .collect()
        };
        let steady = of("steady");
        assert_eq!(
            steady.len(),
            10,
            "send and receive, eight shapes, and what the messages want: {steady:?}"
        );
        assert_eq!(
            of("changing").len(),
            5,
            "table 3.6 has four rows, and one channel keeps its first shape"
        );
        assert_eq!(of("moving").len(), 4, "{:?}", of("moving"));
        let limits = |pattern: &str, shape: &str| -> Vec<u64> {
            let rows =
                all.iter().filter(|p| p.text("pattern") == pattern && p.text("shape") == shape);
            rows.map(|point| point.number("channels")).collect()
        };
        assert_eq!(limits("moving", AUTO), [48 << 10; 3]);
        assert_eq!(limits("changing", AUTO), [64 << 20; 3]);
        assert_eq!(limits("steady", NONE), [0]);
    }

    #[test]
    fn what_one_rank_sends_the_other_receives() {
        for pattern in ["steady", "changing", "moving"] {
            for (ranks, at) in [(2, 0), (3, 5), (4, 50), (4, 99)] {
                let all: Vec<Step> =
                    (0..ranks).map(|me| step(pattern, (me, ranks), (at, 100), 32)).collect();
                for (from, sender) in all.iter().enumerate() {
                    for &(to, burst) in &sender.sends {
                        let expected = &all[to as usize].receives;
                        assert!(
                            expected.contains(&(from as u32, burst)),
                            "{pattern}: {from} to {to}"
                        );
                    }
                }
                let count = |of: fn(&Step) -> usize| all.iter().map(of).sum::<usize>();
                assert_eq!(count(|step| step.sends.len()), count(|step| step.receives.len()));
            }
        }
    }

    #[test]
    fn counts_survive_their_way() {
        let mut next = 0;
        let all: [u64; WORDS] = std::array::from_fn(|_| {
            next += 1;
            next
        });
        assert_eq!(words(&counted(all)), all);
    }
}
