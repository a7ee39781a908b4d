//! Stands for `block` when a model is checked: control blocks of kernel threads only, which need no switch. The words
//! are the real ones.

use crate::list::Chained;
use crate::os::AtomicPtr;
use crate::os::sleeper::Sleeper;
use crate::tcb::interrupt_flag::InterruptFlag;
use crate::tcb::park_word::ParkWord;

/// Control block of one thread; immortal.
#[derive(Default)]
pub(crate) struct Tcb {
    pub(crate) park: ParkWord,
    pub(crate) interrupt: InterruptFlag,
    next: AtomicPtr<Tcb>,
    pub(crate) sleeper: Sleeper,
}

// SAFETY: a field that nothing else touches.
unsafe impl Chained for Tcb {
    fn next(&self) -> &AtomicPtr<Tcb> {
        &self.next
    }
}
