//! The policy of one virtual processor, as the scheduler calls it.

use std::sync::atomic::Ordering::Relaxed;

use super::fair::Fair;
use super::{Fresh, Policy, Ready, Source, Why};
use crate::sched::here;
use crate::sched::vp::Vp;
use crate::tcb::block::{self, Tcb};
use crate::tcb::traits::Priority;

/// The policy of one virtual processor; the usual one is called directly.
pub(crate) enum Order {
    Fair(Fair),
    Other(Box<dyn Policy>),
}

/// Calls a policy of the program's own, which may call anything: no code may take the core of the worker, which has the
/// policy, meanwhile.
fn fenced<R>(f: impl FnOnce() -> R) -> R {
    /// Takes the fence away, when the policy panics too.
    struct Fence(Option<(&'static Vp, bool)>);
    impl Drop for Fence {
        fn drop(&mut self) {
            if let Some((vp, before)) = self.0 {
                vp.fenced.store(before, Relaxed);
            }
        }
    }
    let _fence = Fence(here::vp().map(|vp| (vp, vp.fenced.swap(true, Relaxed))));
    f()
}

/// A policy of the program's own gets it.
fn kept(ready: Ready) -> Ready {
    let here = here::vp().map_or(std::ptr::null(), std::ptr::from_ref);
    ready.tcb().own.kept.store(here.cast_mut().cast(), Relaxed);
    ready
}

/// Threads that never ran, for a policy of the program's own.
struct Kept<'a>(&'a mut dyn Fresh);

impl Fresh for Kept<'_> {
    fn take(&mut self, priority: Priority, from: Source) -> Option<Ready> {
        self.0.take(priority, from).map(kept)
    }
}

/// What a policy of the program's own gives back.
fn returned(ready: Option<Ready>) -> Option<&'static Tcb> {
    let tcb = ready?.into_tcb();
    tcb.own.kept.store(std::ptr::null_mut(), Relaxed);
    Some(tcb)
}

/// [`Policy::put`] of the program's own. Apart, so that the usual policy's callers save no registers for it.
#[inline(never)]
fn put(policy: &mut dyn Policy, tcb: &'static Tcb, why: Why) {
    let ready = kept(Ready::new(tcb));
    fenced(|| policy.put(ready, why));
}

/// [`Policy::next`] of the program's own.
#[inline(never)]
fn next(policy: &mut dyn Policy, fresh: &mut dyn Fresh) -> Option<&'static Tcb> {
    returned(fenced(|| policy.next(&mut Kept(fresh))))
}

impl Default for Order {
    fn default() -> Order {
        Order::Fair(Fair::new())
    }
}

impl Order {
    #[inline]
    pub(crate) fn put(&mut self, tcb: &'static Tcb, why: Why) {
        match self {
            Order::Fair(fair) => fair.put(Ready::new(tcb), why),
            Order::Other(policy) => put(policy.as_mut(), tcb, why),
        }
    }

    #[inline(always)]
    pub(crate) fn next<F: Fresh>(&mut self, fresh: &mut F) -> Option<&'static Tcb> {
        match self {
            Order::Fair(fair) => fair.next(fresh).map(Ready::into_tcb),
            Order::Other(policy) => next(policy.as_mut(), fresh),
        }
    }

    pub(crate) fn take(&mut self, tcb: &'static Tcb) -> Option<&'static Tcb> {
        match self {
            Order::Fair(fair) => fair.take(tcb.id()).map(Ready::into_tcb),
            Order::Other(policy) => returned(fenced(|| policy.take(tcb.id()))),
        }
    }

    pub(crate) fn spare(&mut self, movable: fn(&Tcb) -> bool) -> Option<&'static Tcb> {
        let mut movable = |ready: &Ready| movable(ready.tcb());
        match self {
            Order::Fair(fair) => fair.spare(&mut movable).map(Ready::into_tcb),
            Order::Other(policy) => returned(fenced(|| policy.spare(&mut movable))),
        }
    }

    /// From here on it is the usual one, with all threads that the policy returns, and those that it has forgotten:
    /// they are marked as kept still.
    pub(crate) fn dismiss(&mut self) {
        struct NoFresh;
        impl Fresh for NoFresh {
            fn take(&mut self, _: Priority, _: Source) -> Option<Ready> {
                None
            }
        }
        if matches!(self, Order::Other(_)) {
            let mut dismissed = std::mem::take(self);
            while let Some(tcb) = dismissed.next(&mut NoFresh) {
                self.put(tcb, Why::Woken);
            }
            fenced(|| drop(dismissed));
            let Some(here) = here::vp() else { return };
            let forgotten = |tcb: &&Tcb| std::ptr::eq(tcb.own.kept.load(Relaxed).cast(), here);
            for tcb in block::all().filter(forgotten) {
                tcb.own.kept.store(std::ptr::null_mut(), Relaxed);
                self.put(tcb, Why::Woken);
            }
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Order::Fair(fair) => fair.len(),
            Order::Other(policy) => fenced(|| policy.len()),
        }
    }
}
