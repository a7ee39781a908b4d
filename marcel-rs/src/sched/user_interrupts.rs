//! User interrupts of virtual processors, where the machine has them: the tick's handler, called by the processor. Never
//! run on hardware (`os/uintr`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
#[cfg(any(test, feature = "emulated-user-interrupts"))]
use std::sync::atomic::{AtomicBool, Ordering::*};

use crate::knobs;
use crate::os::uintr::calls::{Calls, Kernel, Numbers, Receiver};
use crate::os::uintr::detect::{self, Absent, Here};
#[cfg(any(test, feature = "emulated-user-interrupts"))]
use crate::os::uintr::emulator::{self, Emulated};
use crate::os::uintr::stub;
use crate::os::user_interrupts::{self, Usable};
use crate::sched::tick_handler;

/// The vector of a virtual processor that computes.
const VECTOR: u64 = 6;

/// What there is, asked once, when the first runtime is built.
fn available() -> Result<(Usable, Numbers), Absent> {
    static FOUND: OnceLock<Result<(Usable, Numbers), Absent>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let text = knobs::UINTR_CALLS.text().unwrap_or_default();
        let found = detect::find(&Here(&text));
        if let Ok((usable, _)) = found {
            usable.announce();
        }
        found
    })
}

#[cfg(any(test, feature = "emulated-user-interrupts"))]
static EMULATED: AtomicBool = AtomicBool::new(false);

/// For tests: runtimes that are built from now on have emulated user interrupts. False: this processor has real ones.
#[cfg(any(test, feature = "emulated-user-interrupts"))]
pub fn emulate() -> bool {
    let possible = emulator::is_possible();
    if possible {
        emulator::start();
        EMULATED.store(true, SeqCst);
    }
    possible
}

/// For tests: runtimes that are built from now on have none any more.
#[cfg(any(test, feature = "emulated-user-interrupts"))]
pub fn stop_emulating() {
    EMULATED.store(false, SeqCst);
}

/// For tests: how often `senduipi` was executed.
#[cfg(any(test, feature = "emulated-user-interrupts"))]
pub fn emulated_sends() -> u32 {
    emulator::EXECUTED[4].load(SeqCst)
}

/// Who answers the system calls.
enum Machine {
    Kernel(Kernel),
    #[cfg(any(test, feature = "emulated-user-interrupts"))]
    Emulated(Emulated),
}

impl Machine {
    fn calls(&self) -> &dyn Calls {
        match self {
            Machine::Kernel(kernel) => kernel,
            #[cfg(any(test, feature = "emulated-user-interrupts"))]
            Machine::Emulated(emulated) => emulated,
        }
    }
}

impl Calls for Machine {
    unsafe fn register_handler(&self, handler: u64) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.calls().register_handler(handler) }
    }
    fn unregister_handler(&self) -> io::Result<()> {
        self.calls().unregister_handler()
    }
    unsafe fn alternate_stack(&self, lowest: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.calls().alternate_stack(lowest, bytes) }
    }
    fn vector_fd(&self, vector: u64) -> io::Result<OwnedFd> {
        self.calls().vector_fd(vector)
    }
    fn register_sender(&self, vector: RawFd) -> io::Result<u64> {
        self.calls().register_sender(vector)
    }
}

/// The kernel's system calls, and the processor's instructions, if there are any.
fn machine() -> Option<(Usable, Machine)> {
    #[cfg(any(test, feature = "emulated-user-interrupts"))]
    if EMULATED.load(SeqCst) {
        return Some((emulator::start(), Machine::Emulated(Emulated { lowest: false })));
    }
    let (usable, numbers) = available().ok()?;
    // SAFETY: the user has said that these are the numbers, and the processor and its kernel have user interrupts.
    Some((usable, Machine::Kernel(unsafe { Kernel::new(usable, numbers) })))
}

/// The handler of the calling kernel thread, a virtual processor's.
pub(crate) struct Interrupts(Receiver<Machine>);

impl Interrupts {
    /// By what others send.
    pub(crate) fn vector(&self) -> RawFd {
        self.0.vector.as_raw_fd()
    }
}

