//! Figures that outlive what they count: of sources that have gone, and with `PIOM_STATS=1` of each manager, told on
//! standard error when the manager goes or the process exits.

use std::io::Write;
use std::sync::{Arc, Once, Weak};
use std::time::Instant;

use crate::observe::{Background, Counters, SourceCounters};
use marcel::plumbing::KernelMutex;

/// What a manager keeps.
pub(crate) struct Ledger {
    gone: KernelMutex<Counters>,
    began: Instant,
    tells_at_end: bool,
}

impl Ledger {
    pub(crate) fn new(tells_at_end: bool) -> Ledger {
        Ledger { gone: KernelMutex::default(), began: Instant::now(), tells_at_end }
    }

    /// A source has gone.
    pub(crate) fn has_gone(&self, source: SourceCounters) {
        self.gone.lock().add(source);
    }

    /// What was counted for sources that have gone, and for how long.
    pub(crate) fn gone(&self) -> Counters {
        Counters { lasted: self.began.elapsed(), ..self.gone.lock().clone() }
    }

    /// Whether all figures are told at the end.
    pub(crate) fn tells_at_end(&self) -> bool {
        self.tells_at_end
    }
}

/// A manager, as far as its figures are told at the end.
pub(crate) trait Tells: Send + Sync {
    /// All that was counted.
    fn figures(&self) -> Counters;
}

/// Managers that have not told theirs.
static ALL: KernelMutex<Vec<Weak<dyn Tells>>> = KernelMutex::new(Vec::new());

/// Has the figures of this manager told when the process exits.
pub(crate) fn expect(manager: Weak<dyn Tells>) {
    static ONCE: Once = Once::new();
    // SAFETY: a function without arguments, which may run at any time after.
    ONCE.call_once(|| _ = unsafe { libc::atexit(at_exit) });
    let mut all = ALL.lock();
    all.retain(|manager| manager.strong_count() > 0);
    all.push(manager);
}

extern "C" fn at_exit() {
    let all = std::mem::take(&mut *ALL.lock());
    for manager in all.iter().filter_map(Weak::upgrade) {
        tell(&*manager);
        std::mem::forget::<Arc<_>>(manager); // the process ends: not here, after everything else
    }
}

/// Writes them. In one piece, so that those of several processes do not mix.
pub(crate) fn tell(manager: &dyn Tells) {
    let rank = std::env::var("PMI_RANK").map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    let figures = manager.figures();
    let background = Background::of(&figures);
    let text = format!("pioman: {rank}process {}\n{figures}{background}", std::process::id());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
