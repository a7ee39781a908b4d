//! Reads what `marcel::trace::save` has written. The file may be anything: what does not fit is an error, not a panic.

use std::collections::HashMap;

use marcel::trace::{Kind, MAGIC, VERSION};

use super::ranks;

/// One process's trace.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) process: u32,
    pub(crate) rank: Option<u32>,
    /// Events for which there was no ring.
    pub(crate) lost: u64,
    names: HashMap<u32, String>,
    threads: HashMap<u32, u32>,
    pub(crate) rings: Vec<Ring>,
    clock: Clock,
}

/// What one slot's kernel threads have recorded, by time.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The kernel thread that had the slot last.
    pub(crate) owner: Owner,
    /// Records that were overwritten.
    pub(crate) lost: u64,
    pub(crate) events: Vec<Event>,
}

/// A kernel thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tid: u32,
    /// Its virtual processor.
    pub(crate) vp: Option<u32>,
    pub(crate) name: String,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Nanoseconds of the monotonic clock.
    pub(crate) at: i64,
    pub(crate) kind: Kind,
    /// Events of its sort that were only counted before it.
    pub(crate) skipped: u16,
    pub(crate) a: u64,
    pub(crate) b: u64,
}

impl Owner {
    /// From what a file holds: one more than the number of the virtual processor, and two words of the name.
    pub(crate) fn new(tid: u32, vp: u32, name: [u64; 2]) -> Owner {
        let bytes: Vec<u8> = name.into_iter().flat_map(u64::to_le_bytes).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Owner { tid, vp: vp.checked_sub(1), name: String::from_utf8_lossy(&bytes[..end]).into() }
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        const REACTIVE: u32 = 1 << 31;
        match self.vp {
            Some(vp) if vp & REACTIVE != 0 => format!("reactive vp{}", vp & !REACTIVE),
            Some(vp) => format!("vp{vp}"),
            None => format!("{} ({})", self.name, self.tid),
        }
    }
}

impl Trace {
    /// What a number stands for.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    /// A thread, for people: its name, if it is known, and its number.
    pub(crate) fn thread(&self, number: u32, name: u32) -> String {
        let name = self.name(name).or_else(|| self.name(*self.threads.get(&number)?));
        name.map_or_else(|| format!("thread {number}"), |name| format!("{name} ({number})"))
    }

    /// The process, for people.
    pub(crate) fn label(&self) -> String {
        let ranks = self.names.values().filter_map(|name| ranks::number(name));
        let (first, last) =
            ranks.fold((u32::MAX, 0), |(low, high), rank| (low.min(rank), high.max(rank)));
        if first < last {
            // They are threads of it.
            return format!("ranks {first} to {last} (process {})", self.process);
        }
        match self.rank {
            Some(rank) => format!("rank {rank} (process {})", self.process),
            None => format!("process {}", self.process),
        }
    }
}

/// When the first thing happened that any of them tells.
pub(crate) fn start(traces: &[Trace]) -> i64 {
    let events = traces.iter().flat_map(|trace| &trace.rings).flat_map(|ring| &ring.events);
    events.map(|event| event.at).min().unwrap_or(0)
}

struct Reader<'a>(&'a [u8]);

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Read<&'a [u8]> {
        let (bytes, rest) =
            self.0.split_at_checked(n).ok_or("the file ends in the middle: it is damaged")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().map_err(|_| "four bytes")?))
    }

    fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().map_err(|_| "eight bytes")?))
    }

    /// A number of things, `size` bytes each at least, which must be there.
    fn count(&mut self, number: u64, size: u64) -> Read<usize> {
        match number.checked_mul(size) {
            Some(bytes) if bytes <= self.0.len() as u64 => Ok(number as usize),
            _ => Err("it announces more than it holds: it is damaged".into()),
        }
    }
}

/// Times of a damaged file are kept where differences and sums of them do not overflow.
const FAR: i64 = 1 << 60;

/// Converts counts to nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clock {
    first: (u64, u64),
    rate: f64,
    /// How long the two were compared, in nanoseconds.
    span: u64,
}

impl Clock {
    fn new(first: (u64, u64), second: (u64, u64)) -> Read<Clock> {
        let (counts, ns) = (second.0.wrapping_sub(first.0), second.1.wrapping_sub(first.1));
        if counts > i64::MAX as u64 || ns > i64::MAX as u64 {
            return Err("its clocks run backwards: it is damaged".into());
        }
        let rate = if counts == 0 { 1.0 } else { ns as f64 / counts as f64 };
        Ok(Clock { first, rate, span: ns })
    }

