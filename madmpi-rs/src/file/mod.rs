//! Files: MPI-IO, over pioman's files.
//!
//! ```text
//!   elements in memory ──representation──▶ bytes of data ──view, map──▶ extents of the file
//! ```
//! | access | who |
//! |---|---|
//! | by one rank, blocking | the caller: copies of pages, or system calls of a kernel thread; a green thread waits for the ring of its manager |
//! | collective | the callers, in two phases: `collective` |
//! | with a request, or split | a green thread of the library: `background`; the caller, if it need not wait |
//!
//! Each rank opens the file by itself. The ranks agree in collectives of a communicator of the file's own, each call in a
//! series of its own, so that calls with requests meet in whatever order they go on.
//!
//! # Consistency
//! A write that is over is in the kernel's page cache, or with the server of the file system: ranks of one machine see it at
//! once. In atomic mode each access holds the lock of `shared` meanwhile. `MPI_File_sync` brings data to the disk.
//!
//! # Errors
//! A call that needs all ranks fails at all of them, or says at each what failed there. Nothing is said to be written that
//! the system has not taken. If a rank dies, calls in which the ranks exchange something fail with `MPI_ERR_PROC_ABORTED`.
//!
//! | file | what |
//! |---|---|
//! | `open` | opening, closing, deleting; size, synchronisation |
//! | `pointer`, `shared` | the own pointer; the shared one, and the lock of atomic accesses |
//! | `settings` | hints and atomic mode, which all ranks set |
//! | `view`, `map`, `representation` | which bytes, where, and what they look like |
//! | `registered` | representations of the program |
//! | `access`, `background`, `split` | accesses; those that go on beside the program |
//! | `collective`, `strips` | two-phase access; its messages |
//! | `exchange` | how ranks agree and exchange data |
//! | `transfer`, `mapped` | bytes to and from the file: by system calls, or by its pages in memory |
//! | `hints`, `errors` | hints; errors of the system |

pub(crate) mod access;
pub(crate) mod background;
mod collective;
mod errors;
mod exchange;
mod hints;
mod map;
mod mapped;
pub(crate) mod open;
mod pointer;
pub(crate) mod registered;
pub(crate) mod representation;
mod settings;
mod shared;
pub(crate) mod split;
mod strips;
mod transfer;
mod view;

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};

use marcel::plumbing::KernelMutex;

use crate::abi::*;
use crate::comm::Comm;
use crate::errhandler::{self, Errhandler, Files};
use crate::error::{Fault, HandlesErrors};
use crate::handle::{Ref, Table};
use crate::info::Entries;
use crate::request::Operation;
use hints::Hints;
use mapped::Mapped;
use shared::Shared;
use view::View;

/// As many memories of accesses are kept, and none that are larger.
const KEPT: usize = 4;
const LARGEST_KEPT: usize = 32 << 20;

static FILES: Table<File> = Table::new();

/// An open file.
pub(crate) struct File {
    handle: OnceLock<MPI_File>,
    /// The file's own.
    pub(crate) comm: Ref<Comm>,
    file: pioman::fs::File,
    /// A descriptor that is closed with `file`: see `open`.
    _first: Option<pioman::fs::File>,
    path: std::path::PathBuf,
    pub(crate) amode: c_int,
    view: KernelMutex<Arc<View>>,
    /// The own pointer, in etypes.
    pointer: KernelMutex<MPI_Offset>,
    shared: Shared,
    atomic: AtomicBool,
    settings: KernelMutex<Settings>,
    split: KernelMutex<Option<Split>>,
    /// Memory of accesses that are over, for the next ones.
    kept: KernelMutex<Kept>,
    mapped: Mapped,
}

/// Memory that was allocated once: what is filled need not be cleared again.
#[derive(Default)]
struct Kept {
    bytes: Vec<Vec<u8>>,
    letters: Vec<Vec<u8>>,
}

/// Keeps memory for the next access, unless that is too much.
fn keep(kept: &mut Vec<Vec<u8>>, memory: Vec<u8>) {
    if kept.len() < KEPT && (1..=LARGEST_KEPT).contains(&memory.capacity()) {
        kept.push(memory);
    }
}

/// A split collective under way.
struct Split {
    kind: SplitKind,
    operation: Arc<dyn Operation>,
}

/// Which call has begun a split collective, and has to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitKind {
    ReadAtAll,
    ReadAll,
    ReadOrdered,
    WriteAtAll,
    WriteAll,
    WriteOrdered,
}

/// What the program sets.
pub(crate) struct Settings {
    pub(crate) errhandler: Errhandler,
    hints: Hints,
}

/// The file that a handle stands for.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn get(file: MPI_File) -> Result<Arc<File>, Fault> {
    FILES.get(file.0).ok_or_else(|| bad(file))
}

#[cold]
fn bad(file: MPI_File) -> Fault {
    let why = match file {
        MPI_FILE_NULL => "MPI_FILE_NULL is not a file",
        _ => "it is not a file, or was closed",
    };
    Fault::handle(MPI_ERR_FILE, "fh", file.0, why).on(Arc::new(Files))
}

impl HandlesErrors for File {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        errhandler::invoke(&self.errhandler(), self.handle().0, class, text)
    }
}

impl File {
    pub(crate) fn handle(&self) -> MPI_File {
        self.handle.get().copied().unwrap_or(MPI_FILE_NULL)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.settings().errhandler.clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        let old = std::mem::replace(&mut self.settings().errhandler, handler);
        drop(old); // not under the lock
    }

    fn hints(&self) -> Hints {
        self.settings().hints
    }

    /// The hints in use.
    pub(crate) fn hints_in_use(&self) -> Entries {
        self.hints().entries(self.comm.group.size().into())
    }

    /// The view as it is now.
    fn view(&self) -> Arc<View> {
        self.view.lock().clone()
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Acquire)
    }

    /// Memory for an access, with whatever bytes.
    fn scratch(&self) -> Vec<u8> {
        self.kept.lock().bytes.pop().unwrap_or_default()
    }

    /// Memory for messages, which are written from its beginning on.
    fn letters(&self) -> Vec<u8> {
        self.kept.lock().letters.pop().unwrap_or_default()
    }

    fn keep(&self, memory: Vec<u8>) {
        keep(&mut self.kept.lock().bytes, memory);
    }

    fn keep_letters(&self, memory: Vec<u8>) {
        keep(&mut self.kept.lock().letters, memory);
    }

    /// What is done, for messages of errors.
    fn says(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }
}
