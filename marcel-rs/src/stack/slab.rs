//! Where stacks come from: one mapping holds many.
//!
//! A stack of its own mapping costs the kernel two areas (the stack, its guard), and a process may have 65 530
//! of them (`vm.max_map_count`). Stacks of a slab share one, and so do slabs that happen to be neighbours: the
//! guards are markers in the page tables (`MADV_GUARD_INSTALL`, Linux 6.13), which split nothing. Where the
//! kernel has none, or refuses (`mlockall`), a guard is a range without access, which does split: then the number
//! of stacks is bounded by that limit, and [`Slabs::take`] says so before it is reached, since the heap needs
//! areas as well, and has no other answer than abort.
//!
//! *Memory.* A stack that was never used has none, not even a guard. Huge pages are declined: one touched stack
//! would get the memory of eight. Memory goes back when stacks are given up, in bulk: a whole slab is unmapped
//! when no stack of it is in use; else runs of neighbours are released by one call, which leaves guards in
//! place (of both kinds). Stacks are taken from the slab that was mapped first, so that others drain.
//!
//! *Running out.* A slab is mapped only while there is [`RESERVE`] more address space than it takes: a
//! thread without a stack is an error, the heap's failure is the end of the process.

use std::collections::BTreeSet;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::memory::Stack;
use crate::os::memory;

/// Most stacks in a slab, and most bytes: but one stack, however large, is always there.
const STACKS: usize = 64;
const BYTES: usize = 32 << 20;
/// Address space that stacks leave to others.
const RESERVE: usize = 32 << 20;

/// `MADV_GUARD_INSTALL`, which the C library's headers lack.
const GUARD_INSTALL: libc::c_int = 102;

/// How guards are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guards {
    /// By markers; by pages without access where there are none.
    Markers,
    /// By pages without access.
    Pages,
}

/// Guards that are pages without access, in this process.
static GUARD_PAGES: AtomicUsize = AtomicUsize::new(0);

/// The most of them: each splits its mapping in two, and a sixteenth of the kernel's limit is for others.
fn guard_pages_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let limit = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65_530);
        (limit - limit / 16) / 2
    })
}

/// One mapping.
struct Slab {
    base: usize,
    stacks: u32,
    /// Those that are free.
    free: u64,
    /// Those that have a guard.
    guarded: u64,
    guard_pages: usize,
    /// For valgrind, which has to know what is a stack.
    known: Vec<ValgrindStackRegistration>,
}

/// The lowest `n` bits.
fn mask(n: u32) -> u64 {
    u64::MAX >> (64 - n)
}

/// All stacks of one size.
pub(super) struct Slabs {
    size: usize,
    /// Bytes of each stack's guard.
    guard: usize,
    guards: Guards,
    /// By number; a number without a slab is used again.
    slabs: Vec<Option<Slab>>,
    /// Those that have free stacks, or no mapping.
    room: BTreeSet<u32>,
}

impl Slabs {
    /// For stacks of `size` bytes above guards of `guard` bytes, multiples of the page's.
    pub(super) fn new(size: usize, guard: usize, guards: Guards) -> Slabs {
        Slabs { size, guard, guards, slabs: Vec::new(), room: BTreeSet::new() }
    }

    fn stride(&self) -> usize {
        self.guard + self.size
    }

    /// A free stack; its memory is as the last user left it, or the kernel's.
    ///
    /// # Errors
    /// No address space, or too many guard pages; the error says what to do.
    pub(super) fn take(&mut self) -> io::Result<Stack> {
        let number = match self.room.first() {
            Some(&number) => number,
            None => {
                self.slabs.push(None);
                let number = self.slabs.len() as u32 - 1;
                self.room.insert(number);
                number
            }
        };
        let (size, guard, guards) = (self.size, self.guard, self.guards);
        let stride = self.stride();
        let slot = &mut self.slabs[number as usize];
        let slab = match slot {
            Some(slab) => slab,
            None => slot.insert(Slab::map(size, guard)?),
        };
        let index = slab.free.trailing_zeros();
        let bottom = slab.base + index as usize * stride;
        let stack = Stack { bottom, guard, size, slab: number, index };
        if slab.guarded & 1 << index == 0 {
            slab.guard(&stack, guards)?;
        }
        slab.free &= !(1 << index);
        if slab.free == 0 {
            self.room.remove(&number);
        }
        Ok(stack)
    }

