//! What light tasks cost: `cargo bench --bench tasks`.
//!
//! In mode `no-thread` one kernel thread does everything, so these are the bare costs. In `smp` the submission wakes
//! an idle virtual processor, which may or may not be there before the waiter.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use marcel::Mode;
use pioman::{Completion, Hint, Manager, Progress, Runtime, TaskBuilder, TaskletBuilder};

fn submit_and_wait(manager: &Arc<Manager>) {
    let task = TaskBuilder::new().submit(manager, || Progress::Done).expect("a task");
    let _ = task.wait();
}

fn tasks(c: &mut Criterion) {
    let manager = Manager::builder().mode(Mode::NoThread).build().expect("a manager");
    c.bench_function("light task: submit, run, wait", |b| b.iter(|| submit_and_wait(&manager)));
    c.bench_function("light task: submit and cancel", |b| {
        b.iter(|| drop(TaskBuilder::new().submit(&manager, || Progress::Done)));
    });
    c.bench_function("tasklet: schedule, merged", |b| {
        let tasklet = TaskletBuilder::new().build(&manager, || ()).expect("a tasklet");
        tasklet.schedule();
        b.iter(|| black_box(&tasklet).schedule());
    });

    // A wait for a task begins with a visit; one for something else that gives up at once makes none.
    let past = std::time::Instant::now();
    let look = || {
        let done = Completion::new();
        let now = std::time::Instant::now();
        manager.wait_until(black_box(&done), Hint::Short, now)
    };
    c.bench_function("wait that gives up at once: no task", |b| b.iter(look));
    {
        let masked = TaskBuilder::new().submit(&manager, || Progress::Done).expect("a task");
        let _ = masked.mask();
        // Parked by the first visit: nothing pends then.
        c.bench_function("wait for a parked task that gives up at once: no visit", |b| {
            b.iter(|| black_box(&masked).wait_until(past))
        });
    }
    {
        let waiting = TaskBuilder::new().submit(&manager, || Progress::Waiting).expect("a task");
        c.bench_function("wait for a task that waits that gives up at once: a visit", |b| {
            b.iter(|| black_box(&waiting).wait_until(past))
        });
        drop(waiting);
    }

    let threads = marcel::Runtime::builder();
    let runtime = Runtime::build(Manager::builder().mode(Mode::Smp), threads).expect("a runtime");
    c.bench_function("light task: submit, run, wait; smp", |b| {
        b.iter_custom(|n| {
            runtime.run(|| {
                let start = std::time::Instant::now();
                (0..n).for_each(|_| submit_and_wait(runtime.manager()));
                start.elapsed()
            })
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = tasks
}
criterion_main!(benches);
