//! The switch itself, without a scheduler: the same for every back end.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::pool::{ContextCache, ContextPool};
use super::*;

#[path = "../../tests/common/rounding.rs"]
mod rounding;

use self::rounding::{UPWARD, fegetround, fesetround};

thread_local! {
    static JOB: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static NOW: Cell<*const Context> = const { Cell::new(std::ptr::null()) };
}

fn body() {
    let job = JOB.take().expect("a context is resumed with a job");
    let _ = catch_unwind(AssertUnwindSafe(job));
}

fn suspend(how: Switch) {
    // SAFETY: called by the running context only, which lives in `with`.
    unsafe { (*NOW.get()).suspend(how) }
}

/// A pool, and a context of it that runs `job` when resumed.
fn with(job: impl FnOnce() + 'static, test: impl FnOnce(&Context)) {
    let (pool, mut cache) = (ContextPool::new(0, 0, body), ContextCache::default());
    let context = cache.take(&pool, 128 * 1024).unwrap();
    give(&context, job);
    test(&context);
    cache.put(&pool, context);
    cache.empty(&pool);
    pool.clear();
    assert_eq!(pool.mapped(), 0);
}

fn give(context: &Context, job: impl FnOnce() + 'static) {
    JOB.set(Some(Box::new(job)));
    NOW.set(context);
}

fn resume(context: &Context) -> Switch {
    // SAFETY: these tests have one context at a time, idle or suspended.
    unsafe { context.resume(Modes::now()) }
}

fn unwind(context: &Context) {
    context.force_unwind();
    while resume(context) != Switch::Ended {}
}

#[test]
fn a_context_switches_to_and_fro_and_runs_one_job_after_the_other() {
    let sum = std::rc::Rc::new(Cell::new(0u64));
    let theirs = sum.clone();
    let add = move |n: u64| {
        let theirs = theirs.clone();
        move || {
            for i in 0..n {
                theirs.set(theirs.get() + i);
                suspend(if i % 2 == 0 { Switch::Yield } else { Switch::Park });
            }
        }
    };
    let next = add.clone();
    with(add(3), |context| {
        assert_eq!(resume(context), Switch::Yield);
        assert_eq!(resume(context), Switch::Park);
        assert_eq!(resume(context), Switch::Yield);
        assert_eq!(resume(context), Switch::Ended);
        for n in 0..100 {
            give(context, next(n));
            (0..n).for_each(|_| assert_ne!(resume(context), Switch::Ended));
            assert_eq!(resume(context), Switch::Ended);
        }
    });
    assert_eq!(sum.get(), 3 + (0..100).map(|n| (0..n).sum::<u64>()).sum::<u64>());
}

#[test]
fn values_in_registers_survive_a_switch() {
    // More live values than there are registers, integers and floating-point numbers, on both sides.
    #[inline(never)]
    fn mix(seed: u64, at: impl Fn()) -> (u64, f64) {
        let mut a = [seed; 12].map(|x| x.wrapping_mul(0x9e37_79b9));
        let mut f = [seed as f64; 12];
        for i in 0..50 {
            for k in 0..12 {
                a[k] = a[k].rotate_left(k as u32 + 1) ^ i;
                f[k] = f[k] * 1.5 + k as f64;
            }
            at();
        }
        (a.iter().fold(0, |x, y| x ^ y), f.iter().sum())
    }
    let expected = mix(7, || {});
    let seen = std::rc::Rc::new(Cell::new((0, 0.0)));
    let theirs = seen.clone();
    with(
        move || theirs.set(mix(7, || suspend(Switch::Yield))),
        |context| {
            let ours = mix(7, || assert_eq!(resume(context), Switch::Yield));
            assert_eq!(resume(context), Switch::Ended);
            assert_eq!((ours, seen.get()), (expected, expected));
        },
    );
}

