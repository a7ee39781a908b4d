//! The switch by `corosensei`, which knows more processors, and tells AddressSanitizer of the
//! changes of stack. Backtraces go on into the scheduler.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;

use corosensei::stack::{Stack as Bounds, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::frame::{BackEnd, Frame, first_frame};
use super::memory::Stack;
use super::switch::Switch;

/// The part of a stack that is the coroutine's: below the frame.
struct Below {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: `init` is called with memory that has a guard page at its low end, and more than a page above it
// (`stack::MIN_SIZE`); frames and guards are aligned to more than 16.
unsafe impl Bounds for Below {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

type Inner = Coroutine<(), Switch, (), Below>;

/// Never dropped: what an idle context has on its stack needs no destructor.
pub(super) struct Engine {
    inner: UnsafeCell<ManuallyDrop<Inner>>,
    yielder: Cell<*const Yielder<(), Switch>>,
}

impl BackEnd for Engine {
    unsafe fn init(frame: *mut Frame<Self>, stack: &Stack) {
        let pointer = |address| StackPointer::new(address).expect("no stack is at address zero");
        let below = Below { base: pointer(frame as usize), limit: pointer(stack.guard().start) };
        let main = move |yielder: &Yielder<(), Switch>, ()| -> () {
            // SAFETY: the frame lives above us on our own stack.
            unsafe {
                (*frame).engine.yielder.set(yielder);
                first_frame(frame)
            }
        };
        let inner = UnsafeCell::new(ManuallyDrop::new(Coroutine::with_stack(below, main)));
        // SAFETY: the frame is ours to write.
        unsafe {
            (&raw mut (*frame).engine)
                .write(Engine { inner, yielder: Cell::new(std::ptr::null()) });
        }
    }

    #[inline(always)]
    unsafe fn resume(&self) -> Switch {
        // SAFETY: only the caller resumes it; the thread itself uses `yielder` only.
        match unsafe { (*self.inner.get()).resume(()) } {
            CoroutineResult::Yield(how) => how,
            CoroutineResult::Return(()) => unreachable!("the first frame never returns"),
        }
    }

    #[inline(always)]
    unsafe fn suspend(&self, how: Switch) {
        // SAFETY: set at the first resume; it lives on the thread's stack as long as that.
        unsafe { (*self.yielder.get()).suspend(how) };
    }

    unsafe fn retire(&self) {
        // SAFETY: the caller says that this is the end; the frames that are left need no destructor. What
        // AddressSanitizer has marked on the stack is unmarked.
        unsafe {
            let mut inner = ManuallyDrop::into_inner(self.inner.get().read());
            inner.force_reset();
            inner.into_stack();
        }
    }
}