    /// Takes stacks back, and gives their memory to the kernel.
    pub(super) fn give_back(&mut self, mut stacks: Vec<Stack>) {
        stacks.sort_unstable_by_key(|stack| (stack.slab, stack.index));
        for of_one in stacks.chunk_by(|a, b| a.slab == b.slab) {
            let number = of_one[0].slab;
            let slot = &mut self.slabs[number as usize];
            let Some(slab) = slot else { continue };
            self.room.insert(number);
            for stack in of_one {
                debug_assert!(slab.free & 1 << stack.index == 0, "a stack is given back once");
                slab.free |= 1 << stack.index;
            }
            if slab.free == mask(slab.stacks) {
                slab.unmap(self.size + self.guard);
                *slot = None;
                continue;
            }
            for run in of_one.chunk_by(|a, b| a.index + 1 == b.index) {
                release(run[0].whole().start, run[run.len() - 1].whole().end);
            }
        }
    }

    /// Bytes of address space.
    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        self.slabs.iter().flatten().map(|slab| slab.stacks as usize * self.stride()).sum()
    }
}

impl Slab {
    /// Maps a slab for stacks of `size` bytes, with fewer of them when there is not enough address space.
    fn map(size: usize, guard: usize) -> io::Result<Slab> {
        let stride = size.checked_add(guard).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut stacks = (BYTES / stride).clamp(1, STACKS);
        loop {
            match map(stacks * stride) {
                Ok(base) => {
                    let stacks = stacks as u32;
                    return Ok(Slab {
                        base,
                        stacks,
                        free: mask(stacks),
                        guarded: 0,
                        guard_pages: 0,
                        known: Vec::new(),
                    });
                }
                Err(_) if stacks > 1 => stacks /= 2,
                Err(error) => return Err(no_space(size, &error)),
            }
        }
    }

    fn guard(&mut self, stack: &Stack, guards: Guards) -> io::Result<()> {
        let at = stack.bottom as *mut libc::c_void;
        // SAFETY: pages of our mapping, which are free.
        if guards == Guards::Pages || !unsafe { mark(at, stack.guard) } {
            if GUARD_PAGES.fetch_add(1, Relaxed) >= guard_pages_max() {
                GUARD_PAGES.fetch_sub(1, Relaxed);
                return Err(too_many_guards(None));
            }
            // SAFETY: as above.
            if unsafe { libc::mprotect(at, stack.guard, libc::PROT_NONE) } != 0 {
                GUARD_PAGES.fetch_sub(1, Relaxed);
                return Err(too_many_guards(Some(io::Error::last_os_error())));
            }
            self.guard_pages += 1;
        }
        self.guarded |= 1 << stack.index;
        let low = stack.guard().end as *mut u8;
        self.known.push(ValgrindStackRegistration::new(low, stack.size()));
        Ok(())
    }

    fn unmap(&mut self, stride: usize) {
        self.known.clear();
        // SAFETY: our mapping, of which no stack is in use.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.stacks as usize * stride) };
        GUARD_PAGES.fetch_sub(self.guard_pages, Relaxed);
    }
}

/// Puts a guard of markers on the `len` bytes at `at`, if the kernel has them. Emulators are known to take any advice for
/// done: the first one is tried.
///
/// # Safety
/// Pages of ours that are free.
unsafe fn mark(at: *mut libc::c_void, len: usize) -> bool {
    static WORK: OnceLock<bool> = OnceLock::new();
    // SAFETY: the caller's promise. The kernel tries to write to the page, and says that it cannot.
    let guarded = || unsafe {
        libc::getrandom(at, 1, libc::GRND_NONBLOCK) == -1
            && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
    };
    // SAFETY: the caller's promise.
    let said_done = unsafe { libc::madvise(at, len, GUARD_INSTALL) } == 0;
    said_done && *WORK.get_or_init(guarded)
}

/// Maps `len` bytes, if there are [`RESERVE`] more.
fn map(len: usize) -> io::Result<usize> {
    let all = len.checked_add(RESERVE).ok_or(io::ErrorKind::OutOfMemory)?;
    // The reserve is the lower end: the kernel maps downwards, so that the next slab comes to lie below this one,
    // and the two are one area.
    let base = memory::map(all, libc::MAP_NORESERVE | libc::MAP_STACK)?;
    // SAFETY: a fresh mapping, of which a part is unmapped.
    unsafe {
        libc::munmap(base, RESERVE);
        let base = base.byte_add(RESERVE);
        // Kernels without huge pages refuse: nothing to decline then.
        libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
        Ok(base as usize)
    }
}

/// Gives the memory of free stacks to the kernel; guards stay.
fn release(from: usize, to: usize) {
    // SAFETY: pages of our mapping, without a user. Refused for locked memory, which then stays.
    unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
}

