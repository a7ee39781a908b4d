//! Which ranks of this process are gone, and who is told: layers above the session whose ranks wait for each other without
//! the engine. The session does not know them.

use std::sync::Weak;

use marcel::plumbing::KernelMutex;

use crate::error::Cause;

/// What is told when a rank of this process is gone.
pub(crate) trait Watches: Send + Sync {
    /// The rank has closed its session, or panicked.
    fn departs(&self, rank: u32, cause: Cause);
}

/// Those of a process.
#[derive(Default)]
pub(crate) struct Departures(KernelMutex<Known>);

#[derive(Default)]
struct Known {
    gone: Vec<(u32, Cause)>,
    watchers: Vec<Weak<dyn Watches>>,
    /// Watchers after the last look for those that are over.
    looked: usize,
}

impl Departures {
    /// The watcher is told of those that are gone already, and of each from now on.
    pub(crate) fn watch(&self, watcher: Weak<dyn Watches>) {
        let mut known = self.0.lock();
        if known.watchers.len() >= 2 * known.looked.max(8) {
            known.watchers.retain(|watcher| watcher.strong_count() > 0);
            known.looked = known.watchers.len();
        }
        known.watchers.push(watcher.clone());
        let gone = known.gone.clone();
        drop(known);
        if let Some(watcher) = watcher.upgrade() {
            gone.into_iter().for_each(|(rank, cause)| watcher.departs(rank, cause));
        }
    }

    /// A rank is gone.
    pub(crate) fn depart(&self, rank: u32, cause: Cause) {
        let mut known = self.0.lock();
        known.gone.push((rank, cause));
        let watchers: Vec<_> = known.watchers.iter().filter_map(Weak::upgrade).collect();
        drop(known);
        watchers.into_iter().for_each(|watcher| watcher.departs(rank, cause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Log(KernelMutex<Vec<u32>>);

    impl Watches for Log {
        fn departs(&self, rank: u32, _: Cause) {
            self.0.lock().push(rank);
        }
    }

    fn watched(departures: &Departures) -> Arc<Log> {
        let log = Arc::new(Log::default());
        let watcher: Arc<dyn Watches> = log.clone();
        departures.watch(Arc::downgrade(&watcher));
        log
    }

    #[test]
    fn a_watcher_is_told_of_earlier_and_later_departures_once() {
        let departures = Departures::default();
        let first = watched(&departures);
        departures.depart(3, Cause::Left);
        let second = watched(&departures);
        departures.depart(5, Cause::Panicked);
        assert_eq!(*first.0.lock(), [3, 5]);
        assert_eq!(*second.0.lock(), [3, 5]);
    }

    #[test]
    fn watchers_that_are_over_are_forgotten() {
        let departures = Departures::default();
        for _ in 0..100 {
            drop(watched(&departures));
        }
        assert!(departures.0.lock().watchers.len() <= 16);
    }
}
