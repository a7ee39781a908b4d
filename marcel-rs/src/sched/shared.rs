//! What the virtual processors of a runtime share.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::os::KernelMutex;
use crossbeam_deque::Injector;

use crate::lwp::blocking::Blocking;
use crate::sched::ending::Ending;
use crate::sched::here;
use crate::sched::idle::IdleSet;
use crate::sched::mode::Mode;
use crate::sched::policy::{Fair, Order, Policy};
use crate::sched::vp::{Kind, Vp};
use crate::stack::Modes;
use crate::stack::pool::ContextPool;
use crate::tcb::block::Tcb;
use crate::tcb::traits::Priority;
use crate::topology::Topology;

/// Where the reactive virtual processors of a group of processes meet while every core computes.
pub(crate) struct Meeting {
    /// Their core under load.
    pub(crate) core: usize,
    /// Those they may use otherwise.
    pub(crate) all: Vec<usize>,
}

/// Makes the policy of a virtual processor.
pub(crate) type PolicyOf = dyn Fn(Kind) -> Box<dyn Policy> + Send + Sync;

/// A queue of threads that never ran, which several virtual processors serve.
pub(crate) type Queue = Injector<&'static Tcb>;

/// See the module's description.
pub(crate) struct Shared {
    pub(crate) contexts: ContextPool,
    /// The floating-point modes with which threads begin: those of who has built the runtime.
    pub(crate) modes: Modes,
    pub(crate) period: Duration,
    /// Where reactive virtual processors stay under load.
    pub(crate) meeting: Option<Meeting>,
    /// Nice levels of compute virtual processors above the process's own.
    pub(crate) compute_nice: i32,
    /// Makes policies; the usual one if there is none.
    pub(crate) policy: Option<Arc<PolicyOf>>,
    /// Looks at each green thread that has just waited or yielded: suspended, and the caller's.
    pub(crate) check: Option<fn(&'static Tcb)>,
    pub(crate) stopping: AtomicBool,
    pub(crate) ending: Ending,
    pub(crate) blocking: Blocking,
    pub(crate) mode: Mode,
    pub(crate) topology: Topology,
    /// Threads bound to a node of the topology, by its index; a queue is made when it is first needed.
    pub(crate) bound: Vec<OnceLock<Queue>>,
    /// Some thread has been bound, or given a priority: the queues of such threads are worth a look.
    pub(crate) special: AtomicBool,
    /// Living threads, where they migrate; else each virtual processor keeps its own.
    pub(crate) migrants: Option<KernelMutex<Vec<&'static Tcb>>>,
    /// How long a virtual processor looks for work before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) groups: [Group; 2],
}

/// The virtual processors of one kind.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) vps: OnceLock<Vec<&'static Vp>>,
    /// By priority.
    injectors: [Queue; 3],
    idle: IdleSet,
    /// Standbys that sleep while a call is in progress on their original: its number.
    lent: IdleSet,
    busy: AtomicIsize,
    spinning: AtomicUsize,
}

impl Group {
    pub(crate) fn new(vps: usize) -> Group {
        Group { idle: IdleSet::new(vps), lent: IdleSet::new(vps), ..Group::default() }
    }
}

