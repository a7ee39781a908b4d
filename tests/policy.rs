//! Policies and measured choices, as users meet them: the example of one's own, `mad knobs --explain`, `mad doctor`.

mod common;

use std::process::Command;

use common::{err, example, mad, out};
use pioman::policy::NAMES;

#[test]
fn a_policy_of_one_s_own_is_asked() {
    let output = Command::new(example("my_policy")).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert!(text.contains("policy mine") && text.contains("(nobody else looks)"), "{text}");
}

#[test]
fn what_the_knobs_come_to_is_explained_under_every_policy() {
    for name in NAMES {
        let output = mad(&["knobs", "--explain"]).env("PIOM_POLICY", name).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        let text = out(&output);
        for part in
            [&format!("policy {name}"), "wake-up by the kernel: ", "(measured, ", "a waiter: "]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert_eq!(text.contains("cost(x) = "), name == "adaptive", "{text}");
    }
}

#[test]
fn a_policy_that_there_is_not_is_named_with_those_that_there_are() {
    let output = mad(&["knobs", "--explain"]).env("PIOM_POLICY", "clever").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    assert!(text.contains("PIOM_POLICY=\"clever\"") && text.contains("always-poll"), "{text}");
}

#[test]
fn what_was_measured_is_shown_with_where_it_comes_from_and_its_figures() {
    let file = std::env::temp_dir().join(format!("mad-choices-{}.txt", std::process::id()));
    let figures = "newmad sampling 1\nshm eager 1024 2024\nshm eager 65536 66536\nshm stream 1024 6512\n\
                   shm stream 65536 38768\nshm pull 1024 6512\nshm pull 65536 38768\nend 6\n";
    std::fs::write(&file, figures).unwrap();
    let explained = |env: &[(&str, &str)]| {
        let mut command = mad(&["knobs", "--explain"]);
        command.env("NMAD_SAMPLING", &file).envs(env.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        // Cells may be broken into lines.
        out(&output).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = explained(&[]);
    assert!(text.contains("9 KiB") && text.contains("mad sample:"), "{text}");
    assert!(text.contains("eager up to (tcp)") && text.contains("built in"), "{text}");
    let text = explained(&[("NMAD_RDV_THRESHOLD", "7168")]);
    assert!(text.contains("7 KiB set by NMAD_RDV_THRESHOLD"), "{text}");
    let text = explained(&[("NMAD_CMA", "0")]);
    assert!(text.contains("fragments set by NMAD_CMA"), "{text}");

    let doctor = |sampling: &std::path::Path| {
        let output = mad(&["doctor", "--json"]).env("NMAD_SAMPLING", sampling).output().unwrap();
        let text = out(&output);
        text.lines().find(|line| line.contains("measured choices")).unwrap().to_owned()
    };
    let line = doctor(&file);
    assert!(line.contains("eager up to (shm) 9 KiB (measured)"), "{line}");
    // The tcp rail was not.
    assert!(line.contains("limited") && line.contains("mad sample"), "{line}");
    std::fs::write(&file, "nonsense").unwrap();
    assert!(doctor(&file).contains("mad sample"), "{line}");
    std::fs::remove_file(&file).unwrap();
}
