//! The trace event format of Chrome, which Perfetto reads too: `ui.perfetto.dev`, or `chrome://tracing`.
//!
//! A process is a process; a track is a thread of it, numbered as the kernel does, or a rank of several. Slices are pairs of B and E,
//! wake-ups are flows (s, f) between the slice of the waker and that of the woken thread, messages flows between the
//! processes (by way of t where they wait for their receive, or were announced), waits that slept are asynchronous
//! slices (b, e), and the number of virtual processors that run something is a counter (C).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use marcel::trace::Kind;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::arrow::{self, Arrow, Place};
use super::message::Message;
use super::ranks::{Ranks, Run};
use super::read::{Trace, start};
use super::walk::{self, Step, Track, What};

/// Numbers from here on are free: the kernel's are smaller. Ranks have those from the second on.
const NO_TID: u32 = 1 << 22;
const RANKS: u32 = 1 << 23;

#[derive(Serialize)]
struct Event<'a> {
    name: Cow<'a, str>,
    cat: &'static str,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// A flow ends at the slice that encloses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// How far an instant's line goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

/// Events with their time in nanoseconds, in the order of their track.
struct Out<'a> {
    events: Vec<(i64, Event<'a>)>,
    start: i64,
    pid: u32,
    tid: u32,
}

impl<'a> Out<'a> {
    fn put(
        &mut self,
        at: i64,
        ph: &'static str,
        cat: &'static str,
        name: impl Into<Cow<'a, str>>,
    ) -> &mut Event<'a> {
        let ts = at.saturating_sub(self.start) as f64 / 1000.0;
        let (pid, tid, name) = (self.pid, self.tid, name.into());
        let args = Map::new();
        let event = Event { name, cat, ph, ts, pid, tid, id: None, bp: None, s: None, args };
        self.events.push((at, event));
        &mut self.events.last_mut().expect("just pushed").1
    }

    fn meta(&mut self, name: &'static str, key: &str, value: Value) {
        let start = self.start;
        self.put(start, "M", "__metadata", name).args.insert(key.into(), value);
    }
}

/// One JSON document of several processes' traces.
pub(crate) fn json(traces: &[Trace]) -> String {
    let all: Vec<_> = traces.iter().map(|trace| (trace, walk::tracks(trace))).collect();
    let mut out = Out { events: Vec::new(), start: start(traces), pid: 0, tid: 0 };
    let arrows = arrow::arrows(all.iter().map(|(_, tracks)| &tracks[..]));
    let (flows, mut flow) = (flows(&arrows), arrows.len() as u64);
    for (number, (trace, tracks)) in all.iter().enumerate() {
        out.pid = trace.process;
        process(&mut out, trace, tracks, (number, &flows), &mut flow);
    }
    out.events.sort_by_key(|(at, _)| *at); // stable: a track's events stay in order
    let events: Vec<_> = out.events.into_iter().map(|(_, event)| event).collect();
    let document = json!({ "traceEvents": events, "displayTimeUnit": "ns" });
    document.to_string()
}

/// What flows begin (s), pass (t) and end (f) at each place, by number.
type Flows = HashMap<Place, (&'static str, u64)>;

fn flows(arrows: &[Arrow]) -> Flows {
    let mut flows = HashMap::new();
    for (arrow, id) in arrows.iter().zip(1..) {
        flows.insert(arrow.left.1, ("s", id));
        flows.insert(arrow.received.1, ("f", id));
        if let Some((_, place)) = arrow.arrived {
            flows.insert(place, ("t", id));
        }
    }
    flows
}

/// A message: a slice without length, in which its flow begins or ends.
fn message(out: &mut Out<'_>, at: i64, message: &Message, flow: Option<&(&'static str, u64)>) {
    let name = message.text();
    let args = &mut out.put(at, "B", "message", name.clone()).args;
    if let Some((tag, len)) = message.about {
        args.insert("tag".into(), tag.into());
        args.insert("bytes".into(), len.into());
    }
    if let Some((ph, id)) = flow {
        let event = out.put(at, ph, "message", "message");
        event.id = Some(id.to_string());
        event.bp = (*ph == "f").then_some("e");
    }
    out.put(at, "E", "message", name);
}

fn category(what: What) -> &'static str {
    match what {
        What::Thread => "thread",
        What::Rest | What::Sleep => "idle",
        What::Tick | What::Poll | What::Block => "detection",
        What::Wait | What::Call => "kernel",
        What::Task => "task",
        What::Callback => "server",
    }
}

