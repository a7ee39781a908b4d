//! Dedicated kernel threads: each has a core of its own, and polls while something is pending that a policy gives to it
//! ([`crate::progress::policy::hints::Method::Dedicated`]). When nothing is, it sleeps.
//!
//! A dedicated thread is a poller like others (`pollers`), only that nothing else wants its time: it joins the sources
//! that it polls, and when it is switched off it leaves them, which sees to what is pending. How many there are is
//! `PIOM_DEDICATED`, or [`crate::Manager::set_dedicated`] at run time; they share the sources out among them.

use std::io;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use marcel::plumbing::Sleeper;
use marcel::plumbing::lwp::program_stack;
use marcel::plumbing::signal::spawn_blocked;

use crate::driver::core::Driver;
use crate::driver::dedicated::share;
use crate::kernel_threads::library_thread;
use crate::progress::advisor::Question;
use crate::progress::point::Point;
use crate::progress::policy::contract::Asker;
use crate::progress::policy::hints::Hint;
use crate::progress::policy::hints::Method;
use crate::progress::policy::select::MOST;
use crate::stderr::say;

/// After the last request it stays awake for so long: waking it costs as much as a message.
const LINGER: Duration = Duration::from_micros(200);
/// Polls between two questions whether it is to go on.
const POLLS: usize = 32;

/// The threads; dropping this ends them.
pub(crate) struct DedicatedThreads {
    driver: Arc<Driver>,
    /// Where they are bound; none: wherever the kernel puts them.
    cores: Vec<usize>,
    started: KernelMutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for DedicatedThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DedicatedThreads").field("cores", &self.cores).finish()
    }
}

impl DedicatedThreads {
    pub(crate) fn new(driver: Arc<Driver>, cores: Vec<usize>) -> DedicatedThreads {
        DedicatedThreads { driver, cores, started: KernelMutex::new(Vec::new()) }
    }

    /// The kernel gives no thread where the policy of a source wants one.
    pub(crate) fn tell_of(&self, error: &io::Error) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            say(format_args!(
                "pioman: no dedicated kernel thread ({error}): events are looked for as without one"
            ));
        });
    }

    /// Switches so many on, and the others off; what is pending is seen to.
    pub(crate) fn set(&self, number: usize) -> io::Result<()> {
        let number = number.min(MOST);
        let mut started = self.started.lock();
        while started.len() < number {
            let (driver, index) = (self.driver.clone(), started.len());
            // That of an attempt for which the kernel gave no thread is used again.
            let sleeper = driver.dedicated.sleeper(index);
            let place = self.cores.get(index % self.cores.len().max(1)).copied();
            let thread = std::thread::Builder::new()
                .name(format!("pioman-poll{index}"))
                .stack_size(program_stack());
            let polls = move || {
                if let Some(cpu) = place {
                    let _ = marcel::topology::bind_current_thread(cpu);
                }
                library_thread(|| poll(&driver, index, sleeper));
            };
            started.push(spawn_blocked(thread, polls)?);
        }
        self.driver.machine.set_dedicated(number);
        self.driver.dedicated.call_all();
        Ok(())
    }
}

impl Drop for DedicatedThreads {
    fn drop(&mut self) {
        self.driver.dedicated.stopping.store(true, SeqCst);
        let started = self.started.get_mut();
        self.driver.dedicated.call_all();
        // The manager's last owner may be a value that one of them has just dropped: it does not wait for itself.
        let me = std::thread::current().id();
        let others = started.drain(..).filter(|thread| thread.thread().id() != me);
        others.for_each(|thread| drop(thread.join()));
    }
}

/// What a dedicated thread is to poll now.
fn given_to(driver: &Driver, index: usize) -> u64 {
    let on = driver.machine.dedicated();
    let stopping = driver.dedicated.stopping.load(SeqCst);
    if index >= on || stopping || !driver.machine.progresses() {
        return 0;
    }
    let sources = driver.registry.pin();
    let load = driver.machine.snapshot();
    let mut mask = 0;
    for (slot, _) in sources.each().filter(|(_, slot)| slot.source.pending()) {
        let question = Question::of(slot, Asker::Leaving, Hint::Short, Duration::ZERO);
        let method = driver.advisor.ask(&sources, &question, &load).method;
        mask |= u64::from(method == Method::Dedicated) << slot;
    }
    mask & share(index, on)
}

/// Life of a dedicated thread.
fn poll(driver: &Driver, index: usize, sleeper: &Sleeper) {
    let mut polling = driver.begin_polling(&driver.registry.pin(), 0);
    let mut last = Instant::now();
    while !driver.dedicated.stopping.load(SeqCst) {
        let given = given_to(driver, index);
        let left = polling.mask() & !given;
        if given != polling.mask() {
            polling.change_to(given);
            if left != 0 {
                driver.ensure_watched();
            }
        }
        if given != 0 {
            let sources = driver.registry.pin();
            for _ in 0..POLLS {
                sources.poll_these(Point::Dedicated, given);
                std::hint::spin_loop();
            }
            last = Instant::now();
        } else if last.elapsed() < LINGER {
            std::hint::spin_loop();
        } else {
            let to_do = || driver.dedicated.stopping.load(SeqCst) || given_to(driver, index) != 0;
            sleeper.sleep(None, to_do);
            last = Instant::now();
        }
    }
}
