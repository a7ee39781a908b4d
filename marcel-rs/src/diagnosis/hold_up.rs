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
/// So long kernel threads may wait for a core.
const LONG: Duration = Duration::from_secs(30);

/// Writes to standard error which threads hold up the end of `shared`, which has lasted for so long.
pub(crate) fn tell(shared: &Shared, lasts: Duration) {
    // To read debug information takes more stack than a green thread may have, whose runtime this is not.
    let _ = super::on_a_large_stack(|| to_stderr(|out| write(shared, lasts, out)));
}

/// What is said of so many threads that are left. Nothing of none at first: its kernel threads end as soon as they have a core.
fn left(count: usize, lasts: Duration) -> Option<String> {
    let s = if count == 1 { "" } else { "s" };
    match count {
        0 if lasts < LONG => None,
        0 => Some("no green thread is left, but its kernel threads have not ended".to_owned()),
        _ => Some(format!(
            "{count} thread{s} left: they do not end although they are unwound, or do not yield"
        )),
    }
}

fn write(shared: &Shared, lasts: Duration, out: &mut dyn Write) -> io::Result<()> {
    let kernel_threads: Vec<u32> = shared.all_vps().map(|vp| vp.tid.load(Relaxed) as u32).collect();
    let mut held: Vec<Snapshot> = block::all()
        .filter_map(|tcb| snapshot::take(tcb, debug_info::now(), true))
        .filter(|one| one.seen.phase == STARTED && kernel_threads.contains(&one.seen.tid))
        .collect();
    held.sort_by_key(|one| (one.thread.state, one.thread.number));
    let count = held.len();
    let Some(left) = left(count, lasts) else { return Ok(()) };
    let seconds = lasts.as_secs_f64();
    writeln!(out, "marcel: the end of a runtime has waited for {seconds:.0} s; {left}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_that_wait_for_a_core_are_nothing_to_tell() {
        let (one, long) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(left(0, one), None);
        assert!(left(0, long).unwrap().contains("kernel threads"));
        assert!(left(1, one).unwrap().starts_with("1 thread left"));
        assert!(left(2, one).unwrap().starts_with("2 threads left"));
    }
}
