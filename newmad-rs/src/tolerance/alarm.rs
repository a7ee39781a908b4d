//! The alarm: the engine has learnt of a failure, or has a control message, and nothing listens yet.
//!
//! The engine completes it on the progress path, with its lock held. So the callback begins nothing itself, but has a thread
//! do it, once in the life of a process.

use std::sync::{Arc, OnceLock, Weak};

use marcel::plumbing::KernelMutex;
use pioman::{Callback, Completion};

use crate::gate::signals::Signals;
use crate::session::Inner;
use crate::tolerance::listener;

/// What a process keeps for the alarm.
#[derive(Default)]
struct Alarm {
    sessions: Arc<KernelMutex<Vec<Weak<Inner>>>>,
    set: OnceLock<Set>,
}

struct Set {
    /// Dropped before what it borrows of.
    _callback: Callback<'static>,
    _signals: Arc<Signals>,
}

/// The session listens from the alarm on.
pub(super) fn set(inner: &Arc<Inner>) {
    let alarm: &Alarm = inner.process_extensions().get();
    alarm.sessions.lock().push(Arc::downgrade(inner));
    alarm.set.get_or_init(|| {
        let (signals, sessions) = (inner.engine.shared_signals(), alarm.sessions.clone());
        let completion: *const Completion = &raw const signals.alarm;
        // SAFETY: it stays where it is as long as `signals`, which `Set` drops after the callback.
        let completion: &'static Completion = unsafe { &*completion };
        let callback = completion.on_complete(move || {
            let listen = move || {
                let sessions = std::mem::take(&mut *sessions.lock());
                sessions.iter().filter_map(Weak::upgrade).for_each(|inner| listener::start(&inner));
            };
            let thread = std::thread::Builder::new().name("newmad alarm".into());
            // Without a thread to be had, calls that agree or revoke begin to listen.
            let _ = marcel::plumbing::signal::spawn_blocked(thread, listen);
        });
        Set { _callback: callback, _signals: signals }
    });
    // The callback has been called once, perhaps before this session was among those that it had listen.
    if inner.engine.shared_signals().alarm.is_done() {
        listener::start(inner);
    }
}
