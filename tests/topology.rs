//! Synthetic machines, hwloc and the kernel's files, through the command.

mod common;

use std::io::Write;

use common::{err, mad, out};
use serde_json::Value;

/// `mad topo --json` on a machine of this shape.
fn synthetic(shape: &str, more: &[(&str, &str)]) -> Value {
    let mut command = mad(&["topo", "--json"]);
    let output = command.env("MARCEL_TOPOLOGY", shape).envs(more.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{shape}: {}", err(&output));
    serde_json::from_str(&out(&output)).unwrap()
}

/// Says so past the test harness, which keeps what a passing test prints.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED a part: {}", why.trim_end());
}

fn nodes_of<'a>(topo: &'a Value, level: &str) -> Vec<&'a Value> {
    topo["nodes"].as_array().unwrap().iter().filter(|node| node["level"] == level).collect()
}

fn cores_of_vps(topo: &Value) -> Vec<u64> {
    topo["placement"].as_array().unwrap().iter().map(|vp| vp["core"].as_u64().unwrap()).collect()
}

#[test]
fn a_synthetic_machine_has_the_shape_asked_for() {
    let topo = synthetic("package:2 numa:2 l3:2 core:4 pu:2", &[]);
    assert_eq!(topo["synthetic"], true);
    assert_eq!(topo["virtual_processors"], 64);
    for (level, count) in [("package", 2), ("numa", 4), ("l3", 8), ("core", 32), ("pu", 64)] {
        assert_eq!(nodes_of(&topo, level).len(), count, "{level}");
    }
    let last: Vec<u64> = (48..64).collect();
    assert_eq!(nodes_of(&topo, "numa")[3]["cpus"], Value::from(last));
    let nodes = topo["nodes"].as_array().unwrap();
    for (index, node) in nodes.iter().enumerate().skip(1) {
        let parent = node["parent"].as_u64().unwrap() as usize;
        assert!(parent < index);
        let holds = |cpu: &Value| nodes[parent]["cpus"].as_array().unwrap().contains(cpu);
        assert!(node["cpus"].as_array().unwrap().iter().all(holds));
    }
    // One virtual processor for each core before any core gets its second.
    let cores = cores_of_vps(&topo);
    assert!(cores[..32].iter().all(|core| core % 2 == 0), "{cores:?}");
}

#[test]
fn virtual_processors_are_placed_on_it_as_the_knobs_say() {
    let topo = synthetic("numa:2 core:4", &[]);
    assert_eq!(cores_of_vps(&topo), [0, 1, 2, 3, 4, 5, 6, 7]);
    let topo = synthetic("numa:2 core:4", &[("MARCEL_NVP", "3"), ("MARCEL_FIRSTCPU", "6")]);
    assert_eq!(cores_of_vps(&topo), [6, 7, 0]);
}

#[test]
fn kernel_threads_are_bound_to_real_cores_one_to_one_or_not_at_all() {
    let topo = synthetic("core:1", &[]);
    assert_eq!(topo["placement"][0]["cpu"], topo["allowed_cpus"][0]);
    let topo = synthetic("core:1024", &[]);
    let allowed = topo["allowed_cpus"].as_array().unwrap().len();
    if allowed < 1024 {
        assert!(topo["placement"].as_array().unwrap().iter().all(|vp| vp["cpu"].is_null()));
        let text = mad(&["topo"]).env("MARCEL_TOPOLOGY", "core:1024").output().unwrap();
        assert!(out(&text).contains("bound to none"), "{}", out(&text));
    }
}

#[test]
fn wrong_text_is_an_error_that_names_the_knob_the_place_and_what_is_accepted() {
    for (text, place) in [
        ("numa:2 cor:4", "\"cor:4\" at character 8"),
        ("numa:2", "at the end"),
        ("core:0", "\"core:0\" at character 1"),
        ("numa:64 core:64", "\"core:64\" at character 9"),
        ("core:2 numa:2", "numa inside core"),
        (":", "at character 1"),
    ] {
        for args in [&["topo"][..], &["topo", "--json"], &["knobs"]] {
            let output = mad(args).env("MARCEL_TOPOLOGY", text).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{args:?} {text}");
            let said = err(&output);
            for part in ["MARCEL_TOPOLOGY", place, "numa:2 core:4", "package"] {
                assert!(said.contains(part), "{args:?} {text}: {part} is not in {said}");
            }
            assert!(!said.contains("panicked"), "{args:?} {text}: {said}");
        }
    }
}

