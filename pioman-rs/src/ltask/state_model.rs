//! The races of a task's transitions, with a queue of one place: loom tries every interleaving.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

/// One task, its queue, and what has become of it.
struct World {
    state: State,
    queue: AtomicBool,
    inside: AtomicBool,
    runs: AtomicUsize,
    ends: AtomicUsize,
    frees: AtomicUsize,
    unqueued_runs: AtomicUsize,
}

impl World {
    fn new() -> Arc<World> {
        let world = World {
            state: State::new(),
            queue: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            runs: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            frees: AtomicUsize::new(0),
            unqueued_runs: AtomicUsize::new(0),
        };
        world.state.renew();
        Arc::new(world)
    }

    fn push(&self) {
        assert!(!self.queue.swap(true, AcqRel), "in its queue twice");
    }

    fn submit(&self) {
        if self.state.schedule() == Schedule::Push {
            self.push();
        }
    }

    fn free(&self) {
        assert_eq!(self.frees.fetch_add(1, Relaxed), 0, "freed twice");
        assert!(!self.queue.load(Acquire), "freed while it is in its queue");
        assert_eq!(self.ends.load(Acquire), 1);
    }

    fn end(&self, outcome: Outcome) {
        self.state.tell(outcome);
        assert_eq!(self.ends.fetch_add(1, AcqRel), 0, "ended twice");
        if self.state.told() {
            self.free();
        }
    }

    fn call(&self) {
        assert!(!self.inside.swap(true, AcqRel), "run twice at once");
        self.runs.fetch_add(1, Relaxed);
        thread::yield_now();
        assert!(self.inside.swap(false, AcqRel));
    }

    fn after(&self, after: After) {
        match after {
            After::Push => self.push(),
            After::Parked | After::Rests => {}
            After::End { .. } => self.end(Outcome::Cancelled),
        }
    }

    /// One visit of the queue. The task is done at its call number `done`; never: it rests after each.
    fn visit(&self, done: usize) {
        if !self.queue.swap(false, AcqRel) {
            return;
        }
        match self.state.claim() {
            Claim::Run => {
                self.call();
                if self.runs.load(Relaxed) == done {
                    self.state.end();
                    self.end(Outcome::Completed);
                } else if done == usize::MAX {
                    self.after(self.state.rest());
                } else {
                    self.after(self.state.again());
                }
            }
            Claim::Parked => {}
            Claim::Ended { free } => {
                if free {
                    self.free();
                }
            }
        }
    }

    fn cancel(&self) -> bool {
        match self.state.cancel() {
            Cancel::End { .. } => {
                self.end(Outcome::Cancelled);
                true
            }
            Cancel::Later => true,
            Cancel::TooLate => false,
        }
    }

    fn detach(&self) {
        match self.state.detach() {
            Detach::Nothing => {}
            Detach::Push => self.push(),
            Detach::Free => self.free(),
        }
    }

    /// The handle goes, and a last visitor comes until nothing is left.
    fn finish(&self, done: usize) {
        self.detach();
        for _ in 0..4 {
            self.visit(done);
        }
        assert_eq!(self.ends.load(Acquire), 1, "lost");
        assert_eq!(self.frees.load(Relaxed), 1, "leaked");
    }
}

fn model(done: usize, others: &'static [fn(&World)], check: fn(&World)) {
    loom::model(move || {
        let world = World::new();
        world.submit();
        let others: Vec<_> = others
            .iter()
            .map(|&act| {
                let world = world.clone();
                thread::spawn(move || act(&world))
            })
            .collect();
        world.visit(done);
        others.into_iter().for_each(|t| t.join().unwrap());
        check(&world);
        if done == usize::MAX {
            world.cancel();
        }
        world.finish(done);
    });
}

#[test]
fn cancel_or_complete_and_nothing_else() {
    fn cancel(world: &World) {
        world.cancel();
    }
    model(1, &[cancel], |world| {
        let runs = world.runs.load(Relaxed);
        let completed = world.state.outcome() == Some(Outcome::Completed);
        assert_eq!(completed, runs == 1, "done is completed, and not run is cancelled");
    });
    model(2, &[cancel], |world| {
        assert_eq!(world.state.outcome(), Some(Outcome::Cancelled));
    });
}

#[test]
fn two_visitors_two_cancels() {
    model(2, &[|world| world.visit(2), |world| drop(world.cancel())], |_| {});
    model(1, &[|world| drop(world.cancel()), |world| drop(world.cancel())], |world| {
        assert!(world.state.outcome().is_some());
    });
}

/// A task that is masked while it does not run stays so until it is unmasked, and then runs.
#[test]
fn masked_and_unmasked() {
    fn mask(world: &World) {
        if world.state.mask() == Mask::Nothing {
            let runs = world.runs.load(Relaxed);
            thread::yield_now();
            assert_eq!(world.runs.load(Relaxed), runs);
        }
        if world.state.unmask() {
            world.push();
        }
    }
    model(2, &[mask], |world| {
        (0..3).for_each(|_| world.visit(2));
        assert_eq!(world.state.outcome(), Some(Outcome::Completed));
    });
    model(2, &[mask, |world| drop(world.cancel())], |_| {});
}

