//! Names the threads for which the end of a runtime waits.
//!
//! A stopping runtime unwinds its threads. One that swallows the unwinding, that waits in a destructor for what does not
//! come, or that never gives its virtual processor back holds it up for ever. The kernel thread that waits for the end
//! tells of it.

use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::backtrace::Backtracer;
use super::sample::Sampler;
use super::snapshot::{self, Snapshot};
use super::thread::{State, title};
use crate::os::stderr::to_stderr;
use crate::sched::shared::Shared;
use crate::tcb::block;
use crate::tcb::debug_info::{self, STARTED};

/// Most threads that are named.
const THREADS: usize = 8;
/// Most lines of a backtrace.
const LINES: usize = 16;

/// Writes to standard error which threads hold up the end of `shared`, which has lasted for so long.
pub(crate) fn tell(shared: &Shared, lasts: Duration) {
    // To read debug information takes more stack than a green thread may have, whose runtime this is not.
    let _ = super::on_a_large_stack(|| to_stderr(|out| write(shared, lasts, out)));
}

fn write(shared: &Shared, lasts: Duration, out: &mut dyn Write) -> io::Result<()> {
    let kernel_threads: Vec<u32> = shared.all_vps().map(|vp| vp.tid.load(Relaxed) as u32).collect();
    let mut held: Vec<Snapshot> = block::all()
        .filter_map(|tcb| snapshot::take(tcb, debug_info::now(), true))
        .filter(|one| one.seen.phase == STARTED && kernel_threads.contains(&one.seen.tid))
        .collect();
    held.sort_by_key(|one| (one.thread.state, one.thread.number));
    let (count, s) = (held.len(), if held.len() == 1 { "" } else { "s" });
    writeln!(
        out,
        "marcel: the end of a runtime has waited for {:.0} s; {count} thread{s} left: they do not end although they are \
         unwound, or do not yield",
        lasts.as_secs_f64()
    )?;
    let mut backtracer = Backtracer::new();
    for one in held.iter_mut().take(THREADS) {
        if one.needs_sampling()
            && let Ok(mut sampler) = Sampler::new()
        {
            snapshot::sample(one, &mut sampler);
        }
        let does = match (one.thread.state, one.last_wait()) {
            (State::Running, _) => "runs".to_owned(),
            // A thread that is unwound gives way instead of waiting, so that it is ready.
            (_, Some(reason)) => format!("waits ({reason})"),
            (..) => "gives way".to_owned(),
        };
        let at = one.thread.vp.as_deref().unwrap_or_default();
        writeln!(out, "  thread {} {does}, {at}", title(&one.thread))?;
        let addresses = one.frames.as_ref().map_or(Vec::new(), |f| backtracer.walk(f));
        for line in backtracer.lines(&addresses).iter().take(LINES) {
            writeln!(out, "    at {line}")?;
        }
    }
    if count > THREADS {
        writeln!(out, "  and {} more (SIGQUIT, Ctrl-\\, shows all)", count - THREADS)?;
    }
    Ok(())
}
