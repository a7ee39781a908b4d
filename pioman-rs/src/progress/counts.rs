//! What is counted where it happens: on the progress path, in signal handlers, at every poll.
//!
//! A row for each kernel thread ([`marcel::plumbing::slot`]), so that counting is a plain addition which a tick cannot
//! lose; one more row, shared and counted with read-modify-writes, for kernel threads without a slot. Rows are zeroed
//! memory; a page that no thread counts in is never touched, so the process never gets it.
//!
//! *Times* are taken only if they are asked for (`PIOM_STATS`): a look at the clock costs more than an empty poll. How
//! long an event has waited for its detection is known from above: since the poll before, which had not found it,
//! began. A source that knows better says so ([`Source::happened`](crate::Source::happened)).

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::plumbing::slot::{Counter, SLOTS};
use marcel::trace::{self, Kind};

use crate::progress::histogram::Buckets;
use crate::progress::point::Point;
use crate::progress::source::{MAX, Source};

const POINTS: usize = Point::ALL.len();

/// One source at one point, as one kernel thread sees it.
#[repr(C)]
pub(crate) struct Cell {
    pub(crate) polls: Counter,
    pub(crate) hits: Counter,
    /// Polls when the trace was last told of one that found something.
    told: AtomicU64,
}

/// What one kernel thread counts.
#[repr(C)]
pub(crate) struct Row(pub(crate) [[Cell; POINTS]; MAX]);

/// Of one source.
#[derive(Default)]
pub(crate) struct Times {
    /// When the last poll began, in nanoseconds since `Counts::start`.
    last: AtomicU64,
    /// By point.
    pub(crate) detect: [Buckets; POINTS],
    pub(crate) wait: Buckets,
}

/// See the module's description.
pub(crate) struct Counts {
    pub(crate) rows: Box<[Row]>,
    /// The names of the sources in a trace.
    names: [AtomicU32; MAX],
    /// The last owner of each row: one more than the number of a virtual processor that has ended.
    pub(crate) ended: Box<[AtomicU32]>,
    pub(crate) times: Option<Box<[Times]>>,
    start: Instant,
}

impl Counts {
    pub(crate) fn new(timed: bool) -> Counts {
        let layout = Layout::new::<[Row; SLOTS + 1]>();
        // SAFETY: a layout that is not empty; zeroes are valid counters; the box frees it with the same layout.
        let rows = unsafe {
            let memory = alloc_zeroed(layout).cast::<Row>();
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, SLOTS + 1))
        };
        Counts {
            rows,
            names: [const { AtomicU32::new(0) }; MAX],
            ended: (0..=SLOTS).map(|_| AtomicU32::new(0)).collect(),
            times: timed.then(|| (0..MAX).map(|_| Times::default()).collect()),
            start: Instant::now(),
        }
    }

    /// A source has got `index`, and is not polled yet.
    pub(crate) fn begin(&self, index: usize, name: &str) {
        self.names[index].store(trace::intern(name), Relaxed);
        for row in &self.rows {
            for cell in &row.0[index] {
                // Not written where it is zero: the process does not get pages that no thread has counted in.
                if cell.polls.get() != 0 || cell.told.load(Relaxed) != 0 {
                    cell.polls.reset();
                    cell.hits.reset();
                    cell.told.store(0, Relaxed);
                }
            }
        }
        if let Some(times) = &self.times {
            times[index].last.store(0, Relaxed);
            times[index].wait.reset();
            times[index].detect.iter().for_each(Buckets::reset);
        }
    }

    /// The source's number in a trace.
    pub(crate) fn name(&self, index: usize) -> u32 {
        self.names[index % MAX].load(Relaxed)
    }

    /// Polls a source, and counts it. `slot` is the calling kernel thread's.
    #[inline(always)]
    pub(crate) fn poll(
        &self,
        slot: Option<usize>,
        point: Point,
        index: usize,
        source: &dyn Source,
    ) -> bool {
        let found = match &self.times {
            None => source.poll_at(point),
            Some(times) => self.timed(&times[index], point, source),
        };
        let cell = &self.rows[slot.unwrap_or(SLOTS)].0[index][point as usize];
        match slot {
            Some(_) => cell.polls.add(1),
            None => cell.polls.add_shared(1),
        }
        if found {
            match slot {
                Some(_) => cell.hits.add(1),
                None => cell.hits.add_shared(1),
            }
            if trace::is_on() {
                self.tell(cell, point, index);
            }
        }
        found
    }

    #[cold]
    #[inline(never)]
    fn timed(&self, times: &Times, point: Point, source: &dyn Source) -> bool {
        let now = Instant::now();
        let found = source.poll_at(point);
        let begun = (now - self.start).as_nanos() as u64;
        let last = times.last.swap(begun.max(1), Relaxed);
        if found {
            let exact = source.happened().map(|then| then.elapsed());
            let bound =
                (last > 0).then(|| self.start.elapsed().saturating_sub(Duration::from_nanos(last)));
            if let Some(time) = exact.or(bound) {
                times.detect[point as usize].add(time);
            }
        }
        found
    }

    /// The trace is told of the polls since the last hit that it was told of by their number.
    #[cold]
    #[inline(never)]
    fn tell(&self, cell: &Cell, point: Point, index: usize) {
        let polls = cell.polls.get();
        let vain = polls.saturating_sub(cell.told.load(Relaxed) + 1);
        if trace::often(Kind::Hit, self.name(index).into(), point as u64 | vain << 8) {
            cell.told.store(polls, Relaxed);
        }
    }

    /// A wait for a source is over, and took this long.
    #[inline]
    pub(crate) fn waited(&self, index: usize, time: Duration) {
        if let Some(times) = &self.times {
            times[index % MAX].wait.add(time);
        }
    }

    /// The calling kernel thread ceases to be virtual processor `number`.
    pub(crate) fn ended(&self, number: u32) {
        if let Some(slot) = marcel::plumbing::slot::current() {
            self.ended[slot].store(number + 1, Relaxed);
        }
    }
}
