//! Orphans: requests that the program has freed before their end. They go on. Polls end those that are over. So does
//! each new orphan that doubles their number, since a program that only waits never polls.

use std::sync::atomic::{AtomicUsize, Ordering};

use marcel::plumbing::KernelMutex;

use super::table;
use super::take::{Taken, take_from};
use crate::abi::*;
use crate::per_rank::per_rank;

/// As many orphans as the list may have before it is first searched for those that are over.
const FEW: usize = 64;

struct Orphans {
    all: Vec<MPI_Request>,
    /// The number of orphans at which the list is searched next.
    reap_at: usize,
}

per_rank! {
    static ORPHANS: KernelMutex<Orphans> =
        KernelMutex::new(Orphans { all: Vec::new(), reap_at: FEW });
    /// The number of orphans.
    pub(super) static COUNT: AtomicUsize = AtomicUsize::new(0);
}

/// Adds a request that the program has freed.
pub(super) fn add(request: MPI_Request) {
    let mut orphans = ORPHANS.lock();
    orphans.all.push(request);
    COUNT.store(orphans.all.len(), Ordering::Relaxed);
    if orphans.all.len() >= orphans.reap_at {
        drop(orphans);
        reap();
    }
}

/// Ends those that are over.
#[cold]
pub(super) fn reap() {
    // The lock holder does it for all.
    let Some(mut orphans) = ORPHANS.try_lock() else { return };
    let all = std::mem::take(&mut orphans.all);
    drop(orphans); // ending one may call the program, which may free others
    let pending = |&request: &MPI_Request| {
        // `generalized::complete` ends an orphan that stays in the list: its handle may stand for a live request again.
        let found = table::find(request).filter(|slot| slot.freed);
        matches!(found.map(|slot| take_from(slot, &mut { request })), Some(Ok(Taken::Pending)))
    };
    let pending: Vec<MPI_Request> = all.into_iter().filter(pending).collect();
    let mut orphans = ORPHANS.lock();
    orphans.all.extend(pending);
    orphans.reap_at = FEW.max(2 * orphans.all.len());
    COUNT.store(orphans.all.len(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use newmad::raw::Awaited;

    use super::*;
    use crate::request::outcome::Outcome;
    use crate::request::state::Work;
    use crate::request::{Operation, free, new_operation};

    /// An operation that is over once the flag is set.
    struct Flagged(Arc<AtomicBool>);

    impl Operation for Flagged {
        fn awaited(&self) -> Option<Awaited<'_>> {
            (!self.0.load(Ordering::Relaxed)).then_some(Awaited::OVER)
        }

        fn outcome(&self) -> Outcome {
            Outcome::EMPTY
        }
    }

    /// Makes a request, and frees it before its end.
    fn orphan() -> (MPI_Request, Arc<AtomicBool>) {
        let over = Arc::new(AtomicBool::new(false));
        let request = new_operation(Arc::new(Flagged(over.clone()))).ok().unwrap();
        assert!(free(request).ok().unwrap().is_none());
        (request, over)
    }

    /// The other test's orphans would be counted, or ended, by this one.
    static ALONE: KernelMutex<()> = KernelMutex::new(());

    #[test]
    fn orphans_end_without_a_poll() {
        let _alone = ALONE.lock();
        for _ in 0..10_000 {
            orphan().1.store(true, Ordering::Relaxed);
            assert!(COUNT.load(Ordering::Relaxed) < 1000, "orphans pile up");
        }
        reap();
    }

    #[test]
    fn an_orphan_that_was_ended_elsewhere_leaves_a_live_request_with_its_handle_alone() {
        let _alone = ALONE.lock();
        let (handle, over) = orphan();
        over.store(true, Ordering::Relaxed);
        let slot = table::find(handle).unwrap();
        assert!(matches!(take_from(slot, &mut { handle }), Ok(Taken::Over(_)))); // as `complete` does
        let live = loop {
            let mut slot = table::new().ok().unwrap();
            slot.work = Work::Over(Outcome::SENT);
            if slot.handle() == handle {
                break handle; // the generations have come round
            }
            slot.free();
        };
        reap();
        table::find(live).expect("the live request is still there").free();
    }
}
