//! Waits for one, some or all of several requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::plumbing::budget;
use pioman::{Completion, Manager, Waitable};

use crate::api::owned::Owned;
use crate::session::Inner;

/// Keeps other crates from saying what a request is.
#[derive(Debug)]
pub struct Seal(());

/// What there is to wait for, of a request of some kind.
#[derive(Clone, Copy)]
pub struct Awaited<'a>(pub(crate) What<'a>);

/// A collective that goes on, as waits for several see it.
pub(crate) trait Collective {
    /// Its session.
    fn session(&self) -> &Inner;
    /// From now on it receives notices of members that failed.
    fn listen(&self);
    /// How long a thread waits for it before it listens.
    fn patience(&self) -> Duration;
    /// Waits for one of its two ends.
    fn wait(&self, end: &Completion);
}

#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    /// Nothing: it is over.
    Over,
    Request(&'a Owned),
    /// One of a collective's two ends.
    Collective(&'a dyn Collective, &'a Completion),
    /// Something that others complete.
    Other(&'a Inner, &'a Completion),
}

impl<'a> What<'a> {
    pub(crate) fn of(owned: Option<&'a Owned>) -> Awaited<'a> {
        Awaited(owned.map_or(What::Over, What::Request))
    }

    fn is_over(&self) -> bool {
        match self {
            What::Over => true,
            What::Request(owned) => owned.is_finished() || owned.request().is_alarmed(),
            What::Collective(_, end) | What::Other(_, end) => end.is_done(),
        }
    }

    fn session(&self) -> Option<&'a Inner> {
        match self {
            What::Over => None,
            What::Request(owned) => Some(owned.parts().1),
            What::Collective(run, _) => Some(run.session()),
            What::Other(session, _) => Some(session),
        }
    }

    fn waitable(&self) -> Option<Waitable<'a>> {
        match self {
            What::Over => None,
            What::Request(owned) => Some((&owned.request().done).into()),
            What::Collective(_, end) | What::Other(_, end) => Some((*end).into()),
        }
    }

    /// A waiter was woken, by the end or by a nudge: after a nudge it helps the engine.
    fn woken(&self) {
        if let What::Request(owned) = self
            && !owned.is_finished()
        {
            let (pointer, session) = owned.parts();
            session.engine.nudged(pointer);
        }
    }
}

impl Awaited<'_> {
    /// Nothing is to be waited for.
    pub const OVER: Awaited<'static> = Awaited(What::Over);

    /// Whether it is over; does not look for events.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// The same, if it is not over.
    #[inline]
    pub fn pending(self) -> Option<Self> {
        (!self.is_over()).then_some(self)
    }

    /// Waits until it is over.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    pub fn wait(&self) {
        wait(self.0);
    }
}

impl std::fmt::Debug for Awaited<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Awaited").field("over", &self.is_over()).finish()
    }
}

/// A request that can be waited for together with others: all that this crate has, and references to them
/// (`&mut dyn Waited`, where they are of several kinds). One thread waits for it at a time.
pub trait Waited {
    #[doc(hidden)]
    fn awaited(&self, _: Seal) -> Awaited<'_>;
}

impl<R: Waited + ?Sized> Waited for &mut R {
    fn awaited(&self, seal: Seal) -> Awaited<'_> {
        (**self).awaited(seal)
    }
}

impl Waited for Awaited<'_> {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        *self
    }
}

fn what(request: &impl Waited) -> What<'_> {
    request.awaited(Seal(())).0
}

fn is_over(request: &impl Waited) -> bool {
    what(request).is_over()
}

/// Waits until one of the requests is over; which. `None`: there are none. What came of it says its own `wait`.
///
/// ```
/// newmad::run(|session| {
///     let mut receives = Vec::new();
///     for tag in 0..3 {
///         receives.push(session.irecv(0, tag, vec![0; 8])?);
///     }
///     session.send(0, 1, b"one")?;
///     assert_eq!(newmad::wait_any(&mut receives), Some(1));
///     assert_eq!(receives.remove(1).wait()?.1.len, 3);
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
///
/// # Context
/// Green threads and kernel threads.
/// # Blocking
/// The calling thread.
pub fn wait_any<R: Waited>(requests: &mut [R]) -> Option<usize> {
    budget::spend();
    let begun = Instant::now();
    let mut patient = true;
    loop {
        if let Some(over) = requests.iter().position(is_over) {
            return Some(over);
        }
        let mut pending: Vec<What<'_>> = requests.iter().map(what).collect();
        pending.retain(|what| what.session().is_some());
        let manager = &pending.first()?.session()?.manager;
        let mut patience = None;
        for what in &pending {
            if let Some(session) = what.session() {
                session.engine.send_held();
            }
            match what {
                What::Request(owned) => owned.parts().1.engine.will_wait(owned.request()),
                What::Collective(run, _) if patient => patience = Some(run.patience()),
                What::Collective(run, _) => run.listen(),
                What::Over | What::Other(..) => {}
            }
        }
        // An alarm that came before its owner was known to wait has woken no thread.
        if pending.iter().any(What::is_over) {
            continue;
        }
        let waitables: Vec<Waitable<'_>> = pending.iter().filter_map(What::waitable).collect();
        let before_sleep = || {
            for what in &pending {
                if let What::Request(owned) = what {
                    owned.parts().1.engine.unattend(owned.request());
                }
                let Some(session) = what.session() else { continue };
                session.engine.before_sleep();
                // The sleep is for the sources of one manager.
                if !Arc::ptr_eq(&session.manager, manager) {
                    session.engine.have_watched(&session.manager);
                }
            }
        };
        let deadline = patience.map(|patience| begun + patience);
        let open: Vec<_> = pending.iter().filter_map(|what| what.session()?.waits()).collect();
        let woken = manager.wait_any_prepared(&waitables, deadline, &before_sleep);
        drop(open);
        match woken {
            Some(woken) => pending.get(woken).iter().for_each(|what| what.woken()),
            None => patient = false,
        }
    }
}

