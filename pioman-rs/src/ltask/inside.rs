//! Which task a thread is in the middle of, so that a wait there is an error instead of a deadlock.
//!
//! A kernel thread knows the task that it has called last; the task knows its caller: a thread, or a virtual
//! processor between two threads. Both, because a task may (it should not) yield: then another green thread runs on the
//! same kernel thread, and is in no task.

use std::cell::Cell;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A task, as far as it is asked about its caller.
pub(crate) trait Callee: Sync {
    /// By which thread it is being called.
    fn called_by(&self) -> &CalledBy;
    /// Its name, for messages.
    fn task_name(&self) -> &str;
}

std::thread_local! {
    static LAST: Cell<Option<&'static dyn Callee>> = const { Cell::new(None) };
}

/// Not inlined: a green thread may have moved, and compilers keep the address of a thread-local.
#[inline(never)]
fn last() -> Option<&'static dyn Callee> {
    LAST.with(Cell::get)
}

#[inline(never)]
fn set_last(task: Option<&'static dyn Callee>) {
    LAST.with(|last| last.set(task));
}

/// The caller of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller(*mut ());

impl Caller {
    /// A virtual processor between two threads: no thread runs on its kernel thread meanwhile.
    pub(crate) const SCHEDULER: Caller = Caller(without_provenance_mut(1));

    /// The calling thread, green or kernel.
    pub(crate) fn thread() -> Caller {
        Caller(marcel::plumbing::into_raw(marcel::current()))
    }
}

/// Part of a task: its caller.
#[derive(Default)]
pub(crate) struct CalledBy(AtomicPtr<()>);

/// A task is being called, until this is dropped.
pub(crate) struct Inside {
    task: &'static dyn Callee,
    before: Option<&'static dyn Callee>,
}

impl Inside {
    pub(crate) fn enter(task: &'static dyn Callee, caller: Caller) -> Inside {
        task.called_by().0.store(caller.0, Relaxed);
        let before = last();
        set_last(Some(task));
        Inside { task, before }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.task.called_by().0.store(null_mut(), Relaxed);
        set_last(self.before);
    }
}

/// The task that the calling thread is in the middle of.
pub(crate) fn inside() -> Option<&'static dyn Callee> {
    let task = last()?;
    let caller = task.called_by().0.load(Relaxed);
    let here =
        caller == Caller::SCHEDULER.0 || !caller.is_null() && Caller(caller) == Caller::thread();
    here.then_some(task)
}

/// Whether the calling thread is in the middle of a light task, and so must not wait.
pub(crate) fn is_inside() -> bool {
    inside().is_some()
}

/// For a caller that is about to wait.
///
/// # Panics
/// In the middle of a light task, which it names.
pub(crate) fn deny_waiting() {
    if let Some(task) = inside() {
        panic!(
            "light task {:?} waits: it holds up the thread that runs it, perhaps the one it waits for",
            task.task_name()
        );
    }
}
