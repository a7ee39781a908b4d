//! Programs as ranks of one process: what each has of its own, and how it ends.

mod common;

use common::{compile, ranks};

#[test]
fn each_copy_has_variables_constructors_handlers_and_destructors_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "variables.c", &[]);
    let program = program.to_str().unwrap();
    let output = ranks(&["-n", "4", program, "%"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..4 {
        let (exported, hidden) = (310 + rank, 320 + rank);
        let own: Vec<_> =
            text.lines().filter(|line| line.starts_with(&format!("{exported}: "))).collect();
        let expected = [
            format!("{exported}: hidden {hidden}, constructed 200, name {program}"),
            format!("{exported}: handler 2"),
            format!("{exported}: handler 1"),
            format!("{exported}: destructor {hidden}"),
        ];
        assert_eq!(own, expected, "{text}");
    }
    assert_eq!(output.status.code(), Some(3), "the last rank's status");
}
