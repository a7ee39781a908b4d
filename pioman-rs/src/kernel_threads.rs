//! How much time the kernel threads of this library, and of those above and below it, have spent on cores.

use std::time::Duration;

use marcel::plumbing::{KernelMutex, clock};

/// What the time of the whole process is called.
const TOTAL: &str = "total";
/// How the names of the libraries' kernel threads begin.
const LIBRARIES: [&str; 4] = ["marcel", "pioman", "newmad", "madmpi"];

/// Of threads that have ended.
static ENDED: KernelMutex<Vec<(String, Duration)>> = KernelMutex::new(Vec::new());

/// Runs the body of a library's kernel thread; after its end its time on a core still counts
/// ([`crate::observe::Counters::threads`]).
pub fn library_thread<T>(body: impl FnOnce() -> T) -> T {
    let _counted = Counted;
    body()
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        let time = time_of(libc::CLOCK_THREAD_CPUTIME_ID);
        let mut ended = ENDED.lock();
        add(&mut ended, name.trim_end(), time);
    }
}

/// Not by rustix, which looks for the vDSO itself: under valgrind, which hides that, it dies (`ci/instructions.sh`).
fn time_of(clock: libc::clockid_t) -> Duration {
    Duration::from_nanos(clock::read(clock))
}

fn add(threads: &mut Vec<(String, Duration)>, name: &str, time: Duration) {
    match threads.iter_mut().find(|(known, _)| known == name) {
        Some((_, sum)) => *sum += time,
        None => threads.push((name.to_owned(), time)),
    }
}

/// The threads by name, those that have ended included, and last the whole process.
pub(crate) fn threads() -> Vec<(String, Duration)> {
    let mut threads = ENDED.lock().clone();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        // The first of three numbers: nanoseconds on a core.
        let ns = read("schedstat").and_then(|text| text.split(' ').next()?.parse().ok());
        let (Some(name), Some(ns)) = (read("comm"), ns) else { continue };
        if LIBRARIES.iter().any(|library| name.starts_with(library)) {
            add(&mut threads, name.trim_end(), Duration::from_nanos(ns));
        }
    }
    threads.sort();
    threads.push((TOTAL.to_owned(), time_of(libc::CLOCK_PROCESS_CPUTIME_ID)));
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_while_it_lives_and_after_its_end() {
        let time = |name: &str| {
            let of_name = |(known, time): &(String, Duration)| (known == name).then_some(*time);
            threads().iter().find_map(of_name).unwrap_or_default()
        };
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let burn = move || {
            while time_of(libc::CLOCK_THREAD_CPUTIME_ID) < Duration::from_millis(20) {}
            _ = wait.recv();
        };
        let thread = std::thread::Builder::new().name("pioman-test".into());
        let thread = thread.spawn(|| library_thread(burn)).unwrap();
        while time("pioman-test") < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        drop(go);
        thread.join().unwrap();
        assert!(time("pioman-test") >= Duration::from_millis(20));
        assert!(time(TOTAL) >= time("pioman-test"));
    }
}
