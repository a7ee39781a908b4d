//! Takes a picture of one thread: its state, and a copy of its stack if the stack can be read from outside.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::frames::{Frames, Registers};
use super::peek;
use super::runtimes;
use super::sample::{Sample, Sampler};
use super::thread::{StackUse, State, Thread};
use crate::stack::memory;
use crate::tcb::block::{self, Tcb};
use crate::tcb::debug_info::{self, Seen};

/// Attempts at a thread that switches meanwhile.
const ATTEMPTS: usize = 16;
/// Longest name that is shown.
const NAME: usize = 256;
/// Why a thread that switched during each has no frames.
const TOO_OFTEN: &str = "it switches too often to be caught";
/// Longest part of a suspended thread's stack that is copied.
const STACK: usize = 8 << 20;

fn stack_use(seen: &Seen) -> StackUse {
    StackUse { size: seen.stack.len(), most: memory::touched(seen.stack.clone()) }
}

/// A thread at one moment.
pub(super) struct Snapshot {
    pub(super) thread: Thread,
    pub(super) tcb: &'static Tcb,
    pub(super) seen: Seen,
    pub(super) frames: Option<Frames>,
    /// The reason why `frames` is `None`.
    pub(super) without: &'static str,
}

impl Snapshot {
    /// What a thread that does not run waits for, or has last waited for.
    pub(super) fn last_wait(&self) -> Option<&'static str> {
        if self.seen.runs() {
            return None;
        }
        // SAFETY: it does not run, and a snapshot's fields are of one moment, or there is no reason.
        Some(unsafe { reason(&self.seen) }).filter(|reason| !reason.is_empty())
    }

    /// Whether only a signal to the kernel thread gets the stack: a running thread, or a kernel thread that waits.
    pub(super) fn needs_sampling(&self) -> bool {
        self.frames.is_none()
            && (self.thread.state == State::Running || self.seen.phase == debug_info::KERNEL)
    }
}

/// An upper bound of the time that a thread has run.
///
/// A switch reads no clock, so the bound counts from the last wait that began on the kernel thread, or from the last
/// idle moment of its virtual processor.
fn running_at_most(seen: &Seen, now: u64) -> Option<Duration> {
    let waits = block::all().map(|tcb| tcb.info.see()).filter(|other| other.tid == seen.tid);
    let last_wait = waits.map(|other| other.since).max().unwrap_or(0);
    let vps = runtimes::vps();
    let vp = vps.iter().find(|vp| vp.tid.load(Relaxed) as u32 == seen.tid);
    let busy = vp.map_or(0, |vp| vp.busy_since.load(Relaxed));
    let since = last_wait.max(busy);
    (since != 0).then(|| Duration::from_nanos(now.saturating_sub(since)))
}

/// The name of a virtual processor by its number in a `DebugInfo`.
pub(super) fn vp_name(number: u32) -> String {
    match number >> 31 {
        0 => format!("vp{number}"),
        _ => format!("rx{}", number & !(1 << 31)),
    }
}

/// Takes a snapshot of `tcb`'s thread; `None` if the block is free. `frames`: copies the stack of a suspended thread.
pub(super) fn take(tcb: &'static Tcb, now: u64, frames: bool) -> Option<Snapshot> {
    let mut seen = tcb.info.see();
    for _ in 0..ATTEMPTS {
        match seen.phase {
            debug_info::FREE => return None,
            // A kernel thread outside a runtime is shown while it waits in marcel only.
            debug_info::KERNEL if seen.runs() => return None,
            _ => {}
        }
        let parked = tcb.park.is_parked();
        let state = match seen.phase {
            debug_info::NEW => State::New,
            debug_info::KERNEL => State::Waiting,
            _ if seen.runs() => State::Running,
            _ if parked => State::Waiting,
            _ => State::Ready,
        };
        let green = seen.phase == debug_info::STARTED;
        let name = name(tcb, &seen);
        let stack = green.then(|| stack_use(&seen));
        let copied = (frames && green && !seen.runs()).then(|| suspended(&seen)).flatten();
        if tcb.info.is_still(seen.moves) {
            let waits = state == State::Waiting;
            let time = match state {
                State::Waiting => Some(Duration::from_nanos(now.saturating_sub(seen.since))),
                State::Running => running_at_most(&seen, now),
                State::Ready | State::New => None,
            };
            let thread = Thread {
                number: seen.number,
                name,
                state,
                // SAFETY: the thread has not switched, so address and length are of one `&'static str`.
                reason: waits.then(|| unsafe { reason(&seen) }),
                time,
                vp: green.then(|| vp_name(seen.vp)),
                kernel_thread: (green || seen.phase == debug_info::KERNEL).then_some(seen.tid),
                stack,
            };
            let without = if state == State::New { "" } else { "its stack could not be read" };
            return Some(Snapshot { thread, tcb, seen, frames: copied, without });
        }
        seen = tcb.info.see();
    }
    // It switched during each attempt, so it takes turns with other threads. The address and the length of its reason
    // may be of two texts.
    seen.reason = (std::ptr::null(), 0);
    let thread = Thread {
        number: seen.number,
        name: name(tcb, &seen),
        state: State::Running,
        reason: None,
        time: None,
        vp: Some(vp_name(seen.vp)),
        kernel_thread: Some(seen.tid),
        stack: Some(stack_use(&seen)),
    };
    Some(Snapshot { thread, tcb, seen, frames: None, without: TOO_OFTEN })
}

