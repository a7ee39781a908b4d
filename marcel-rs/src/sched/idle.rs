//! Which virtual processors of a kind sleep, or are about to: a bit each.
//!
//! The protocol by which no wake-up is lost is in `rest`. The set is its bits: a sleeper announces itself, *then* looks
//! for work once more; a publisher makes work visible, *then* claims a sleeper. Each side has a fence in between, so
//! one of them sees the other. The caller that clears another's bit must notify that sleeper.

use std::sync::atomic::Ordering::*;

use crate::os::{AtomicU64, fence};

/// See the module's description.
#[derive(Default)]
pub(crate) struct IdleSet {
    words: Vec<AtomicU64>,
}

impl IdleSet {
    /// For `n` virtual processors, none of which sleeps.
    pub(crate) fn new(n: usize) -> IdleSet {
        IdleSet { words: (0..n.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Number `index` is about to sleep: its last look at the queues comes after this.
    pub(crate) fn announce(&self, index: usize) {
        self.words[index / 64].fetch_or(1 << (index % 64), SeqCst);
        fence(SeqCst);
    }

    /// Number `index` is awake; true if it has been claimed since it announced itself.
    pub(crate) fn withdraw(&self, index: usize) -> bool {
        let bit = 1 << (index % 64);
        self.words[index / 64].fetch_and(!bit, SeqCst) & bit == 0
    }

    /// As [`IdleSet::claim_after_fence`], with the fence.
    #[cfg(test)]
    pub(crate) fn claim(
        &self,
        except: Option<usize>,
        among: Option<&dyn Fn(usize) -> bool>,
    ) -> Option<usize> {
        fence(SeqCst);
        self.claim_after_fence(except, among)
    }

    /// Picks one that sleeps, not `except`, if `among` accepts it, and clears its bit: it must be notified. The
    /// caller's fence comes between the work and this.
    #[inline]
    pub(crate) fn claim_after_fence(
        &self,
        except: Option<usize>,
        among: Option<&dyn Fn(usize) -> bool>,
    ) -> Option<usize> {
        for (at, word) in self.words.iter().enumerate() {
            let own = except.filter(|i| i / 64 == at).map_or(0, |i| 1u64 << (i % 64));
            let mut left = word.load(Relaxed) & !own;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= !(1 << bit);
                if among.is_none_or(|among| among(at * 64 + bit))
                    && word.fetch_and(!(1 << bit), SeqCst) >> bit & 1 == 1
                {
                    return Some(at * 64 + bit);
                }
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_claim_for_each_announcement() {
        let set = IdleSet::new(70);
        set.announce(3);
        set.announce(69);
        assert_eq!(set.claim(Some(3), None), Some(69));
        assert_eq!(set.claim(Some(3), None), None);
        assert_eq!(set.claim(Some(67), None), Some(3));
        assert_eq!(set.claim(None, None), None);
        set.announce(4);
        set.announce(66);
        assert_eq!(set.claim(None, Some(&|index| index > 10)), Some(66));
        assert_eq!(set.claim(None, Some(&|index| index > 10)), None);
        assert!(!set.withdraw(4));
        set.announce(5);
        assert!(!set.withdraw(5) && set.withdraw(5));
        assert_eq!(set.claim(None, None), None);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::sleeper::Sleeper;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    struct Vps {
        idle: IdleSet,
        sleepers: Vec<Sleeper>,
        queue: AtomicUsize,
        stopping: AtomicUsize,
        /// How many workers spin (`rest`): publishers rely on them and wake none.
        spinning: AtomicUsize,
    }

    impl Vps {
        fn new(n: usize) -> Arc<Vps> {
            Arc::new(Vps {
                idle: IdleSet::new(n),
                sleepers: (0..n).map(|_| Sleeper::new()).collect(),
                queue: AtomicUsize::new(0),
                stopping: AtomicUsize::new(0),
                spinning: AtomicUsize::new(0),
            })
        }

        fn inject(&self) {
            self.queue.fetch_add(1, Relaxed);
            self.wake();
        }

        /// As `Shared::wake_for_work`.
        fn wake(&self) {
            fence(SeqCst);
            if self.spinning.load(Relaxed) > 0 {
                return;
            }
            if let Some(index) = self.idle.claim_after_fence(None, None) {
                self.sleepers[index].notify();
            }
        }

        /// As `Here::look_around`: looks once; what it looks at afterwards is what others relied on it for.
        fn look_around(&self) -> bool {
            self.spinning.fetch_add(1, Relaxed);
            let found = self.queue.load(Relaxed) > 0;
            self.spinning.fetch_sub(1, SeqCst);
            fence(SeqCst);
            found
        }

        /// As `Worker::run`, until it has something to run.
        fn take_one(&self, index: usize, spins: bool) {
            let mut wakes_next = false;
            while !self.take() {
                wakes_next |= spins;
                if spins && self.look_around() {
                    continue;
                }
                let seen = std::cell::Cell::new(true);
                self.idle.announce(index);
                self.sleepers[index].sleep(None, || {
                    seen.set(self.queue.load(Relaxed) > 0);
                    seen.get()
                });
                let claimed = self.idle.withdraw(index);
                wakes_next = claimed || wakes_next && seen.get();
            }
            if wakes_next && self.queue.load(Relaxed) > 0 {
                self.wake();
            }
        }

        fn take(&self) -> bool {
            self.queue.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok()
        }

        fn sleep(&self, index: usize) {
            self.idle.announce(index);
            self.sleepers[index]
                .sleep(None, || self.queue.load(Relaxed) > 0 || self.stopping.load(Relaxed) > 0);
            self.idle.withdraw(index);
        }
    }

    /// A burst of two and a single sleeper: deadlock in the model if either is left lying.
    #[test]
    fn work_finds_the_one_who_sleeps() {
        loom::model(|| {
            let vps = Vps::new(1);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let vps = vps.clone();
                    thread::spawn(move || vps.inject())
                })
                .collect();
            let mut taken = 0;
            while taken < 2 {
                match vps.take() {
                    true => taken += 1,
                    false => vps.sleep(0),
                }
            }
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    /// Two sleepers, work for one: it is done, whichever is claimed, and the other goes home at the end.
    #[test]
    fn work_is_done_by_one_of_two_sleepers() {
        loom::model(|| {
            let vps = Vps::new(2);
            let other = {
                let vps = vps.clone();
                thread::spawn(move || {
                    while vps.stopping.load(Relaxed) == 0 {
                        if vps.take() {
                            vps.stopping.store(1, Relaxed);
                            fence(SeqCst);
                            vps.sleepers[0].notify();
                            return;
                        }
                        vps.sleep(1);
                    }
                })
            };
            let injector = {
                let vps = vps.clone();
                thread::spawn(move || vps.inject())
            };
            while vps.stopping.load(Relaxed) == 0 {
                if vps.take() {
                    vps.stopping.store(1, Relaxed);
                    fence(SeqCst);
                    vps.sleepers[1].notify();
                    break;
                }
                vps.sleep(0);
            }
            other.join().unwrap();
            injector.join().unwrap();
            assert_eq!(vps.queue.load(Relaxed), 0);
        });
    }

    /// A worker that spins in vain, and sleeps then, does not miss what came meanwhile.
    #[test]
    fn work_finds_the_one_who_looked_around() {
        loom::model(|| {
            let vps = Vps::new(1);
            let other = {
                let vps = vps.clone();
                thread::spawn(move || vps.inject())
            };
            while !vps.take() {
                if !vps.look_around() {
                    vps.sleep(0);
                }
            }
            other.join().unwrap();
        });
    }

    /// Two threads' worth of work, published while a worker spins, so that no wake-up is sent. It takes one and
    /// computes; the other worker, which sleeps, gets the other.
    #[test]
    fn a_worker_that_spun_wakes_the_next() {
        loom::model(|| {
            let vps = Vps::new(2);
            let publisher = {
                let vps = vps.clone();
                thread::spawn(move || {
                    vps.inject();
                    vps.inject();
                })
            };
            let spins = {
                let vps = vps.clone();
                thread::spawn(move || vps.take_one(0, true))
            };
            vps.take_one(1, false);
            publisher.join().unwrap();
            spins.join().unwrap();
        });
    }

    /// A worker that spun and found something else to do wakes another one for what is left.
    #[test]
    fn who_stops_looking_for_something_else_passes_the_work_on() {
        loom::model(|| {
            let vps = Vps::new(1);
            let injector = {
                let vps = vps.clone();
                thread::spawn(move || vps.inject())
            };
            let busy = {
                let vps = vps.clone();
                thread::spawn(move || {
                    vps.look_around();
                    // Something of its own: it takes that, and `wake_next`.
                    if vps.queue.load(Relaxed) > 0 {
                        vps.wake();
                    }
                })
            };
            while !vps.take() {
                vps.sleep(0);
            }
            injector.join().unwrap();
            busy.join().unwrap();
        });
    }
}
