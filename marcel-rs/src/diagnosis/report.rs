//! The dump as text.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;

use super::backtrace::Backtracer;
use super::sample::Asker;
use super::service;
use super::snapshot::{self, Snapshot, State, Thread};
use crate::sched::vp::Vp;
use crate::tcb::block;
use crate::tcb::debug_info;

/// Threads that are at the same place, for the same reason.
struct Group {
    threads: Vec<Thread>,
    addresses: Vec<usize>,
    without: &'static str,
}

/// Writes everything.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    let mut backtracer = Backtracer::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<(State, Option<&'static str>, Vec<usize>), usize> = HashMap::new();
    let mut count = 0;
    for tcb in block::all() {
        let Some(mut snapshot) = snapshot::take(tcb, debug_info::now(), true) else { continue };
        if snapshot.is_to_be_asked() {
            match Asker::new() {
                Ok(mut asker) => snapshot::sample(&mut snapshot, &mut asker),
                Err(_) => snapshot.without = "there is no signal to ask it by",
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

    let vps = service::vps();
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

/// What a virtual processor does, in one line.
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

/// Number and name, as every message has them.
pub(super) fn title(thread: &Thread) -> String {
    match &thread.name {
        Some(name) => format!("{} '{name}'", thread.number),
        None => format!("{} <unnamed>", thread.number),
    }
}

impl fmt::Display for Thread {
    /// One line, as in a dump.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} ", title(self))?;
        let seconds = |f: &mut fmt::Formatter<'_>, before: &str| match self.time {
            Some(time) => write!(f, "{before} {:.3} s", time.as_secs_f64()),
            None => Ok(()),
        };
        match self.state {
            State::Running => {
                f.write_str("running")?;
                seconds(f, " for at most")?;
            }
            State::Waiting => {
                write!(f, "waiting ({})", self.reason.unwrap_or_default())?;
                seconds(f, " for")?;
            }
            State::Ready => f.write_str("ready")?,
            State::New => f.write_str("new")?,
        }
        if let Some(vp) = &self.vp {
            write!(f, ", {vp}")?;
        } else if let Some(tid) = self.kernel_thread {
            write!(f, ", kernel thread {tid}")?;
        }
        if let Some(stack) = self.stack {
            let kib = |bytes: usize| bytes.div_ceil(1024);
            write!(f, ", stack {} KiB, most used {} KiB", kib(stack.size), kib(stack.most))?;
        }
        Ok(())
    }
}