/// Waits until at least one of the requests is over; which are, in order. None at all if there are none.
///
/// # Context, Blocking
/// As [`wait_any`].
pub fn wait_some<R: Waited>(requests: &mut [R]) -> Vec<usize> {
    wait_any(requests);
    (0..requests.len()).filter(|&index| is_over(&requests[index])).collect()
}

/// Waits until all of the requests are over. What came of each says its own `wait`.
///
/// # Context, Blocking
/// As [`wait_any`].
pub fn wait_all<R: Waited>(requests: &mut [R]) {
    let all = || {
        requests.iter().filter_map(|request| match what(request) {
            What::Request(owned) => Some(owned),
            _ => None,
        })
    };
    if let Some(first) = all().find(|owned| !owned.is_finished()) {
        let session = first.parts().1;
        let here = |owned: &&Owned| std::ptr::eq(owned.parts().1, session) && !owned.is_finished();
        session.engine.wait_together(all().filter(here).map(Owned::request), &session.manager);
    }
    for request in requests.iter() {
        wait(what(request));
    }
}

/// Waits until it is over. What came of it says its own `wait`.
pub(crate) fn wait(what: What<'_>) {
    match what {
        What::Over => {}
        // Its own wait says how it ended.
        What::Request(owned) => owned.wait_or_alarm(),
        What::Collective(run, end) => run.wait(end),
        What::Other(session, end) => {
            session.wait_until(end, None);
        }
    }
}

/// Which of the requests are over, in order, after a look for events if none is.
///
/// # Context
/// Green threads and kernel threads.
/// # Blocking
/// No.
pub fn test_some<R: Waited>(requests: &mut [R]) -> Vec<usize> {
    if !requests.iter().any(is_over) {
        let mut looked: Option<&Arc<Manager>> = None;
        for session in requests.iter().filter_map(|request| what(request).session()) {
            if looked.is_none_or(|manager| !Arc::ptr_eq(manager, &session.manager)) {
                session.look();
                looked = Some(&session.manager);
            } else {
                session.calls().look();
            }
        }
    }
    (0..requests.len()).filter(|&index| is_over(&requests[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SendOptions;
    use crate::Session;
    use crate::raw::{Memory, RawRequest};

    fn pair() -> (Session, Session) {
        let manager = Manager::builder().build().unwrap();
        let mut both = Session::local_world(2, &manager).unwrap();
        let second = both.pop().unwrap();
        (both.pop().unwrap(), second)
    }

    /// Which of a receive, a barrier and a completion is waited for first depends on what the other side does first.
    #[test]
    fn requests_collectives_and_completions_are_waited_for_together() {
        let (first, second) = pair();
        let (here, there) = (first.world().unwrap(), second.world().unwrap());
        for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let done = Completion::new();
            let (go, wanted) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                let (there, second, done) = (&there, &second, &done);
                scope.spawn(move || {
                    for what in wanted {
                        match what {
                            0 => second.send(0, 7, &[]).unwrap(),
                            1 => there.barrier().wait().unwrap(),
                            _ => done.complete(),
                        }
                    }
                });
                let mut receive = first.irecv(1, 7, Vec::new()).unwrap();
                let mut barrier = here.barrier().start().unwrap();
                let mut other = first.awaited(done);
                let mut waited = [true; 3];
                for what in order {
                    go.send(what).unwrap();
                    let all: [&mut dyn Waited; 3] = [&mut receive, &mut barrier, &mut other];
                    let left = all.into_iter().enumerate().filter(|(which, _)| waited[*which]);
                    let (names, mut left): (Vec<usize>, Vec<_>) = left.unzip();
                    assert_eq!(names[wait_any(&mut left).unwrap()], what);
                    waited[what] = false;
                }
                drop(go);
                receive.wait().unwrap();
                barrier.wait().unwrap();
            });
        }
    }

    #[test]
    fn one_place_serves_many_requests_but_one_at_a_time() {
        let (first, second) = pair();
        let (mut out, mut inward) = (RawRequest::idle(), RawRequest::idle());
        assert!(out.is_over() && inward.test());
        for round in 0..100u8 {
            let (mut data, mut buffer) = ([round; 3], [0; 8]);
            // SAFETY: both are over before their memory goes.
            let (into, data) = unsafe {
                let into = Memory::Whole(buffer.as_mut_ptr(), 8).trusted();
                (into, Memory::Whole(data.as_mut_ptr(), 3).trusted())
            };
            inward.start_recv(&first, 1, 9, into).unwrap();
            let again = inward.start_recv(&first, 1, 9, into);
            assert!(matches!(again, Err(crate::Error::Active)));
            let usual = SendOptions::new();
            let options = if round % 2 == 0 { usual.sync() } else { usual };
            out.start_send(&second, 0, 9, data, options).unwrap();
            assert_eq!(inward.wait_idle().unwrap().len, 3);
            out.wait_idle().unwrap();
            assert_eq!(buffer[..4], [round, round, round, 0]);
        }
    }
}
