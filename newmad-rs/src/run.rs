//! The whole stack in one call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use marcel::{Builder as ThreadBuilder, Mode, Runtime};
use pioman::Manager;

use crate::error::{Cause, Error};
use crate::session::{Builder, Session};

/// Starts the green threads' runtime and the I/O manager as the knobs say, opens the session, runs `f` as a
/// reactive green thread, closes everything, and returns what `f` returned.
///
/// # Context
/// A kernel thread, usually `main`'s.
/// # Blocking
/// That thread.
/// # Errors
/// A knob is wrong, another process does not come, the kernel refuses something.
/// # Panics
/// When `f` does, after the session has been closed.
pub fn run<T: Send>(f: impl FnOnce(&Session) -> T + Send) -> Result<T, Error> {
    let (runtime, manager) = start()?;
    runtime.run(|| {
        let session = Session::builder().manager(manager).open()?;
        let result = catch_unwind(AssertUnwindSafe(|| f(&session)));
        close(&session, result)
    })
}

/// As [`run`], for a process that holds `ranks` ranks: `f` runs once for each of them, in a green thread of its own and
/// with a session of its own, over one engine. What the calls returned, in the order of the ranks.
///
/// Ranks of one process share its memory: a message between them is one copy, from the sender's buffer to the
/// receiver's. A rank that waits carries on the messages of all, and gives its core to another rank. Every process of
/// the job calls this, each with as many ranks as it likes; ranks are numbered from process 0 on.
///
/// ```
/// let sums = newmad::run_ranks(4, |session| {
///     let mut sum = [u64::from(session.rank())];
///     session.world()?.allreduce(&mut sum, &newmad::coll::Op::sum()).wait()?;
///     Ok::<u64, newmad::Error>(sum[0])
/// })?;
/// assert!(sums.into_iter().all(|sum| sum.unwrap() == 6));
/// # Ok::<(), newmad::Error>(())
/// ```
///
/// # Context, Blocking
/// As [`run`].
/// # Errors
/// As [`run`]; `ranks` is 0 or more than 65536, or there is no memory for so many.
/// # Panics
/// When a rank does, after all have ended. Its process leaves the job: what the other ranks of the process wait for, and what they begin
/// from then on, fails with [`Error::PeerDied`], which names the rank that has panicked; ranks of other processes get the error that they get when
/// a process has closed.
///
/// A rank that returns first closes its session, which waits for the others. What other ranks wait for from it, in its process and in
/// others, then fails with [`Cause::Left`](crate::Cause::Left), once all that it has sent them has arrived.
pub fn run_ranks<T: Send>(
    ranks: u32,
    f: impl Fn(&Session) -> T + Send + Sync,
) -> Result<Vec<T>, Error> {
    Session::builder().run_ranks(ranks, f)
}

impl Builder {
    /// As [`run_ranks`], with what this builder says. Its manager, if it has one, is not used: the runtime needs its own.
    ///
    /// # Context, Blocking, Errors, Panics
    /// As [`run_ranks`].
    pub fn run_ranks<T: Send>(
        self,
        ranks: u32,
        f: impl Fn(&Session) -> T + Send + Sync,
    ) -> Result<Vec<T>, Error> {
        let (runtime, manager) = start()?;
        let f = &f;
        runtime.run(|| {
            let sessions = self.manager(manager).open_ranks(ranks)?;
            // The panic of the rank that panicked first: those of others may be its consequences.
            let first = KernelMutex::new(None);
            let run = |session: &Session| {
                session.adopt_thread();
                let result = catch_unwind(AssertUnwindSafe(|| f(session)));
                let value = result.map_err(|panic| {
                    first.lock().get_or_insert(panic);
                    session.inner().fall(Cause::Panicked);
                });
                session.close().map(|()| value.ok())
            };
            let results = marcel::scope(|scope| {
                let mut threads = Vec::with_capacity(sessions.len());
                for session in &sessions {
                    let rank = ThreadBuilder::new().name(format!("rank {}", session.rank()));
                    let run = &run;
                    match rank.spawn_scoped(scope, move || run(session)) {
                        Ok(thread) => threads.push(thread),
                        Err(source) => {
                            // Those that have started do not wait for it.
                            session.inner().fall(Cause::Left);
                            return Err(Error::Io { doing: "starting a rank", source });
                        }
                    }
                }
                let results = threads.into_iter().map(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => resume_unwind(panic),
                });
                results.collect::<Result<Vec<Option<T>>, Error>>()
            });
            match first.into_inner() {
                Some(panic) => resume_unwind(panic),
                None => Ok(results?.into_iter().flatten().collect()),
            }
        })
    }
}

fn start() -> Result<(Runtime, Arc<Manager>), Error> {
    let mode = Mode::from_env()?;
    let manager = Manager::builder().mode(mode).build()?;
    let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build()?;
    Ok((runtime, manager))
}

/// Closes the session of a rank whose function has ended so.
fn close<T>(session: &Session, result: std::thread::Result<T>) -> Result<T, Error> {
    let closed = session.close();
    match result {
        Ok(value) => closed.map(|()| value),
        Err(panic) => resume_unwind(panic),
    }
}
