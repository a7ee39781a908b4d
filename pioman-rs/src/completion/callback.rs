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
use marcel::plumbing::KernelMutex;

type Function = Box<dyn FnOnce() + Send>;

struct Once {
    function: KernelMutex<Option<Function>>,
    /// That of the function's type, which says where it was written.
    name: &'static str,
}

impl Once {
    fn call(&self) {
        let function = self.function.lock().take();
        if let Some(function) = function {
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
    _wait: Pin<Box<Wait<'a>>>,
}

impl std::fmt::Debug for Callback<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl<'a> Waitable<'a> {
    /// Has `function` called when it is there: at once, if it is there already; or else once, by the thread that makes
    /// it so, or by a kernel thread of the library's. It must not block: others wait behind it. A permit is the
    /// function's.
    ///
    /// # Context
    /// Not the progress path (it allocates).
    ///
    /// # Panics
    /// When `function` does, if it is called at once; later panics are reported and end there.
    pub fn on_ready<F: FnOnce() + Send + 'static>(self, function: F) -> Callback<'a> {
        let once = Arc::new(Once {
            function: KernelMutex::new(Some(Box::new(function))),
            name: std::any::type_name::<F>(),
        });
        let waker = Waker::from(once.clone());
        let mut wait = Box::pin(Wait::new(self));
        if wait.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            once.call();
        }
        Callback { _wait: wait }
    }
}

impl Completion {
    /// Has `function` called when it is complete; see [`Waitable::on_ready`].
    pub fn on_complete(&self, function: impl FnOnce() + Send + 'static) -> Callback<'_> {
        Waitable::from(self).on_ready(function)
    }
}
