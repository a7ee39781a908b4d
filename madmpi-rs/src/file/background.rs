//! Accesses that go on while the program does something else: each on a green thread, which waits for the file and for
//! messages as any other does.
//!
//! A rank that is a green thread itself has them in its own runtime, as reactive threads. A rank that is a process gets a
//! runtime with one reactive virtual processor when it first needs it; the session's I/O manager serves it, and it sleeps
//! while nothing is to be done.
//!
//! Rejected: a request of the ring for each extent (a collective access is messages and extents by turns: the same state
//! machine as a thread, by hand); kernel threads (each of them would wait in a system call).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use marcel::Mode;
use marcel::plumbing::KernelMutex;
use marcel::sync::OnceLock;
use marcel::sync::channel::{self, SendError, Sender};
use newmad::raw::Awaited;
use pioman::{Completion, Manager};

use super::File;
use super::access::{Access, CarriedOut};
use crate::abi::*;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::per_rank;
use crate::request::{Operation, Outcome};

/// An access under way.
pub(crate) struct Background {
    file: Arc<File>,
    done: Completion,
    status: OnceLock<Result<MPI_Status, Fault>>,
    /// A read whose data a function of the program converts: inside the call that takes the outcome.
    unconverted: KernelMutex<Option<CarriedOut>>,
}

impl Operation for Background {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.file.comm.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        let finish = || {
            let unconverted = self.unconverted.lock().take();
            unconverted.map_or_else(|| Err(lost()), CarriedOut::finish)
        };
        match self.status.get_or_init(finish) {
            Ok(status) => Outcome { status: *status, fault: None },
            Err(fault) => Outcome::failed(fault.clone().on(self.file.clone())),
        }
    }

    fn cancel(&self) -> Result<(), Fault> {
        let why =
            "argument request is the request of an access to a file, which cannot be cancelled";
        Err(Fault::new(MPI_ERR_REQUEST, why).on(self.file.clone()))
    }
}

#[cold]
fn lost() -> Fault {
    Fault::new(MPI_ERR_INTERN, "the thread of an access to a file has ended before it")
}

/// Completes the access when its thread ends, whatever ends it.
struct End(Arc<Background>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.done.complete();
    }
}

/// Begins an access.
///
/// # Errors
/// An argument is not acceptable.
pub(crate) fn begin(
    file: &Arc<File>,
    access: Access,
    choice: Choice,
) -> Result<Arc<Background>, Fault> {
    let mut prepared = file.prepare(access, choice, true)?;
    let access = Arc::new(Background {
        file: file.clone(),
        done: Completion::new(),
        status: OnceLock::new(),
        unconverted: KernelMutex::new(None),
    });
    if let Some(status) = prepared.at_once(file) {
        let _ = access.status.set(status);
        access.done.complete();
        return Ok(access);
    }
    let (end, place) = (End(access.clone()), per_rank::own_place());
    spawn(file, move || {
        per_rank::acts_for(place);
        let End(access) = &end;
        let run = || match prepared.run(&access.file)? {
            read if read.calls_program() => {
                *access.unconverted.lock() = Some(read);
                Ok(None)
            }
            carried_out => carried_out.finish().map(Some),
        };
        let ran = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(lost()));
        if let Some(status) = ran.transpose() {
            let _ = access.status.set(status);
        }
    });
    Ok(access)
}

type Job = Box<dyn FnOnce() + Send>;

/// The runtime of a rank that is a process: a reactive thread starts those of the accesses.
struct Runtime {
    jobs: Sender<Job>,
    _threads: marcel::Runtime,
}

impl Runtime {
    /// Nothing where the system gives no threads.
    fn new(manager: &Arc<Manager>) -> Option<Runtime> {
        let builder = marcel::Runtime::builder().mode(manager.mode()).vps(1).hooks(manager.clone());
        let builder = if manager.mode() == Mode::Smp { builder.reactive(1) } else { builder };
        let threads = builder.build().ok()?;
        let (jobs, inbox) = channel::unbounded::<Job>();
        let start = move || {
            let serve = move || {
                newmad::raw::stand_aside();
                while let Ok(job) = inbox.recv() {
                    spawn_or_run(job);
                }
            };
            thread().spawn_detached(serve).is_ok()
        };
        let started = threads.spawn(start).join().unwrap_or(false);
        started.then_some(Runtime { jobs, _threads: threads })
    }
}

/// Runs a job on a green thread, or at once where none can be made: other ranks may wait for their part in it. (A thread that
/// is made and then gets no stack drops its job, which says so.)
fn spawn_or_run(job: impl FnOnce() + Send + 'static) {
    fn run<J: FnOnce()>(job: &KernelMutex<Option<J>>) {
        let taken = job.lock().take();
        if let Some(job) = taken {
            job();
        }
    }
    // Who does not get a thread gets its function back.
    let job = Arc::new(KernelMutex::new(Some(job)));
    let theirs = job.clone();
    let start = move || {
        newmad::raw::stand_aside();
        run(&theirs);
    };
    if thread().spawn_detached(start).is_err() {
        run(&job);
    }
}

/// A reactive one: the kernel lets it preempt what computes.
fn thread() -> marcel::Builder {
    marcel::Builder::new().name("file access").reactive(true)
}

/// Starts a green thread. Where the system gives none, the call does the work: a collective access then blocks in the call that
/// begins it, as in the mode without threads.
fn spawn(file: &File, work: impl FnOnce() + Send + 'static) {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    if marcel::is_green() {
        return spawn_or_run(work);
    }
    let manager = file.comm.session.manager();
    if manager.mode() == Mode::NoThread {
        return work();
    }
    match RUNTIME.get_or_init(|| Runtime::new(manager)) {
        Some(runtime) => {
            if let Err(SendError(work)) = runtime.jobs.send(Box::new(work)) {
                work();
            }
        }
        None => work(),
    }
}
