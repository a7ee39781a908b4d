//! Closures for the pool threads. Jobs of the pool are immortal nodes, so the nodes are recycled.

use std::sync::OnceLock;

use marcel::plumbing::KernelMutex;
use marcel::plumbing::lwp::{JobNode, LwpJob, LwpPool};

type Work = Box<dyn FnOnce() + Send>;

struct Carrier {
    node: OnceLock<JobNode>,
    work: KernelMutex<Option<Work>>,
}

static FREE: KernelMutex<Vec<&'static Carrier>> = KernelMutex::new(Vec::new());

impl LwpJob for Carrier {
    fn run(&self) {
        let work = self.work.lock().take();
        if let Some(work) = work {
            work();
        }
    }
}

/// Has a pool thread call `work`, which must not unwind. Allocates.
pub(super) fn hand_over(pool: &LwpPool, work: impl FnOnce() + Send + 'static) {
    let free = FREE.lock().pop();
    let carrier = free.unwrap_or_else(|| {
        Box::leak(Box::new(Carrier { node: OnceLock::new(), work: KernelMutex::new(None) }))
    });
    let work: Work = Box::new(move || {
        // Its run has begun, so the node may be submitted again.
        FREE.lock().push(carrier);
        work();
    });
    *carrier.work.lock() = Some(work);
    pool.submit(carrier.node.get_or_init(|| JobNode::new(carrier)));
}
