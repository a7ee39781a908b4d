//! A client of PMIx, which PRRTE (`prterun`, Open MPI's `mpirun`) and Slurm speak, through its library.
//!
//! A process is started with `PMIX_NAMESPACE` and `PMIX_RANK` in its environment. The library connects it with a server
//! on its machine by a thread of its own. Nothing is collected at a fence: a card is fetched from the server of its owner
//! when it is asked for, which waits until it is there. The last fence collects: Slurm (22.05, without `TreeWidth` in its
//! configuration) lets the processes of a machine through one that does not as soon as these have come, and with the last
//! process of a machine goes its server.
//!
//! The calls that wait for others are the library's non-blocking ones, with a wait of ours: so they end in time when
//! another process never comes. The callback of a call that was given up still finds its [`Reply`], which both own.
//! Each call is made by a kernel thread that is made for it: the library (it loads plug-ins, it reads the topology)
//! needs more stack than a green thread has, and that thread, from which the library's threads inherit it, has all
//! signals blocked.

mod library;
mod spawn;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Instant;

use self::library::{ALL_RANKS, Data, Info, NSPACE, Proc, Value};
use super::manager::Bootstrap;
use super::spawn::Spawner;
use super::wire::{LONGEST, MOST, variable};
use crate::error::Error;
use marcel::plumbing::KernelMutex;
use marcel::plumbing::signal::AllBlocked;

static USED: AtomicBool = AtomicBool::new(false);

/// See the module.
pub(crate) struct Pmix {
    library: library::Pmix,
    nspace: [c_char; NSPACE],
    rank: u32,
    size: u32,
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::Bootstrap(format!("PMIx: {why}"))
}

/// Whether a process manager of this kind has started this process.
pub(super) fn is_offered() -> Result<bool, Error> {
    Ok(variable("PMIX_NAMESPACE")?.is_some() && variable("PMIX_RANK")?.is_some())
}

/// What a call that does not wait is about, which stays where it is until the callback, and what that has brought.
struct Reply {
    proc: Proc,
    key: CString,
    info: Option<Info>,
    come: KernelMutex<Option<(c_int, Option<Answer>)>>,
    changed: Condvar,
}

/// A value, copied.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Text(String),
    Number(u32),
    /// Of a type that was not asked for.
    Other(u16),
}

impl Reply {
    fn about(proc: Proc, key: CString, info: Option<Info>) -> Arc<Reply> {
        Arc::new(Reply { proc, key, info, come: KernelMutex::new(None), changed: Condvar::new() })
    }

    /// The callback's half, as the pointer that the library keeps for it. If the library never calls back it is lost:
    /// some bytes.
    fn theirs(self: &Arc<Reply>) -> *mut c_void {
        Arc::into_raw(self.clone()).cast_mut().cast()
    }

    /// # Safety
    /// `data` is from [`Reply::theirs`], and comes here once.
    unsafe fn bring(data: *mut c_void, status: c_int, answer: Option<Answer>) {
        // SAFETY: as required.
        let reply = unsafe { Arc::from_raw(data.cast::<Reply>()) };
        *reply.come.lock() = Some((status, answer));
        reply.changed.notify_all();
    }

    /// Waits; `None`: the time is over.
    fn wait(&self, deadline: Instant) -> Option<(c_int, Option<Answer>)> {
        let left = deadline.saturating_duration_since(Instant::now());
        let come = self.come.lock();
        let (mut come, _) = self
            .changed
            .wait_timeout_while(come, left, |come| come.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        come.take()
    }
}

/// # Safety
/// The library calls it once with what it was given.
unsafe extern "C" fn fenced(status: c_int, data: *mut c_void) {
    // SAFETY: as required.
    unsafe { Reply::bring(data, status, None) }
}

/// # Safety
/// The library calls it once with what it was given, and with null or a value that it keeps meanwhile.
unsafe extern "C" fn got(status: c_int, value: *const Value, data: *mut c_void) {
    // SAFETY: as required.
    unsafe {
        let answer = (status == library::SUCCESS)
            .then_some(value.as_ref())
            .flatten()
            .map(|value| copy(value));
        Reply::bring(data, status, answer);
    }
}

/// # Safety
/// `value` is one of the library's: its type tells which member of the union is there.
unsafe fn copy(value: &Value) -> Answer {
    // SAFETY: as required; a string ends with a zero byte.
    unsafe {
        match value.kind {
            library::STRING if !value.data.string.is_null() => {
                Answer::Text(CStr::from_ptr(value.data.string).to_string_lossy().into_owned())
            }
            library::UINT32 => Answer::Number(value.data.uint32),
            other => Answer::Other(other),
        }
    }
}

/// Runs `f` on a kernel thread of its own; see the module.
fn aside<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("newmad-pmix".into());
        let started = thread.spawn_scoped(scope, || {
            let _blocked = AllBlocked::new();
            f()
        });
        let thread =
            started.map_err(|source| Error::Io { doing: "starting a thread for PMIx", source })?;
        thread.join().map_err(|_| failed("a call of the library ended by a panic"))
    })
}

fn text(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| failed(format_args!("{name:?} has a zero byte in it")))
}

