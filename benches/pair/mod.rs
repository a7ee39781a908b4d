//! Two kernel threads on two cores, which poll for each other.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The cores that this process may run on.
fn cores() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: zeroed is a set, of none; the call fills in what it has room for.
    let set = unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// The calling thread runs on that core from now on.
fn bind(core: usize) {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: zeroed is a set, of none; the core is below its size, as `cores` gave it.
    unsafe {
        libc::CPU_SET(core, set.assume_init_mut());
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr());
    }
}

/// Runs `mine` here and `other` on a thread of its own, from the same moment on; each on a core of its own if there
/// are two.
pub(crate) fn across<T>(other: impl FnOnce() + Send, mine: impl FnOnce() -> T + Send) -> T
where
    T: Send,
{
    let (ready, cores) = (&AtomicBool::new(false), &cores());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            bind(cores[0]);
            ready.store(true, Ordering::Release);
            other();
        });
        // Not the caller itself: it may go where it likes afterwards.
        let mine = scope.spawn(move || {
            bind(cores[cores.len() - 1]);
            until(|| ready.load(Ordering::Acquire).then_some(()));
            mine()
        });
        mine.join().expect("no panic")
    })
}

/// Polls until there is something. Now and then it gives way: on a busy machine both may be on one core.
#[inline]
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..1 << 14 {
            if let Some(found) = look() {
                return found;
            }
        }
        std::thread::yield_now();
    }
}
