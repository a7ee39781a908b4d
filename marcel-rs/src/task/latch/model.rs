use super::*;
use loom::cell::UnsafeCell;
use loom::thread;

/// A request: what the setter writes before the latch, and the latch.
struct Request {
    value: UnsafeCell<u32>,
    latch: Latch,
}

// SAFETY: the latch's protocol, which loom checks here.
unsafe impl Sync for Request {}

fn request() -> &'static Request {
    Box::leak(Box::new(Request { value: UnsafeCell::new(0), latch: Latch::new() }))
}

fn finish(request: &'static Request) {
    // SAFETY: before the latch is set the request is the setter's.
    request.value.with_mut(|v| unsafe { *v = 7 });
    request.latch.set();
}

/// Stands for freeing the request: exclusive access to all of it, at once. Loom reports any access by the
/// setter that is not over by then.
fn free(request: &'static Request) {
    // SAFETY: the latch is set: the request is its owner's.
    request.value.with_mut(|v| unsafe { assert_eq!(std::mem::take(&mut *v), 7) });
    // SAFETY: as above; a copy of the handle of loom's atomic, that is not dropped.
    let mut word = std::mem::ManuallyDrop::new(unsafe { std::ptr::read(&request.latch.word) });
    word.with_mut(|word| *word = null_mut());
}

/// What came before `set` is visible.
fn look(request: &'static Request) {
    // SAFETY: the latch is set, and the request is not freed before all have looked.
    request.value.with(|v| unsafe { assert_eq!(*v, 7) });
}

/// A wait that gives up at once; whether the latch was set by then.
fn glance(request: &'static Request) -> bool {
    request.latch.alone(|_| ())
}

#[test]
fn the_waiter_is_woken_and_set_is_the_last_touch() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        request.latch.wait("a model");
        free(request);
        setter.join().unwrap();
    });
}

#[test]
fn a_poller_sees_what_came_before_and_set_is_the_last_touch() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        while !request.latch.is_set() {
            thread::yield_now();
        }
        free(request);
        setter.join().unwrap();
    });
}

#[test]
fn a_registration_that_is_taken_back_owes_nothing() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        // A wait that times out at once, then one that does not.
        if !request.latch.register() || !request.latch.unregister() {
            assert!(request.latch.is_set());
        }
        request.latch.wait("a model");
        free(request);
        setter.join().unwrap();
    });
}

/// Waiters come one after the other; a waiter that gave up is not woken in the place of the next.
#[test]
fn a_latch_passes_from_a_waiter_that_gives_up_to_the_next() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        let first = thread::spawn(move || request.latch.register() && !request.latch.unregister());
        let _set = first.join().unwrap();
        request.latch.wait("a model");
        free(request);
        setter.join().unwrap();
    });
}

/// Whichever is the first to register, and wherever the setter comes between.
#[test]
fn two_waiters_are_both_woken() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        let other = thread::spawn(move || {
            request.latch.wait("a model");
            look(request);
        });
        request.latch.wait("a model");
        look(request);
        other.join().unwrap();
        free(request); // the setter may still be about to return
        setter.join().unwrap();
    });
}

/// One that gives up locks the list; the setter, or the other's push, may come at that moment.
#[test]
fn one_of_two_waiters_gives_up() {
    loom::model(|| {
        let request = request();
        let setter = thread::spawn(move || finish(request));
        let hasty = thread::spawn(move || {
            if glance(request) {
                look(request);
            }
        });
        request.latch.wait("a model");
        look(request);
        hasty.join().unwrap();
        free(request);
        setter.join().unwrap();
    });
}

/// Both leave, one of them from below the other.
#[test]
fn two_that_give_up_leave_an_empty_latch() {
    loom::model(|| {
        let request = request();
        let other = thread::spawn(move || assert!(!glance(request)));
        assert!(!glance(request));
        other.join().unwrap();
        assert!(!request.latch.has_waiter());
        finish(request);
        assert!(glance(request));
        free(request);
    });
}

/// As the two waiters are threads here: the one that is set to sleep among others is a node that is fired.
#[test]
fn a_node_is_fired_once_or_leaves() {
    #[repr(C)]
    struct Counting {
        node: LatchNode,
        fired: loom::sync::atomic::AtomicUsize,
    }
    unsafe fn fire(node: *const LatchNode) -> Option<fn()> {
        // SAFETY: the first field of a `Counting`, which is leaked.
        unsafe { &*node.cast::<Counting>() }.fired.fetch_add(1, Release);
        None
    }
    // SAFETY: shared fields are atomic, `node` is the list's.
    unsafe impl Sync for Counting {}
    loom::model(|| {
        let request = request();
        let counting: &'static Counting = Box::leak(Box::new(Counting {
            // SAFETY: one addition.
            node: unsafe { LatchNode::new(fire) },
            fired: loom::sync::atomic::AtomicUsize::new(0),
        }));
        // SAFETY: leaked.
        assert!(unsafe { request.latch.enlist((&raw const *counting).cast()) });
        let setter = thread::spawn(move || finish(request));
        let other = thread::spawn(move || glance(request));
        let left = request.latch.leave((&raw const *counting).cast());
        other.join().unwrap();
        setter.join().unwrap();
        assert_eq!(counting.fired.load(Acquire), usize::from(!left));
    });
}
