//! From records to what happened on each kernel thread: slices, properly nested, and marks.
//!
//! A ring may begin in the middle of anything, records may have been thinned out, and several kernel threads may have
//! had it one after the other. So an end without a begin is ignored, a begin without an end ends with what it
//! is in, and a kernel thread's end closes everything.

use marcel::trace::Kind;

use super::message::Message;
use super::read::{Event, Owner, Trace};
use mad_bench::quantity;

/// What a slice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum What {
    /// A green thread.
    Thread,
    /// Looking around for something to run.
    Rest,
    /// A virtual processor in the kernel.
    Sleep,
    Tick,
    /// A plain kernel thread in the kernel.
    Wait,
    /// An exported blocking call.
    Call,
    /// The polling part of a wait.
    Poll,
    /// In the watch.
    Block,
    Task,
    /// A server's callback.
    Callback,
}

/// What a kernel thread does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Computing,
    Scheduling,
    Polling,
    Sleeping,
}

impl What {
    pub(crate) fn doing(self) -> Doing {
        match self {
            What::Thread | What::Call => Doing::Computing,
            What::Rest => Doing::Scheduling,
            What::Sleep | What::Wait | What::Block => Doing::Sleeping,
            What::Tick | What::Poll | What::Task | What::Callback => Doing::Polling,
        }
    }
}

/// One thing on a track. Times never decrease.
#[derive(Debug)]
pub(crate) enum Step {
    Begin {
        at: i64,
        what: What,
        name: String,
        /// Of a thread, its number.
        thread: Option<u32>,
        /// Events like this one that were not recorded before it.
        skipped: u16,
    },
    /// Of the innermost slice. `how`: what is to be said of the end.
    End {
        at: i64,
        how: Option<String>,
    },
    Mark {
        at: i64,
        event: Event,
        name: String,
    },
    Message {
        at: i64,
        message: Message,
    },
}

impl Step {
    pub(crate) fn at(&self) -> i64 {
        let (Step::Begin { at, .. }
        | Step::End { at, .. }
        | Step::Mark { at, .. }
        | Step::Message { at, .. }) = self;
        *at
    }
}

/// A kernel thread, or a virtual processor.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) owner: Owner,
    pub(crate) steps: Vec<Step>,
}

/// A wake-up: `thread` was woken at `at` on track `from`, and ran at `ran` on track `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) thread: u32,
    pub(crate) at: i64,
    pub(crate) from: usize,
    pub(crate) ran: i64,
    pub(crate) to: usize,
}

struct Walker<'a> {
    trace: &'a Trace,
    track: Track,
    open: Vec<What>,
    /// Tag and length of the messages that are told of next: more than one where a handler came between.
    about: Vec<(u64, u64)>,
}

/// A process's tracks, virtual processors first.
pub(crate) fn tracks(trace: &Trace) -> Vec<Track> {
    let mut tracks: Vec<Track> = Vec::new();
    for ring in &trace.rings {
        // What comes before the first owner's record is that one's; of no other, what is said of the last.
        let changes = ring.events.iter().any(|event| event.kind == Kind::Owner);
        let first = match changes {
            true => Owner { tid: 0, vp: None, name: "earlier".into() },
            false => ring.owner.clone(),
        };
        let mut walker = Walker::new(trace, first);
        for (index, event) in ring.events.iter().enumerate() {
            if event.kind == Kind::Owner {
                let rest = ring.events.get(index + 1).filter(|next| next.kind == Kind::OwnerName);
                let owner = Owner::new(
                    event.a as u32,
                    (event.a >> 32) as u32,
                    [event.b, rest.map_or(0, |next| next.a)],
                );
                walker.owned_by(owner, event.at, &mut tracks);
            } else {
                walker.step(event);
            }
        }
        let end = ring.events.last().map_or(0, |event| event.at);
        walker.finish(end, &mut tracks);
    }
    tracks.sort_by_key(|track| (track.owner.vp.is_none(), track.owner.vp, track.owner.tid));
    tracks
}

