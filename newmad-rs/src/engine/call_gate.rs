//! The gate of code that is called inside the program's own calls only, one at a time: operators of a program in C that
//! has not asked for concurrent calls ([`Operator::in_calls`](crate::coll::Operator::in_calls)).
//!
//! ```text
//!          begin ─▶ running ─▶ drop of the Turn: the next deferred work, or the thread that leaves
//!            │ no call waits, or other code runs
//!            ▼
//!        deferred ─▶ resumed by: the next call that waits (`open`) or looks (`look`); the end of a Turn
//! ```
//!
//! - While a call of the program *waits*, the gate is open: any thread that finds work may run it, since the program's
//!   thread does nothing else. The call that leaves last waits for the code that runs.
//! - A call that *looks* resumes deferred work itself, and opens the gate for no other thread: the call may hold locks
//!   that the code takes again in the same thread. Nor does it open the gates of other ranks of the process, whose work its
//!   messages may end.
//! - Threads of the library wait, too, while the program may be in no call: those [stand aside](stand_aside), and open no gate.
//!
//! A gate is a rank's. Sessions that are opened beside its first one ([`Builder::beside`](crate::Builder::beside)) share that
//! one's: what a call waits for in one of them may come only after the code of another.
//!
//! Invariant: no code runs while no call is inside, and at most one runs. Sections under `state` hand the memory from
//! one thread to the next.
//!
//! Rejected: to wake the thread that waits and to have it run the code. Each kind of wait would need a second reason to
//! wake. To count every call as inside: a call that waits for nothing would wait for the code, with its locks held.

use std::cell::Cell;
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use marcel::plumbing::KernelMutex;
use pioman::{Completion, Hint, Manager};

/// Work that came to code that may not run yet.
pub(crate) trait Deferred: Send + Sync {
    /// Goes on with it, or defers it again.
    fn resume(self: Arc<Self>);

    /// Whose it is: the address of its session's engine, which is compared only.
    fn owner(&self) -> usize;
}

/// See the module.
#[derive(Default)]
pub(crate) struct CallGate {
    /// Users under way: while there are none, calls do nothing here. A program's thread that starts a user sees it.
    users: AtomicUsize,
    state: KernelMutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that wait.
    open: usize,
    running: bool,
    deferred: Vec<Arc<dyn Deferred>>,
    /// The call that leaves last, while it waits for the code that runs.
    leaving: Vec<Arc<Completion>>,
}

std::thread_local! {
    /// The gate of the call that looks in which this thread is; compared only.
    static LOOKS: Cell<*const CallGate> = const { Cell::new(null()) };
}

marcel::thread_local! {
    /// The thread is none of the program's.
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// No wait of the calling thread opens a gate from now on.
pub(crate) fn stand_aside() {
    ASIDE.set(true);
}

/// A thread so near to its end that it has no values any more is the program's.
fn is_aside() -> bool {
    ASIDE.try_with(Cell::get).unwrap_or(false)
}

impl State {
    /// What was deferred, if the calling thread may go on with it: a call waits, or the thread looks at this gate.
    fn resumable(&mut self, looks: bool) -> Vec<Arc<dyn Deferred>> {
        match self.open > 0 || looks {
            true => std::mem::take(&mut self.deferred),
            false => Vec::new(),
        }
    }
}

fn is_same<W>(one: &Arc<dyn Deferred>, other: &Arc<W>) -> bool {
    Arc::as_ptr(one).cast::<()>() == Arc::as_ptr(other).cast()
}

/// Resumes all, also when the code of one waits and the thread is unwound there.
fn resume(deferred: Vec<Arc<dyn Deferred>>) {
    let mut rest = Rest(deferred.into_iter());
    rest.0.by_ref().for_each(Deferred::resume);
}

/// Work that is resumed when this is dropped.
struct Rest(std::vec::IntoIter<Arc<dyn Deferred>>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.by_ref().for_each(Deferred::resume);
    }
}

impl CallGate {
    /// Whether this thread is inside a call that looks at this gate.
    fn is_looked_at(&self) -> bool {
        std::ptr::eq(LOOKS.get(), self)
    }

