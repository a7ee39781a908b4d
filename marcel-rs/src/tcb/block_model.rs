//! Stands for `tcb` when a model is checked: control blocks of kernel threads only, which need no switch. The
//! words are the real ones.

use std::time::Instant;

use crate::list::Chained;
use crate::os::AtomicPtr;
use crate::os::sleeper::Sleeper;
use crate::task::interrupt::Asked;
use crate::tcb::park_word::ParkWord;

/// Control block of one thread; immortal.
#[derive(Default)]
pub(crate) struct Tcb {
    park: ParkWord,
    pub(crate) asked: Asked,
    next: AtomicPtr<Tcb>,
    sleeper: Sleeper,
}

// SAFETY: a field that nothing else touches.
unsafe impl Chained for Tcb {
    fn next(&self) -> &AtomicPtr<Tcb> {
        &self.next
    }
}

impl Tcb {
    pub(crate) fn unpark(&self) {
        self.park.notify();
        self.sleeper.notify();
    }
}

loom::thread_local! {
    static CURRENT: &'static Tcb = Box::leak(Box::default());
}

pub(crate) fn current() -> &'static Tcb {
    CURRENT.with(|tcb| *tcb)
}

pub(crate) fn park(reason: &'static str) {
    park_until(reason, None);
}

pub(crate) fn park_until(_: &'static str, deadline: Option<Instant>) {
    let tcb = current();
    if !tcb.park.take_token() {
        tcb.sleeper.sleep(deadline, || false);
        tcb.park.take_token();
    }
}

/// No runtime stops in a model.
pub(crate) fn is_stopping() -> bool {
    false
}
