//! `PIOM_STATS=1`: the counters of each manager on standard error, when it goes or the process exits.

use std::io::Write;
use std::sync::{Arc, Mutex, Once, Weak};

use crate::manager::Core;

/// Managers that have not told theirs.
static ALL: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

/// Has the manager's counters told at the end.
pub(crate) fn expect(core: &Arc<Core>) {
    static ONCE: Once = Once::new();
    // SAFETY: a function without arguments, which may run at any time after.
    ONCE.call_once(|| _ = unsafe { libc::atexit(at_exit) });
    let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
    all.retain(|core| core.strong_count() > 0);
    all.push(Arc::downgrade(core));
}

extern "C" fn at_exit() {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(|e| e.into_inner()));
    for core in all.iter().filter_map(Weak::upgrade) {
        tell(&core);
        std::mem::forget(core); // the process ends: not here, after everything else
    }
}

/// Writes them. In one piece, so that those of several processes do not mix.
pub(crate) fn tell(core: &Core) {
    let rank = std::env::var("PMI_RANK").map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    let text = format!("pioman: {rank}process {}\n{}", std::process::id(), core.counters());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