impl<'a> Walker<'a> {
    fn new(trace: &'a Trace, owner: Owner) -> Walker<'a> {
        Walker {
            trace,
            track: Track { owner, steps: Vec::new() },
            open: Vec::new(),
            about: Vec::new(),
        }
    }

    fn owned_by(&mut self, owner: Owner, at: i64, tracks: &mut Vec<Track>) {
        let same = self.track.owner.tid == owner.tid;
        // A kernel thread becomes a virtual processor; when it ceases to be one, it was one all the same.
        if same && (owner.vp.is_none() || self.track.owner.vp.is_none()) {
            self.track.owner.vp = owner.vp.or(self.track.owner.vp);
        } else {
            let before = std::mem::replace(self, Walker::new(self.trace, owner));
            before.finish(at, tracks);
        }
    }

    fn finish(mut self, at: i64, tracks: &mut Vec<Track>) {
        self.close(0, at);
        if !self.track.steps.is_empty() {
            tracks.push(self.track);
        }
    }

    fn close(&mut self, keep: usize, at: i64) {
        while self.open.len() > keep {
            self.open.pop();
            self.track.steps.push(Step::End { at, how: None });
        }
    }

    fn begin(&mut self, event: &Event, what: What, name: String, thread: Option<u32>) {
        self.open.push(what);
        let Event { at, skipped, .. } = *event;
        self.track.steps.push(Step::Begin { at, what, name, thread, skipped });
    }

    fn end(&mut self, at: i64, what: What, how: Option<String>) {
        if let Some(depth) = self.open.iter().rposition(|open| *open == what) {
            self.close(depth + 1, at);
            self.open.pop();
            self.track.steps.push(Step::End { at, how });
        }
    }

    fn step(&mut self, event: &Event) {
        let name = |number: u64| self.trace.name(number as u32).unwrap_or("?").to_owned();
        let at = event.at;
        match event.kind {
            Kind::Resume => {
                let thread = event.a as u32;
                let name = self.trace.thread(thread, event.b as u32);
                self.close(0, at);
                self.begin(event, What::Thread, name, Some(thread));
            }
            Kind::Left => {
                let how = match event.b {
                    0 => "yields".into(),
                    1 => "ends".into(),
                    reason => format!("waits: {}", name(reason)),
                };
                self.end(at, What::Thread, Some(how));
            }
            Kind::Rest => {
                self.close(0, at);
                self.begin(event, What::Rest, "looks around".into(), None);
            }
            Kind::RestEnd => self.end(at, What::Rest, None),
            Kind::Sleep => self.begin(event, What::Sleep, "sleeps".into(), None),
            Kind::Wake => self.end(at, What::Sleep, None),
            Kind::Tick => self.begin(event, What::Tick, "tick".into(), None),
            Kind::TickEnd => self.end(at, What::Tick, None),
            Kind::KernelWait => {
                let name = format!("sleeps: {}", name(event.b));
                self.begin(event, What::Wait, name, Some(event.a as u32));
            }
            Kind::KernelWaitEnd => self.end(at, What::Wait, None),
            Kind::Call => self.begin(event, What::Call, "blocking call".into(), None),
            Kind::CallEnd => self.end(at, What::Call, None),
            Kind::WaitPoll => self.begin(event, What::Poll, "polls".into(), None),
            Kind::WaitPollEnd => {
                let end = if event.a & 1 == 1 { "complete" } else { "in vain" };
                self.end(at, What::Poll, Some(end.into()));
            }
            Kind::Block => {
                let watch = if event.a == 0 { "leader" } else { "background watcher" };
                self.begin(event, What::Block, format!("blocks: {watch}"), None);
            }
            Kind::BlockEnd => self.end(at, What::Block, Some(format!("{} events", event.a))),
            Kind::Task => self.begin(event, What::Task, format!("task {}", name(event.a)), None),
            Kind::TaskEnd => self.end(at, What::Task, None),
            Kind::Callback => {
                let name = format!("server {}: {}", name(event.a), name(event.b));
                self.begin(event, What::Callback, name, None);
            }
            Kind::CallbackEnd => self.end(at, What::Callback, None),
            Kind::Owner | Kind::OwnerName => {}
            Kind::Message => self.about.push((event.a, event.b)),
            Kind::MessageProtocol => {
                let (peer, size) =
                    (event.b as u32, self.about.pop().map(|(_, len)| quantity::size(len)));
                let size = size.unwrap_or_else(|| "a message".into());
                let name = format!("{size}, rank {peer}: {}", name(event.a));
                self.track.steps.push(Step::Mark { at, event: *event, name });
            }
            _ => {
                if let Some(mut message) = Message::of(event, None) {
                    message.about = self.about.pop();
                    self.track.steps.push(Step::Message { at, message });
                    return;
                }
                let name = mark(self.trace, event);
                self.track.steps.push(Step::Mark { at, event: *event, name });
            }
        }
    }
}

/// What a mark says.
fn mark(trace: &Trace, event: &Event) -> String {
    let name = |number: u64| trace.name(number as u32).unwrap_or("?").to_owned();
    match event.kind {
        Kind::Spawn => format!("spawns {}", trace.thread(event.a as u32, event.b as u32)),
        Kind::Unpark => format!("wakes {}", trace.thread(event.a as u32, 0)),
        Kind::Steal => format!("steals {}", trace.thread(event.a as u32, 0)),
        Kind::Hit => format!("event of {} ({})", name(event.a), point(event.b as u8)),
        Kind::Complete => "a request completes".into(),
        Kind::WaitSleep => "goes to sleep for a request".into(),
        Kind::WaitEnd => "a wait is over".into(),
        Kind::Vain => "was woken, and finds nothing".into(),
        Kind::Ring => format!("rings rank {}", event.b),
        Kind::SelfWake => "wakes its own watcher".into(),
        Kind::Method => {
            let method = method(event.b as u8);
            format!("policy for {}: {method}, {}", name(event.a), name(event.b >> 32))
        }
        kind => format!("{kind:?}"),
    }
}

/// Where an event was found.
pub(crate) fn point(number: u8) -> String {
    let point = pioman::Point::ALL.get(usize::from(number));
    point.map_or_else(|| "?".into(), |point| format!("point {point}"))
}

fn method(number: u8) -> &'static str {
    ["poll", "block", "tick", "dedicated"].get(usize::from(number)).copied().unwrap_or("?")
}