fn process<'a>(
    out: &mut Out<'a>,
    trace: &'a Trace,
    tracks: &'a [Track],
    (number, flows): (usize, &Flows),
    flow: &mut u64,
) {
    out.meta("process_name", "name", trace.label().into());
    out.meta("process_sort_index", "sort_index", trace.rank.unwrap_or(0).into());
    // Where flows begin and end, by track and time.
    let mut begins = HashMap::new();
    let mut ends = HashMap::new();
    for wake in walk::wakes(tracks) {
        *flow += 1;
        begins.insert((wake.from, wake.at, wake.thread), *flow);
        ends.insert((wake.to, wake.ran, wake.thread), *flow);
    }
    let mut sleeping = HashMap::new();
    let mut busy = Vec::new();
    let mut taken = HashSet::new();
    let mut ranks = Ranks::default();
    for (index, track) in tracks.iter().enumerate() {
        // The kernel gives a number anew, and of the earlier owners of several rings none is known.
        let tid = track.owner.tid;
        out.tid = if taken.insert(tid) { tid } else { NO_TID + index as u32 };
        out.meta("thread_name", "name", track.owner.label().into());
        out.meta("thread_sort_index", "sort_index", index.into());
        let mut open = Vec::new();
        for (place, step) in track.steps.iter().enumerate() {
            match step {
                Step::Message { at, message: told } => {
                    let place = Place { process: number, track: index, step: place };
                    message(out, *at, told, flows.get(&place));
                }
                Step::Begin { at, what, name, thread, skipped } => {
                    open.push((*what, name, *thread, *at));
                    let event = out.put(*at, "B", category(*what), name.as_str());
                    if *skipped > 0 {
                        event.args.insert("not recorded before".into(), (*skipped).into());
                    }
                    match (what, thread) {
                        (What::Thread, Some(thread)) => {
                            arrive(out, &mut ends, (index, *at, *thread));
                            busy.push((*at, index, true));
                        }
                        (What::Rest, _) => busy.push((*at, index, false)),
                        _ => {}
                    }
                }
                Step::End { at, how } => {
                    let Some((what, name, thread, begin)) = open.pop() else { continue };
                    if what == What::Thread {
                        let (on, how) = (track.owner.label(), how.as_deref());
                        ranks.ran(name, Run { begin, end: *at, on, how });
                    }
                    if let (What::Wait, Some(thread)) = (what, thread) {
                        arrive(out, &mut ends, (index, *at, thread));
                    }
                    let event = out.put(*at, "E", category(what), name.as_str());
                    if let Some(how) = how {
                        event.args.insert("end".into(), how.as_str().into());
                    }
                }
                Step::Mark { at, event, name } => match event.kind {
                    Kind::Unpark => {
                        // A flow begins in a slice.
                        out.put(*at, "B", "wake", name.as_str());
                        if let Some(id) = begins.remove(&(index, *at, event.a as u32)) {
                            out.put(*at, "s", "wake", "wake").id = Some(id.to_string());
                        }
                        out.put(*at, "E", "wake", name.as_str());
                    }
                    Kind::WaitSleep => _ = sleeping.insert(event.a, *at),
                    Kind::WaitEnd => {
                        if let Some(begin) = sleeping.remove(&event.a).filter(|begin| begin <= at) {
                            let id = format!("{}:{:x}", out.pid, event.a);
                            out.put(begin, "b", "wait", "sleeps for a request").id =
                                Some(id.clone());
                            out.put(*at, "e", "wait", "sleeps for a request").id = Some(id);
                        }
                    }
                    kind => {
                        let instant = out.put(*at, "i", "mark", name.as_str());
                        instant.s = Some("t");
                        if kind == Kind::Hit {
                            instant.args.insert("looks before".into(), (event.b >> 8).into());
                        }
                        if kind == Kind::Complete {
                            instant.args.insert("request".into(), format!("{:#x}", event.a).into());
                        }
                    }
                },
            }
        }
    }
    for (rank, runs) in ranks.into_tracks() {
        of_rank(out, tracks.len(), rank, runs);
    }
    load(out, tracks.len(), busy);
}

/// The track of a rank, below those of `tracks` kernel threads: when it ran, and what it waited for between.
fn of_rank<'a>(out: &mut Out<'a>, tracks: usize, rank: u32, runs: Vec<Run<'a>>) {
    out.tid = RANKS + rank;
    out.meta("thread_name", "name", format!("rank {rank}").into());
    out.meta("thread_sort_index", "sort_index", (tracks as u64 + u64::from(rank)).into());
    let mut before: Option<(i64, Option<&str>)> = None;
    for Run { begin, end, on, how } in runs {
        if let Some((since, Some(why))) = before.filter(|&(since, _)| since < begin) {
            out.put(since, "B", "rank", why);
            out.put(begin, "E", "rank", why);
        }
        out.put(begin, "B", "rank", "runs").args.insert("on".into(), on.into());
        out.put(end, "E", "rank", "runs");
        before = Some((end, how));
    }
}

fn arrive(out: &mut Out<'_>, ends: &mut HashMap<(usize, i64, u32), u64>, at: (usize, i64, u32)) {
    if let Some(id) = ends.remove(&at) {
        let end = out.put(at.1, "f", "wake", "wake");
        end.id = Some(id.to_string());
        end.bp = Some("e");
    }
}

/// How many virtual processors run something.
fn load(out: &mut Out<'_>, tracks: usize, mut changes: Vec<(i64, usize, bool)>) {
    changes.sort();
    let mut runs = vec![false; tracks];
    let mut count = 0u64;
    out.tid = 0;
    for (at, track, now) in changes {
        if runs[track] != now {
            runs[track] = now;
            count = if now { count + 1 } else { count - 1 };
            let counter = out.put(at, "C", "load", "virtual processors that run a thread");
            counter.args.insert("running".into(), count.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_be_called_as_a_rank_that_there_cannot_be() {
        let run = || Run { begin: 1, end: 2, on: "vp0".into(), how: None };
        let mut ranks = Ranks::default();
        for number in [0, i32::MAX as u32, u32::MAX] {
            ranks.ran(&format!("rank {number}"), run());
        }
        let mut out = Out { events: Vec::new(), start: 0, pid: 0, tid: 0 };
        let mut tracks = Vec::new();
        for (rank, runs) in ranks.into_tracks() {
            of_rank(&mut out, 1, rank, runs);
            tracks.push((rank, out.tid));
        }
        assert_eq!(tracks, [(0, RANKS), (i32::MAX as u32, RANKS + i32::MAX as u32)]);
    }
}
