//! The numbers as users see them, and the table that is told at the end.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use marcel::plumbing::slot::SLOTS;

use crate::progress::counts::Counts;
use crate::progress::histogram::Histogram;
use crate::progress::point::Point;
use crate::progress::source::Source;

/// Polls of a source at a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    /// How often it was polled.
    pub polls: u64,
    /// How often something was found.
    pub hits: u64,
}

/// One kernel thread's part in polling a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poller {
    /// `vp0`, `reactive vp0`, or `thread N` by its kernel's number.
    pub thread: String,
    /// By point, in the order of [`Point::ALL`].
    pub points: [Polls; Point::ALL.len()],
}

/// What was done for one source, or for all that had the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// The source's name.
    pub name: String,
    /// Whether it is registered now.
    pub is_there: bool,
    /// By kernel thread; only those that have polled.
    pub pollers: Vec<Poller>,
    /// How often it woke a leader, and how often the background watcher.
    pub wake_ups: [u64; 2],
    /// By point, in the order of [`Point::ALL`]: how long events have waited until they were found, at the most. Empty
    /// unless `PIOM_STATS` is on.
    pub detect: [Histogram; Point::ALL.len()],
    /// How long the waits for it took. Empty unless `PIOM_STATS` is on.
    pub wait: Histogram,
    /// What it counts itself, by name.
    pub figures: Vec<(&'static str, u64)>,
}

impl SourceCounters {
    /// Of all kernel threads, at `point`.
    pub fn at(&self, point: Point) -> Polls {
        self.pollers.iter().map(|poller| poller.points[point as usize]).fold(
            Polls::default(),
            |sum, more| Polls { polls: sum.polls + more.polls, hits: sum.hits + more.hits },
        )
    }

    /// What was counted for the source that has `index`, but for its wake-ups.
    pub(crate) fn of(counts: &Counts, index: usize, source: &dyn Source) -> SourceCounters {
        let mut figures = Vec::new();
        source.figures(&mut |name, figure| figures.push((name, figure)));
        let times = counts.times.as_ref().map(|times| &times[index]);
        SourceCounters {
            name: source.name().to_owned(),
            is_there: true,
            pollers: (0..=SLOTS).filter_map(|slot| poller(counts, slot, index)).collect(),
            wake_ups: [0, 0],
            detect: std::array::from_fn(|point| {
                times.map_or_else(Histogram::default, |times| times.detect[point].get())
            }),
            wait: times.map_or_else(Histogram::default, |times| times.wait.get()),
            figures,
        }
    }

    fn add(&mut self, other: SourceCounters) {
        self.is_there |= other.is_there;
        for more in other.pollers {
            match self.pollers.iter_mut().find(|poller| poller.thread == more.thread) {
                Some(poller) => {
                    for (sum, more) in poller.points.iter_mut().zip(more.points) {
                        sum.polls += more.polls;
                        sum.hits += more.hits;
                    }
                }
                None => self.pollers.push(more),
            }
        }
        self.wake_ups.iter_mut().zip(other.wake_ups).for_each(|(sum, more)| *sum += more);
        self.detect.iter_mut().zip(&other.detect).for_each(|(sum, more)| sum.add(more));
        self.wait.add(&other.wait);
        for (name, more) in other.figures {
            match self.figures.iter_mut().find(|(known, _)| *known == name) {
                Some((_, figure)) => *figure += more,
                None => self.figures.push((name, more)),
            }
        }
    }
}

/// What a manager has done so far. Counted while others go on, so sums may be of slightly different moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By source.
    pub sources: Vec<SourceCounters>,
    /// How often a leader went to sleep, and how often the background watcher.
    pub sleeps: [u64; 2],
    /// How often the background watcher woke up and found nothing.
    pub vain: u64,
    /// Kernel threads of this process that belong to this library or to those above it, with the time that each has
    /// spent on a core so far, and then the time of the whole process: `total`.
    pub threads: Vec<(String, Duration)>,
    /// How long the manager has been there.
    pub lasted: Duration,
}

