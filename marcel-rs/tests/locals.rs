//! Green-thread-local values.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};

use marcel::{AccessError, Mode, Runtime};

/// Says its name when it is dropped.
struct Says(&'static str, Sender<&'static str>);

impl Drop for Says {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

marcel::thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(5) };
    static LIST: RefCell<Vec<u32>> = RefCell::new(vec![1]);
    static FIRST: RefCell<Option<Says>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<Says>> = const { RefCell::new(None) };
}

fn runtime() -> Runtime {
    Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap()
}

#[test]
fn a_value_that_a_thread_has_not_made_is_not_made_by_asking() {
    marcel::thread_local! {
        static NEVER: Cell<u32> = panic!("made");
        static OWN: Cell<u32> = const { Cell::new(5) };
    }
    let check = || {
        assert_eq!(NEVER.if_made(Cell::get), None);
        assert_eq!(OWN.if_made(Cell::get), None);
        OWN.set(6);
        assert_eq!(OWN.if_made(Cell::get), Some(6));
    };
    runtime().run(move || {
        check();
        marcel::spawn(check).join().unwrap();
    });
    std::thread::spawn(check).join().unwrap();
}

#[test]
fn each_thread_has_a_value_of_its_own() {
    let check = |start: u32| {
        assert_eq!(COUNT.get(), 5);
        COUNT.set(start);
        LIST.with_borrow_mut(|list| list.push(start));
        for i in 0..20 {
            assert_eq!(COUNT.get(), start + i);
            marcel::yield_now();
            assert_eq!(COUNT.replace(start + i + 1), start + i);
        }
        assert_eq!(LIST.take(), [1, start]);
        assert!(LIST.with_borrow(Vec::is_empty));
    };
    runtime().run(|| {
        let threads: Vec<_> = (0..50).map(|i| marcel::spawn(move || check(i * 100))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        check(77);
    });
    std::thread::spawn(move || check(78)).join().unwrap();
    check(79);
}

#[test]
fn setting_a_value_does_not_run_the_initialiser() {
    marcel::thread_local! {
        static NEVER: Cell<u32> = panic!("the initialiser ran");
        static NEITHER: RefCell<u32> = panic!("the initialiser ran");
    }
    runtime().run(|| {
        NEVER.set(3);
        NEITHER.set(4);
        NEITHER.set(5);
        assert_eq!((NEVER.get(), NEITHER.take()), (3, 5));
    });
}

#[test]
fn values_go_newest_first_before_the_join_is_over() {
    let body = |tx: Sender<&'static str>| {
        FIRST.set(Some(Says("first", tx.clone())));
        SECOND.set(Some(Says("second", tx)));
    };
    let (tx, rx) = channel();
    for _ in 0..3 {
        let tx = tx.clone();
        runtime().spawn(move || body(tx)).join().unwrap();
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), ["second", "first"]);
    }
    let theirs = tx.clone();
    std::thread::spawn(move || body(theirs)).join().unwrap();
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), ["second", "first"]);
    runtime().run(|| body(tx.clone())); // the thread that `run` makes is over, too
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), ["second", "first"]);
}

#[test]
fn destructors_may_make_other_values_but_not_their_own() {
    /// Uses its own key and another one in its destructor.
    struct Uses(Sender<String>);
    impl Drop for Uses {
        fn drop(&mut self) {
            self.0.send(format!("{:?}", USES.try_with(|_| ()))).unwrap();
            if BACK.try_with(|back| back.set(Some(Back(self.0.clone())))).is_err() {
                self.0.send("too late".into()).unwrap();
            }
        }
    }
    struct Back(Sender<String>);
    impl Drop for Back {
        fn drop(&mut self) {
            let again = USES.try_with(|uses| uses.set(Some(Uses(self.0.clone()))));
            self.0.send(format!("back {again:?}")).unwrap();
        }
    }
    marcel::thread_local! {
        static USES: Cell<Option<Uses>> = const { Cell::new(None) };
        static BACK: Cell<Option<Back>> = const { Cell::new(None) };
    }
    // Twice: the second thread has the first one's control block.
    for _ in 0..2 {
        let (tx, rx) = channel();
        runtime().run(|| marcel::spawn(move || USES.set(Some(Uses(tx)))).join().unwrap());
        let said: Vec<_> = rx.iter().collect();
        assert_eq!(said, ["Err(AccessError)", "back Err(AccessError)"]);
    }
}

