//! Stands for `park` when a model is checked: every thread is a kernel thread.

use std::time::Instant;

use crate::tcb::block::Tcb;

loom::thread_local! {
    static CURRENT: &'static Tcb = Box::leak(Box::default());
}

pub(crate) fn current() -> &'static Tcb {
    CURRENT.with(|tcb| *tcb)
}

pub(crate) fn unpark(tcb: &Tcb) {
    tcb.park.notify();
    tcb.sleeper.notify();
}

pub(crate) fn park(reason: &'static str) {
    park_as(current(), reason);
}

pub(crate) fn park_as(tcb: &'static Tcb, _: &'static str) {
    wait_for_token(tcb, None);
}

pub(crate) fn park_until(_: &'static str, deadline: Option<Instant>) {
    wait_for_token(current(), deadline);
}

fn wait_for_token(tcb: &'static Tcb, deadline: Option<Instant>) {
    if !tcb.park.take_token() {
        tcb.sleeper.sleep(deadline, || false);
        tcb.park.take_token();
    }
}

/// No runtime stops in a model.
pub(crate) fn is_stopping() -> bool {
    false
}