/// What a thread was last seen to do.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Runs,
    Waits,
    Woken(i64, usize),
}

/// Wake-ups, each with the moment when the thread ran. Those that found their thread running are not among them.
pub(crate) fn wakes(tracks: &[Track]) -> Vec<Wake> {
    let mut all: Vec<(i64, u8, usize, u32)> = Vec::new();
    for (track, Track { steps, .. }) in tracks.iter().enumerate() {
        let mut open = Vec::new();
        for step in steps {
            match step {
                Step::Begin { at, what, thread, .. } => {
                    open.push((*what, *thread));
                    match (what, thread) {
                        (What::Thread, Some(thread)) => all.push((*at, 2, track, *thread)),
                        (What::Wait, Some(thread)) => all.push((*at, 0, track, *thread)),
                        _ => {}
                    }
                }
                Step::End { at, .. } => match open.pop() {
                    Some((What::Thread, Some(thread))) => all.push((*at, 0, track, thread)),
                    Some((What::Wait, Some(thread))) => all.push((*at, 2, track, thread)),
                    _ => {}
                },
                Step::Mark { at, event, .. } if event.kind == Kind::Unpark => {
                    all.push((*at, 1, track, event.a as u32));
                }
                Step::Mark { .. } | Step::Message { .. } => {}
            }
        }
    }
    all.sort();
    let mut threads = std::collections::HashMap::new();
    let mut wakes = Vec::new();
    for (at, what, track, thread) in all {
        let seen = threads.entry(thread).or_insert(Seen::Waits);
        *seen = match (what, *seen) {
            (0, _) => Seen::Waits,
            (1, Seen::Waits) => Seen::Woken(at, track),
            (1, other) => other,
            (_, Seen::Woken(woken, from)) => {
                wakes.push(Wake { thread, at: woken, from, ran: at, to: track });
                Seen::Runs
            }
            _ => Seen::Runs,
        };
    }
    wakes
}

#[cfg(test)]
mod tests {
    use super::super::read::{read, tests::file};
    use super::*;

