//! The policy of \[Trahay09\], 5.3: poll where a core is idle, sleep in the kernel where none is.
//!
//! How long to poll: the cost of a wake-up by the kernel over the accepted overhead (5 µs / 5 % = 100 µs at the most;
//! the default is half of that). Not at all when every compute virtual processor is busy (the core is better given to
//! them, and a kernel wake-up preempts them in a few µs), nor when other green threads want the caller's virtual
//! processor. Only briefly when the library says that the wait will be long.

use std::time::Duration;

use crate::progress::policy::contract::{Asker, Choice, Limit, Policy, Request, Snapshot};
use crate::progress::policy::hints::Method;
use crate::progress::policy::hints::{Hint, Priority};

/// Spin time where no knob says otherwise.
pub(crate) const SPIN: Duration = Duration::from_micros(50);
/// Spin time under [`Hint::Long`].
pub(crate) const LONG_SPIN: Duration = Duration::from_micros(5);
/// A poller sees at this pace whether the machine has become loaded.
pub(crate) const LOOK: Duration = Duration::from_micros(20);

/// Polls while a core is idle, for a bounded time; else sleeps in the kernel. The manager asks it in place of a policy
/// that panics.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadAware;

impl Policy for LoadAware {
    fn name(&self) -> &str {
        "load-aware"
    }

    #[inline]
    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice {
        match request.asker {
            Asker::Passing => {
                return Choice::new(Method::Poll, "a poller that passes polls all sources");
            }
            Asker::Leaving => return leaving(load),
            Asker::Waiter | Asker::Idle => {}
        }
        if let Some(choice) = too_loaded(request, load) {
            return choice;
        }
        let spin = match load.limit {
            Limit::Auto => Some(SPIN),
            Limit::For(time) => Some(time),
            Limit::Never => None,
        };
        let spin = match (spin, request.hint) {
            (Some(spin), Hint::Long) if request.asker == Asker::Waiter => Some(spin.min(LONG_SPIN)),
            (Some(spin), Hint::Expected(time)) if time > spin => Some(LONG_SPIN.min(spin)),
            (spin, _) => spin,
        };
        if load.limit == Limit::Auto
            && let Some(choice) = in_vain(request)
        {
            return choice;
        }
        poll_for(spin, request.waited, "a core is idle")
    }
}

/// How events are found while no thread looks. Without a background watcher (mode mono) the other way is a tick, which
/// is up to a period late; a signal takes some microseconds. With one, the watcher's own wake-up is as quick, and
/// interrupts no computation where a core is idle.
#[inline]
pub(crate) fn leaving(load: &Snapshot) -> Choice {
    match load.has_watcher {
        true => Choice::new(Method::Block, "no other thread looks"),
        false => Choice::new(Method::Interrupt, "no thread sleeps for it, and ticks come late"),
    }
}

/// Why not to poll at all.
#[inline]
pub(crate) fn too_loaded(request: &Request<'_>, load: &Snapshot) -> Option<Choice> {
    let block = |why| Some(Choice::new(Method::Block, why));
    if load.loaded {
        return block("every core computes: the kernel wakes sooner than one's turn to poll comes");
    }
    if load.runnable && request.priority < Priority::High {
        return block("other threads want the virtual processor");
    }
    if request.priority == Priority::Low {
        return block("the request is not urgent");
    }
    None
}

/// Why not to poll although a core is idle: recent polls found nothing before their waiters slept.
#[inline]
pub(crate) fn in_vain(request: &Request<'_>) -> Option<Choice> {
    let polls = match request.asker {
        Asker::Waiter if request.waited.is_zero() => request.history.tries(),
        Asker::Idle => request.history.is_hopeful(),
        _ => true,
    };
    (!polls).then(|| Choice::new(Method::Block, "recent polls found nothing before the sleep"))
}

/// Polls until `spin` of waiting is over, seeing now and then whether the load has changed.
#[inline]
pub(crate) fn poll_for(spin: Option<Duration>, waited: Duration, why: &'static str) -> Choice {
    match spin {
        None => Choice::new(Method::Poll, why).again(LOOK),
        Some(spin) if waited < spin => {
            Choice::new(Method::Poll, why).again((spin - waited).min(LOOK))
        }
        Some(_) => Choice::new(Method::Block, "polling has taken as long as it may"),
    }
}
