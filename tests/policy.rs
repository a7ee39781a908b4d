//! Policies, as users meet them: the example of one's own, and `mad knobs --explain`.

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
