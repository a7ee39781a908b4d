//! Events for `tracing`, behind the feature of that name; without it nothing of this is compiled.
//!
//! All have the target `marcel` and the level TRACE:
//!
//! | event | fields | when |
//! |---|---|---|
//! | `spawn` | `thread`, `name` | a thread has been made, and is about to be queued |
//! | `start` | `thread`, `vp` | it is about to run for the first time |
//! | `park` | `thread`, `reason` | it is about to wait |
//! | `unpark` | `thread` | it is woken (or its next park will return at once) |
//! | `end` | `thread` | it has ended |
//! | `steal` | `thread`, `vp`, `from` | a virtual processor takes a thread that never ran from another one |
//! | `sleep`, `wake` | `vp` | a virtual processor sleeps in the kernel |
//!
//! `vp` is a number as in `vp0`, with the highest of 32 bits set for a reactive one.
//!
//! A subscriber runs where the event is: on a green thread's stack, or in the scheduler, where it may block the virtual
//! processor but must not call this crate's blocking functions. A tick's handler emits none: a subscriber may
//! allocate and lock, which a signal handler may not. For that reason a program's own signal handler must not
//! call [`crate::Thread::unpark`] while this feature is on.

/// Emits the event `$name` with these fields, unless in the handler of a tick.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($name:literal, $($field:ident = $value:expr),+) => {
        if !$crate::os::this_thread::in_tick() {
            tracing::event!(name: $name, target: "marcel", tracing::Level::TRACE, $($field = $value),+, $name);
        }
    };
}

/// Nothing.
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($name:literal, $($field:ident = $value:expr),+) => {};
}

pub(crate) use event;
