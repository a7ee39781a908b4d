//! The system calls of Intel's kernel patches. Their numbers are no kernel's yet, and the user gives them
//! (`MARCEL_UINTR_CALLS`): a wrong number is another call.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::stub::{self, Stack};
use crate::os::user_interrupts::Usable;

/// What a receiver and a sender ask of the kernel. The emulator of the tests is the other one.
pub(crate) trait Calls {
    /// The calling thread handles user interrupts by this code.
    ///
    /// # Safety
    /// `handler` is made for the processor's delivery.
    unsafe fn register_handler(&self, handler: u64) -> io::Result<()>;
    /// It does no more.
    fn unregister_handler(&self) -> io::Result<()>;
    /// The handler's stack.
    ///
    /// # Safety
    /// The area is the handler's until it is unregistered.
    unsafe fn alternate_stack(&self, lowest: u64, bytes: u64) -> io::Result<()>;
    /// A descriptor by which others send this vector to the calling thread.
    fn vector_fd(&self, vector: u64) -> io::Result<OwnedFd>;
    /// The index for [`Usable::send`] by which the calling process sends that vector.
    fn register_sender(&self, vector: RawFd) -> io::Result<u64>;
}

/// Numbers of the calls, in the order of the knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    register_handler: i64,
    unregister_handler: i64,
    vector_fd: i64,
    register_sender: i64,
    alternate_stack: i64,
}

impl Numbers {
    /// Five numbers, separated by commas.
    pub(crate) fn parse(text: &str) -> Option<Numbers> {
        let mut all = text.split(',').map(|word| word.trim().parse().ok());
        let mut next = || all.next()?.filter(|number| (1..1 << 16).contains(number));
        let numbers = Numbers {
            register_handler: next()?,
            unregister_handler: next()?,
            vector_fd: next()?,
            register_sender: next()?,
            alternate_stack: next()?,
        };
        all.next().is_none().then_some(numbers)
    }
}

/// The kernel's.
pub(crate) struct Kernel {
    numbers: Numbers,
}

impl Kernel {
    /// # Safety
    /// The running kernel has the calls of user interrupts under these numbers.
    pub(crate) unsafe fn new(_: Usable, numbers: Numbers) -> Kernel {
        Kernel { numbers }
    }

    /// # Safety
    /// As the call's own.
    unsafe fn call(&self, number: i64, arguments: [u64; 3]) -> io::Result<i64> {
        let [a, b, c] = arguments;
        // SAFETY: the caller's promise.
        match unsafe { libc::syscall(number, a, b, c) } {
            done if done >= 0 => Ok(done),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Calls for Kernel {
    unsafe fn register_handler(&self, handler: u64) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.call(self.numbers.register_handler, [handler, 0, 0]) }.map(drop)
    }

    fn unregister_handler(&self) -> io::Result<()> {
        // SAFETY: no pointers.
        unsafe { self.call(self.numbers.unregister_handler, [0; 3]) }.map(drop)
    }

    unsafe fn alternate_stack(&self, lowest: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.call(self.numbers.alternate_stack, [lowest, bytes, 0]) }.map(drop)
    }

    fn vector_fd(&self, vector: u64) -> io::Result<OwnedFd> {
        // SAFETY: no pointers; the descriptor is the caller's.
        unsafe {
            let fd = self.call(self.numbers.vector_fd, [vector, 0, 0])?;
            Ok(OwnedFd::from_raw_fd(fd as RawFd))
        }
    }

    fn register_sender(&self, vector: RawFd) -> io::Result<u64> {
        // SAFETY: no pointers.
        unsafe { self.call(self.numbers.register_sender, [vector as u64, 0, 0]) }.map(|i| i as u64)
    }
}

/// A kernel thread that is interrupted. Its owner, that thread, drops it before it ends.
pub(crate) struct Receiver<C: Calls> {
    calls: C,
    usable: Usable,
    _stack: Stack,
    /// By what others send, and which vector.
    pub(crate) vector: OwnedFd,
    /// The registration is the kernel thread's.
    own: std::marker::PhantomData<*const ()>,
}

impl<C: Calls> Receiver<C> {
    /// The calling kernel thread is interrupted from now on by `vector`, whose handler is set ([`stub::set_handler`]).
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn register(usable: Usable, calls: C, vector: u64) -> io::Result<Receiver<C>> {
        let stack = Stack::new()?;
        let (lowest, bytes) = stack.area();
        // SAFETY: the stub is made for it; the stack lives until `drop` has unregistered the handler.
        unsafe {
            calls.register_handler(stub::entry as *const () as u64)?;
            let given = calls.alternate_stack(lowest, bytes);
            let vector = given.and_then(|()| calls.vector_fd(vector));
            match vector {
                Ok(vector) => {
                    usable.unmask();
                    let own = std::marker::PhantomData;
                    Ok(Receiver { calls, usable, _stack: stack, vector, own })
                }
                Err(error) => {
                    let _ = calls.unregister_handler();
                    Err(error)
                }
            }
        }
    }
}

#[cfg(test)]
impl<C: Calls> Receiver<C> {
    /// What the kernel was given as the handler's stack.
    pub(super) fn stack_area(&self) -> (u64, u64) {
        self._stack.area()
    }
}

impl<C: Calls> Drop for Receiver<C> {
    fn drop(&mut self) {
        self.usable.mask();
        let _ = self.calls.unregister_handler(); // nothing is delivered while masked, either way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_numbers_are_taken_and_nothing_else() {
        assert!(Numbers::parse("471,472,473,474,478").is_some());
        assert!(Numbers::parse(" 443, 444,445 ,446,450").is_some());
        for wrong in
            ["", "471", "471,472,473,474", "1,2,3,4,5,6", "0,1,2,3,4", "a,b,c,d,e", "1,2,3,4,-5"]
        {
            assert_eq!(Numbers::parse(wrong), None, "{wrong}");
        }
    }
}
