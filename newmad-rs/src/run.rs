//! The whole stack in one call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use marcel::{Builder as ThreadBuilder, Mode, Runtime};
use pioman::Manager;

use crate::error::Error;
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
        run_one(&session, f)
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
///     session.group()?.allreduce(&mut sum, newmad::coll::Sum)?;
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
/// When a rank does, after all have ended. A rank that waits for one that has panicked waits for ever, as for any that
/// sends nothing: a rank that returns, or panics, first closes its session, which waits for the others.
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
            marcel::scope(|scope| {
                let mut threads = Vec::with_capacity(sessions.len());
                for session in sessions {
                    let name = format!("rank {}", session.rank());
                    let rank = ThreadBuilder::new().name(name);
                    let spawned = rank.spawn_scoped(scope, move || run_one(&session, f));
                    threads.push(
                        spawned.map_err(|source| Error::Io { doing: "starting a rank", source })?,
                    );
                }
                let mut results = Vec::with_capacity(threads.len());
                let mut panicked = None;
                for thread in threads {
                    match thread.join() {
                        Ok(result) => results.push(result),
                        Err(panic) => panicked = panicked.or(Some(panic)),
                    }
                }
                match panicked {
                    Some(panic) => resume_unwind(panic),
                    None => results.into_iter().collect(),
                }
            })
        })
    }
}

fn start() -> Result<(Runtime, Arc<Manager>), Error> {
    let mode = Mode::from_env()?;
    let manager = Manager::builder().mode(mode).build()?;
    let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build()?;
    Ok((runtime, manager))
}

/// Runs `f`, and closes the session.
fn run_one<T>(session: &Session, f: impl FnOnce(&Session) -> T) -> Result<T, Error> {
    let result = catch_unwind(AssertUnwindSafe(|| f(session)));
    let closed = session.close();
    match result {
        Ok(value) => closed.map(|()| value),
        Err(panic) => resume_unwind(panic),
    }
}
