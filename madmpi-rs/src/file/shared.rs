//! What the ranks that have opened a file share: its shared pointer, and the lock of atomic accesses.
//!
//! Both belong to a window of one word at the first rank, so that the pointer moves and the lock is passed on while that
//! rank computes. A file that one rank has opened alone needs no window.

use core::ffi::c_int;

use marcel::plumbing::KernelMutex;
use marcel::sync::Mutex;

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::win::access::{Accumulation, Where, accumulate};
use crate::win::create::{self, Wanted};
use crate::win::{self, sync};

/// See the module.
pub(super) enum Shared {
    /// The pointer, and the lock of accesses of this rank's threads.
    Alone(KernelMutex<i64>, Mutex<()>),
    /// The window, in which one thread of this rank at a time has an epoch.
    Window(Mutex<MPI_Win>),
}

impl Shared {
    /// # Errors
    /// The window cannot be made.
    pub(super) fn new(comm: &Comm) -> Result<Shared, Fault> {
        if comm.group.size() == 1 {
            return Ok(Shared::Alone(KernelMutex::new(0), Mutex::new(())));
        }
        let size = if comm.rank() == 0 { 8 } else { 0 };
        let info = MPI_INFO_NULL;
        let wanted = Wanted { flavor: MPI_WIN_FLAVOR_ALLOCATE, base: 0, size, unit: 1, info };
        create::create(comm, &wanted).map(Mutex::new).map(Shared::Window)
    }

    /// Ends it, at all ranks.
    ///
    /// # Errors
    /// A rank has died.
    pub(super) fn free(&self) -> Result<(), Fault> {
        match self {
            Shared::Alone(..) => Ok(()),
            Shared::Window(window) => create::free(&*win::get(*window.lock())?),
        }
    }

    /// Calls `work` while this rank holds the lock: alone, or with others that share it.
    ///
    /// # Errors
    /// A rank has died; those of `work`.
    pub(super) fn locked<T>(
        &self,
        alone: bool,
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match self {
            Shared::Alone(_, lock) => {
                let _held = lock.lock();
                work()
            }
            Shared::Window(window) => {
                let window = window.lock();
                let window = win::get(*window)?;
                sync::lock(
                    &window,
                    if alone { MPI_LOCK_EXCLUSIVE } else { MPI_LOCK_SHARED },
                    0,
                    0,
                )?;
                let done = work();
                sync::unlock(&window, 0)?;
                done
            }
        }
    }

    /// Adds to the pointer; what it was.
    ///
    /// # Errors
    /// A rank has died.
    pub(super) fn add(&self, etypes: i64) -> Result<i64, Fault> {
        self.update(MPI_SUM, etypes)
    }

    /// # Errors
    /// As [`Shared::add`].
    pub(super) fn set(&self, etypes: i64) -> Result<(), Fault> {
        self.update(MPI_REPLACE, etypes).map(drop)
    }

    fn update(&self, op: MPI_Op, operand: i64) -> Result<i64, Fault> {
        let window = match self {
            Shared::Alone(pointer, _) => {
                let mut pointer = pointer.lock();
                let before = *pointer;
                *pointer = if op == MPI_SUM { before.wrapping_add(operand) } else { operand };
                return Ok(before);
            }
            Shared::Window(window) => window.lock(),
        };
        let window = win::get(*window)?;
        let mut before = 0i64;
        let choice = |word: *const i64| {
            // SAFETY: a word of this frame, which is left after the epoch.
            unsafe { Choice::new(word.cast(), 1, MPI_INT64_T) }
        };
        let (from, result) = (choice(&raw const operand), choice(&raw mut before));
        let what = Accumulation { from, result: Some(result), op, compare: None, single: true };
        let at = Where { rank: FIRST, disp: 0, count: 1, datatype: MPI_INT64_T };
        sync::lock(&window, MPI_LOCK_SHARED, FIRST, MPI_MODE_NOCHECK)?;
        let done = accumulate(&window, what, &at, false);
        // The word is there until the epoch is over, whatever came of the access.
        sync::unlock(&window, FIRST)?;
        done?;
        // SAFETY: a word of this frame, which the window has written.
        Ok(unsafe { (&raw const before).read_volatile() })
    }
}

const FIRST: c_int = 0;