impl Shared {
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }

    /// Whether started threads may be taken by other virtual processors.
    #[inline]
    pub(crate) fn migrating(&self) -> bool {
        self.migrants.is_some()
    }

    /// The living threads that a virtual processor answers for: its `own`, or everyone's.
    #[inline]
    pub(crate) fn with_living<R>(
        &self,
        own: &mut Vec<&'static Tcb>,
        f: impl FnOnce(&mut Vec<&'static Tcb>) -> R,
    ) -> R {
        match &self.migrants {
            None => f(own),
            Some(all) => f(&mut all.lock()),
        }
    }

    #[inline]
    fn group(&self, kind: Kind) -> &Group {
        &self.groups[kind as usize]
    }

    #[inline]
    pub(crate) fn vps(&self, kind: Kind) -> &[&'static Vp] {
        self.group(kind).vps.get().map_or(&[], Vec::as_slice)
    }

    #[inline]
    pub(crate) fn injector(&self, kind: Kind, priority: Priority) -> &Queue {
        &self.group(kind).injectors[priority as usize]
    }

    /// Whether there may be threads in the queues of bound ones and of unusual priorities.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.special.load(Relaxed)
    }

    /// Queues of threads bound to one of these nodes of the topology.
    pub(crate) fn bound_to<'a>(
        &'a self,
        nodes: &'a [usize],
    ) -> impl Iterator<Item = (usize, &'a Queue)> {
        nodes.iter().filter_map(|&node| Some((node, self.bound[node].get()?)))
    }

    #[inline]
    pub(crate) fn idle(&self, kind: Kind) -> &IdleSet {
        &self.group(kind).idle
    }

    pub(crate) fn lent(&self, kind: Kind) -> &IdleSet {
        &self.group(kind).lent
    }

    pub(crate) fn count_busy(&self, kind: Kind, change: isize) {
        self.group(kind).busy.fetch_add(change, Relaxed);
    }

    /// How many virtual processors of `kind` run a thread.
    pub(crate) fn busy(&self, kind: Kind) -> usize {
        self.group(kind).busy.load(Relaxed).max(0) as usize
    }

    /// Whether every compute virtual processor is busy.
    pub(crate) fn is_loaded(&self) -> bool {
        let compute = self.vps(Kind::Compute).len();
        compute > 0 && self.busy(Kind::Compute) >= compute
    }

    /// How long the caller may look for work before it sleeps; then it calls [`Shared::end_spinning`].
    pub(crate) fn begin_spinning(&self, kind: Kind) -> Option<Duration> {
        let group = self.group(kind);
        if kind == Kind::Reactive || self.spin.is_zero() {
            return None;
        }
        // A worker that may not spin is never counted: publishers would rely on it.
        let most = self.vps(kind).len() / 2;
        let counted = |spinning| (spinning < most).then_some(spinning + 1);
        group.spinning.fetch_update(Relaxed, Relaxed, counted).ok().map(|_| self.spin)
    }

    /// Re-check the queues after this: publishers skipped a wake-up because this worker counted as spinning.
    pub(crate) fn end_spinning(&self, kind: Kind) {
        self.group(kind).spinning.fetch_sub(1, SeqCst);
        fence(SeqCst);
    }

    /// The kind of virtual processor that carries a thread: there is only one kind in mono mode.
    #[inline]
    pub(crate) fn kind_for(&self, reactive: bool) -> Kind {
        if reactive && self.mode == Mode::Smp { Kind::Reactive } else { Kind::Compute }
    }

    /// Makes a thread that never ran visible to the virtual processors that may run it: those of `kind`, or
    /// those to whose part of the machine it is bound.
    pub(crate) fn inject(&self, kind: Kind, tcb: &'static Tcb) {
        let traits = tcb.own.traits.get();
        let Some(node) = traits.bound else {
            if traits.priority != Priority::Normal {
                self.special.store(true, Relaxed);
            }
            self.injector(kind, traits.priority).push(tcb);
            self.wake_for_work(kind);
            return;
        };
        self.special.store(true, Relaxed);
        self.bound[node as usize].get_or_init(Injector::new).push(tcb);
        self.wake_for_bound(kind, node as usize);
    }

    /// A thread that is bound to a node of the topology is visible to its virtual processors: wakes one that sleeps, whether
    /// others spin or not, which may not see it.
    pub(crate) fn wake_for_bound(&self, kind: Kind, node: usize) {
        let among = |index: usize| self.vps(kind)[index].place.path.contains(&node);
        fence(SeqCst);
        self.wake_after_fence(kind, Some(&among));
    }

    /// A thread that never ran is visible to the virtual processors of `kind`: wakes one that sleeps, unless a
    /// worker spins, which finds it, or looks once more when it has stopped to (`rest`).
    #[inline]
    pub(crate) fn wake_for_work(&self, kind: Kind) {
        fence(SeqCst);
        if self.group(kind).spinning.load(Relaxed) == 0 {
            self.wake_after_fence(kind, None);
        }
    }

    /// Wakes one virtual processor of `kind` that sleeps, whatever others do; false if none does.
    pub(crate) fn wake_sleeper(&self, kind: Kind) -> bool {
        fence(SeqCst);
        self.wake_after_fence(kind, None)
    }

    /// As [`Shared::wake_sleeper`], a compute one on one of the cores that `wanted` accepts.
    pub(crate) fn wake_sleeper_on(&self, wanted: &dyn Fn(usize) -> bool) -> bool {
        let kind = Kind::Compute;
        let among = |index: usize| self.vps(kind)[index].place.core.is_some_and(wanted);
        fence(SeqCst);
        self.wake_after_fence(kind, Some(&among))
    }

    /// The caller's fence comes after what the woken one is to see.
    #[inline]
    fn wake_after_fence(&self, kind: Kind, among: Option<&dyn Fn(usize) -> bool>) -> bool {
        let group = self.group(kind);
        // The caller's own virtual processor may still be marked, but is awake.
        let own = here::vp().filter(|own| {
            let same = |vp: &&Vp| std::ptr::eq(*vp, *own);
            own.kind() == kind && self.vps(kind).get(own.index()).is_some_and(same)
        });
        let claimed = group.idle.claim_after_fence(own.map(Vp::index), among);
        let woken = match claimed {
            Some(index) => Some(self.vps(kind)[index]),
            None => {
                let lent = group.lent.claim_after_fence(None, among);
                lent.and_then(|index| self.vps(kind)[index].standby())
            }
        };
        if let Some(vp) = woken {
            vp.sleeper.notify();
        }
        woken.is_some()
    }

    /// Standbys included, as far as there are any.
    pub(crate) fn all_vps(&self) -> impl Iterator<Item = &'static Vp> + '_ {
        let vps = self.groups.iter().flat_map(|g| g.vps.get().map_or(&[][..], Vec::as_slice));
        vps.copied().flat_map(|vp| std::iter::once(vp).chain(vp.standby()))
    }

    /// A policy for a virtual processor.
    pub(crate) fn new_order(&self, kind: Kind) -> Order {
        match &self.policy {
            Some(policy) => Order::Other(policy(kind)),
            None => Order::Fair(Fair::new()),
        }
    }

    /// Whether no queue that several virtual processors serve holds a thread, of any kind.
    pub(crate) fn queues_are_empty(&self) -> bool {
        self.groups.iter().all(|group| group.injectors.iter().all(Queue::is_empty))
            && self.bound.iter().filter_map(OnceLock::get).all(Queue::is_empty)
    }

    /// Whether any queue that several virtual processors may look at holds a thread.
    pub(crate) fn has_work(&self) -> bool {
        !self.queues_are_empty() || self.all_vps().any(|vp| vp.has_mail() || !vp.stealer.is_empty())
    }
}
