//! A function that is called when something completes.
//!
//! It is a future of its own whose waker calls the function: so it is called where wakers are, never in the tick's
//! handler (see `deferred`), and a panic in it is told of and ends here. What has to run on the progress path itself is
//! a [`marcel::plumbing::LatchNode`], which is unsafe.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::completion::future::Wait;
use crate::completion::one_shot::Completion;
use crate::completion::waitable::Waitable;
#[cfg(not(loom))]
use crate::fault;
use crate::shim::Mutex;

type Function = Box<dyn FnOnce() + Send>;

struct Once {
    function: Mutex<Option<Function>>,
    /// That of the function's type, which says where it was written.
    name: &'static str,
}

impl Once {
    /// The function, if it has not been taken before.
    fn take(&self) -> Option<Function> {
        self.function.lock().take()
    }

    fn call(&self) {
        if let Some(function) = self.take() {
            function();
        }
    }
}

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        #[cfg(not(loom))]
        {
            let called = fault::call(|| self.call());
            called.tell_panic("completion callback", self.name, fault::SLEEPS_ON);
            called.tell_time("completion callback", self.name);
            if let Some(unwinding) = called.into_unwinding() {
                std::panic::resume_unwind(unwinding);
            }
        }
        #[cfg(loom)]
        self.call();
    }
}

/// A function that will be called; dropping this takes it back, unless it is being called already.
#[must_use = "dropped at once, it is taken back at once"]
pub struct Callback<'a> {
    once: Arc<Once>,
    wait: Pin<Box<Wait<'a>>>,
}

impl Drop for Callback<'_> {
    /// The function or the wait has the permit, never both: what takes the function decides.
    fn drop(&mut self) {
        let function = self.once.take();
        if function.is_none() {
            self.wait.as_ref().keep();
        }
    }
}

impl std::fmt::Debug for Callback<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl<'a> Waitable<'a> {
    /// Has `function` called when it is there: at once, if it is there already; or else once, by the thread that makes
    /// it so, or by a kernel thread of the library's. It must not block: others wait behind it. A permit is the
    /// function's; the permit of a function that was taken back goes to the next waiter.
    ///
    /// # Context
    /// Not the progress path (it allocates).
    ///
    /// # Panics
    /// When `function` does, if it is called at once; later panics are reported and end there.
    pub fn on_ready<F: FnOnce() + Send + 'static>(self, function: F) -> Callback<'a> {
        let once = Arc::new(Once {
            function: Mutex::new(Some(Box::new(function))),
            name: std::any::type_name::<F>(),
        });
        let waker = Waker::from(once.clone());
        let mut wait = Box::pin(Wait::new(self));
        if wait.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            once.call();
        }
        Callback { once, wait }
    }
}

impl Completion {
    /// Has `function` called when it is complete; see [`Waitable::on_ready`].
    pub fn on_complete(&self, function: impl FnOnce() + Send + 'static) -> Callback<'_> {
        Waitable::from(self).on_ready(function)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::completion::semaphore::Semaphore;
    use crate::shim::{AtomicBool, Ordering::*};
    use loom::thread;

    /// Also where the callback is dropped after the slot is FIRED, and before the waker is called.
    #[test]
    fn a_permit_is_the_function_s_or_comes_back() {
        loom::model(|| {
            let permits = Arc::new(Semaphore::new(0));
            let has = Arc::new(AtomicBool::new(false));
            let (giver, theirs) = (permits.clone(), has.clone());
            let callback = permits.permit().on_ready(move || theirs.store(true, SeqCst));
            let giver = thread::spawn(move || giver.release());
            drop(callback);
            giver.join().unwrap();
            assert_eq!(permits.available(), u64::from(!has.load(SeqCst)));
        });
    }
}
