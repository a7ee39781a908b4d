//! Light tasks on a machine that does not exist.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use marcel::{Mode, Runtime};
use pioman::{Manager, Progress, TaskBuilder};

#[test]
fn a_task_for_a_synthetic_core_runs_on_its_virtual_processor() {
    const CHILD: &str = "PIOMAN_TEST_TOPOLOGY_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "a_task_for_a_synthetic_core_runs_on_its_virtual_processor";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
        command.env_remove("MARCEL_NVP").env_remove("MARCEL_FIRSTCPU").env_remove("PIOM_POINTS");
        // Spare kernel threads are nowhere: they would run tasks of any core. So would, without them, a thread that
        // finds a task that is late by more than a tick, which is long here.
        command.env("PIOM_SPARE_LWP", "0").env("PIOM_TIMER_PERIOD", "10000000");
        let output = command.env("MARCEL_TOPOLOGY", "numa:2 core:4").output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    const NOT_YET: usize = usize::MAX;
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).hooks(manager.clone()).build().unwrap();
    runtime.run(|| {
        // A virtual processor looks for tasks before it sleeps: each has a reason to wake up now and then.
        let over = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..8)
            .map(|core| {
                let (over, place) = (over.clone(), format!("core:{core}").parse().unwrap());
                let dozing = move || {
                    while !over.load(SeqCst) {
                        marcel::sleep(Duration::from_millis(1));
                    }
                };
                marcel::Builder::new().bind(place).spawn(dozing).unwrap()
            })
            .collect();
        for core in 0..8 {
            let ran_on = Arc::new(AtomicUsize::new(NOT_YET));
            let seen = ran_on.clone();
            let task = TaskBuilder::new().cpu(core).submit(&manager, move || {
                let vp = marcel::current_vp().and_then(marcel::Vp::cpu);
                seen.store(vp.unwrap_or(NOT_YET - 1), SeqCst);
                Progress::Done
            });
            let _task = task.unwrap();
            // Not `wait`: who waits runs the task of any core.
            while ran_on.load(SeqCst) == NOT_YET {
                marcel::sleep(Duration::from_millis(1));
            }
            assert_eq!(ran_on.load(SeqCst), core);
        }
        over.store(true, SeqCst);
        for thread in busy {
            thread.join().unwrap();
        }
    });
}
