//! Circles: the processes that one session of newmad connects.
//!
//! The circle of the job is there from the beginning to the end. Each connection with other processes
//! (`MPI_Comm_accept`, `MPI_Comm_spawn`, …) opens one more session, of the processes of both sides and with ranks of its
//! own, and with it a circle. A communicator belongs to one circle: its context is unique there, its messages go through
//! that session, and the death of a member concerns that session alone.
//!
//! ```text
//!   made ──▶ communicators come and go ──the last one goes, after a disconnect──▶ closes aside ──▶ closed
//!                     └──────────────────── finalize ──────────────────────────────▲
//! ```
//! Closing a session waits for its other members, which may disconnect later. So a thread of its own waits, and
//! finalizing waits for that thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use marcel::plumbing::KernelMutex;
use marcel::plumbing::signal::spawn_blocked;

use super::context::Contexts;
use super::registry::{Registry, hook};
use crate::error::Fault;
use crate::group::names::Naming;
use crate::job;
use crate::per_rank::per_rank;

per_rank! {
    /// The circle of the job.
    static JOB: OnceLock<Arc<Circle>> = OnceLock::new();
    /// Those of connections that were not closed.
    static CONNECTIONS: OnceLock<Arc<Connections>> = OnceLock::new();
}

/// The circles of a rank's connections.
#[derive(Default)]
struct Connections {
    open: KernelMutex<Vec<Arc<Circle>>>,
    closing: KernelMutex<Vec<JoinHandle<()>>>,
}

/// See the module.
pub(crate) struct Circle {
    pub(crate) session: newmad::Session,
    pub(crate) contexts: Contexts,
    /// Its communicators by their contexts, for what newmad tells of failures.
    pub(super) registry: Arc<Registry>,
    /// Who its ranks are.
    pub(crate) naming: Naming,
    /// The same in all members, and in no other circle.
    pub(crate) number: u64,
    /// Communicators that exist.
    comms: AtomicUsize,
    /// The program has disconnected one of them.
    parting: AtomicBool,
    /// Where it is listed.
    list: Option<Arc<Connections>>,
}

fn connections() -> &'static Arc<Connections> {
    CONNECTIONS.get_or_init(Arc::default)
}

/// Makes the circle of the job.
pub(super) fn begin(session: &newmad::Session) -> Arc<Circle> {
    let contexts = Contexts::of_job(session.rank(), session.size());
    let circle = || Arc::new(Circle::new(session.clone(), contexts, None, 0, None));
    JOB.get_or_init(circle).clone()
}

/// The circle of the job.
///
/// # Errors
/// MPI is not initialised.
pub(crate) fn of_job() -> Result<&'static Arc<Circle>, Fault> {
    job::session()?;
    JOB.get().ok_or_else(job::not_initialised)
}

/// The circle with that number, of which this process is a member.
pub(super) fn find(number: u64) -> Option<Arc<Circle>> {
    let job = JOB.get().filter(|circle| circle.number == number).cloned();
    job.or_else(|| connections().open.lock().iter().find(|one| one.number == number).cloned())
}

/// Closes what is not closed yet, and waits until all is.
pub(crate) fn close_all() {
    let open = std::mem::take(&mut *connections().open.lock());
    // All at once: another member may close them in another order.
    open.iter().for_each(|circle| circle.close());
    let closing = std::mem::take(&mut *connections().closing.lock());
    job::aside(|| {
        for thread in closing {
            let _ = thread.join(); // a panic has been reported
        }
    });
}

impl Circle {
    fn new(
        session: newmad::Session,
        contexts: Contexts,
        naming: Naming,
        number: u64,
        list: Option<Arc<Connections>>,
    ) -> Circle {
        let registry = Arc::default();
        session.tolerate(hook(&registry));
        Circle {
            session,
            contexts,
            registry,
            naming,
            number,
            comms: AtomicUsize::new(0),
            parting: AtomicBool::new(false),
            list,
        }
    }

    /// The circle of a connection.
    pub(crate) fn connect(session: newmad::Session, naming: Naming, number: u64) -> Arc<Circle> {
        let contexts = Contexts::of_connection(session.rank(), session.size());
        let list = connections().clone();
        let circle = Circle::new(session, contexts, naming, number, Some(list.clone()));
        let circle = Arc::new(circle);
        list.open.lock().push(circle.clone());
        circle
    }

    /// A communicator of it exists.
    pub(super) fn enter(&self) {
        self.comms.fetch_add(1, Ordering::Relaxed);
    }

    /// A communicator of it exists no more.
    pub(super) fn leave(&self) {
        if self.comms.fetch_sub(1, Ordering::AcqRel) == 1 && self.parting.load(Ordering::Acquire) {
            self.close();
        }
    }

    /// The program disconnects one of its communicators, which still exists.
    pub(super) fn part(&self) {
        self.parting.store(true, Ordering::Release);
    }

    /// Has a thread close the session.
    pub(crate) fn close(&self) {
        // That of the job closes when MPI is finalized.
        let Some(list) = &self.list else { return };
        list.open.lock().retain(|circle| circle.number != self.number);
        let session = self.session.clone();
        let close = move || {
            // The program may be in no call meanwhile.
            newmad::raw::stand_aside();
            session.leave_agreements();
            let _ = session.close(); // of processes that have no process manager in common: nothing to fail
        };
        let thread = std::thread::Builder::new().name("madmpi-disconnect".into());
        if let Ok(thread) = spawn_blocked(thread, close) {
            let mut closing = list.closing.lock();
            closing.retain(|thread| !thread.is_finished());
            closing.push(thread);
        }
    }
}