    /// A user begins: calls count from now on.
    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Relaxed);
    }

    /// A user is over: nothing of it stays deferred.
    pub(crate) fn remove_user<W: Deferred + 'static>(&self, work: &Arc<W>) {
        self.users.fetch_sub(1, Relaxed);
        let mut state = self.state.lock();
        state.deferred.retain(|other| !is_same(other, work));
    }

    /// A call waits while this is there. `None`: nothing uses the gate, or the thread stands aside.
    #[inline]
    pub(crate) fn open<'a>(&'a self, manager: &'a Manager) -> Option<OpenGate<'a>> {
        (self.users.load(Relaxed) > 0 && !is_aside()).then(|| self.open_for(manager))
    }

    #[cold]
    fn open_for<'a>(&'a self, manager: &'a Manager) -> OpenGate<'a> {
        let deferred = {
            let mut state = self.state.lock();
            state.open += 1;
            state.resumable(self.is_looked_at())
        };
        let open = OpenGate { gate: self, manager };
        resume(deferred);
        open
    }

    /// A call looks, without waiting: it resumes what was deferred. Whether there was something.
    #[inline]
    pub(crate) fn look(&self) -> bool {
        self.users.load(Relaxed) > 0 && self.look_now()
    }

    #[cold]
    fn look_now(&self) -> bool {
        let _looks = Looks(LOOKS.replace(self));
        let deferred = self.state.lock().resumable(true);
        let any = !deferred.is_empty();
        resume(deferred);
        any
    }

    /// The caller may run its code now, until the turn is dropped. `None`: `work` is resumed when it may.
    pub(crate) fn begin<W: Deferred + 'static>(&self, work: &Arc<W>) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        if !state.running && (state.open > 0 || self.is_looked_at()) {
            state.running = true;
            return Some(Turn(self));
        }
        if !state.deferred.iter().any(|other| is_same(other, work)) {
            state.deferred.push(work.clone());
        }
        None
    }

    /// Forgets what is deferred and `owner`'s: its session has closed.
    pub(crate) fn clear(&self, owner: usize) {
        let mut gone = Vec::new(); // dropped without the lock
        let deferred = &mut self.state.lock().deferred;
        gone.extend(deferred.extract_if(.., |work| work.owner() == owner));
    }
}

/// Restores the mark of a thread that looks: the gate that it looked at before.
struct Looks(*const CallGate);

impl Drop for Looks {
    fn drop(&mut self) {
        LOOKS.set(self.0);
    }
}

/// A call that waits; see [`CallGate::open`].
pub(crate) struct OpenGate<'a> {
    gate: &'a CallGate,
    manager: &'a Manager,
}

impl Drop for OpenGate<'_> {
    fn drop(&mut self) {
        let ended = {
            let mut state = self.gate.state.lock();
            state.open -= 1;
            // Code that makes a call, in a call that looks, does not wait for itself.
            (state.open == 0 && state.running && !self.gate.is_looked_at()).then(|| {
                let ended = Arc::new(Completion::new());
                state.leaving.push(ended.clone());
                ended
            })
        };
        if let Some(ended) = ended {
            self.manager.wait(&ended, Hint::Short);
        }
    }
}

