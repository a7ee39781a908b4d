//! What a thread carries: the closure that it will run, then the result that it leaves.
//!
//! Both are stored in the control block if they fit, else in one allocation that is made when the thread is
//! spawned. So starting and joining a small thread allocates nothing, and a thread that ends needs no memory
//! that it might not get.

use std::alloc::{self, Layout};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull, null_mut};
use std::thread::Result;

use crate::stack::is_forced_unwinding;

/// Room in the control block: closures of a few captured values, results of the size of a boxed error.
type Room = [u128; 4];

/// See the module's description. Has one owner at a time: the spawner until the thread is queued, the thread
/// until its end, then the thread that joins it.
pub(crate) struct Payload {
    room: UnsafeCell<MaybeUninit<Room>>,
    /// Where the payload is if it does not fit; null if it does.
    elsewhere: Cell<*mut u8>,
    layout: Cell<Layout>,
    /// Replaces the closure by its result.
    run: Cell<Option<unsafe fn(&Payload)>>,
    /// Drops what is there: the closure, or the result; nothing is there if there is none.
    discard: Cell<Option<unsafe fn(*mut u8)>>,
}

impl Default for Payload {
    fn default() -> Self {
        Payload {
            room: UnsafeCell::new(MaybeUninit::uninit()),
            elsewhere: Cell::new(null_mut()),
            layout: Cell::new(Layout::new::<()>()),
            run: Cell::new(None),
            discard: Cell::new(None),
        }
    }
}

unsafe fn discard<X>(at: *mut u8) {
    // SAFETY: the caller says that there is an `X`.
    unsafe { ptr::drop_in_place(at.cast::<X>()) }
}

unsafe fn run<F: FnOnce() -> T, T>(payload: &Payload) {
    let at = payload.at();
    // SAFETY: the caller says that there is an `F`, which it gives up, and room for the result.
    unsafe {
        let f = at.cast::<F>().read();
        let result: Result<T> = catch_unwind(AssertUnwindSafe(f));
        at.cast::<Result<T>>().write(result);
    }
    payload.discard.set(Some(discard::<Result<T>>));
}

/// The closure and its result share an address: known when the program is compiled.
struct Shape<F, T>(PhantomData<(F, T)>);

impl<F, T> Shape<F, T> {
    /// `None` when it is larger than an address space.
    const LAYOUT: Option<Layout> = {
        let (a, b) = (Layout::new::<F>(), Layout::new::<Result<T>>());
        let size = if a.size() > b.size() { a.size() } else { b.size() };
        let align = if a.align() > b.align() { a.align() } else { b.align() };
        match Layout::from_size_align(size, align) {
            Ok(layout) => Some(layout),
            Err(_) => None,
        }
    };

    const FITS: bool = match Self::LAYOUT {
        Some(layout) => layout.size() <= size_of::<Room>() && layout.align() <= align_of::<Room>(),
        None => false,
    };
}

impl Payload {
    /// Loads a closure; gives it back if there is no memory for it.
    ///
    /// # Safety
    /// By the owner of an empty payload. What `f` borrows must outlive the thread; it is run and dropped on
    /// kernel threads that it may be sent to.
    pub(crate) unsafe fn load<F: FnOnce() -> T, T>(&self, f: F) -> std::result::Result<(), F> {
        if !Shape::<F, T>::FITS {
            let Some(layout) = Shape::<F, T>::LAYOUT else { return Err(f) };
            // SAFETY: larger than `Room`, or more aligned than it; so not of size zero, as alignments divide sizes.
            let Some(memory) = NonNull::new(unsafe { alloc::alloc(layout) }) else {
                return Err(f);
            };
            self.elsewhere.set(memory.as_ptr());
            self.layout.set(layout);
        }
        // SAFETY: there is room for both, as computed, and nothing in it.
        unsafe { self.at().cast::<F>().write(f) };
        self.run.set(Some(run::<F, T>));
        self.discard.set(Some(discard::<F>));
        Ok(())
    }

    fn at(&self) -> *mut u8 {
        let elsewhere = self.elsewhere.get();
        if elsewhere.is_null() { self.room.get().cast() } else { elsewhere }
    }

    /// Runs the closure and leaves its result, or the payload of its panic.
    ///
    /// # Safety
    /// By the owner.
    #[inline]
    pub(crate) unsafe fn run(&self) {
        if let Some(run) = self.run.take() {
            self.discard.set(None);
            // SAFETY: `load` has put the closure there that `run` is for.
            unsafe { run(self) };
        }
    }

    /// Takes the result, if there is one.
    ///
    /// # Safety
    /// By the owner; the closure that was loaded returns `T`, and is gone.
    #[inline]
    pub(crate) unsafe fn take_result<T>(&self) -> Option<Result<T>> {
        self.discard.take()?;
        debug_assert!(self.run.get().is_none());
        // SAFETY: `run` has left it there.
        let result = unsafe { self.at().cast::<Result<T>>().read() };
        self.free();
        Some(result)
    }

