//! `Once`, `OnceLock`, `LazyLock`: what `std` documents, restated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use marcel::sync::{LazyLock, Once, OnceLock};

use super::{Count, Witness, crowd, everywhere, spawn, until};

#[test]
fn one_of_many_runs_the_initialiser_and_the_others_wait_for_it() {
    everywhere(|| {
        let (once, ran, done) = (Arc::new(Once::new()), Count::default(), Count::default());
        let (theirs, count) = (once.clone(), ran.clone());
        crowd(9, move |_| {
            theirs.call_once(|| {
                count.add();
                marcel::sleep(Duration::from_millis(3));
                done.add();
            });
            assert_eq!(done.get(), 1, "came back before the initialiser had run");
        });
        assert!(once.is_completed() && ran.get() == 1);
        once.wait();
    });
}

#[test]
fn a_panic_poisons_a_once_until_it_is_forced() {
    everywhere(|| {
        let once = Once::new();
        let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
        assert!(panics(&|| once.call_once(|| panic!("as planned"))));
        assert!(!once.is_completed());
        assert!(panics(&|| once.call_once(|| unreachable!())));
        assert!(panics(&|| once.wait()));
        assert!(panics(&|| once.call_once_force(|state| {
            assert!(state.is_poisoned());
            panic!("again");
        })));
        let mut ran = false;
        once.call_once_force(|state| ran = state.is_poisoned());
        assert!(ran && once.is_completed());
        once.call_once(|| unreachable!());
        once.call_once_force(|_| unreachable!());
        once.wait();
        once.wait_force();
    });
}

#[test]
fn who_waits_while_an_initialiser_panics_sees_it() {
    everywhere(|| {
        let (once, inside) = (Arc::new(Once::new()), Count::default());
        let (theirs, entered) = (once.clone(), inside.clone());
        let bad = spawn(false, move || {
            catch_unwind(AssertUnwindSafe(|| {
                theirs.call_once(|| {
                    entered.add();
                    marcel::sleep(Duration::from_millis(10));
                    panic!("as planned");
                });
            }))
            .is_err()
        });
        until(|| inside.get() == 1);
        assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| unreachable!()))).is_err());
        assert!(bad.join());
    });
}

#[test]
fn an_initialiser_that_asks_for_itself_panics_instead_of_waiting_for_ever() {
    everywhere(|| {
        let once = Once::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            once.call_once(|| once.call_once(|| unreachable!()));
        }));
        let message = *result.unwrap_err().downcast::<&str>().unwrap();
        assert!(message.contains("waits for itself"), "{message}");
    });
}

#[test]
fn a_cell_is_set_once() {
    everywhere(|| {
        let cell = Arc::new(OnceLock::new());
        assert_eq!(cell.get(), None);
        let theirs = cell.clone();
        let values = crowd(9, move |i| *theirs.get_or_init(|| i));
        assert!(values.iter().all(|value| Some(value) == cell.get()));
        assert_eq!(cell.set(100), Err(100));
        assert_eq!(cell.wait(), cell.get().unwrap());
    });
}

#[test]
fn a_cell_whose_initialiser_panics_or_fails_stays_empty() {
    everywhere(|| {
        let cell = OnceLock::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            cell.get_or_init(|| panic!("as planned"));
        }));
        assert!(result.is_err() && cell.get().is_none());
        assert_eq!(cell.get_or_try_init(|| Err("no")), Err("no"));
        assert_eq!(cell.get_or_try_init(|| Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(cell.get_or_init(|| unreachable!()), &1);
    });
}

#[test]
fn a_cell_waits_for_its_value() {
    everywhere(|| {
        let cell = Arc::new(OnceLock::new());
        let theirs = cell.clone();
        let other = spawn(false, move || {
            marcel::sleep(Duration::from_millis(5));
            theirs.set(7).unwrap();
        });
        assert_eq!(cell.wait(), &7);
        other.join();
    });
}

#[test]
fn a_cell_owns_its_value() {
    let count = Count::default();
    let mut cell = OnceLock::from(Witness(count.clone()));
    let taken = cell.take();
    assert!(taken.is_some() && cell.get().is_none() && count.get() == 0);
    drop(taken);
    assert!(cell.set(Witness(count.clone())).is_ok());
    assert!(cell.set(Witness(count.clone())).is_err());
    assert_eq!(count.get(), 2);
    drop(cell);
    assert_eq!(count.get(), 3);
    drop(OnceLock::<Witness>::new());
    assert_eq!(count.get(), 3);

    let mut text = OnceLock::from(String::from("a"));
    text.get_mut().unwrap().push('b');
    assert_eq!((format!("{text:?}"), text.clone()), ("OnceLock(\"ab\")".into(), text.clone()));
    assert_eq!(text.into_inner().as_deref(), Some("ab"));
    assert_eq!(format!("{:?}", OnceLock::<u8>::new()), "OnceLock(<uninit>)");
}

#[test]
fn a_lazy_value_is_made_at_the_first_access_and_once() {
    everywhere(|| {
        let made = Count::default();
        let count = made.clone();
        let lazy = Arc::new(LazyLock::new(move || {
            marcel::sleep(Duration::from_millis(3));
            count.add()
        }));
        assert_eq!((made.get(), format!("{lazy:?}")), (0, "LazyLock(<uninit>)".into()));
        let theirs = lazy.clone();
        assert!(crowd(9, move |_| **theirs).into_iter().all(|value| value == 1));
        assert_eq!(format!("{lazy:?}"), "LazyLock(1)");
    });
}

#[test]
fn a_lazy_value_whose_initialiser_panics_is_poisoned() {
    everywhere(|| {
        let lazy: LazyLock<u32> = LazyLock::new(|| panic!("as planned"));
        for _ in 0..2 {
            assert!(catch_unwind(AssertUnwindSafe(|| *lazy)).is_err());
        }
    });
}
