//! Closures for the pool of spare kernel threads, whose jobs are immortal nodes: nodes are recycled.

use std::sync::{Mutex, OnceLock, PoisonError};

use marcel::plumbing::lwp::{JobNode, LwpJob, LwpPool};

type Work = Box<dyn FnOnce() + Send>;

struct Carrier {
    node: OnceLock<JobNode>,
    work: Mutex<Option<Work>>,
}

static FREE: Mutex<Vec<&'static Carrier>> = Mutex::new(Vec::new());

impl LwpJob for Carrier {
    fn run(&self) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work();
        }
    }
}

/// Has a spare kernel thread call `work`, which must not unwind. Allocates.
pub(super) fn hand_over(pool: &LwpPool, work: impl FnOnce() + Send + 'static) {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let carrier = free.unwrap_or_else(|| {
        Box::leak(Box::new(Carrier { node: OnceLock::new(), work: Mutex::new(None) }))
    });
    let work: Work = Box::new(move || {
        // Its run has begun, so the node may be submitted again.
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(carrier);
        work();
    });
    *carrier.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    pool.submit(carrier.node.get_or_init(|| JobNode::new(carrier)));
}
