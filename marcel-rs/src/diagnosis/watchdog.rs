//! Names the threads that do not give their virtual processor back.
//!
//! A virtual processor says whom it resumed last, and that thread's `moves` whether it has run without a switch since
//! the last look. So a switch costs nothing more, and the watchdog a look at each virtual processor four times
//! in the period it is asked to watch for. A thread that waits for a blocking system call is named as well, and
//! its backtrace tells: it blocks its virtual processor just as much.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::backtrace::Backtracer;
use super::report::title;
use super::sample::Asker;
use super::snapshot;
use crate::os::stderr::to_stderr;
use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;
use crate::tcb::debug_info;

/// What one virtual processor was seen to run.
struct Run {
    tcb: *const Tcb,
    moves: u64,
    since: Instant,
    /// How it was called when it was named.
    named: Option<String>,
}

pub(super) struct Watchdog {
    limit: Duration,
    /// By the address of the virtual processor.
    runs: HashMap<usize, Run>,
}

impl Watchdog {
    /// One that names threads which have run for `limit`.
    pub(super) fn new(limit: Duration) -> Watchdog {
        Watchdog { limit, runs: HashMap::new() }
    }

    /// How long to wait between two looks.
    pub(super) fn period(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    /// Looks at every virtual processor.
    pub(super) fn look(&mut self, vps: &[&'static Vp]) {
        let now = Instant::now();
        for vp in vps {
            let place = *vp as *const Vp as usize;
            let tcb = vp.running.load(Relaxed).cast_const();
            // SAFETY: null or a control block, which is immortal.
            let Some(block) = (unsafe { tcb.as_ref() }) else { continue };
            let seen = block.info.see();
            match self.runs.get_mut(&place) {
                Some(run) if run.tcb == tcb && run.moves == seen.moves => {
                    if run.named.is_none() && now - run.since >= self.limit {
                        run.named = name(vp, block, now - run.since);
                    }
                    continue;
                }
                Some(run) => {
                    if let Some(thread) = run.named.take() {
                        say_over(vp, &thread, now - run.since);
                    }
                }
                None => {}
            }
            if seen.runs() {
                let run = Run { tcb, moves: seen.moves, since: now, named: None };
                self.runs.insert(place, run);
            } else {
                self.runs.remove(&place);
            }
        }
        self.runs.retain(|place, _| vps.iter().any(|vp| *vp as *const Vp as usize == *place));
    }
}

/// Names the thread, with its backtrace; how it is called, or `None` if it was gone.
fn name(vp: &Vp, tcb: &'static Tcb, time: Duration) -> Option<String> {
    let mut snapshot = snapshot::take(tcb, debug_info::now(), false)?;
    if !snapshot.is_to_be_asked() {
        return None;
    }
    if let Ok(mut asker) = Asker::new() {
        snapshot::sample(&mut snapshot, &mut asker);
    }
    let thread = title(&snapshot.thread);
    to_stderr(|out| {
        let (at, ms) = (snapshot::vp_name(vp.number()), time.as_millis());
        writeln!(out, "marcel: thread {thread} has not yielded for {ms} ms on {at}{}", core(vp))?;
        let mut backtracer = Backtracer::new();
        let addresses = snapshot.frames.as_ref().map_or(Vec::new(), |f| backtracer.walk(f));
        backtracer.lines(&addresses).iter().try_for_each(|line| writeln!(out, "    at {line}"))
    });
    Some(thread)
}

fn say_over(vp: &Vp, thread: &str, time: Duration) {
    to_stderr(|out| -> io::Result<()> {
        let (at, ms) = (snapshot::vp_name(vp.number()), time.as_millis());
        writeln!(out, "marcel: thread {thread} has given {at} back after {ms} ms or less")
    });
}

fn core(vp: &Vp) -> String {
    vp.cpu().map_or(String::new(), |cpu| format!(" (core {cpu})"))
}
