//! Whether the next event is to wake a thread: the word of [`crate::Notifier`], whose description has the
//! protocol.

use crate::shim::{AtomicU8, Ordering::*};

const QUIET: u8 = 0;
const ARMED: u8 = 1;
const RUNG: u8 = 2;

pub(crate) struct Bell(AtomicU8);

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell(AtomicU8::new(QUIET))
    }

    /// Whether it may have rung. One that was armed again before its ringer wrote looks armed only.
    pub(crate) fn is_used(&self) -> bool {
        self.0.load(Acquire) != QUIET
    }

    /// Before the look at what may have happened.
    pub(crate) fn arm(&self) {
        self.0.swap(ARMED, SeqCst);
    }

    /// After something has happened; true if the caller is to ring.
    pub(crate) fn notify(&self) -> bool {
        // Not a load: only a read-modify-write is sure to see an arming whose look did not see the event.
        let armed = |state| if state == ARMED { Some(RUNG) } else { Some(state) };
        self.0.fetch_update(SeqCst, SeqCst, armed) == Ok(ARMED)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// The sleeper looks at both requests after arming; loom reports a deadlock if it is not rung for what it missed.
    #[test]
    fn no_event_is_lost_between_the_look_and_the_sleep() {
        loom::model(|| {
            let shared = Arc::new((Bell::new(), Notify::new()));
            let events: [_; 2] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
            let notifiers = events.clone().map(|event| {
                let shared = shared.clone();
                thread::spawn(move || {
                    event.store(true, Release);
                    if shared.0.notify() {
                        shared.1.notify();
                    }
                })
            });
            loop {
                shared.0.arm();
                if events.iter().all(|event| event.load(Acquire)) {
                    break;
                }
                shared.1.wait();
            }
            notifiers.into_iter().for_each(|t| t.join().unwrap());
        });
    }
}
