//! Events of the tool interface: what newmad has recorded, and the functions of tools that are called for it.
//!
//! Callbacks are called when the program next enters a function of MPI, by its own thread: so they may do whatever the program
//! may, and each callback is safe enough. While a tool has a handle, the phase of MPI is another one (`job`), by which calls
//! see that there may be something; without tools they look no more often than before.

use core::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use marcel::plumbing::KernelMutex;
use newmad::raw::EventKind;

use crate::abi::*;
use crate::handle::Table;
use crate::job;
use crate::per_rank::per_rank;

/// An instance of an event, as tools have it: the address of an event during a callback.
pub(crate) type Instance = *const c_void;
/// A handle of a tool, or 0.
pub(crate) type Handle = usize;
pub(crate) type Callback = unsafe extern "C" fn(Instance, Handle, c_int, *mut c_void);
pub(crate) type FreeCallback = unsafe extern "C" fn(Handle, c_int, *mut c_void);
pub(crate) type DroppedHandler = unsafe extern "C" fn(MPI_Count, Handle, c_int, c_int, *mut c_void);

/// The levels of safety, the lowest first.
pub(crate) const LEVELS: [c_int; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// A function of the tool's, with the data that it gets.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    pub(crate) function: Callback,
    /// An address.
    pub(crate) data: usize,
}

/// What a tool has registered for a kind of event.
pub(crate) struct Registration {
    pub(crate) kind: EventKind,
    pub(crate) callbacks: KernelMutex<[Option<Registered>; LEVELS.len()]>,
    pub(crate) dropped: KernelMutex<Option<DroppedHandler>>,
    /// An address, which the dropped handler gets: that of the callback registered last.
    data: KernelMutex<usize>,
}

static REGISTRATIONS: Table<Registration> = Table::new();

per_rank! {
    /// The handles of this rank's tools.
    static HANDLES: KernelMutex<Vec<Handle>> = KernelMutex::new(Vec::new());
    /// A thread delivers. Callbacks that call MPI do not deliver once more.
    static DELIVERS: AtomicBool = AtomicBool::new(false);
}

/// Makes a handle; `None`: too many exist. Recording begins, now or when MPI is initialised.
pub(crate) fn register(kind: EventKind) -> Option<Handle> {
    let (callbacks, dropped) = (KernelMutex::default(), KernelMutex::default());
    let registration = Registration { kind, callbacks, dropped, data: KernelMutex::new(0) };
    let handle = REGISTRATIONS.insert(Arc::new(registration))?;
    HANDLES.lock().push(handle);
    begin();
    Some(handle)
}

/// What a handle stands for.
pub(crate) fn get(handle: Handle) -> Option<Arc<Registration>> {
    REGISTRATIONS.get(handle)
}

/// Ends a handle, which stands for something.
pub(crate) fn remove(handle: Handle) {
    if let Some(registration) = REGISTRATIONS.remove(handle) {
        // A delivery under way calls it no more.
        *registration.callbacks.lock() = Default::default();
        *registration.dropped.lock() = None;
    }
    let mut handles = HANDLES.lock();
    handles.retain(|&other| other != handle);
    if handles.is_empty()
        && let Ok(session) = job::session()
    {
        session.record_events(false);
        job::observe(false);
    }
}

/// Begins to record, if a tool has a handle and MPI is initialised.
pub(crate) fn begin() {
    if !HANDLES.lock().is_empty()
        && let Ok(session) = job::session()
    {
        session.record_events(true);
        job::observe(true);
    }
}

impl Registration {
    /// Registers a callback for a level of safety, or none.
    pub(crate) fn set(&self, level: usize, registered: Option<Registered>) {
        self.callbacks.lock()[level] = registered;
        if let Some(registered) = registered {
            *self.data.lock() = registered.data;
        }
    }
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Calls the callbacks for what has happened.
#[cold]
pub(crate) fn deliver() {
    let Ok(session) = job::session() else { return };
    if DELIVERS.swap(true, Ordering::Acquire) {
        return;
    }
    let _done = Done;
    let mut events = Vec::new();
    let lost = session.take_events(&mut events);
    let all: Vec<(Handle, Arc<Registration>)> = {
        let handles = HANDLES.lock();
        handles.iter().filter_map(|&handle| Some((handle, get(handle)?))).collect()
    };
    for event in &events {
        for (handle, registration) in all.iter().filter(|(_, other)| other.kind == event.kind) {
            let first = registration.callbacks.lock().iter().flatten().next().copied();
            if let Some(Registered { function, data }) = first {
                // SAFETY: the tool gave it as such a function; the event stays during the call.
                unsafe {
                    function(
                        (&raw const *event).cast(),
                        *handle,
                        MPI_T_CB_REQUIRE_NONE,
                        pointer(data),
                    )
                };
            }
        }
    }
    for (handle, registration) in &all {
        let count = lost[registration.kind as usize];
        let (handler, data) = (*registration.dropped.lock(), *registration.data.lock());
        if let Some(handler) = handler.filter(|_| count > 0) {
            // SAFETY: as above.
            unsafe {
                handler(count as MPI_Count, *handle, 0, MPI_T_CB_REQUIRE_NONE, pointer(data))
            };
        }
    }
}

/// The thread delivers no more.
struct Done;

impl Drop for Done {
    fn drop(&mut self) {
        DELIVERS.store(false, Ordering::Release);
    }
}
