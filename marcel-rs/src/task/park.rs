//! Parking the calling thread, and the calling thread's block.
//!
//! The protocol of park and unpark: `tcb::park_word`.

use std::sync::atomic::Ordering::*;
use std::time::Instant;

use crate::recorder::event;
use crate::sched::here;
use crate::sched::worker;
pub(crate) use crate::sched::worker::unpark;
use crate::stack::Switch;
use crate::task::budget;
use crate::tcb::block::Tcb;

/// The calling thread's block; a kernel thread gets one at its first call.
#[inline]
pub(crate) fn current() -> &'static Tcb {
    here::tcb().unwrap_or_else(kernel_thread)
}

/// Gives the block back when a kernel thread ends.
struct KernelThread(&'static Tcb);

impl Drop for KernelThread {
    fn drop(&mut self) {
        self.0.own.locals.finish();
        here::set_tcb(None);
        // The block may be a green thread's next, which has no use for the eventfd.
        self.0.sleeper.retire();
        self.0.recycle(None);
    }
}

#[cold]
fn kernel_thread() -> &'static Tcb {
    thread_local! {
        static OWN: KernelThread = KernelThread(Tcb::allocate(None));
    }
    // While the kernel thread's destructors run there is no slot to give the block back from: it is leaked.
    let tcb = OWN.try_with(|own| own.0).unwrap_or_else(|_| {
        let tcb = Tcb::allocate(None);
        tcb.own.locals.close();
        tcb
    });
    tcb.info.kernel_thread();
    // Between two threads a virtual processor is asked again: `here` says which thread it runs.
    if worker::current().is_none() {
        here::set_tcb(Some(tcb));
    }
    tcb
}

/// Blocks until a token is available, and takes it. May return early: callers wait in a loop.
pub(crate) fn park(reason: &'static str) {
    park_as(current(), reason);
}

/// As [`park`], by the thread that `tcb` is. Apart from [`park_until`], so that it keeps nothing of a deadline across the
/// switch.
pub(crate) fn park_as(tcb: &'static Tcb, reason: &'static str) {
    wait_for_token(tcb, reason, None);
}

/// As [`park`], and returns at `deadline` at the latest.
pub(crate) fn park_until(reason: &'static str, deadline: Option<Instant>) {
    wait_for_token(current(), reason, deadline);
}

/// As [`park_until`], for an unpark by the program, which the thread's other waits leave to this one.
pub(crate) fn park_for_unpark(reason: &'static str, deadline: Option<Instant>) {
    let tcb = current();
    if tcb.unparked.take_token() {
        tcb.park.take_token();
        return budget::spend_of(tcb);
    }
    wait_for_token(tcb, reason, deadline);
    tcb.unparked.take_token();
}

#[inline(always)]
fn wait_for_token(tcb: &'static Tcb, reason: &'static str, deadline: Option<Instant>) {
    if tcb.park.take_token() {
        return budget::spend_of(tcb);
    }
    event!("park", thread = tcb.info.number(), reason = reason);
    // SAFETY: `tcb` is the calling thread.
    match unsafe { worker::here_of(tcb) } {
        Some(worker) => {
            tcb.info.waits(reason);
            if tcb.own.unwinding.get() {
                tcb.give_way();
                return;
            }
            if let Some(deadline) = deadline {
                worker.add_timer(deadline, tcb);
            }
            // SAFETY: `tcb` is the calling thread.
            unsafe { tcb.switch(Switch::Park) };
            tcb.wait.store(tcb.wait.load(Relaxed) + 1, Relaxed);
            tcb.park.take_token();
            if deadline.is_some_and(|deadline| Instant::now() < deadline) {
                worker.forget_timer();
            }
        }
        None if tcb.own.unwinding.get() => tcb.give_way(), // it got no stack
        None => {
            let waiting = tcb.info.kernel_waits(reason);
            tcb.sleeper.sleep(deadline, || false);
            drop(waiting);
            tcb.park.take_token();
        }
    }
}

/// Whether the caller's stack is being unwound because its runtime stops: it can wait for nothing any more.
#[inline(never)]
pub fn is_stopping() -> bool {
    here::tcb().is_some_and(|tcb| tcb.own.unwinding.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_kernel_thread_parks_and_is_unparked() {
        let (tx, rx) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            tx.send(current() as *const Tcb as usize).unwrap();
            park("a test");
        });
        let tcb = rx.recv().unwrap() as *const Tcb;
        std::thread::sleep(Duration::from_millis(5));
        // SAFETY: blocks are immortal.
        unpark(unsafe { &*tcb });
        waiter.join().unwrap();
    }

    #[test]
    fn a_timed_park_returns() {
        let start = Instant::now();
        park_until("a test", Some(start + Duration::from_millis(20)));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
