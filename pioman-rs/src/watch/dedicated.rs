//! Dedicated kernel threads: each has a core of its own, and polls while something is pending that a policy gives to it
//! ([`crate::policy::Method::Dedicated`]). When nothing is, it sleeps.
//!
//! A dedicated thread is a poller like others (`pollers`), only that nothing else wants its time: it joins the sources
//! that it polls, and when it is switched off it leaves them, which sees to what is pending. How many there are is
//! `PIOM_DEDICATED`, or [`crate::Manager::set_dedicated`] at run time; they share the sources out among them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marcel::plumbing::Sleeper;

use crate::manager::Core;
use crate::manager::point::Point;
use crate::manager::registry::MAX;
use crate::observe::threads::library_thread;
use crate::policy::Method;
use crate::policy::ask::Question;
use crate::policy::{Asker, hints::Hint};

/// More would have nothing to share.
pub(crate) const MOST: usize = 16;
/// After the last request it stays awake for so long: waking it costs as much as a message.
const LINGER: Duration = Duration::from_micros(200);
/// Polls between two questions whether it is to go on.
const POLLS: usize = 32;

/// What the progress path knows of them.
#[derive(Default)]
pub(crate) struct Dedicated {
    /// Those with a smaller number are switched on.
    on: AtomicUsize,
    stopping: AtomicBool,
    sleepers: [OnceLock<&'static Sleeper>; MOST],
}

impl Dedicated {
    pub(crate) fn on(&self) -> usize {
        self.on.load(Relaxed)
    }

    /// Wakes whoever polls these sources; false if there is nobody. Progress path.
    pub(crate) fn call(&self, slots: u64) -> bool {
        let on = self.on.load(SeqCst);
        for (index, sleeper) in self.sleepers[..on].iter().enumerate() {
            if slots & share(index, on) != 0
                && let Some(sleeper) = sleeper.get()
            {
                sleeper.notify();
            }
        }
        on > 0
    }
}

/// The sources of one of `of` threads.
fn share(index: usize, of: usize) -> u64 {
    (0..MAX).filter(|slot| slot % of.max(1) == index).fold(0, |mask, slot| mask | 1 << slot)
}

/// The threads; dropping this ends them.
pub(crate) struct Threads {
    core: Arc<Core>,
    /// Where they are bound; none: wherever the kernel puts them.
    cores: Vec<usize>,
    started: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("cores", &self.cores).finish()
    }
}

impl Threads {
    pub(crate) fn new(core: Arc<Core>, cores: Vec<usize>) -> Threads {
        Threads { core, cores, started: Mutex::new(Vec::new()) }
    }

    /// The kernel gives no thread where the policy of a source wants one.
    pub(crate) fn tell_of(&self, error: &io::Error) {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| {
            eprintln!(
                "pioman: no dedicated kernel thread ({error}): events are looked for as without one"
            );
        });
    }

    /// Switches so many on, and the others off; what is pending is seen to.
    pub(crate) fn set(&self, number: usize) -> io::Result<()> {
        let number = number.min(MOST);
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        while started.len() < number {
            let (core, index) = (self.core.clone(), started.len());
            // That of an attempt for which the kernel gave no thread is used again.
            let sleeper: &'static Sleeper =
                core.dedicated.sleepers[index].get_or_init(|| Box::leak(Box::new(Sleeper::new())));
            let place = self.cores.get(index % self.cores.len().max(1)).copied();
            let thread = std::thread::Builder::new()
                .name(format!("pioman-poll{index}"))
                .stack_size(256 * 1024)
                .spawn(move || {
                    if let Some(cpu) = place {
                        let _ = marcel::topology::bind_current_thread(cpu);
                    }
                    library_thread(|| core.poll_dedicated(index, sleeper));
                })?;
            started.push(thread);
        }
        self.core.dedicated.on.store(number, SeqCst);
        for sleeper in self.core.dedicated.sleepers.iter().filter_map(OnceLock::get) {
            sleeper.notify();
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.core.dedicated.stopping.store(true, SeqCst);
        let _ = self.core.dedicated.call(u64::MAX);
        let started = self.started.get_mut().unwrap_or_else(PoisonError::into_inner);
        for sleeper in self.core.dedicated.sleepers.iter().filter_map(OnceLock::get) {
            sleeper.notify();
        }
        // The manager's last owner may be a value that one of them has just dropped: it does not wait for itself.
        let me = std::thread::current().id();
        let others = started.drain(..).filter(|thread| thread.thread().id() != me);
        others.for_each(|thread| drop(thread.join()));
    }
}

impl Core {
    /// What a dedicated thread is to poll now.
    fn given_to(&self, index: usize) -> u64 {
        let on = self.dedicated.on.load(SeqCst);
        if index >= on || self.dedicated.stopping.load(SeqCst) || !self.progresses() {
            return 0;
        }
        let sources = self.registry.pin();
        let load = self.snapshot();
        let mut mask = 0;
        for (slot, _) in sources.each().filter(|(_, slot)| slot.source.pending()) {
            let question = Question::of(slot, Asker::Leaving, Hint::Short, Duration::ZERO);
            let method = self.ask(&sources, &question, &load).method;
            mask |= u64::from(method == Method::Dedicated) << slot;
        }
        mask & share(index, on)
    }

    fn poll_dedicated(&self, index: usize, sleeper: &Sleeper) {
        let mut held = 0;
        let mut last = Instant::now();
        while !self.dedicated.stopping.load(SeqCst) {
            let given = self.given_to(index);
            if given != held {
                self.pollers.join(given & !held);
                let left = held & !given;
                held = given;
                if left != 0 {
                    self.pollers.leave(left);
                    self.left_pending();
                }
            }
            if held != 0 {
                let sources = self.registry.pin();
                for _ in 0..POLLS {
                    sources.poll_these(Point::Dedicated, held);
                    std::hint::spin_loop();
                }
                last = Instant::now();
            } else if last.elapsed() < LINGER {
                std::hint::spin_loop();
            } else {
                let to_do = || self.dedicated.stopping.load(SeqCst) || self.given_to(index) != 0;
                sleeper.sleep(None, to_do);
                last = Instant::now();
            }
        }
        self.pollers.leave(held);
        self.left_pending();
    }
}
