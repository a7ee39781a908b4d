//! Waits for one, some or all of several requests.

use pioman::Waitable;

use crate::request::Request;
use crate::request::handle::Owned;

/// Lets nobody else say what a request is.
#[derive(Debug)]
pub struct Seal(());

/// A request that can be waited for together with others: all that this crate has, and references to them
/// (`&mut dyn Waited`, where they are of several kinds).
pub trait Waited {
    #[doc(hidden)]
    fn owned(&self, _: Seal) -> Option<&Owned>;
}

impl<R: Waited + ?Sized> Waited for &mut R {
    fn owned(&self, seal: Seal) -> Option<&Owned> {
        (**self).owned(seal)
    }
}

fn is_over(request: &impl Waited) -> bool {
    request.owned(Seal(())).is_none_or(Owned::is_finished)
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
    let first = requests.iter().find_map(|request| request.owned(Seal(())));
    let Some((_, session)) = first.map(Owned::parts) else {
        return if requests.is_empty() { None } else { Some(0) };
    };
    loop {
        if let Some(over) = requests.iter().position(is_over) {
            return Some(over);
        }
        let pending: Vec<&Owned> =
            requests.iter().filter_map(|request| request.owned(Seal(()))).collect();
        let requests: Vec<&Request> = pending.iter().map(|owned| owned.request()).collect();
        for (request, owned) in requests.iter().zip(&pending) {
            owned.parts().1.engine.will_wait(request);
        }
        let waitables: Vec<Waitable<'_>> =
            requests.iter().map(|request| (&request.done).into()).collect();
        let woken = session.manager.wait_any(&waitables);
        let (Some(request), Some(owned)) = (requests.get(woken), pending.get(woken)) else {
            continue;
        };
        if !request.is_finished() {
            let (pointer, session) = owned.parts();
            session.engine.nudged(pointer);
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
    let all = || requests.iter().filter_map(|request| request.owned(Seal(())));
    let Some(first) = all().find(|owned| !owned.is_finished()) else { return };
    let session = first.parts().1;
    let here = |owned: &&Owned| std::ptr::eq(owned.parts().1, session) && !owned.is_finished();
    session.engine.wait_together(all().filter(here).map(Owned::request), &session.manager);
    for owned in all() {
        // Whatever it is, its own wait will say it again.
        let _ = owned.wait();
    }
}

/// Which of the requests are over, in order, after a look for events if none is.
///
/// # Context
/// Green threads and kernel threads.
/// # Blocking
/// No.
pub fn test_some<R: Waited>(requests: &mut [R]) -> Vec<usize> {
    if !requests.iter().any(is_over)
        && let Some(owned) = requests.iter().find_map(|request| request.owned(Seal(())))
    {
        owned.test();
    }
    (0..requests.len()).filter(|&index| is_over(&requests[index])).collect()
}