/// The calling kernel thread, a virtual processor's, handles user interrupts from now on, if there are any.
pub(crate) fn receive() -> Option<Interrupts> {
    let (usable, machine) = machine()?;
    // SAFETY: what a tick calls keeps the rules of the progress path.
    unsafe { stub::set_handler(VECTOR as usize, tick_handler::user_interrupt) };
    Receiver::register(usable, machine, VECTOR).ok().map(Interrupts)
}

/// By what a thread of this process interrupts one, of this or another process, without the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender(u32);

impl Sender {
    /// Registers a receiver's vector, of which `vector` is a descriptor of this process. `None`: the kernel refuses it,
    /// or there are no user interrupts.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn register(vector: RawFd) -> Option<Sender> {
        user_interrupts::in_use()?; // else this would ask for the first time, which allocates
        let (_, machine) = machine()?;
        machine.register_sender(vector).ok()?.try_into().ok().map(Sender)
    }

    /// Its number, for [`Sender::of`].
    pub fn number(self) -> u32 {
        self.0
    }

    /// The sender of this number.
    ///
    /// # Safety
    /// [`Sender::number`] was this.
    pub unsafe fn of(number: u32) -> Sender {
        Sender(number)
    }

    /// Interrupts the receiver.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn send(self) {
        if let Some(usable) = user_interrupts::in_use() {
            // SAFETY: the kernel has given the index.
            unsafe { usable.send(self.0.into()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Hooks, Idle, Load, Mode, Runtime, Vp, plumbing::Sleeper};

    #[derive(Default)]
    struct Counts {
        signalled: AtomicU64,
    }

    // SAFETY: `signalled` counts.
    unsafe impl Hooks for Counts {
        fn idle(&self, _: &Vp, _: Instant) -> Idle {
            Idle::Sleep
        }
        fn switch(&self, _: &Vp) -> bool {
            false
        }
        fn tick(&self, _: &Vp) -> bool {
            false
        }
        fn signalled(&self, vp: &Vp) -> bool {
            assert!(crate::in_tick() && vp.is_busy());
            self.signalled.fetch_add(1, SeqCst);
            false
        }
        fn wants_ticks(&self) -> bool {
            false
        }
        fn sleep(&self, _: &Vp, _: &Sleeper, _: Option<Instant>, _: &dyn Fn() -> bool) -> bool {
            false
        }
        fn busy(&self, _: &Vp) {}
        fn started(&self, _: Load, _: &[&'static Vp]) {}
    }

    /// Under the emulator. The virtual processor computes, allocates, and switches between threads.
    #[test]
    fn a_user_interrupt_calls_the_manager_on_a_virtual_processor_that_computes() {
        if !emulate() {
            return;
        }
        let hooks = Arc::new(Counts::default());
        let builder = Runtime::builder().mode(Mode::Mono).hooks(hooks.clone());
        let runtime = builder.build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        runtime.run(|| {
            // The kernel thread has registered when it began.
            let vector = crate::current_vp().unwrap().vector.load(SeqCst);
            assert_ne!(vector, 0);
            let to_it = Sender::register(vector as RawFd - 1).unwrap();
            stop_emulating(); // for runtimes of other tests
            let sender = {
                let (over, hooks) = (over.clone(), hooks.clone());
                std::thread::spawn(move || {
                    let start = Instant::now();
                    while hooks.signalled.load(SeqCst) < 200 {
                        assert!(start.elapsed() < Duration::from_secs(60), "nobody is interrupted");
                        to_it.send();
                        std::thread::sleep(Duration::from_micros(20));
                    }
                    over.store(true, SeqCst);
                })
            };
            let work = |number: u64| {
                let over = over.clone();
                crate::spawn(move || {
                    let mut sum = 0;
                    while !over.load(SeqCst) {
                        let list: Vec<u64> = (0..300).map(|i| i * number).collect();
                        assert_eq!(list.iter().sum::<u64>(), 44_850 * number);
                        sum += list.len();
                        crate::yield_now();
                    }
                    sum
                })
            };
            let threads: Vec<_> = (1..=3).map(work).collect();
            threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
            sender.join().unwrap();
        });
        assert!(hooks.signalled.load(SeqCst) >= 200);
    }
}