#[test]
fn each_has_its_own_rounding() {
    // A quotient that no register of the compiler's holds already.
    let third = || std::hint::black_box(1.0f64) / std::hint::black_box(3.0);
    let (nearest, seen) = (third(), std::rc::Rc::new(Cell::new(0)));
    let theirs = seen.clone();
    with(
        move || {
            assert_eq!(fegetround(), 0);
            fesetround(UPWARD);
            for _ in 0..3 {
                suspend(Switch::Yield);
                assert!(fegetround() == UPWARD && third() > nearest);
                theirs.set(theirs.get() + 1);
            }
            fesetround(0);
            suspend(Switch::Yield);
            assert!(fegetround() == 0 && third() == nearest);
            theirs.set(theirs.get() + 1);
            fesetround(UPWARD);
        },
        |context| {
            while resume(context) != Switch::Ended {
                assert!(fegetround() == 0 && third() == nearest);
            }
            assert_eq!(seen.get(), 4, "all went well there");
            assert_eq!(fegetround(), 0, "what has ended leaves nothing");
            let theirs = seen.clone();
            give(context, move || theirs.set(fegetround()));
            assert_eq!(resume(context), Switch::Ended);
            assert_eq!(seen.get(), 0, "nor to the next one here");
        },
    );
}

#[test]
fn stacks_are_aligned_for_vector_instructions() {
    #[repr(align(16))]
    struct Wide([u8; 64]);
    with(
        || {
            let wide = std::hint::black_box(Wide([1; 64]));
            assert_eq!(wide.0.as_ptr() as usize % 16, 0);
            println!("{:?}", std::hint::black_box(wide.0));
            suspend(Switch::Park);
        },
        |context| {
            assert_eq!(resume(context), Switch::Park);
            assert_eq!(resume(context), Switch::Ended);
        },
    );
}

#[test]
fn a_panic_is_caught_at_the_first_frame_and_the_context_goes_on() {
    with(
        || panic!("as planned"),
        |context| {
            assert_eq!(resume(context), Switch::Ended);
            give(context, || suspend(Switch::Park));
            assert_eq!(resume(context), Switch::Park);
            assert_eq!(resume(context), Switch::Ended);
        },
    );
}

/// Runs the closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_suspended_thread_is_unwound_and_its_context_goes_on() {
    #[inline(never)]
    fn deep(n: usize, dropped: &Cell<usize>) {
        let _guard = OnDrop(|| dropped.set(dropped.get() + 1));
        match n {
            0 => suspend(Switch::Park),
            _ => deep(n - 1, dropped),
        }
        dropped.set(1000);
    }
    let dropped = std::rc::Rc::new(Cell::new(0));
    let theirs = dropped.clone();
    with(
        move || deep(20, &theirs),
        |context| {
            assert_eq!(resume(context), Switch::Park);
            unwind(context);
            assert_eq!(dropped.get(), 21);
            assert!(!std::thread::panicking());
            give(context, || ());
            assert_eq!(resume(context), Switch::Ended);
        },
    );
}

#[test]
fn a_destructor_may_suspend_while_its_thread_is_unwound() {
    let ended = std::rc::Rc::new(Cell::new(false));
    let theirs = ended.clone();
    with(
        move || {
            let _guard = OnDrop(|| {
                (0..3).for_each(|_| suspend(Switch::Yield));
                theirs.set(true);
            });
            suspend(Switch::Park);
        },
        |context| {
            assert_eq!(resume(context), Switch::Park);
            unwind(context);
            assert!(ended.get());
        },
    );
}

#[test]
fn a_backtrace_of_a_thread_ends() {
    with(
        || {
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            assert!(trace.contains("a_backtrace_of_a_thread_ends"), "{trace}");
            suspend(Switch::Park);
        },
        |context| {
            assert_eq!(resume(context), Switch::Park);
            assert_eq!(resume(context), Switch::Ended);
        },
    );
}

#[test]
fn the_use_of_a_stack_is_seen_from_outside() {
    #[inline(never)]
    fn eat() {
        std::hint::black_box([1u8; 40_000]);
    }
    with(eat, |context| {
        let before = context.stack().touched();
        assert!(before < 10_000);
        assert_eq!(resume(context), Switch::Ended);
        assert!((40_000..120_000).contains(&context.stack().touched()));
    });
}