/// Lists every thread with its state, without backtraces.
///
/// The caller is in the list if it is a green thread.
///
/// # Context
/// Green and kernel threads; not a signal handler.
pub fn threads() -> Vec<Thread> {
    let snapshots = block::all().filter_map(|tcb| take(tcb, debug_info::now(), false));
    let mut threads: Vec<_> = snapshots.map(|snapshot| snapshot.thread).collect();
    threads.sort_by_key(|thread| thread.number);
    threads
}

/// Gets the frames of a snapshot that [needs sampling](Snapshot::needs_sampling).
pub(super) fn sample(snapshot: &mut Snapshot, sampler: &mut Sampler) {
    let mut stack = Vec::new();
    match sampler.sample(snapshot.seen.tid, snapshot.tcb, &mut stack) {
        Sample::Running(registers) => {
            snapshot.frames = Some(Frames { registers, from: registers.sp, stack })
        }
        Sample::Elsewhere => snapshot.without = "it was about to switch",
        Sample::NoAnswer => {
            snapshot.without =
                "its kernel thread does not answer: it waits for a core, or blocks signals";
        }
    }
}

fn suspended(seen: &Seen) -> Option<Frames> {
    if seen.sp == 0 || !seen.stack.contains(&seen.sp) {
        return None;
    }
    let mut stack = vec![0; (seen.stack.end - seen.sp).min(STACK)];
    let got = peek::read(seen.sp, &mut stack);
    stack.truncate(got);
    let registers = Registers { pc: seen.pc, sp: seen.sp, fp: seen.fp, lr: 0 };
    Some(Frames { registers, from: seen.sp, stack })
}

fn name(tcb: &Tcb, seen: &Seen) -> Option<String> {
    if seen.phase == debug_info::KERNEL {
        let path = format!("/proc/self/task/{}/comm", seen.tid);
        return std::fs::read_to_string(path).ok().map(|name| name.trim_end().to_owned());
    }
    let (at, len) = seen.name;
    if at.is_null() {
        return None;
    }
    let mut bytes = vec![0; len.min(NAME)];
    let got = peek::read(at.addr(), &mut bytes);
    bytes.truncate(got);
    tcb.info.has_name(seen.name).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// # Safety
/// The fields of `seen` are of one moment, or its reason is null.
unsafe fn reason(seen: &Seen) -> &'static str {
    let (at, len) = seen.reason;
    if at.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(at, len)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::{TOO_OFTEN, take};
    use crate::sched::here;
    use crate::tcb::block::Tcb;
    use crate::{Runtime, diagnosis};

    const PAGE: usize = 4096;

    /// Goes `depth` frames down; the lowest address that it has written.
    #[inline(never)]
    fn dive(depth: usize) -> usize {
        let room = std::hint::black_box([depth as u8; 1000]);
        let here = room.as_ptr().addr();
        if depth == 0 { here } else { dive(depth - 1).min(here) }
    }

    /// A thread that waits by turns for two reasons of different lengths, so often that it is mostly not caught. Then the
    /// address and the length that were seen may be of both.
    #[test]
    fn the_reason_of_a_thread_that_is_not_caught_is_not_told() {
        let tcb = Tcb::allocate(None);
        tcb.set_name(Some("by turns".into())); // to read it takes longer than a turn
        let over = AtomicBool::new(false);
        let (missed, told) = std::thread::scope(|s| {
            s.spawn(|| {
                while !over.load(Relaxed) {
                    for reason in ["s", "a longer reason"] {
                        tcb.info.resumed();
                        tcb.info.waits(reason);
                        tcb.info.suspended();
                    }
                }
            });
            let snapshots = std::iter::repeat_with(|| take(tcb, 0, false).unwrap()).take(1_000_000);
            let missed = snapshots.filter(|snapshot| snapshot.without == TOO_OFTEN).take(100);
            let told = missed.map(|snapshot| !snapshot.seen.reason.0.is_null());
            let counts = told
                .fold((0, 0), |(missed, told), is_told| (missed + 1, told + usize::from(is_told)));
            over.store(true, Relaxed);
            counts
        });
        assert_eq!(told, 0);
        if missed == 0 {
            println!("SKIPPED: the thread was always caught");
        }
        tcb.recycle(None);
    }

    #[test]
    fn the_mark_is_where_a_deep_recursion_was() {
        let runtime = Runtime::builder().build().unwrap();
        runtime.run(|| {
            for (depth, size) in [(100, 1 << 20), (500, 2 << 20), (900, 4 << 20)] {
                // Sizes of their own: the stacks are fresh.
                let thread =
                    crate::Builder::new().name("diver").stack_size(size).spawn(move || {
                        let lowest = dive(depth);
                        let stack = here::tcb().unwrap().info.stack();
                        let me = diagnosis::threads()
                            .into_iter()
                            .find(|t| t.name.as_deref() == Some("diver"));
                        (lowest, stack, me.unwrap().stack.unwrap())
                    });
                let (lowest, stack, found) = thread.unwrap().join().unwrap();
                assert_eq!(found.size, size);
                let mark = stack.end - found.most;
                assert!(mark <= lowest, "{mark:#x} is above {lowest:#x}");
                assert!(lowest - mark < 2 * PAGE, "{mark:#x} is far below {lowest:#x}");
            }
        });
    }
}
