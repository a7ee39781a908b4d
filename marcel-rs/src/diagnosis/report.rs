//! Writes the dump.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;

use super::backtrace::Backtracer;
use super::runtimes;
use super::sample::Sampler;
use super::snapshot::{self, Snapshot};
use super::thread::{State, Thread, title};
use crate::sched::vp::Vp;
use crate::tcb::block;
use crate::tcb::debug_info;

/// Threads with the same state, reason and backtrace.
struct Group {
    threads: Vec<Thread>,
    addresses: Vec<usize>,
    without: &'static str,
}

/// Writes all virtual processors and threads.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    let mut backtracer = Backtracer::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<(State, Option<&'static str>, Vec<usize>), usize> = HashMap::new();
    let mut count = 0;
    for tcb in block::all() {
        let Some(mut snapshot) = snapshot::take(tcb, debug_info::now(), true) else { continue };
        if snapshot.needs_sampling() {
            match Sampler::new() {
                Ok(mut sampler) => snapshot::sample(&mut snapshot, &mut sampler),
                Err(_) => {
                    snapshot.without = "the program uses the signal that would copy its stack"
                }
            }
        }
        let addresses = snapshot.frames.as_ref().map_or(Vec::new(), |f| backtracer.walk(f));
        let Snapshot { thread, without, .. } = snapshot;
        let key = (thread.state, thread.reason, addresses.clone());
        let group = *places.entry(key).or_insert_with(|| {
            groups.push(Group { threads: Vec::new(), addresses, without });
            groups.len() - 1
        });
        groups[group].threads.push(thread);
        count += 1;
    }
    for group in &mut groups {
        group.threads.sort_by_key(|thread| thread.number);
    }
    groups.sort_by_key(|group| (group.threads[0].state, group.threads[0].number));

    let vps = runtimes::vps();
    let pid = std::process::id();
    let threads = if count == 1 { "thread" } else { "threads" };
    writeln!(out, "== marcel: {count} {threads}, {} virtual processors, process {pid}", vps.len())?;
    let running = groups.iter().flat_map(|g| &g.threads).filter(|t| t.state == State::Running);
    let by_vp: HashMap<_, _> = running.filter_map(|t| Some((t.kernel_thread?, t))).collect();
    for vp in vps {
        writeln!(out, "{}", describe(vp, by_vp.get(&(vp.tid.load(Relaxed) as u32)).copied()))?;
    }
    for group in groups {
        writeln!(out)?;
        for thread in &group.threads {
            writeln!(out, "{thread}")?;
        }
        for line in backtracer.lines(&group.addresses) {
            writeln!(out, "    at {line}")?;
        }
        if group.addresses.is_empty() && !group.without.is_empty() {
            writeln!(out, "    no backtrace: {}", group.without)?;
        }
    }
    writeln!(out, "== marcel: end")?;
    out.flush()
}

/// The line of a virtual processor.
fn describe(vp: &Vp, running: Option<&Thread>) -> String {
    let mut text = snapshot::vp_name(vp.number());
    if let Some(cpu) = vp.cpu() {
        text += &format!(" on core {cpu}");
    }
    text += &format!(" (kernel thread {}): ", vp.tid.load(Relaxed));
    match running {
        Some(thread) => text += &format!("runs thread {}", title(thread)),
        None if vp.sleeper().is_asleep() => text += "sleeps",
        None => text += "between threads, or looking for events",
    }
    text
}
