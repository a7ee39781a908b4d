//! The memory that a process shows to the other members: which addresses their messages may name.

use std::collections::BTreeMap;

use marcel::plumbing::KernelMutex;

use super::layout::Run;
use crate::abi::*;
use crate::error::Fault;

/// See the module.
pub(super) enum Exposed {
    /// From that address on so many bytes.
    Fixed(usize, usize),
    /// Attached memory: addresses and lengths. Of no bytes: addresses.
    Attached(KernelMutex<(BTreeMap<usize, usize>, Vec<usize>)>),
}

impl Exposed {
    /// Shows memory.
    ///
    /// # Errors
    /// The window has its memory, or some of this is attached already.
    pub(super) fn attach(&self, at: usize, len: usize) -> Result<(), Fault> {
        let Exposed::Attached(all) = self else { return Err(fixed()) };
        let (all, empty) = &mut *all.lock();
        if len == 0 {
            empty.push(at);
            return Ok(());
        }
        let end = at.checked_add(len);
        let before = all.range(..end.unwrap_or(usize::MAX)).next_back();
        let overlaps = before.is_some_and(|(&other, &length)| other + length > at);
        if end.is_none() || overlaps {
            let why = "the memory, or a part of it, is attached already, or does not exist";
            return Err(Fault::handle(MPI_ERR_RMA_ATTACH, "base", at, why));
        }
        all.insert(at, len);
        Ok(())
    }

    /// Takes memory back.
    ///
    /// # Errors
    /// It was not attached.
    pub(super) fn detach(&self, at: usize) -> Result<(), Fault> {
        let Exposed::Attached(all) = self else { return Err(fixed()) };
        let (all, empty) = &mut *all.lock();
        if all.remove(&at).is_some() {
            return Ok(());
        }
        match empty.iter().position(|&other| other == at) {
            Some(found) => {
                empty.swap_remove(found);
                Ok(())
            }
            None => {
                let why = "no memory that was attached begins there";
                Err(Fault::handle(MPI_ERR_RMA_ATTACH, "base", at, why))
            }
        }
    }

    /// Whether all of the runs are shown.
    pub(super) fn has(&self, runs: &[Run]) -> bool {
        match self {
            Exposed::Fixed(at, len) => runs.iter().all(|&run| inside(run, *at, *len)),
            Exposed::Attached(all) => {
                let (all, _) = &*all.lock();
                let has = |low, high| attached(all, low, high);
                // A run may have its bytes in several pieces of memory, with a gap between them.
                let in_pieces = |run: Run| {
                    run.each().all(|(at, len)| at.checked_add(len).is_some_and(|end| has(at, end)))
                };
                runs.iter().all(|&run| {
                    bounds(run).is_some_and(|(low, high)| has(low, high) || in_pieces(run))
                })
            }
        }
    }
}

fn fixed() -> Fault {
    Fault::new(MPI_ERR_RMA_FLAVOR, "memory is attached to windows of MPI_Win_create_dynamic only")
}

/// The first byte, and the one after the last.
fn bounds(run: Run) -> Option<(usize, usize)> {
    if run.count == 0 || run.len == 0 {
        return Some((run.at, run.at));
    }
    let last = isize::try_from(run.count - 1).ok()?.checked_mul(run.stride)?;
    let last = run.at.checked_add_signed(last)?;
    Some((run.at.min(last), run.at.max(last).checked_add(run.len)?))
}

/// Whether all bytes between two addresses are attached, perhaps in several pieces.
fn attached(all: &BTreeMap<usize, usize>, mut low: usize, high: usize) -> bool {
    while low < high {
        match all.range(..=low).next_back() {
            Some((&at, &len)) if at + len > low => low = at + len,
            _ => return false,
        }
    }
    true
}

fn inside(run: Run, at: usize, len: usize) -> bool {
    bounds(run).is_some_and(|(low, high)| low >= at && high <= at.saturating_add(len))
}

/// Memory that the library has allocated for a window, zeroed.
pub(super) struct Allocated {
    at: usize,
    bytes: usize,
}

impl Allocated {
    /// # Errors
    /// There is no memory.
    pub(super) fn new(bytes: usize) -> Result<Allocated, Fault> {
        let bytes = bytes.max(1);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match at == libc::MAP_FAILED {
            true => Err(Fault::new(MPI_ERR_NO_MEM, "no memory for the window")),
            false => Ok(Allocated { at: at.expose_provenance(), bytes }),
        }
    }

    pub(super) fn address(&self) -> usize {
        self.at
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: this mapping's own; the window that uses it is gone.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.at), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_attached_is_shown_until_it_is_detached() {
        let memory = Exposed::Attached(KernelMutex::default());
        assert!(memory.attach(1000, 100).is_ok() && memory.attach(1100, 50).is_ok());
        for (at, len) in [(1000, 1), (1099, 2), (950, 60), (1149, 1), (900, 1000)] {
            assert!(memory.attach(at, len).is_err());
        }
        let strided = |stride| [Run { at: 1010, stride, count: 4, len: 10 }];
        assert!(memory.has(&strided(20)) && memory.has(&strided(-3)) && !memory.has(&strided(50)));
        assert!(!memory.has(&strided(-4)) && !memory.has(&[Run::whole(usize::MAX, 2)]));
        let far = |at, stride| [Run { at, stride, count: 2, len: 10 }];
        assert!(memory.attach(5000, 10).is_ok() && memory.attach(5005, 0).is_ok());
        assert!(memory.has(&far(1140, 3860)) && !memory.has(&far(1141, 3860)));
        assert!(memory.has(&far(5000, -3860)) && memory.has(&[Run::whole(5006, 4)]));
        assert!(memory.detach(1001).is_err() && memory.detach(1000).is_ok());
        assert!(!memory.has(&strided(20)) && memory.has(&[Run::whole(1120, 30)]));
        assert!(Exposed::Fixed(1000, 100).has(&strided(20)));
        assert!(Exposed::Fixed(1000, 100).attach(1, 1).is_err());
    }
}
