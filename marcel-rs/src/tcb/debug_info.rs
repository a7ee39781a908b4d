//! What can be seen of a thread from outside, at any time: by `diagnosis`, by a signal handler, by a debugger.
//!
//! Each control block holds a [`DebugInfo`]. Blocks are immortal and linked in one list, so a reader
//! needs no lock. The fields are written by one kernel thread at a time (the spawner, then the virtual processor
//! that runs the thread) with plain stores, and are valid under the counter of `moves`:
//!
//! ```text
//!   odd   the thread runs (a kernel thread: is not in a wait of ours); its registers and stack change
//!   even  it is suspended: reason, since, registers and the bytes of its stack stand still
//! ```
//!
//! A reader loads the counter, copies, and loads it again: equal and even, and the copy is of one moment.
//! A reuse of the block moves it as well.
//!
//! The layout is C's, and [`THREADS`] says where things are, because the debugger's script must work without type
//! information. Change the one, and `tools/gdb/marcel.py` and `VERSION` with it.
//!
//! Rejected: a lock around each switch (a reader would hold up the scheduler, and a signal handler could not
//! read at all); a clock reading at each switch (4 ns, a sixth of a yield: only a wait reads it).

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};

use crate::os::clock;
use crate::recorder::{self, Kind};
use crate::tcb::seq_count::SeqCount;

/// No living thread has the block.
pub(crate) const FREE: u32 = 0;
/// A green thread that has not run.
pub(crate) const NEW: u32 = 1;
/// A green thread that has run: it has a stack and a virtual processor.
pub(crate) const STARTED: u32 = 2;
/// A plain kernel thread that has waited for something of ours.
pub(crate) const KERNEL: u32 = 3;

/// See the module's description. The first line is what a switch writes.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct DebugInfo {
    moves: SeqCount,
    pc: AtomicUsize,
    sp: AtomicUsize,
    fp: AtomicUsize,
    reason: AtomicPtr<u8>,
    reason_len: AtomicUsize,
    /// Nanoseconds of the coarse monotonic clock at the last wait's begin.
    since: AtomicU64,

    /// The next block in the list of all, which is `block`'s.
    pub(super) next: AtomicPtr<()>,
    pub(super) number: AtomicU32,
    phase: AtomicU32,
    stack_low: AtomicUsize,
    stack_high: AtomicUsize,
    name: AtomicPtr<u8>,
    name_len: AtomicUsize,
    /// Of a kernel thread, its kernel's number; of a green thread, that of its virtual processor's.
    tid: AtomicU32,
    /// Index of its virtual processor, and 1 << 31 if that is a reactive one.
    vp: AtomicU32,
}

/// What a reader from outside sees: of one moment if `moves` is even and [`DebugInfo::is_still`] agrees afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) moves: u64,
    pub(crate) phase: u32,
    pub(crate) number: u32,
    pub(crate) pc: usize,
    pub(crate) sp: usize,
    pub(crate) fp: usize,
    pub(crate) stack: Range<usize>,
    pub(crate) since: u64,
    pub(crate) tid: u32,
    pub(crate) vp: u32,
    /// Text that is somewhere else.
    pub(crate) reason: (*const u8, usize),
    pub(crate) name: (*const u8, usize),
}

impl Seen {
    /// The thread runs, or did when it was looked at.
    pub(crate) fn runs(&self) -> bool {
        self.moves % 2 == 1
    }
}

/// What readers call; anywhere, signal handlers included.
impl DebugInfo {
    pub(crate) fn see(&self) -> Seen {
        let text = |at: &AtomicPtr<u8>, len: &AtomicUsize| {
            (at.load(Acquire).cast_const(), len.load(Relaxed))
        };
        Seen {
            moves: self.moves.now(),
            phase: self.phase.load(Relaxed),
            number: self.number.load(Relaxed),
            pc: self.pc.load(Relaxed),
            sp: self.sp.load(Relaxed),
            fp: self.fp.load(Relaxed),
            stack: self.stack(),
            since: self.since.load(Relaxed),
            tid: self.tid.load(Relaxed),
            vp: self.vp.load(Relaxed),
            reason: text(&self.reason, &self.reason_len),
            name: text(&self.name, &self.name_len),
        }
    }

    /// The number of the block.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Whether the thread has not moved since `moves`: what was copied of it meanwhile is of one moment.
    pub(crate) fn is_still(&self, moves: u64) -> bool {
        self.moves.is_still(moves)
    }

    /// Whether the name is still the one that was seen: what was copied of it is the name.
    pub(crate) fn has_name(&self, seen: (*const u8, usize)) -> bool {
        fence(SeqCst);
        std::ptr::eq(self.name.load(Relaxed), seen.0)
    }
}

/// What the writers of the moment call.
impl DebugInfo {
    /// The block is taken for a thread that is to run. (Nothing of it moves before that does.)
    #[inline]
    pub(crate) fn enter(&self) {
        self.phase.store(NEW, Release);
    }

