//! The policies that always do the same; and `interrupt`, which does so for what is left pending.

use std::time::Duration;

use crate::progress::policy::contract::{Asker, Choice, Policy, Request, Snapshot};
use crate::progress::policy::hints::Method;
use crate::progress::policy::load_aware::LoadAware;

/// Nothing sleeps in the kernel while something is pending.
pub(crate) struct AlwaysPoll;
/// The same for each caller: nothing polls, or only ticks do.
pub(crate) struct Always {
    pub(crate) name: &'static str,
    pub(crate) method: Method,
}
/// Only dedicated kernel threads poll.
pub(crate) struct Dedicated;

/// What is left pending while threads compute is found by interrupts; otherwise as [`LoadAware`].
pub(crate) struct Interrupts;

/// How often a poller sees whether it is still to poll.
const LOOK: Duration = Duration::from_micros(100);

impl Policy for AlwaysPoll {
    fn name(&self) -> &str {
        "always-poll"
    }

    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice {
        if request.asker == Asker::Leaving && load.busy_vps >= load.vps {
            return Choice::new(Method::Tick, "no virtual processor is idle: ticks poll");
        }
        Choice::new(Method::Poll, "always").again(LOOK)
    }
}

impl Policy for Always {
    fn name(&self) -> &str {
        self.name
    }

    fn choose(&self, _: &Request<'_>, _: &Snapshot) -> Choice {
        Choice::new(self.method, "always")
    }
}

impl Policy for Interrupts {
    fn name(&self) -> &str {
        "interrupt"
    }

    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice {
        match request.asker {
            Asker::Leaving => Choice::new(Method::Interrupt, "always"),
            _ => LoadAware.choose(request, load),
        }
    }
}

impl Policy for Dedicated {
    fn name(&self) -> &str {
        "dedicated"
    }

    fn choose(&self, _: &Request<'_>, load: &Snapshot) -> Choice {
        match load.dedicated {
            0 => Choice::new(Method::Block, "no dedicated kernel thread is on"),
            _ => Choice::new(Method::Dedicated, "always"),
        }
    }
}