    fn walked(rings: &[(u32, u32, Vec<[u64; 4]>)]) -> Vec<Track> {
        tracks(&read(&file(&[(2, "main"), (9, "net")], rings)).unwrap())
    }

    fn record(at: u64, kind: Kind, a: u64, b: u64) -> [u64; 4] {
        [1000 + 2 * at, kind as u64, a, b]
    }

    /// Names at their begin, ")" at an end.
    fn picture(track: &Track) -> String {
        let text = |step: &Step| match step {
            Step::Begin { name, .. } => format!("({name}"),
            Step::End { how, .. } => format!("{})", how.as_deref().unwrap_or("")),
            Step::Mark { name, .. } => format!("[{name}]"),
            Step::Message { message, .. } => format!("<{}>", message.text()),
        };
        track.steps.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slices_nest_whatever_is_missing() {
        let records = vec![
            record(1, Kind::TickEnd, 0, 0), // its begin was overwritten
            record(2, Kind::Resume, 5, 2),
            record(3, Kind::Tick, 0, 0),
            record(4, Kind::Hit, 9, 2),
            record(5, Kind::TickEnd, 0, 0),
            record(6, Kind::WaitPoll, 0x100, 0), // its end is missing
            record(7, Kind::Left, 5, 0),
            record(8, Kind::Rest, 0, 0),
            record(9, Kind::Sleep, 0, 0),
        ];
        let tracks = walked(&[(12, 1, records)]);
        assert_eq!(
            picture(&tracks[0]),
            "(main (5) (tick [event of net (point tick)] ) (polls ) yields) (looks around (sleeps ) )"
        );
    }

    #[test]
    fn a_message_has_the_tag_and_length_that_were_told_before_it() {
        let records = vec![
            record(1, Kind::MessageReceived, 1 << 63, 1 << 32), // what it is about was overwritten
            record(2, Kind::Message, 7, 4096),
            record(3, Kind::Message, 8, 5), // in a handler
            record(3, Kind::MessageLeft, 2, 1 << 32),
            record(2, Kind::MessageLeft, 3, 1 << 32 | 2),
        ];
        let picture = picture(&walked(&[(12, 1, records)])[0]);
        let expected =
            "<received a message from rank 0> <sends 4 KB to rank 2> <sends 5 B to rank 0>";
        assert_eq!(picture, expected);
    }

    #[test]
    fn a_wake_up_leads_to_the_thread_s_next_run() {
        let vp = vec![
            record(1, Kind::Resume, 5, 2),
            record(2, Kind::Left, 5, 9),
            record(30, Kind::Resume, 5, 2),
            record(31, Kind::Left, 5, 1),
        ];
        let other = vec![
            record(10, Kind::Unpark, 5, 0),
            record(11, Kind::Unpark, 5, 0), // it can run already
            record(30, Kind::Unpark, 7, 0), // never runs here
        ];
        let wakes = wakes(&walked(&[(12, 1, vp), (13, 0, other)]));
        assert_eq!(wakes, [Wake { thread: 5, at: 5010, from: 1, ran: 5030, to: 0 }]);
    }

    #[test]
    fn a_slot_may_have_several_owners() {
        let name = u64::from_le_bytes(*b"pioman-w");
        let rest = u64::from_le_bytes(*b"atch\0\0\0\0");
        let records = vec![
            record(1, Kind::Call, 0, 0),
            record(2, Kind::Owner, 40, name),
            record(2, Kind::OwnerName, rest, 0),
            record(3, Kind::Block, 1, 0),
            record(4, Kind::Owner, 41 | 1 << 32, 0),
            record(5, Kind::Rest, 0, 0),
            record(6, Kind::Owner, 41, 0),
        ];
        let tracks = walked(&[(41, 0, records)]);
        let seen: Vec<_> = tracks.iter().map(|t| (t.owner.label(), picture(t))).collect();
        let expected = [
            ("vp0", "(looks around )"),
            ("earlier (0)", "(blocking call )"),
            ("pioman-watch (40)", "(blocks: background watcher )"),
        ];
        assert!(seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(expected), "{seen:?}");
    }
}