fn no_space(size: usize, why: &io::Error) -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "no address space for a stack of {} KiB beside the {} MiB that are kept for others ({why}): raise \
             `ulimit -v`, or sysctl vm.overcommit_memory if it is 2, or ask for smaller stacks \
             (MARCEL_STACK_SIZE, Builder::stack_size)",
            size / 1024,
            RESERVE >> 20
        ),
    )
}

fn too_many_guards(why: Option<io::Error>) -> io::Error {
    let why = why.map_or(String::new(), |error| format!(" ({error})"));
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "no guard page for one more stack: the kernel's limit of mappings is near{why}: raise sysctl \
             vm.max_map_count to three for each thread that is to live at once, or use Linux 6.13 or newer, \
             where guards need none"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::memory::{MIN_SIZE, page};

    /// The smallest stack.
    fn size() -> usize {
        MIN_SIZE.next_multiple_of(page())
    }

    fn write(address: usize) -> bool {
        let mut pipe = [0; 2];
        // SAFETY: the kernel reads a byte, or says that it cannot.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let written = libc::write(pipe[1], address as *const libc::c_void, 1);
            pipe.iter().for_each(|fd| assert_eq!(libc::close(*fd), 0));
            written == 1
        }
    }

    fn fill(stack: &Stack, byte: u8) {
        let range = stack.guard().end..stack.whole().end;
        // SAFETY: a stack that only this test has.
        unsafe { std::ptr::write_bytes(range.start as *mut u8, byte, range.len()) };
    }

    /// Every stack can be used from end to end, and not below; memory goes back, guards stay.
    fn stacks_and_guards(guards: Guards, guard: usize) {
        let mut slabs = Slabs::new(size(), guard, guards);
        let stacks: Vec<_> = (0..STACKS + 3).map(|_| slabs.take().unwrap()).collect();
        for stack in &stacks {
            assert_eq!(stack.touched(), 0);
            fill(stack, 7);
            assert_eq!(stack.touched(), size());
        }
        let pages = |stack: &Stack| stack.guard().step_by(page());
        let unusable = |stack: &Stack| pages(stack).all(|at| !write(at) && !write(at + page() - 1));
        assert!(stacks.iter().all(unusable));
        // All but some of the first slab.
        let (kept, given) = stacks.split_at(2);
        slabs.give_back(given.to_vec());
        assert_eq!(slabs.mapped(), STACKS * (size() + guard));
        assert!(given[..STACKS - 2].iter().all(|stack| stack.touched() == 0));
        assert!(kept.iter().all(|stack| stack.touched() == size()));
        assert!(given[..STACKS - 2].iter().chain(kept).all(unusable));
        let again = slabs.take().unwrap();
        assert_eq!(again.bottom, given[0].bottom);
        slabs.give_back([kept, &[again]].concat());
        assert_eq!(slabs.mapped(), 0);
    }

    #[test]
    fn guards_of_markers_and_of_pages_stay_while_memory_goes() {
        for guard in [page(), 16 * page()] {
            stacks_and_guards(Guards::Markers, guard);
            stacks_and_guards(Guards::Pages, guard);
        }
    }

    #[test]
    fn the_high_water_mark_is_the_deepest_page() {
        let mut slabs = Slabs::new(8 << 20, page(), Guards::Markers);
        let stack = slabs.take().unwrap();
        for depth in [1, 5000, 3 << 20, 8 << 20] {
            // SAFETY: a byte of a stack that only this test has.
            unsafe { ((stack.whole().end - depth) as *mut u8).write(1) };
            assert_eq!(stack.touched(), depth.next_multiple_of(page()));
        }
        slabs.give_back(vec![stack]);
    }

    #[test]
    fn near_the_limit_of_mappings_the_error_says_what_to_do() {
        let mut slabs = Slabs::new(size(), page(), Guards::Pages);
        let mut stacks = Vec::new();
        let error = loop {
            match slabs.take() {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
            assert!(stacks.len() < 10_000_000, "this kernel has no limit");
        };
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        // The process goes on, and so do the stacks that are there.
        drop(vec![0u8; 64 << 20]);
        fill(&stacks[stacks.len() - 1], 1);
        slabs.give_back(stacks.split_off(1));
        stacks.push(slabs.take().unwrap());
        slabs.give_back(stacks);
        assert_eq!(slabs.mapped(), 0);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let error = Slabs::new(1 << 60, page(), Guards::Markers).take().unwrap_err();
        assert!(error.to_string().contains("ulimit -v"), "{error}");
    }
}