/// Code runs; see [`CallGate::begin`].
pub(crate) struct Turn<'a>(&'a CallGate);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let (leaving, deferred) = {
            let mut state = self.0.state.lock();
            state.running = false;
            (std::mem::take(&mut state.leaving), state.resumable(self.0.is_looked_at()))
        };
        leaving.iter().for_each(|ended| ended.complete());
        resume(deferred);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Work whose code counts without atomics what it must not do twice at a time.
    struct Work {
        owner: usize,
        gate: Arc<CallGate>,
        /// Code of any work of the gate runs.
        inside: Arc<AtomicBool>,
        done: AtomicUsize,
    }

    impl Deferred for Work {
        fn owner(&self) -> usize {
            self.owner
        }

        fn resume(self: Arc<Self>) {
            let Some(_turn) = self.gate.begin(&self) else { return };
            assert!(!self.inside.swap(true, Relaxed));
            self.done.store(self.done.load(Relaxed) + 1, Relaxed);
            self.inside.store(false, Relaxed);
        }
    }

    fn works<const N: usize>(gate: &Arc<CallGate>) -> [Arc<Work>; N] {
        let inside = Arc::new(AtomicBool::new(false));
        std::array::from_fn(|owner| {
            let done = AtomicUsize::new(0);
            Arc::new(Work { owner, gate: gate.clone(), inside: inside.clone(), done })
        })
    }

    #[test]
    fn code_runs_while_a_call_waits_and_is_deferred_to_the_next_call_otherwise() {
        let manager = Manager::builder().build().unwrap();
        let gate = Arc::new(CallGate::default());
        gate.add_user();
        let [work] = works(&gate);
        let done = |work: &Work| work.done.load(Relaxed);
        work.clone().resume();
        work.clone().resume();
        assert_eq!(done(&work), 0);
        let open = gate.open(&manager);
        assert_eq!(done(&work), 1);
        work.clone().resume();
        assert_eq!(done(&work), 2);
        drop(open);
        work.clone().resume();
        assert_eq!(done(&work), 2);
        assert!(gate.look() && !gate.look());
        assert_eq!(done(&work), 3);
        work.clone().resume();
        gate.remove_user(&work);
        assert!(gate.open(&manager).is_none());
        assert_eq!(Arc::strong_count(&work), 1, "it is still deferred");
    }

    /// Ranks of a process have a gate each. Where one rank's code goes on, it may end what another waits for.
    #[test]
    fn a_call_that_looks_runs_no_code_of_another_gate() {
        struct Ends(Arc<Work>, Arc<Work>);
        impl Deferred for Ends {
            fn owner(&self) -> usize {
                0
            }

            fn resume(self: Arc<Self>) {
                self.0.clone().resume();
                self.1.clone().resume();
            }
        }
        let manager = Manager::builder().build().unwrap();
        let gates = [(); 2].map(|()| Arc::new(CallGate::default()));
        gates.iter().for_each(|gate| gate.add_user());
        let [[own], [other]] = [works(&gates[0]), works(&gates[1])];
        let done = || [own.done.load(Relaxed), other.done.load(Relaxed)];
        gates[0].state.lock().deferred.push(Arc::new(Ends(own.clone(), other.clone())));
        assert!(gates[0].look());
        assert_eq!(done(), [1, 0]);
        // It was deferred, and goes on when its own rank calls.
        drop(gates[1].open(&manager));
        assert_eq!(done(), [1, 1]);
    }

    #[test]
    fn a_thread_that_stands_aside_opens_no_gate() {
        let manager = Manager::builder().build().unwrap();
        let gate = Arc::new(CallGate::default());
        gate.add_user();
        let [work] = works(&gate);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stand_aside();
                let _open = gate.open(&manager);
                work.clone().resume();
            });
        });
        assert_eq!(work.done.load(Relaxed), 0);
        assert!(gate.open(&manager).is_some());
        assert_eq!(work.done.load(Relaxed), 1);
    }

    #[test]
    fn sessions_of_a_rank_share_its_gate_and_one_that_closes_leaves_the_others_work() {
        let gate = Arc::new(CallGate::default());
        gate.add_user();
        let [stays, goes] = works(&gate);
        stays.clone().resume();
        goes.clone().resume();
        gate.clear(1);
        assert_eq!(Arc::strong_count(&goes), 1, "it is still deferred");
        assert!(gate.look());
        assert_eq!([stays.done.load(Relaxed), goes.done.load(Relaxed)], [1, 0]);
    }

    #[test]
    fn a_call_leaves_after_the_code_that_runs_and_its_end_resumes_what_came_meanwhile() {
        let manager = Manager::builder().build().unwrap();
        let gate = Arc::new(CallGate::default());
        gate.add_user();
        let [runs, other] = works(&gate);
        let open = gate.open(&manager);
        let turn = gate.begin(&runs).unwrap();
        other.clone().resume();
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (left, gate) = (&left, &gate);
            scope.spawn(move || {
                drop(open);
                left.store(true, Relaxed);
            });
            while gate.state.lock().leaving.is_empty() {
                std::thread::yield_now();
            }
            assert!(!left.load(Relaxed));
            drop(turn);
        });
        assert!(left.load(Relaxed));
        assert_eq!(other.done.load(Relaxed), 0);
        assert!(gate.look());
        assert_eq!(other.done.load(Relaxed), 1);
    }

    #[test]
    fn code_of_many_threads_runs_one_at_a_time_and_none_is_lost() {
        let manager = Manager::builder().build().unwrap();
        let gate = Arc::new(CallGate::default());
        gate.add_user();
        let works: [_; 4] = works(&gate);
        let running = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let (gate, running, manager) = (&gate, &running, &manager);
            let spawn = |work: &Arc<Work>| {
                let work = work.clone();
                scope.spawn(move || (0..1000).for_each(|_| work.clone().resume()))
            };
            let workers: Vec<_> = works.iter().map(spawn).collect();
            scope.spawn(move || {
                while running.load(Relaxed) {
                    drop(gate.open(manager));
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            running.store(false, Relaxed);
        });
        gate.look();
        assert!(gate.state.lock().deferred.is_empty());
        assert!(works.iter().all(|work| work.done.load(Relaxed) > 0));
    }
}
