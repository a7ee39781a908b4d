//! What the manager counts.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Manager, Point, Source};

/// Has something at every `every`th poll.
struct Now {
    name: &'static str,
    every: u64,
    polls: AtomicU64,
    happened: Mutex<Option<Instant>>,
}

impl Now {
    fn new(name: &'static str, every: u64) -> Arc<Now> {
        Arc::new(Now { name, every, polls: AtomicU64::new(0), happened: Mutex::new(None) })
    }
}

// SAFETY: atomics; the lock is only taken outside handlers, in tests without ticks.
unsafe impl Source for Now {
    fn name(&self) -> &str {
        self.name
    }
    fn poll(&self) -> bool {
        (self.polls.fetch_add(1, Relaxed) + 1).is_multiple_of(self.every)
    }
    fn pending(&self) -> bool {
        false
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
    fn happened(&self) -> Option<Instant> {
        *self.happened.lock().unwrap()
    }
}

#[test]
fn every_poll_is_counted_where_it_was() {
    let manager = Manager::builder().mode(Mode::NoThread).build().unwrap();
    let one = manager.add_source(Now::new("one", 10)).unwrap();
    let _two = manager.add_source(Now::new("two", u64::MAX)).unwrap();
    std::thread::scope(|scope| {
        for point in [Point::Library, Point::Wait, Point::Library] {
            let manager = &manager;
            scope.spawn(move || (0..5000).for_each(|_| _ = manager.poll(point)));
        }
    });
    let counters = manager.counters();
    let one_ = counters.source("one").unwrap();
    let at = |point| (one_.at(point).polls, one_.at(point).hits);
    assert_eq!((at(Point::Library).0, at(Point::Wait).0), (10_000, 5000));
    assert_eq!(at(Point::Library).1 + at(Point::Wait).1, 1500);
    assert_eq!(manager.hits(Point::Library) + manager.hits(Point::Wait), 1500);
    assert!(one_.is_there && !one_.pollers.is_empty());
    assert_eq!(counters.source("two").unwrap().at(Point::Library).polls, 10_000);
    assert!(counters.to_string().contains("one"), "{counters}");

    // What was counted stays when the source goes, and one of the same name adds to it.
    drop(one);
    assert!(!manager.counters().source("one").unwrap().is_there);
    let _one = manager.add_source(Now::new("one", 2)).unwrap();
    (0..100).for_each(|_| _ = manager.poll(Point::Library));
    let counters = manager.counters();
    let one = counters.source("one").unwrap();
    assert_eq!((one.at(Point::Library).polls, one.is_there), (10_100, true));
    assert_eq!(manager.hits(Point::Library) + manager.hits(Point::Wait), 1550);
}

#[test]
fn those_who_poll_have_names() {
    let runtime =
        pioman::Runtime::build(Manager::builder().mode(Mode::Mono), marcel::Runtime::builder())
            .unwrap();
    let source = Now::new("named", u64::MAX);
    let _source = runtime.manager().add_source(source).unwrap();
    runtime.run(|| (0..100).for_each(|_| _ = pioman::current().unwrap().poll(Point::Library)));
    runtime.manager().poll(Point::Library);
    let counters = runtime.manager().counters();
    let of = |who: &str| {
        let pollers = &counters.source("named").unwrap().pollers;
        let mut found = pollers.iter().filter(|poller| poller.thread.starts_with(who));
        found.next().map(|poller| poller.points[Point::Library as usize].polls)
    };
    assert_eq!((of("vp0"), of("thread ")), (Some(100), Some(1)), "{counters}");
}

#[test]
fn times_are_bounds_or_the_source_s_own() {
    let manager = Manager::builder().mode(Mode::NoThread).times(true).build().unwrap();
    let source = Now::new("late", 2);
    let _source = manager.add_source(source.clone()).unwrap();
    let detect = || manager.counters().source("late").unwrap().detect[Point::Tick as usize].clone();
    manager.poll(Point::Tick); // in vain
    std::thread::sleep(Duration::from_millis(3));
    manager.poll(Point::Tick);
    let bound = detect();
    assert_eq!(bound.count(), 1);
    assert!(bound.within(1.0).unwrap() >= Duration::from_millis(3), "{bound}");
    *source.happened.lock().unwrap() = Some(Instant::now() - Duration::from_secs(5));
    manager.poll(Point::Tick);
    manager.poll(Point::Tick);
    assert_eq!(detect().count(), 2);
    assert!(detect().within(1.0).unwrap() >= Duration::from_secs(5), "{}", detect());

    // Not asked for, not taken.
    let manager = Manager::builder().mode(Mode::NoThread).times(false).build().unwrap();
    let _source = manager.add_source(Now::new("quick", 1)).unwrap();
    manager.poll(Point::Tick);
    assert_eq!(manager.counters().source("quick").unwrap().detect[2].count(), 0);
}