    fn ns(&self, count: u64) -> i64 {
        let since = count.wrapping_sub(self.first.0) as i64;
        let ns = (self.first.1 as i64).saturating_add((since as f64 * self.rate) as i64);
        ns.clamp(-FAR, FAR)
    }

    fn count(&self, ns: i64) -> u64 {
        let since = ns.saturating_sub(self.first.1 as i64) as f64 / self.rate;
        self.first.0.wrapping_add(since as i64 as u64)
    }

    /// Whether both tell of one counter: then they say nearly the same of each other's moments.
    fn is_of(&self, other: &Clock) -> bool {
        const NEAR: i64 = 100_000;
        let apart = |one: &Clock, (count, ns): (u64, u64)| one.ns(count).saturating_sub(ns as i64);
        let near = |apart: i64| (-NEAR..NEAR).contains(&apart);
        near(apart(self, other.first)) && near(apart(other, self.first))
    }
}

/// Gives all traces of one machine one clock. Each process has compared the counter with the clock by itself, some ten
/// nanoseconds wrong; a message is hardly longer under way, and is not to arrive before it left.
pub(crate) fn agree(traces: &mut [Trace]) {
    let clocks: Vec<_> = traces.iter().map(|trace| trace.clock).collect();
    for trace in traces {
        let own = trace.clock;
        let same = clocks.iter().filter(|clock| own.is_of(clock));
        let best = *same.max_by_key(|clock| clock.span).unwrap_or(&own);
        trace.clock = best;
        let events = trace.rings.iter_mut().flat_map(|ring| &mut ring.events);
        events.for_each(|event| event.at = best.ns(own.count(event.at)));
    }
}

/// Reads a trace.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(bytes: &[u8]) -> Read<Trace> {
    let mut from = Reader(bytes);
    if from.bytes(8).ok() != Some(&MAGIC) {
        return Err("it is not a trace (MARCEL_TRACE, or mad run --trace, makes one)".into());
    }
    let version = from.u32()?;
    if version != VERSION {
        return Err(format!("it has format {version}, and this mad reads {VERSION}"));
    }
    let (process, rank) = (from.u32()?, from.u32()?);
    from.u32()?;
    let mut moment = || Ok::<_, String>((from.u64()?, from.u64()?));
    let clock = Clock::new(moment()?, moment()?)?;
    let lost = from.u64()?;
    let mut names = HashMap::new();
    let n = from.u32()?;
    for _ in 0..from.count(n.into(), 8)? {
        let (number, len) = (from.u32()?, from.u32()?);
        let name = String::from_utf8_lossy(from.bytes(len as usize)?).into_owned();
        names.insert(number, name);
    }
    let n = from.u32()?;
    let threads = (0..from.count(n.into(), 8)?).map(|_| Ok((from.u32()?, from.u32()?)));
    let threads = threads.collect::<Read<_>>()?;
    let n = from.u32()?;
    let rings = (0..from.count(n.into(), 48)?).map(|_| ring(&mut from, &clock));
    let rings = rings.collect::<Read<_>>()?;
    if !from.0.is_empty() {
        return Err("something follows its end: it is damaged".into());
    }
    let rank = (rank != u32::MAX).then_some(rank);
    Ok(Trace { process, rank, lost, names, threads, rings, clock })
}

