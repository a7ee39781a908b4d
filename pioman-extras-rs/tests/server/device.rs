//! A device that is not there: events are fired by hand, and looked for or blocked on as on a real one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pioman::Manager;
use pioman_extras::server::{Builder, Group, Pending, Server};

#[derive(Default)]
struct State {
    fired: HashSet<usize>,
    /// Events whose blocking call is to return.
    poked: HashSet<usize>,
}

#[derive(Default)]
pub(crate) struct Device {
    state: Mutex<State>,
    changed: Condvar,
    /// Calls that block now.
    pub(crate) blocking: AtomicUsize,
    /// Polling calls that run now, and the most there ever were.
    polling: AtomicUsize,
    pub(crate) most_polling: AtomicUsize,
    /// Whom is never told that it is blocked on twice at once.
    blocked_on: Mutex<HashSet<usize>>,
    pub blocked_twice: AtomicUsize,
}

/// What one request is to the device's library: the number of an event.
pub(crate) type Event = usize;

/// Callbacks, by the letters of the table in `pioman::server`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds(pub(crate) &'static [&'static str]);

impl Device {
    pub(crate) fn fire(&self, event: Event) {
        self.state.lock().unwrap().fired.insert(event);
        self.changed.notify_all();
    }

    fn look(&self, requests: &[&Pending<Event>]) {
        let n = self.polling.fetch_add(1, SeqCst) + 1;
        self.most_polling.fetch_max(n, SeqCst);
        let fired: Vec<_> = {
            let state = self.state.lock().unwrap();
            requests.iter().filter(|request| state.fired.contains(&****request)).collect()
        };
        fired.iter().for_each(|request| {
            request.complete(****request as i32);
        });
        self.polling.fetch_sub(1, SeqCst);
    }

    /// Blocks until one of these has come, somebody pokes, or the time is over.
    fn block(&self, requests: &[&Pending<Event>], timeout: Option<Duration>) {
        self.blocking.fetch_add(1, SeqCst);
        let waits = timeout != Some(Duration::ZERO);
        if waits {
            let mut blocked_on = self.blocked_on.lock().unwrap();
            let twice = requests.iter().filter(|request| !blocked_on.insert(****request)).count();
            self.blocked_twice.fetch_add(twice, SeqCst);
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.state.lock().unwrap();
        let come: Vec<_> = loop {
            let here = |set: &HashSet<usize>| requests.iter().any(|r| set.contains(&***r));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if here(&state.fired) || here(&state.poked) || left == Some(Duration::ZERO) {
                requests.iter().for_each(|request| {
                    state.poked.remove(&***request);
                });
                break requests.iter().filter(|r| state.fired.contains(&****r)).collect();
            }
            state = match left {
                None => self.changed.wait(state).unwrap(),
                Some(left) => self.changed.wait_timeout(state, left).unwrap().0,
            };
        };
        drop(state);
        if waits {
            let mut blocked_on = self.blocked_on.lock().unwrap();
            requests.iter().for_each(|request| {
                blocked_on.remove(&***request);
            });
        }
        come.iter().for_each(|request| {
            request.complete(****request as i32);
        });
        self.blocking.fetch_sub(1, SeqCst);
    }

    fn poke(&self, group: &Group<'_, Event>) {
        self.state.lock().unwrap().poked.extend(group.iter().map(|request| **request));
        self.changed.notify_all();
    }

    /// A server with these callbacks, not started yet.
    pub(crate) fn builder(
        self: &Arc<Self>,
        manager: &Arc<Manager>,
        kinds: Kinds,
    ) -> Builder<Event> {
        let mut builder = Server::builder(manager, "device");
        for &kind in kinds.0 {
            let device = self.clone();
            let all = |group: &Group<'_, Event>| group.iter().cloned().collect::<Vec<_>>();
            fn refs(all: &[Pending<Event>]) -> Vec<&Pending<Event>> {
                all.iter().collect()
            }
            builder = match kind {
                "poll one" => builder.poll_one(move |r| device.look(&[r])),
                "poll group" => builder.poll_group(move |g| device.look(&refs(&all(g)))),
                "poll any" => builder.poll_any(move |g| device.look(&refs(&all(g)))),
                "block one" => builder.block_one(move |r| device.block(&[r], None)),
                "block one timeout" => {
                    builder.block_one_timeout(move |r, time| device.block(&[r], Some(time)))
                }
                "block group" => builder.block_group(move |g| device.block(&refs(&all(g)), None)),
                "block any" => builder.block_any(move |g| device.block(&refs(&all(g)), None)),
                "block any timeout" => builder
                    .block_any_timeout(move |g, time| device.block(&refs(&all(g)), Some(time))),
                "interrupt" => builder.interrupt(move |g| device.poke(g)),
                other => panic!("no kind {other}"),
            };
        }
        builder
    }
}
