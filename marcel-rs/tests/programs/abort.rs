//! Built with `panic = "abort"` by `tests/abort.rs`: a runtime ends while threads wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use marcel::sync::Mutex;
use marcel::{Runtime, Stopped};

static LOCK: Mutex<u32> = Mutex::new(0);

marcel::thread_local! {
    static OWN: String = "a value of the thread's own".into();
}

/// Waits in its destructor.
struct Parks(Cell<Option<Arc<AtomicUsize>>>);

impl Drop for Parks {
    fn drop(&mut self) {
        if let Some(count) = self.0.take() {
            count.fetch_add(1, SeqCst);
        }
        marcel::park();
    }
}

marcel::thread_local! {
    static PARKS: Parks = Parks(Cell::new(None));
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn main() {
    let drops = Arc::new(AtomicUsize::new(0));
    let waiting = Arc::new(AtomicUsize::new(0));
    let guard = LOCK.lock();
    let runtime = Runtime::builder().vps(1).reactive(1).build().unwrap();
    let here = || (waiting.clone(), Counted(drops.clone()));
    let (count, counted) = here();
    let parked = runtime.spawn(move || {
        let _counted = counted;
        OWN.with(|own| {
            count.fetch_add(1, SeqCst);
            marcel::park();
            own.len()
        })
    });
    let unparker = *parked.thread();
    let (count, counted) = here();
    let locking = runtime.spawn(move || {
        let _counted = counted;
        count.fetch_add(1, SeqCst);
        *LOCK.lock() += 1;
    });
    let (count, counted) = here();
    let joining = runtime.spawn(move || {
        let _counted = counted;
        let inner = marcel::spawn(|| loop {
            marcel::yield_now();
        });
        count.fetch_add(1, SeqCst);
        inner.join().is_ok()
    });
    let (count, _) = here();
    drop(runtime.spawn(move || {
        marcel::scope(|scope| {
            scope.spawn(marcel::park);
            count.fetch_add(1, SeqCst);
        })
    }));
    let (count, _) = here();
    drop(runtime.spawn(move || {
        // Its result is there when the destructor waits.
        PARKS.with(|parks| parks.0.set(Some(count)));
        [0u64; 8]
    }));
    while waiting.load(SeqCst) < 5 {
        std::thread::yield_now();
    }
    drops.store(0, SeqCst);
    drop(runtime);
    assert!(parked.join().unwrap_err().is::<Stopped>());
    assert!(locking.join().unwrap_err().is::<Stopped>());
    assert!(joining.join().unwrap_err().is::<Stopped>());
    assert_eq!(drops.load(SeqCst), 0, "nothing was unwound");
    // A wake-up that comes too late wakes no thread, not in the next runtime either.
    drop(guard);
    unparker.unpark();
    let runtime = Runtime::builder().vps(1).reactive(1).build().unwrap();
    let sum: u32 = runtime.run(|| {
        let threads: Vec<_> = (0..1000).map(|i| marcel::spawn(move || {
            marcel::yield_now();
            i
        })).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sum, 499_500);
    drop(runtime);
    println!("all is well");
}