fn ring(from: &mut Reader<'_>, clock: &Clock) -> Read<Ring> {
    let _slot = from.u32()?;
    let (tid, vp, _) = (from.u32()?, from.u32()?, from.u32()?);
    let owner = Owner::new(tid, vp, [from.u64()?, from.u64()?]);
    let (lost, n) = (from.u64()?, from.u64()?);
    let mut events = Vec::new();
    for _ in 0..from.count(n, 32)? {
        let (count, word, a, b) = (from.u64()?, from.u64()?, from.u64()?, from.u64()?);
        // A kind of a later version is left out.
        if let (Some(kind), skipped) = Kind::decode(word) {
            events.push(Event { at: clock.ns(count), kind, skipped, a, b });
        }
    }
    events.sort_by_key(|event| event.at); // numbers are taken before the clock is read
    Ok(Ring { owner, lost, events })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::svg::Window;
    use super::*;
    use proptest::prelude::*;

    /// A file as `marcel` writes it.
    pub(crate) fn file(names: &[(u32, &str)], rings: &[(u32, u32, Vec<[u64; 4]>)]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let u4 = |out: &mut Vec<u8>, xs: &[u32]| {
            xs.iter().for_each(|x| out.extend(x.to_le_bytes()));
        };
        let u8 = |out: &mut Vec<u8>, xs: &[u64]| {
            xs.iter().for_each(|x| out.extend(x.to_le_bytes()));
        };
        u4(&mut out, &[VERSION, 77, 1, 0]);
        u8(&mut out, &[1000, 5000, 3000, 6000, 0]); // two counts are a nanosecond
        u4(&mut out, &[names.len() as u32]);
        for (number, name) in names {
            u4(&mut out, &[*number, name.len() as u32]);
            out.extend(name.as_bytes());
        }
        u4(&mut out, &[0, rings.len() as u32]);
        for (slot, (tid, vp, records)) in rings.iter().enumerate() {
            u4(&mut out, &[slot as u32, *tid, *vp, 0]);
            u8(&mut out, &[u64::from_le_bytes(*b"kthread\0"), 0, 5, records.len() as u64]);
            records.iter().for_each(|record| u8(&mut out, record));
        }
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let records = vec![
            [3000, Kind::Left as u64, 9, 0],
            [2000, Kind::Resume as u64 | 3 << 16, 9, 2],
            [3100, 999, 0, 0],
        ];
        let trace = read(&file(&[(2, "worker")], &[(12, 1, records)])).unwrap();
        assert_eq!((trace.process, trace.rank), (77, Some(1)));
        assert_eq!(trace.thread(9, 2), "worker (9)");
        assert_eq!(trace.thread(9, 0), "thread 9");
        let ring = &trace.rings[0];
        assert_eq!(ring.owner, Owner { tid: 12, vp: Some(0), name: "kthread".into() });
        assert_eq!((ring.owner.label().as_str(), ring.lost), ("vp0", 5));
        let of = |at, kind, skipped, b| Event { at, kind, skipped, a: 9, b };
        assert_eq!(ring.events, [of(5500, Kind::Resume, 3, 2), of(6000, Kind::Left, 0, 0)]);
    }

    #[test]
    fn traces_of_one_counter_agree_and_others_keep_their_clocks() {
        // Two counts are a nanosecond, as one process has found; the other reads 40 ns more.
        let trace = |clock: [(u64, u64); 2], at: i64| {
            let mut trace =
                read(&file(&[], &[(12, 1, vec![[0, Kind::Left as u64, 9, 0]])])).unwrap();
            trace.clock = Clock::new(clock[0], clock[1]).unwrap();
            trace.rings[0].events[0].at = at;
            trace
        };
        let own = trace([(1000, 5000), (9000, 9000)], 6000); // count 3000
        let other = trace([(2000, 5540), (8000, 8540)], 6045); // count 3010
        let foreign = trace([(1000, 500_000_000), (9000, 500_004_000)], 6000);
        let mut traces = [own, other, foreign];
        agree(&mut traces);
        assert_eq!(traces.map(|trace| trace.rings[0].events[0].at), [6000, 6005, 6000]);
    }

    #[test]
    fn foreign_files_are_refused() {
        assert!(read(b"").is_err() && read(b"\x7fELF....").is_err());
        let good = file(&[(2, "worker")], &[(12, 1, vec![[1, 3, 0, 0]])]);
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "the first {len} bytes");
        }
        assert!(read(&[&good[..], b"x"].concat()).is_err());
    }

    /// Any kind, mostly, at any time.
    fn record() -> impl Strategy<Value = [u64; 4]> {
        let word = prop_oneof![4 => 0u64..50, 1 => any::<u64>()];
        let time = prop_oneof![4 => 900u64..4000, 1 => any::<u64>()];
        let number = prop_oneof![4 => 0u64..4, 1 => any::<u64>()];
        (time, word, number, any::<u64>()).prop_map(|(time, word, a, b)| [time, word, a, b])
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            changes in proptest::collection::vec((0usize..400, any::<u8>()), 1..6),
            records in proptest::collection::vec(record(), 0..30),
        ) {
            let mut bytes = file(&[(2, "worker"), (3, "é")], &[(12, 1, records.clone()), (13, 0, records)]);
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if let Ok(trace) = read(&bytes) {
                let mut traces = [trace, read(&file(&[], &[])).unwrap()];
                agree(&mut traces);
                let json = super::super::chrome::json(&traces);
                prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
                super::super::summary::table(&traces);
                let svg = super::super::svg::svg(&traces, Window::of(&traces, None, None));
                prop_assert!(svg.ends_with("</svg>\n"));
            }
        }

        #[test]
        fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&bytes).is_err());
        }
    }
}
