//! The example of a library with an event server, run.

mod common;

use common::{err, example, out};
use std::process::Command;

#[test]
fn the_example_receives_every_message() {
    for mode in ["smp", "mono"] {
        let mut command = Command::new(example("event_server"));
        let output = command.env("MARCEL_MODE", mode).output().expect("the example can be started");
        assert!(output.status.success(), "{mode}: {}", err(&output));
        assert!(out(&output).contains("sum 1200"), "{mode}: {}", out(&output));
    }
}