#[test]
fn the_source_is_shown_and_can_be_chosen() {
    let topo = |choice: &str| mad(&["topo"]).env("MARCEL_HWLOC", choice).output().unwrap();
    let kernel = topo("0");
    assert!(out(&kernel).contains("the kernel's files"), "{}", out(&kernel));
    let auto = topo("auto");
    assert_eq!(auto.status.code(), Some(0), "{}", err(&auto));
    let hwloc = topo("1");
    if hwloc.status.success() {
        assert!(out(&hwloc).contains("source:        hwloc 2."), "{}", out(&hwloc));
        assert_eq!(out(&auto), out(&hwloc));
    } else {
        skipped(&err(&hwloc));
        assert!(err(&hwloc).contains("MARCEL_HWLOC=1"), "{}", err(&hwloc));
        assert!(out(&auto).contains("the kernel's files (no hwloc: "), "{}", out(&auto));
    }
    let wrong = topo("perhaps");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("MARCEL_HWLOC"), "{}", err(&wrong));
}

#[test]
fn hwloc_that_describes_another_machine_is_not_believed() {
    let topo = |choice: &str| {
        let mut command = mad(&["topo", "--json"]);
        command.env("HWLOC_SYNTHETIC", "pack:7 core:1 pu:1").env("MARCEL_HWLOC", choice);
        command.output().unwrap()
    };
    let auto = topo("auto");
    assert_eq!(auto.status.code(), Some(0), "{}", err(&auto));
    let shown: Value = serde_json::from_str(&out(&auto)).unwrap();
    assert!(shown["source"].as_str().unwrap().starts_with("the kernel's files"), "{shown}");
    assert_eq!(topo("1").status.code(), Some(1));
}

#[test]
fn only_the_cores_of_the_mask_are_in_the_tree() {
    let whole: Value = serde_json::from_str(&out(&common::run(&["topo", "--json"]))).unwrap();
    let last = whole["allowed_cpus"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    for choice in ["0", "auto"] {
        let mut command = std::process::Command::new("taskset");
        command.args(["-c", &last.to_string(), env!("CARGO_BIN_EXE_mad"), "topo", "--json"]);
        command.env("MARCEL_HWLOC", choice).env("MARCEL_NVP", "1");
        let Ok(output) = command.env_remove("MARCEL_TOPOLOGY").output() else {
            skipped("taskset is not installed");
            return;
        };
        let topo: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(topo["allowed_cpus"], Value::from(vec![last]));
        for node in topo["nodes"].as_array().unwrap() {
            assert_eq!(node["cpus"], Value::from(vec![last]), "{node}");
        }
        assert_eq!(cores_of_vps(&topo), [last]);
    }
}

#[test]
fn programs_run_on_a_synthetic_machine() {
    let hello = common::example("hello");
    for (shape, hwloc) in
        [("numa:2 core:4", "auto"), ("package:2 l3:2 core:2 pu:2", "0"), ("core:1", "0")]
    {
        let mut command = mad(&["run", "-n", "2", "--timeout", "60"]);
        command.arg(&hello).env("MARCEL_TOPOLOGY", shape).env("MARCEL_HWLOC", hwloc);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{shape}: {}", err(&output));
        assert!(
            out(&output).contains("rank 1 of 2: ten green threads make 385"),
            "{}",
            out(&output)
        );
    }
}

#[test]
fn a_program_ends_with_an_error_that_names_the_knob() {
    let output = std::process::Command::new(common::example("hello"))
        .env("MARCEL_TOPOLOGY", "numa:two core:4")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("MARCEL_TOPOLOGY") && said.contains("at character 1"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
