//! The memory that a rank exposes to the other ranks of its process while they copy from or to it.
//!
//! Invariant: once the memory is withdrawn the count of copies only falls, and the copier that makes it zero rings the
//! owner. Rejected: a copier that counts itself first and then looks whether the memory is withdrawn. The owner may
//! take it for a copy and sleep, and it rings for no copy.

use crate::sync::{AtomicU32, Ordering};

/// The memory that the requests of a rank expose to the other ranks of its process.
pub(crate) struct Loan(AtomicU32);

/// Bit: the memory is withdrawn. Below: how many copies are going on.
const WITHDRAWN: u32 = 1 << 31;

impl Loan {
    pub(crate) fn new() -> Loan {
        Loan(AtomicU32::new(0))
    }

    /// Before a copy from or to it. False: it is withdrawn, and may have another owner.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let count = |before| (before & WITHDRAWN == 0).then_some(before + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, count).is_ok()
    }

    /// After the copy. True: the owner waits for this, and the caller wakes it.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & WITHDRAWN != 0
    }

    /// From now on no copy begins. Says whether this is the first call, and whether no copy is going on.
    pub(crate) fn withdraw(&self) -> (bool, bool) {
        let before = self.0.fetch_or(WITHDRAWN, Ordering::AcqRel);
        (before & WITHDRAWN == 0, before & !WITHDRAWN == 0)
    }

    /// Whether its rank has ended, or is about to end: nothing more comes from there.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) & WITHDRAWN != 0
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::Arc;
    use loom::sync::Notify;
    use loom::thread;

    /// An owner that sleeps until no copy goes on is woken, although ranks try to copy from withdrawn memory.
    #[test]
    fn an_owner_that_waits_for_copies_is_rung() {
        loom::model(|| {
            let (loan, bell) = (Arc::new(Loan::new()), Arc::new(Notify::new()));
            let leave = |loan: &Loan, bell: &Notify| {
                assert!(!loan.is_back());
                if loan.leave() {
                    bell.notify();
                }
            };
            // One copy goes on, another rank is about to begin one.
            assert!(loan.enter());
            let copiers = [true, false].map(|inside| {
                let (loan, bell) = (loan.clone(), bell.clone());
                thread::spawn(move || {
                    if inside || loan.enter() {
                        leave(&loan, &bell);
                    }
                })
            });
            while !loan.withdraw().1 {
                bell.wait();
            }
            assert!(!loan.enter(), "a copy begins after the end");
            copiers.into_iter().for_each(|copier| copier.join().unwrap());
        });
    }

    impl Loan {
        /// The owner has the memory back.
        fn is_back(&self) -> bool {
            self.0.load(Ordering::Acquire) == WITHDRAWN
        }
    }
}