impl Pmix {
    /// Connects with the server of the process manager, once per process.
    pub(super) fn connect(deadline: Instant) -> Result<Pmix, Error> {
        if USED.swap(true, Ordering::SeqCst) {
            return Err(failed("this process has opened its session already; a process opens one"));
        }
        let mut me = Proc { nspace: [0; NSPACE], rank: 0 };
        let (library, status) = aside(|| -> Result<_, String> {
            let library = library::open()?;
            // SAFETY: `me` is writable, and there are no further arguments.
            let status = unsafe { (library.init)(&mut me, std::ptr::null(), 0) };
            Ok((library, status))
        })?
        .map_err(failed)?;
        let mut pmix = Pmix { library, nspace: me.nspace, rank: me.rank, size: 0 };
        pmix.check(status, "connecting with the process manager")?;
        pmix.size = match pmix.fetch(ALL_RANKS, library::JOB_SIZE, deadline)? {
            Answer::Number(size) => size,
            other => return Err(failed(format_args!("the size of the job is {other:?}"))),
        };
        let (rank, size) = (pmix.rank, pmix.size);
        if rank >= size || size > MOST {
            return Err(failed(format_args!("rank {rank} of {size} makes no sense")));
        }
        Ok(pmix)
    }

    fn check(&self, status: c_int, doing: &str) -> Result<(), Error> {
        match status {
            library::SUCCESS | library::DONE => Ok(()),
            _ => Err(failed(format_args!("{doing}: {}", self.library.words(status)))),
        }
    }

    fn late(doing: &str) -> Error {
        failed(format_args!(
            "{doing}: nothing came in time (NMAD_CONNECT_TIMEOUT_MS); another process of the session may have \
             failed to start"
        ))
    }

    /// A fence of all processes of the job.
    fn fence_with(&self, info: Option<Info>, deadline: Instant) -> Result<(), Error> {
        // SAFETY: takes nothing.
        let status = aside(|| unsafe { (self.library.commit)() })?;
        self.check(status, "publishing what was put")?;
        let doing = "waiting for the others";
        let all = Proc { nspace: self.nspace, rank: ALL_RANKS };
        let reply = Reply::about(all, CString::default(), info);
        let status = aside(|| {
            let (all, theirs, infos) = (&reply.proc, reply.theirs(), reply.info.as_slice());
            let first = if infos.is_empty() { std::ptr::null() } else { infos.as_ptr() };
            // SAFETY: processes and wishes are in the reply, of which the callback has its half.
            unsafe { (self.library.fence)(all, 1, first, infos.len(), fenced, theirs) }
        })?;
        if status != library::DONE {
            self.check(status, doing)?;
            let (status, _) = reply.wait(deadline).ok_or_else(|| Pmix::late(doing))?;
            self.check(status, doing)?;
        }
        Ok(())
    }

    fn fetch(&self, rank: u32, key: &str, deadline: Instant) -> Result<Answer, Error> {
        let doing = format!("getting {key}");
        let reply = Reply::about(Proc { nspace: self.nspace, rank }, text(key)?, None);
        let status = aside(|| {
            let (proc, key, theirs) = (&reply.proc, reply.key.as_ptr(), reply.theirs());
            // SAFETY: process and key are in the reply, of which the callback has its half.
            unsafe { (self.library.get)(proc, key, std::ptr::null(), 0, got, theirs) }
        })?;
        if status != library::SUCCESS {
            return Err(failed(format_args!("{doing}: {}", self.library.words(status))));
        }
        let (status, answer) = reply.wait(deadline).ok_or_else(|| Pmix::late(&doing))?;
        self.check(status, &doing)?;
        answer.ok_or_else(|| failed(format_args!("{doing}: no value came")))
    }
}

impl Bootstrap for Pmix {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn room(&self) -> usize {
        LONGEST
    }

    fn put(&mut self, key: &str, value: &str, _: Instant) -> Result<(), Error> {
        let (key, value) = (text(key)?, text(value)?);
        let status = aside(|| {
            let value = Value { kind: library::STRING, data: Data { string: value.as_ptr() } };
            // SAFETY: key and value live through the call, which copies them.
            unsafe { (self.library.put)(library::GLOBAL, key.as_ptr(), &value) }
        })?;
        self.check(status, "putting a value")
    }

    fn fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.fence_with(None, deadline)
    }

    fn last_fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.fence_with(Some(Info::yes(library::COLLECT)), deadline)
    }

    fn get(&mut self, owner: u32, key: &str, deadline: Instant) -> Result<String, Error> {
        match self.fetch(owner, key, deadline)? {
            Answer::Text(text) => Ok(text),
            other => Err(failed(format_args!("what rank {owner} has put is {other:?}, no text"))),
        }
    }

    fn job(&mut self, _: Instant) -> Result<String, Error> {
        let name = self.nspace.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
        Ok(String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned())
    }

    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), Error> {
        // SAFETY: there are no arguments.
        let status = aside(|| unsafe { (self.library.finalize)(std::ptr::null(), 0) })?;
        self.check(status, "taking leave of the process manager")
    }
}
