//! Visits by hand, on machines that do not exist: which visitor may run which task, and in which order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use marcel::topology::Object;
use marcel::{Mode, Priority};
use proptest::prelude::*;

use std::sync::Arc;
use std::time::Duration;

use marcel::topology::Topology;

use super::*;
use crate::ltask::tree::Tree;
use crate::tasks::builder::lane;
use crate::{Manager, Polling, Progress, TaskBuilder};

/// A task as the oracle sees it.
#[derive(Clone, Debug)]
struct Spec {
    cores: BTreeSet<usize>,
    object: Option<Object>,
    priority: Priority,
    polling: Polling,
    /// How often it says `Again` or `Waiting` first.
    again: usize,
}

thread_local! {
    /// The core that is visiting now.
    static HERE: Cell<Option<usize>> = const { Cell::new(None) };
    /// The tasks that were called in this visit.
    static CALLED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn shapes() -> impl Strategy<Value = String> {
    let count = || 1..4usize;
    (count(), count(), count(), proptest::bool::ANY).prop_map(|(a, b, c, pus)| {
        let pus = if pus { " pu:2" } else { "" };
        format!("package:{a} numa:{b} core:{c}{pus}")
    })
}

/// Random bits and numbers stand for a task; what they mean depends on the machine.
type Seed = (u64, u8, usize, usize);

fn spec(topology: &Topology, (bits, kind, class, again): Seed) -> Spec {
    let cores = topology.cores();
    let nodes = topology.nodes();
    let node = &nodes[bits as usize % nodes.len()];
    let (cores, object): (BTreeSet<usize>, _) = match kind % 4 {
        0 => (cores.iter().copied().collect(), None),
        1 => (node.cpus.iter().copied().collect(), Some(Object { level: node.level, id: node.id })),
        _ => {
            let chosen = |(at, _): &(usize, &usize)| bits >> (at % 64) & 1 == 1;
            let some: BTreeSet<usize> =
                cores.iter().enumerate().filter(chosen).map(|(_, &core)| core).collect();
            (if some.is_empty() { [cores[0]].into() } else { some }, None)
        }
    };
    let priority = [Priority::High, Priority::Normal, Priority::Low][class % 3];
    let polling = [Polling::Always, Polling::WhenIdle][class / 3 % 2];
    Spec { cores, object, priority, polling, again: again % 3 }
}

fn submit(manager: &Arc<Manager>, number: usize, spec: &Spec) -> crate::Task {
    let task = TaskBuilder::new().priority(spec.priority).polling(spec.polling);
    let task = match spec.object {
        Some(object) => task.bind(object),
        None => task.cpus(spec.cores.iter().copied()),
    };
    let mut left = spec.again;
    let cores = spec.cores.clone();
    let run = move || {
        let here = HERE.get();
        assert!(
            here.is_some_and(|core| cores.contains(&core)),
            "{number} is called on {here:?}, and may on {cores:?}"
        );
        CALLED.with_borrow_mut(|called| called.push(number));
        match std::mem::replace(&mut left, usize::MAX) {
            0 => return Progress::Done,
            more => left = more - 1,
        }
        if left.is_multiple_of(2) { Progress::Again } else { Progress::Waiting }
    };
    task.submit(manager, run).unwrap()
}

/// One visit; the tasks that were called in it.
fn visit(manager: &Manager, core: usize, idle: bool) -> Vec<usize> {
    HERE.set(Some(core));
    let visitor = Visitor { core: Some(core), idle, patient: false, caller: Caller::thread() };
    manager.driver.tasks.visit(&visitor);
    CALLED.take()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every task is called inside its set only, as often as it wants and not once more, at most once in a visit, and
    /// in the order of priorities; a visit that is not idle leaves the tasks of idle times alone.
    #[test]
    fn tasks_run_in_their_sets_and_in_the_order_of_their_priorities(
        shape in shapes(),
        level in prop::sample::select(vec!["all", "machine", "package", "numa", "core"]),
        seeds in prop::collection::vec(any::<Seed>(), 1..25),
        visits in prop::collection::vec(any::<(usize, bool, bool)>(), 0..60),
    ) {
        let topology = Topology::synthetic(&shape.parse().unwrap(), &[0]);
        let cores = topology.cores().to_vec();
        let specs: Vec<Spec> = seeds.into_iter().map(|seed| spec(&topology, seed)).collect();
        // Nothing is late, and each core has a virtual processor (which the test is).
        let tree = Tree::over(Plan::new(topology, level), Duration::from_secs(1 << 20), None);
        tree.manned.get_or_init(|| Cores::of(cores.iter().copied()));
        tree.living.store(cores.len(), Relaxed);
        let mut builder = Manager::builder().mode(Mode::Mono);
        builder.tasks = Some(tree);
        let manager = builder.build().unwrap();
        let mut tasks = Vec::new();
        let mut calls = vec![0; specs.len()];
        let mut check = |called: Vec<usize>, idle: bool| {
            let lanes = called.iter().map(|&n| lane(specs[n].priority, specs[n].polling));
            prop_assert!(lanes.is_sorted(), "{called:?}");
            let once: BTreeSet<_> = called.iter().collect();
            prop_assert_eq!(once.len(), called.len(), "twice in a visit");
            prop_assert!(idle || called.iter().all(|&n| specs[n].polling == Polling::Always));
            called.into_iter().for_each(|n| calls[n] += 1);
            Ok(())
        };
        for (core, idle, new) in visits {
            if new && tasks.len() < specs.len() {
                tasks.push(submit(&manager, tasks.len(), &specs[tasks.len()]));
            }
            check(visit(&manager, cores[core % cores.len()], idle), idle)?;
        }
        for (number, spec) in specs.iter().enumerate().skip(tasks.len()) {
            tasks.push(submit(&manager, number, spec));
        }
        // A visit ends after a batch, and so many calls each may want.
        for _ in 0..(specs.len() / BATCH + 1) * 5 {
            for &core in &cores {
                check(visit(&manager, core, true), true)?;
            }
        }
        for (task, spec) in tasks.iter().zip(&specs) {
            prop_assert_eq!(task.result(), Some(Ok(())), "{:?}", spec);
        }
        prop_assert!(!manager.driver.tasks.pending());
        for (calls, spec) in calls.into_iter().zip(&specs) {
            prop_assert_eq!(calls, spec.again + 1);
        }
    }
}

/// In the queue that the visitor sees, but not for its core, and that one has no processor: with no other visitor to
/// run it, it is run all the same, in the first visit.
#[test]
fn what_is_stranded_in_sight_is_run_by_whoever_is_idle() {
    let topology = Topology::synthetic(&"core:3".parse().unwrap(), &[0]);
    let tree = Tree::over(Plan::new(topology, "machine"), Duration::from_secs(1 << 20), None);
    tree.manned.get_or_init(|| Cores::of([0]));
    tree.living.store(1, Relaxed);
    let mut builder = Manager::builder().mode(Mode::Mono);
    builder.tasks = Some(tree);
    let manager = builder.build().unwrap();
    let tasks =
        [(); 3].map(|()| TaskBuilder::new().cpus([1, 2]).submit_once(&manager, || ()).unwrap());
    visit(&manager, 0, false);
    assert!(tasks.iter().all(|task| !task.is_done()));
    visit(&manager, 0, true);
    assert!(tasks.iter().all(|task| task.is_done()));
}

/// Without visitors, what is cancelled does not pile up.
#[test]
fn blocks_that_lie_in_queues_are_cleared_away() {
    let manager = Manager::builder().mode(Mode::NoThread).build().unwrap();
    let live = TaskBuilder::new().submit_once(&manager, || ()).unwrap();
    for _ in 0..10_000 {
        drop(TaskBuilder::new().submit_once(&manager, || ()).unwrap());
        assert!(manager.driver.tasks.tree.lying.load(Relaxed) <= MAY_LIE + 1);
    }
    assert!(!live.is_done());
    assert_eq!(live.wait(), Ok(()));
}
