//! A runtime on machines that do not exist. Each case is a process of its own, since `MARCEL_TOPOLOGY` holds for all
//! of one.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::Barrier;

use marcel::topology::{Topology, allowed_cpus, bind_current_thread, is_oversubscribed};
use marcel::{Mode, Runtime};

/// Set in the processes that the tests start.
const CHILD: &str = "MARCEL_TEST_TOPOLOGY_CHILD";

/// Runs `test` again, alone, in a process with these knobs, and returns how it ended; `None` in that process.
fn apart(test: &str, knobs: &[(&str, &str)]) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
    for name in ["MARCEL_NVP", "MARCEL_FIRSTCPU", "MARCEL_MODE", "MARCEL_TOPOLOGY"] {
        command.env_remove(name);
    }
    Some(command.envs(knobs.iter().copied()).output().unwrap())
}

fn assert_passed(output: &Output) {
    let (said, wrong) = (&output.stdout, &output.stderr);
    let text = String::from_utf8_lossy(said) + String::from_utf8_lossy(wrong);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn smp() -> Runtime {
    Runtime::builder().mode(Mode::Smp).build().unwrap()
}

/// The core of the calling thread's virtual processor.
fn core() -> usize {
    marcel::current_vp().unwrap().cpu().unwrap()
}

/// The cores of all compute virtual processors: as many threads as there are of these meet at a barrier that holds
/// up the kernel threads.
fn cores_of_all(runtime: &Runtime) -> BTreeSet<usize> {
    let n = runtime.load().compute_vps();
    let meet = std::sync::Arc::new(Barrier::new(n));
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let meet = meet.clone();
            runtime.spawn(move || {
                meet.wait();
                core()
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn processes_that_were_bound_to_a_core_each_are_no_crowd() {
    let (cores, more) = (allowed_cpus().len().to_string(), (allowed_cpus().len() + 1).to_string());
    for (processes, crowded) in [(cores, "no"), (more, "yes")] {
        let knobs =
            [("MAD_LOCAL_SIZE", &*processes), ("MAD_LOCAL_RANK", "0"), ("CROWDED", crowded)];
        let test = "processes_that_were_bound_to_a_core_each_are_no_crowd";
        let Some(output) = apart(test, &knobs) else {
            let expected = std::env::var("CROWDED").unwrap() == "yes";
            assert_eq!(is_oversubscribed(), expected);
            bind_current_thread(allowed_cpus()[0]).unwrap();
            assert_eq!(is_oversubscribed(), expected, "the launcher has all cores");
            return;
        };
        assert_passed(&output);
    }
}

#[test]
fn there_is_a_virtual_processor_on_each_synthetic_core() {
    let name = "there_is_a_virtual_processor_on_each_synthetic_core";
    if let Some(output) = apart(name, &[("MARCEL_TOPOLOGY", "numa:2 l3:2 core:3")]) {
        return assert_passed(&output);
    }
    assert_eq!(cores_of_all(&smp()), (0..12).collect());
}

#[test]
fn marcel_nvp_says_otherwise_and_marcel_firstcpu_where() {
    let name = "marcel_nvp_says_otherwise_and_marcel_firstcpu_where";
    let knobs =
        [("MARCEL_TOPOLOGY", "numa:2 core:4"), ("MARCEL_NVP", "3"), ("MARCEL_FIRSTCPU", "6")];
    if let Some(output) = apart(name, &knobs) {
        return assert_passed(&output);
    }
    assert_eq!(cores_of_all(&smp()), [0, 6, 7].into());
}

#[test]
fn threads_bound_to_objects_run_on_their_cores() {
    let name = "threads_bound_to_objects_run_on_their_cores";
    if let Some(output) = apart(name, &[("MARCEL_TOPOLOGY", "numa:2 core:2 pu:2")]) {
        return assert_passed(&output);
    }
    let topology = Topology::current().unwrap();
    smp().run(|| {
        for node in topology.nodes() {
            let place = marcel::topology::Object { level: node.level, id: node.id };
            let threads: Vec<_> =
                (0..10).map(|_| marcel::Builder::new().bind(place).spawn(core).unwrap()).collect();
            for thread in threads {
                let core = thread.join().unwrap();
                assert!(node.cpus.contains(&core), "{place} has run on {core}");
            }
        }
        let nowhere = marcel::Builder::new().bind("numa:2".parse().unwrap()).spawn(core);
        let why = nowhere.err().unwrap().to_string();
        assert!(why.contains("numa:2") && why.contains("numa:0, numa:1"), "{why}");
    });
}

#[test]
fn kernel_threads_have_a_real_core_each_or_all_of_them() {
    let name = "kernel_threads_have_a_real_core_each_or_all_of_them";
    let allowed = allowed_cpus().len();
    for cores in [1, allowed, allowed + 1] {
        let shape = format!("core:{cores}");
        let Some(output) = apart(name, &[("MARCEL_TOPOLOGY", &shape)]) else { break };
        assert_passed(&output);
        if cores == allowed + 1 {
            return;
        }
    }
    let synthetic = Topology::current().unwrap().cores().len();
    let runtime = smp();
    let n = runtime.load().compute_vps();
    assert_eq!(n, synthetic);
    let threads: Vec<_> = (0..n).map(|_| runtime.spawn(allowed_cpus)).collect();
    for thread in threads {
        let mask = thread.join().unwrap().len();
        assert_eq!(mask, if synthetic <= allowed { 1 } else { allowed });
    }
}

#[test]
fn a_runtime_is_not_built_on_nonsense() {
    let name = "a_runtime_is_not_built_on_nonsense";
    if let Some(output) = apart(name, &[("MARCEL_TOPOLOGY", "core:many")]) {
        return assert_passed(&output);
    }
    for mode in [Mode::NoThread, Mode::Mono, Mode::Smp] {
        let error = Runtime::builder().mode(mode).build().unwrap_err().to_string();
        for part in ["MARCEL_TOPOLOGY=\"core:many\"", "at character 1", "numa:2 core:4"] {
            assert!(error.contains(part), "{mode}: {error}");
        }
    }
}
