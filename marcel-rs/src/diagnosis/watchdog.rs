//! The watchdog: names the threads that do not give their virtual processor back.
//!
//! A virtual processor publishes the thread that it resumed last, and that thread's `moves` counts its switches. So the
//! watchdog costs a switch nothing. It checks each virtual processor four times per limit. A thread inside a blocking
//! system call is named as well, since it blocks its virtual processor as much; its backtrace shows the call.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::backtrace::Backtracer;
use super::sample::Sampler;
use super::snapshot;
use super::thread::title;
use crate::os::stderr::to_stderr;
use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;
use crate::tcb::debug_info;

/// The thread that a virtual processor ran at the last check.
struct Run {
    tcb: *const Tcb,
    moves: u64,
    since: Instant,
    /// Its title in the message, once it was named.
    named: Option<String>,
}

pub(super) struct Watchdog {
    limit: Duration,
    /// By the address of the virtual processor.
    runs: HashMap<usize, Run>,
}

impl Watchdog {
    /// A watchdog that names threads which have run for `limit`.
    pub(super) fn new(limit: Duration) -> Watchdog {
        Watchdog { limit, runs: HashMap::new() }
    }

    /// The time between two checks.
    pub(super) fn period(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(250))
    }

    /// Checks every virtual processor.
    pub(super) fn check(&mut self, vps: &[&'static Vp]) {
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

/// Names the thread on standard error, with its backtrace. Returns its title; `None` if the thread has ended.
fn name(vp: &Vp, tcb: &'static Tcb, time: Duration) -> Option<String> {
    let mut snapshot = snapshot::take(tcb, debug_info::now(), false)?;
    if !snapshot.needs_sampling() {
        return None;
    }
    if let Ok(mut sampler) = Sampler::new() {
        snapshot::sample(&mut snapshot, &mut sampler);
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
