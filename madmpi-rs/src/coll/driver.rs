//! The driver: a thread of the library's that carries on collectives of several stages which the program does not wait
//! for. The next stage begins when a thread finds the one before over. The thread that waits for the request may wait
//! for another one first, whose next stage is the turn of a process that in turn waits for this one.
//!
//! ```text
//!   begun ──last stage begun──▶ the request waits for the operation itself
//!     └────more stages──▶ in the driver's inbox ──▶ driven ──over──▶ done: the request's completion
//! ```
//!
//! The thread starts with the first such operation, and sleeps while there is none. It alone waits for the operations
//! that it drives. It opens no gate for the program's operators, which are called inside the program's calls only.
//!
//! Rejected: that each wait of the program carries all of them on (a wait would have as many reasons to wake as there are
//! operations); a thread for each.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use newmad::raw::{Awaited, stand_aside};
use pioman::Completion;

use crate::request::{Operation, Outcome};

/// An operation that the driver carries on.
struct Driven {
    operation: Arc<dyn Operation>,
    session: newmad::Session,
    done: Completion,
}

impl Operation for Driven {
    fn awaited(&self) -> Option<Awaited<'_>> {
        self.session.awaited(&self.done).pending()
    }

    fn outcome(&self) -> Outcome {
        self.operation.outcome()
    }
}

/// What the driver has not taken yet.
struct Inbox {
    new: Vec<Arc<Driven>>,
    /// Completed when there is something new, while the driver waits for operations.
    rung: Option<Arc<Completion>>,
    runs: bool,
}

static INBOX: Mutex<Inbox> = Mutex::new(Inbox { new: Vec::new(), rung: None, runs: false });
static NEW: Condvar = Condvar::new();

fn inbox() -> MutexGuard<'static, Inbox> {
    INBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives an operation to the driver; what the program waits for instead. Where the system starts no thread that is the operation,
/// which goes on in the program's waits: other members wait for it.
pub(super) fn drive(
    operation: Arc<dyn Operation>,
    session: &newmad::Session,
) -> Arc<dyn Operation> {
    let driven = Driven { operation, session: session.clone(), done: Completion::new() };
    let driven = Arc::new(driven);
    let mut inbox = inbox();
    if !inbox.runs {
        let thread = std::thread::Builder::new().name("madmpi-stages".into());
        if marcel::plumbing::signal::spawn_blocked(thread, run).is_err() {
            return driven.operation.clone();
        }
        inbox.runs = true;
    }
    inbox.new.push(driven.clone());
    if let Some(rung) = inbox.rung.take() {
        rung.complete();
    }
    NEW.notify_one();
    driven
}

fn run() {
    stand_aside();
    let mut all: Vec<Arc<Driven>> = Vec::new();
    loop {
        let rung = Arc::new(Completion::new());
        {
            let mut inbox = inbox();
            while all.is_empty() && inbox.new.is_empty() {
                inbox = NEW.wait(inbox).unwrap_or_else(PoisonError::into_inner);
            }
            all.append(&mut inbox.new);
            inbox.rung = Some(rung.clone());
        }
        // Looking at an operation begins its next stage.
        all.retain(|driven| {
            let over = driven.operation.awaited().is_none();
            if over {
                driven.done.complete();
            }
            !over
        });
        let Some(first) = all.first() else { continue };
        let mut awaited = vec![first.session.awaited(&rung)];
        // One that ends just now is over for the wait too.
        awaited
            .extend(all.iter().map(|driven| driven.operation.awaited().unwrap_or(Awaited::OVER)));
        newmad::wait_any(&mut awaited);
    }
}