#[test]
fn an_initialiser_may_use_other_keys_and_its_own() {
    marcel::thread_local! {
        static OUTER: u32 = INNER.with(|n| n + 1);
        static INNER: u32 = 6;
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static SELF: u32 = {
            DEPTH.set(DEPTH.get() + 1);
            if DEPTH.get() < 3 { SELF.with(|n| n + 1) } else { 10 }
        };
    }
    runtime().run(|| {
        assert_eq!(OUTER.with(|n| *n), 7);
        assert_eq!(SELF.with(|n| *n), 10, "what the innermost call saw stays");
    });
}

#[test]
fn a_destructor_that_panics_or_waits_hurts_no_other() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            marcel::sleep(std::time::Duration::from_millis(2));
            marcel::yield_now();
            panic!("in a destructor, as planned");
        }
    }
    marcel::thread_local!(static BAD: RefCell<Option<Bad>> = const { RefCell::new(None) });
    let (tx, rx) = channel();
    runtime().run(|| {
        let thread = marcel::spawn(move || {
            FIRST.set(Some(Says("first", tx.clone())));
            BAD.set(Some(Bad));
            5
        });
        assert_eq!(thread.join().unwrap(), 5);
    });
    assert_eq!(rx.iter().collect::<Vec<_>>(), ["first"]);
}

#[test]
fn values_of_threads_that_panic_or_are_stopped_are_destroyed() {
    let (tx, rx) = channel();
    let runtime = runtime();
    let body = |tx: Sender<&'static str>, panics: bool| {
        move || {
            FIRST.set(Some(Says("first", tx)));
            assert!(!panics, "as planned");
            loop {
                marcel::park();
            }
        }
    };
    assert!(runtime.spawn(body(tx.clone(), true)).join().is_err());
    assert_eq!(rx.try_iter().count(), 1);
    let ready = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let (body, ready) = (body(tx.clone(), false), ready.clone());
        runtime.spawn(move || {
            COUNT.set(1);
            ready.fetch_add(1, SeqCst);
            body()
        });
    }
    while ready.load(SeqCst) < 10 {
        std::thread::yield_now();
    }
    drop(runtime);
    drop(tx);
    assert_eq!(rx.iter().count(), 10);
}

#[test]
fn a_detached_threads_result_may_use_values_when_it_is_dropped() {
    struct Late(Sender<Result<u32, AccessError>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _ = self.0.send(COUNT.try_with(Cell::get));
        }
    }
    let (tx, rx) = channel();
    let runtime = runtime();
    for touch in [false, true] {
        let (tx, detached) = (tx.clone(), Arc::new(AtomicUsize::new(0)));
        let seen = detached.clone();
        drop(runtime.spawn(move || {
            while seen.load(SeqCst) == 0 {
                marcel::yield_now();
            }
            if touch {
                COUNT.set(8);
            }
            Late(tx)
        }));
        detached.store(1, SeqCst);
        // A value that the thread had is gone; one that it had not is made, and destroyed.
        assert_eq!(rx.recv().unwrap(), if touch { Err(AccessError) } else { Ok(5) });
    }
}

#[test]
fn a_kernel_thread_that_is_almost_gone_gets_an_error() {
    struct Last(Sender<bool>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.send(COUNT.try_with(|_| ()).is_err());
        }
    }
    std::thread_local!(static LAST: Cell<Option<Last>> = const { Cell::new(None) });
    let (tx, rx) = channel();
    std::thread::spawn(move || {
        LAST.set(Some(Last(tx))); // registered first, so destroyed after marcel's own
        COUNT.set(1);
    })
    .join()
    .unwrap();
    assert_eq!(rx.iter().collect::<Vec<_>>(), [true]);
}