#[test]
fn two_unmask_one_queues() {
    fn unmask(world: &World) {
        if world.state.unmask() {
            world.push();
        }
    }
    loom::model(move || {
        let world = World::new();
        assert_eq!(world.state.mask(), Mask::Nothing);
        assert_eq!(world.state.schedule(), Schedule::Later);
        let other = {
            let world = world.clone();
            thread::spawn(move || unmask(&world))
        };
        unmask(&world);
        other.join().unwrap();
        world.finish(1);
        assert_eq!(world.runs.load(Relaxed), 1);
    });
}

/// A tasklet: each time it is scheduled it runs at least once from then on, whatever merges.
#[test]
fn scheduled_while_it_runs_it_runs_once_more() {
    loom::model(|| {
        let world = World::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let other = {
            let (world, asked) = (world.clone(), asked.clone());
            thread::spawn(move || {
                asked.fetch_add(1, AcqRel);
                world.submit();
            })
        };
        asked.fetch_add(1, AcqRel);
        world.submit();
        let mut seen = 0;
        for last in [false, true] {
            if last {
                other.join().unwrap();
                break;
            }
            world.visit(usize::MAX);
            seen = asked.load(Acquire);
        }
        assert!(seen >= 1);
        (0..2).for_each(|_| world.visit(usize::MAX));
        let runs = world.runs.load(Relaxed);
        assert!((1..=2).contains(&runs), "{runs} runs");
        assert!(!world.queue.load(Acquire));
        world.cancel();
        world.finish(usize::MAX);
    });
}

/// What was written before it was scheduled is seen by a run that comes after, even if the scheduling merged with one
/// that was there already.
#[test]
fn a_run_sees_what_came_before_a_schedule_that_merged() {
    fn look(world: &World, letter: &AtomicBool) -> bool {
        if !world.queue.swap(false, AcqRel) {
            return false;
        }
        assert_eq!(world.state.claim(), Claim::Run);
        let seen = letter.load(Relaxed);
        world.after(world.state.rest());
        seen
    }
    loom::model(|| {
        let world = World::new();
        let letter = Arc::new(AtomicBool::new(false));
        world.submit();
        let other = {
            let (world, letter) = (world.clone(), letter.clone());
            thread::spawn(move || {
                letter.store(true, Relaxed);
                world.submit();
            })
        };
        let mut seen = look(&world, &letter);
        other.join().unwrap();
        seen |= look(&world, &letter);
        assert!(seen, "no run comes any more, and none has seen it");
        world.cancel();
        world.finish(usize::MAX);
    });
}

#[test]
fn a_tasklet_is_scheduled_and_cancelled() {
    model(usize::MAX, &[|world| world.submit(), |world| drop(world.cancel())], |_| {});
    model(usize::MAX, &[|world| world.submit(), |world| world.visit(usize::MAX)], |_| {});
}

/// The handle is given up while the task runs, is cancelled, or is parked.
#[test]
fn detached_at_any_moment() {
    loom::model(|| {
        let world = World::new();
        world.submit();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.visit(1))
        };
        let masked = world.state.mask() == Mask::Nothing;
        world.detach();
        other.join().unwrap();
        world.visit(1);
        assert_eq!(world.runs.load(Relaxed), 1, "masked: {masked}");
        assert_eq!(world.frees.load(Relaxed), 1);
    });
}

/// In the hands of a spare kernel thread, and cancelled.
#[test]
fn exported_or_cancelled() {
    loom::model(|| {
        let world = World::new();
        world.submit();
        let other = {
            let world = world.clone();
            thread::spawn(move || drop(world.cancel()))
        };
        if world.queue.swap(false, AcqRel) {
            match world.state.claim() {
                Claim::Run if world.state.export() => {
                    let spare = {
                        let world = world.clone();
                        thread::spawn(move || {
                            let outcome = match world.state.is_cancelled() {
                                true => Outcome::Cancelled,
                                false => {
                                    world.call();
                                    Outcome::Completed
                                }
                            };
                            world.state.end();
                            world.end(outcome);
                        })
                    };
                    spare.join().unwrap();
                }
                Claim::Run => {
                    world.unqueued_runs.fetch_add(1, Relaxed);
                    world.after(world.state.again());
                }
                Claim::Ended { free } => assert!(!free, "the handle is there"),
                Claim::Parked => panic!("the model masks no task"),
            }
        }
        other.join().unwrap();
        let completed = world.state.outcome() == Some(Outcome::Completed);
        assert_eq!(completed, world.runs.load(Relaxed) == 1);
        world.finish(1);
    });
}