    /// Drops what is there.
    ///
    /// # Safety
    /// By the owner.
    #[inline]
    pub(crate) unsafe fn discard(&self) {
        self.run.set(None);
        /// Also when what is dropped panics.
        struct Free<'a>(&'a Payload);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                self.0.free();
            }
        }
        let _free = Free(self);
        if let Some(discard) = self.discard.take() {
            // SAFETY: it is for what is there.
            unsafe { discard(self.at()) };
        }
    }

    /// Whether there is a closure or a result.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.discard.get().is_none()
    }

    #[inline]
    fn free(&self) {
        let elsewhere = self.elsewhere.replace(null_mut());
        if !elsewhere.is_null() {
            // SAFETY: allocated by `load` with this layout; what was there has been dropped or moved out.
            unsafe { alloc::dealloc(elsewhere, self.layout.get()) };
        }
    }
}

/// The forced unwinding of the calling thread, which began in a destructor of the program's, since that waited.
#[must_use = "it comes once: dropped, the thread's next wait never ends, and neither does its runtime"]
pub(crate) struct Unwinding(Box<dyn Any + Send>);

impl Unwinding {
    /// Goes on with it. The caller's own things are in order.
    pub(crate) fn resume(self) -> ! {
        resume_unwind(self.0)
    }

    /// The thread ends at once.
    pub(crate) fn at_the_end_anyway(self) {
        drop(self.0);
    }
}

/// How a destructor of the program's has ended that is not to unwind its caller.
#[must_use]
pub(crate) struct Dropped {
    /// The panic hook has said what there is to say.
    pub(crate) panicked: bool,
    pub(crate) unwinding: Option<Unwinding>,
}

/// Runs destructors of the program's. A panic ends here. What it carried is dropped; if that panics as well, what that
/// carried is leaked.
pub(crate) fn contain(destructors: impl FnOnce()) -> Dropped {
    let Err(carried) = catch_unwind(AssertUnwindSafe(destructors)) else {
        return Dropped { panicked: false, unwinding: None };
    };
    if is_forced_unwinding(&*carried) {
        return Dropped { panicked: false, unwinding: Some(Unwinding(carried)) };
    }
    let unwinding = match catch_unwind(AssertUnwindSafe(|| drop(carried))) {
        Err(another) if is_forced_unwinding(&*another) => Some(Unwinding(another)),
        Err(another) => {
            std::mem::forget(another);
            None
        }
        Ok(()) => None,
    };
    Dropped { panicked: true, unwinding }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Loads, then ends in one of three ways; nothing may leak or be dropped twice.
    fn ways_out<const N: usize>() {
        let alive = Arc::new([0u8; N]);
        let load = || {
            let payload = Payload::default();
            let (witness, ballast) = (alive.clone(), [7u8; N]);
            // SAFETY: the payload is empty and ours; nothing is borrowed.
            let loaded = unsafe { payload.load(move || (witness, ballast)) };
            assert!(loaded.is_ok() && !payload.is_empty());
            payload
        };
        let payload = load();
        // SAFETY: ours; the closure's type.
        let (result, empty) = unsafe {
            payload.run();
            (payload.take_result::<(Arc<[u8; N]>, [u8; N])>(), payload.is_empty())
        };
        assert!(result.unwrap().unwrap().1 == [7; N] && empty);
        let payload = load();
        // SAFETY: ours.
        unsafe { payload.discard() };
        assert_eq!(Arc::strong_count(&alive), 1);
        let payload = load();
        // SAFETY: ours.
        unsafe {
            payload.run();
            assert_eq!(Arc::strong_count(&alive), 2);
            payload.discard();
        }
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn small_and_large_cargo_is_run_taken_and_discarded() {
        ways_out::<0>();
        ways_out::<8>();
        ways_out::<1000>();
    }

    #[test]
    fn a_panic_is_a_result() {
        let payload = Payload::default();
        // SAFETY: ours, empty; nothing is borrowed.
        let loaded = unsafe { payload.load(|| -> () { std::panic::resume_unwind(Box::new(7)) }) };
        assert!(loaded.is_ok());
        // SAFETY: ours; the closure's type.
        let result = unsafe {
            payload.run();
            payload.take_result::<()>()
        };
        assert_eq!(*result.unwrap().unwrap_err().downcast::<i32>().unwrap(), 7);
    }

    #[test]
    fn what_a_panic_carried_is_dropped_and_may_panic_itself() {
        struct Carried {
            dropped: Arc<AtomicUsize>,
            panics: bool,
        }
        impl Drop for Carried {
            fn drop(&mut self) {
                self.dropped.fetch_add(1, Relaxed);
                assert!(!self.panics, "in the destructor of what a panic carried, as planned");
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        for panics in [false, true] {
            let carried = Carried { dropped: dropped.clone(), panics };
            let all = contain(|| std::panic::resume_unwind(Box::new(carried)));
            assert!(all.panicked && all.unwinding.is_none());
        }
        assert_eq!(dropped.load(Relaxed), 2);
    }

    /// What needs more than memory can hold is given back. (AddressSanitizer's shadow of such a value is more than
    /// the compiler's memory can hold.)
    #[cfg(not(feature = "asan"))]
    #[test]
    fn a_closure_that_cannot_be_stored_comes_back() {
        let payload = Payload::default();
        struct Huge(#[allow(dead_code)] [u8; 1 << 46]);
        // SAFETY: ours, empty; nothing is borrowed. It is never run.
        let loaded = unsafe { payload.load(|| -> Option<Huge> { None }) };
        // An optimising compiler takes away an allocation that nothing looks at, and its failure with it.
        let payload = std::hint::black_box(&payload);
        assert!(loaded.is_err() && payload.is_empty());
    }
}