impl Counters {
    /// The source of this name.
    pub fn source(&self, name: &str) -> Option<&SourceCounters> {
        self.sources.iter().find(|source| source.name == name)
    }

    pub(crate) fn add(&mut self, source: SourceCounters) {
        match self.sources.iter_mut().find(|old| old.name == source.name) {
            Some(old) => old.add(source),
            None => self.sources.push(source),
        }
    }
}

fn poller(counts: &Counts, slot: usize, index: usize) -> Option<Poller> {
    let cells = &counts.rows[slot].0[index];
    let points = std::array::from_fn(|point| {
        let hits = cells[point].hits.get();
        Polls { polls: cells[point].polls.get(), hits }
    });
    let polled = points.iter().any(|polls: &Polls| polls.polls > 0);
    polled.then(|| Poller { thread: owner_of(counts, slot), points })
}

/// The kernel thread that counts in row `slot`, or counted there last.
fn owner_of(counts: &Counts, slot: usize) -> String {
    let vp = |number: u32| match number >> 31 {
        0 => format!("vp{number}"),
        _ => format!("reactive vp{}", number & !(1 << 31)),
    };
    if slot == SLOTS {
        return "other threads".into();
    }
    match (counts.ended[slot].load(Relaxed).checked_sub(1), marcel::plumbing::slot::owner(slot)) {
        (Some(ended), _) => vp(ended),
        (None, (_, Some(number))) => vp(number),
        (None, (tid, None)) => format!("thread {tid}"),
    }
}

impl fmt::Display for Counters {
    /// A table: a line for each source and point, and one for each kernel thread that polled the source.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.sources.iter().map(|source| source.name.chars().count()).max();
        let width = width.unwrap_or(0).max(14);
        writeln!(
            f,
            "{:width$} {:8} {:>12} {:>10}  found within",
            "source", "point", "polls", "found"
        )?;
        for source in &self.sources {
            for point in Point::ALL {
                let Polls { polls, hits } = source.at(point);
                if polls > 0 {
                    let (name, detect) = (&source.name, &source.detect[point as usize]);
                    let point = point.to_string();
                    writeln!(f, "{name:width$} {point:8} {polls:12} {hits:10}  {detect}")?;
                }
            }
            for poller in &source.pollers {
                let sum = |of: fn(&Polls) -> u64| poller.points.iter().map(of).sum::<u64>();
                let (polls, hits) = (sum(|p| p.polls), sum(|p| p.hits));
                writeln!(
                    f,
                    "  by {:w$} {:8} {polls:12} {hits:10}",
                    poller.thread,
                    "",
                    w = width - 5
                )?;
            }
            if source.wake_ups != [0, 0] {
                let [leader, watcher] = source.wake_ups;
                writeln!(
                    f,
                    "  wake-ups: {leader} of leaders, {watcher} of the background watcher"
                )?;
            }
            if source.wait.count() > 0 {
                writeln!(f, "  waits: {} of them, {}", source.wait.count(), source.wait)?;
            }
            if !source.figures.is_empty() {
                let figures =
                    source.figures.iter().map(|(name, figure)| format!("{name} {figure}"));
                writeln!(f, "  {}", figures.collect::<Vec<_>>().join(", "))?;
            }
        }
        let ([leader, watcher], vain) = (self.sleeps, self.vain);
        writeln!(
            f,
            "sleeps: {leader} of leaders, {watcher} of the background watcher ({vain} in vain)"
        )?;
        let ms = |time: &Duration| format!("{:.3} ms", 1e3 * time.as_secs_f64());
        let threads = self.threads.iter().map(|(name, time)| format!("{name} {}", ms(time)));
        writeln!(f, "time on a core: {}", threads.collect::<Vec<_>>().join(", "))
    }
}