    /// The thread has ended: its block is free, or its handle's.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.phase.load(Relaxed) != FREE {
            self.moves.reused(|| self.phase.store(FREE, Relaxed));
        }
    }

    /// The calling kernel thread has the block.
    pub(crate) fn kernel_thread(&self) {
        // SAFETY: gettid has no arguments.
        self.tid.store(unsafe { libc::gettid() } as u32, Relaxed);
        self.phase.store(KERNEL, Release);
        if !self.moves.is_odd() {
            self.resumed(); // else it has been told before: a virtual processor between two threads forgets its block
        }
    }

    /// The thread has got a stack, and is at home on a virtual processor.
    pub(crate) fn started(&self, stack: Range<usize>, vp: u32, tid: u32) {
        self.resumed();
        self.stack_low.store(stack.start, Relaxed);
        self.stack_high.store(stack.end, Relaxed);
        self.at_home(vp, tid);
        self.sp.store(0, Relaxed);
        self.phase.store(STARTED, Relaxed);
        self.suspended();
    }

    /// Where its stack is; the thread itself asks, or the answer may be of another moment.
    pub(crate) fn stack(&self) -> Range<usize> {
        self.stack_low.load(Relaxed)..self.stack_high.load(Relaxed)
    }

    /// Which virtual processor runs it from now on.
    pub(crate) fn at_home(&self, vp: u32, tid: u32) {
        self.vp.store(vp, Relaxed);
        self.tid.store(tid, Relaxed);
    }

    /// Tells the name, which lives until [`DebugInfo::unnamed`].
    pub(crate) fn named(&self, name: &str) {
        self.name_len.store(name.len(), Relaxed);
        self.name.store(name.as_ptr().cast_mut(), Release);
    }

    /// The name is about to be dropped: a reader that finds it still there afterwards has copied it before.
    pub(crate) fn unnamed(&self) {
        if !self.name.load(Relaxed).is_null() {
            self.name.store(std::ptr::null_mut(), Relaxed);
            fence(SeqCst);
        }
    }

    /// The running thread is about to wait, for `reason`.
    #[inline]
    pub(crate) fn waits(&self, reason: &'static str) {
        self.reason.store(reason.as_ptr().cast_mut(), Relaxed);
        self.reason_len.store(reason.len(), Relaxed);
        self.since.store(now(), Relaxed);
    }

    /// What it waits for, or has last waited for. By the scheduler that holds the thread.
    pub(crate) fn waits_for(&self) -> &'static str {
        let (text, len) = (self.reason.load(Relaxed), self.reason_len.load(Relaxed));
        if text.is_null() {
            return "";
        }
        // SAFETY: `waits` has stored a constant string, and only the thread that is held writes here.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(text, len)) }
    }

    /// The calling kernel thread, whose block it is, waits until the answer is dropped. A wait within a wait is shown
    /// as the outer one.
    pub(crate) fn kernel_waits(&self, reason: &'static str) -> KernelWait<'_> {
        let outer = self.moves.is_odd().then(|| {
            self.waits(reason);
            self.suspended();
            if recorder::is_on() {
                let reason = recorder::intern_static(reason);
                recorder::record(Kind::KernelWait, self.number().into(), reason.into());
            }
            self
        });
        KernelWait(outer)
    }

    /// The running thread is about to switch out: where its frames begin. The frame of the function that this is
    /// inlined into must outlive the switch.
    #[inline(always)]
    pub(crate) fn leaves(&self) {
        let (pc, sp, fp): (usize, usize, usize);
        // SAFETY: reads registers.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) pc, out(reg) sp, out(reg) fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "adr {}, .", "mov {}, sp", "mov {}, x29",
                out(reg) pc, out(reg) sp, out(reg) fp,
                options(nomem, nostack, preserves_flags)
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            (pc, sp, fp) = (0, 0, 0);
        }
        self.pc.store(pc, Relaxed);
        self.sp.store(sp, Relaxed);
        self.fp.store(fp, Relaxed);
    }

    /// The thread is about to run: nothing of it may be believed from here on.
    #[inline]
    pub(crate) fn resumed(&self) {
        self.moves.resumed();
    }

    /// The thread is suspended, its context saved, and no worker can resume it yet.
    #[inline]
    pub(crate) fn suspended(&self) {
        self.moves.suspended();
    }
}

/// Until dropped, a kernel thread is shown as waiting.
pub(crate) struct KernelWait<'a>(Option<&'a DebugInfo>);

impl Drop for KernelWait<'_> {
    fn drop(&mut self) {
        if let Some(look) = self.0 {
            look.resumed();
            recorder::record(Kind::KernelWaitEnd, look.number().into(), 0);
        }
    }
}

/// The coarse monotonic clock, in nanoseconds: right to the kernel's timer tick, for 4 ns.
#[inline]
pub(crate) fn now() -> u64 {
    clock::read(libc::CLOCK_MONOTONIC_COARSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// As `LOOK` and `threads` in `tools/gdb/marcel.py` have it. If this changes, they do, and `VERSION`.
    #[test]
    fn the_layout_is_the_debugger_s() {
        let at = [
            offset_of!(DebugInfo, moves),
            offset_of!(DebugInfo, pc),
            offset_of!(DebugInfo, sp),
            offset_of!(DebugInfo, fp),
            offset_of!(DebugInfo, reason),
            offset_of!(DebugInfo, reason_len),
            offset_of!(DebugInfo, since),
            offset_of!(DebugInfo, next),
            offset_of!(DebugInfo, number),
            offset_of!(DebugInfo, phase),
            offset_of!(DebugInfo, stack_low),
            offset_of!(DebugInfo, stack_high),
            offset_of!(DebugInfo, name),
            offset_of!(DebugInfo, name_len),
            offset_of!(DebugInfo, tid),
            offset_of!(DebugInfo, vp),
        ];
        assert_eq!(at, [0, 8, 16, 24, 32, 40, 48, 56, 64, 68, 72, 80, 88, 96, 104, 108]);
    }
}
